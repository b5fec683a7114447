"""Where sessions are kept: in memory, or in a database.

Status: stable.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hooksdk.config import split_store, state_folder
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


def open_store(spec: str | PathLike[str] | None, sessions: Mapping[str, Any] | None = None) -> Store:
    """The store that a configuration names: `memory` (also where it names none), `jsonl` for the user's state folder,
    `jsonl:FOLDER`, `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`. A `Path` is a folder, too; the file in it is
    `hooksdk.db`. `sessions` is `[sessions]` of the configuration, of which `key` encrypts; without it the variable
    HOOKSDK_SESSIONS_KEY does, if it is set. Raises `ConfigError`."""
    if spec is None or spec == "memory":
        return MemoryStore()
    from hooksdk.stores.sql import SqlStore

    keys: Sequence[bytes] = ()
    if "key" in (sessions or {}) or "HOOKSDK_SESSIONS_KEY" in os.environ:
        from hooksdk.stores._keys import keys_for

        keys = keys_for((sessions or {}).get("key"))
    if isinstance(spec, PathLike):
        return SqlStore(spec, keys=keys)
    try:
        kind, place = split_store(spec)
    except ValueError as error:
        raise ConfigError("store", (str(error),)) from None
    if kind == "jsonl":
        return SqlStore(Path(place) if place else state_folder() / "sessions", keys=keys)
    return SqlStore(spec, keys=keys)
