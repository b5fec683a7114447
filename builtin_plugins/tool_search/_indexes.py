"""Rankers of whole catalogs, made once for each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from builtin_plugins.tool_search.rankers import Document, Ranker, RankerFactory
from hooksdk import Tool, schema

__all__ = ["Indexes"]

KEPT_INDEXES = 8


class _Parameters(Mapping[str, Any]):
    """A tool's schema, copied only when it is read: of a changed catalog, only what changed is."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    @cached_property
    def _own(self) -> Mapping[str, Any]:
        return self._tool.parameters or {}

    def __getitem__(self, key: str) -> Any:
        return self._own[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class Indexes:
    """Rankers by the fingerprint of what they rank, shared by all sessions of a host."""

    def __init__(self, factory: RankerFactory) -> None:
        self._factory = factory
        self._kept: OrderedDict[str, Ranker] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tools: Sequence[Tool]) -> Ranker:
        """The ranker of these tools."""
        key = schema.fingerprint([[tool.owner, tool.fingerprint] for tool in tools])
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = self._factory([
            Document(id=tool.name, name=tool.name, description=tool.description, parameters=_Parameters(tool),
                     owner=tool.owner, fingerprint=tool.fingerprint)
            for tool in tools
        ])  # fmt: skip
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > KEPT_INDEXES:
                self._kept.popitem(last=False)
        return made
