"""The folder with the data that the benchmarks measure with."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
_data: Any = import_module("_data")
scorer: Any = import_module("_scorer")
DATA: Path = _data.data_folder()
RETRIEVAL = DATA / "retrieval"
