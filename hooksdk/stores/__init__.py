"""Where sessions are kept: in memory, or in two append-only files each."""

from __future__ import annotations

from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.stores.jsonl import JsonlStore
from hooksdk.stores.memory import MemoryStore
from hooksdk.transcript import SessionLog, Store

__all__ = ["JsonlStore", "MemoryStore", "SessionLog", "Store", "open_store"]


def open_store(spec: str | None) -> Store:
    """The store that a configuration names: `memory` (also where it names none), `jsonl`, or `jsonl:DIRECTORY`. Raises
    `ConfigError`."""
    if spec is None or spec == "memory":
        return MemoryStore()
    kind, _, directory = spec.partition(":")
    if kind == "jsonl":
        return JsonlStore(directory or None)
    known = ("memory", "jsonl")
    raise ConfigError(
        "store", (f"'{spec}' is not a store: memory, jsonl or jsonl:DIRECTORY.{did_you_mean(kind, known)}",)
    )
