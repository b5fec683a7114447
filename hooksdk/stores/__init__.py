"""Where sessions are kept: in memory, in two append-only files each, or in a database.

Status: stable.
"""

from __future__ import annotations

import importlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hooksdk.config import split_store
from hooksdk.errors import ConfigError
from hooksdk.stores.memory import MemoryStore
from hooksdk.transcript import SessionLog, Store

if TYPE_CHECKING:
    from hooksdk.stores.jsonl import JsonlStore
    from hooksdk.stores.sql import SqlStore
    from hooksdk.stores.summaries import SessionSummary, list_summaries, summarize

__all__ = [
    "JsonlStore",
    "MemoryStore",
    "SessionLog",
    "SessionSummary",
    "SqlStore",
    "Store",
    "list_summaries",
    "open_store",
    "summarize",
]

# The module of each name that a run in memory does not need: it is imported when the name is first used.
_PLACES = {
    "JsonlStore": "jsonl",
    "SqlStore": "sql",
    "SessionSummary": "summaries",
    "list_summaries": "summaries",
    "summarize": "summaries",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module 'hooksdk.stores' has no attribute '{name}'", name=name)
        value = globals()[name] = getattr(importlib.import_module(f"hooksdk.stores.{_PLACES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES})


def open_store(spec: str | PathLike[str] | None) -> Store:
    """The store that a configuration names: `memory` (also where it names none), `jsonl`, `jsonl:DIRECTORY`,
    `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`. A `Path` is the folder of a `JsonlStore`. Raises
    `ConfigError`."""
    if isinstance(spec, PathLike):
        from hooksdk.stores.jsonl import JsonlStore

        return JsonlStore(Path(spec))
    if spec is None or spec == "memory":
        return MemoryStore()
    try:
        kind, place = split_store(spec)
    except ValueError as error:
        raise ConfigError("store", (str(error),)) from None
    if kind == "jsonl":
        from hooksdk.stores.jsonl import JsonlStore

        return JsonlStore(place or None)
    from hooksdk.stores.sql import SqlStore

    return SqlStore(spec)
