"""Where sessions are kept: in memory, or in two append-only files each."""

from __future__ import annotations

from hooksdk._config.sources import split_store
from hooksdk.errors import ConfigError
from hooksdk.stores.jsonl import JsonlStore
from hooksdk.stores.memory import MemoryStore
from hooksdk.transcript import SessionLog, Store

__all__ = ["JsonlStore", "MemoryStore", "SessionLog", "Store", "open_store"]


def open_store(spec: str | None) -> Store:
    """The store that a configuration names: `memory` (also where it names none), `jsonl`, or `jsonl:DIRECTORY`. Raises
    `ConfigError`."""
    if spec is None or spec == "memory":
        return MemoryStore()
    try:
        _, directory = split_store(spec)
    except ValueError as error:
        raise ConfigError("store", (str(error),)) from None
    return JsonlStore(directory or None)
