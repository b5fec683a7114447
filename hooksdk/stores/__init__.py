"""Where sessions are kept: in memory, in two append-only files each, or in a database."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hooksdk.config import split_store
from hooksdk.errors import ConfigError
from hooksdk.stores.jsonl import JsonlStore
from hooksdk.stores.memory import MemoryStore
from hooksdk.stores.summaries import SessionSummary, list_summaries, summarize
from hooksdk.transcript import SessionLog, Store

if TYPE_CHECKING:
    from hooksdk.stores.sql import SqlStore

__all__ = [
    "JsonlStore", "MemoryStore", "SessionLog", "SessionSummary", "SqlStore", "Store", "list_summaries", "open_store", "summarize",
]  # fmt: skip


def open_store(spec: str | PathLike[str] | None) -> Store:
    """The store that a configuration names: `memory` (also where it names none), `jsonl`, `jsonl:DIRECTORY`,
    `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`. A `Path` is the folder of a `JsonlStore`. Raises `ConfigError`."""
    if isinstance(spec, PathLike):
        return JsonlStore(Path(spec))
    if spec is None or spec == "memory":
        return MemoryStore()
    try:
        kind, place = split_store(spec)
    except ValueError as error:
        raise ConfigError("store", (str(error),)) from None
    if kind == "jsonl":
        return JsonlStore(place or None)
    from hooksdk.stores.sql import SqlStore

    return SqlStore(spec)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The database store is loaded when it is used: most hosts have none."""
        if name != "SqlStore":
            raise AttributeError(f"module 'hooksdk.stores' has no attribute '{name}'", name=name)
        from hooksdk.stores.sql import SqlStore

        return SqlStore
