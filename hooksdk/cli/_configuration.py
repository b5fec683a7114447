"""The configuration as commands read it: wrong settings of the gateway are found by whichever command reads them."""

from __future__ import annotations

from functools import partial

from hooksdk import config
from hooksdk.gateway import config_problems


def _guard_problems(table: object) -> list[str]:
    from hooksdk.guard import guard_problems  # a tenth of a second, for the few who have such a table

    return guard_problems(table)


def _policy_problems(table: object) -> list[str]:
    from hooksdk.cli._proofs.properties import policy_problems

    return policy_problems(table)


_TABLES = {"gateway": config_problems, "guard": _guard_problems, "policy": _policy_problems}
ConfigWatch = partial(config.ConfigWatch, tables=_TABLES)
load_config = partial(config.load_config, tables=_TABLES)
read_config = partial(config.read_config, tables=_TABLES)
