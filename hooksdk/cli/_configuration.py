"""The configuration as commands read it: wrong settings of the gateway are found by whichever command reads them."""

from __future__ import annotations

from functools import partial

from hooksdk import config
from hooksdk.gateway import config_problems

ConfigWatch = partial(config.ConfigWatch, tables={"gateway": config_problems})
load_config = partial(config.load_config, tables={"gateway": config_problems})
read_config = partial(config.read_config, tables={"gateway": config_problems})
