"""Rankers of whole catalogs, made once for each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from builtin_plugins.tool_search.rankers import Document, Ranker, RankerFactory, UpdatableRanker
from hooksdk import Tool, schema

__all__ = ["Indexes"]

KEPT_INDEXES = 8
_SAMPLE = 64  # tools by which kept catalogs are compared with a new one
_MOST_CHANGED = 0.25  # from here on an update costs about as much as a new ranker


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


@dataclass(frozen=True, slots=True)
class _Kept:
    ranker: Ranker
    tools: Mapping[str, tuple[str, str]]
    """Owner and fingerprint by name."""

    def differences(self, tools: Mapping[str, tuple[str, str]], names: Iterable[str]) -> int:
        """How many of the names stand for another tool here than there."""
        return sum(self.tools.get(name) != tools.get(name) for name in names)


class Indexes:
    """Rankers by the fingerprint of what they rank, shared by all sessions of a host.

    A catalog that is new is ranked by an update of the ranker of the one most like it, where that ranker can be updated
    and most tools are the same.
    """

    def __init__(self, factory: RankerFactory) -> None:
        self._factory = factory
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tools: Sequence[Tool]) -> Ranker:
        """The ranker of these tools."""
        pairs = [(tool.owner, tool.fingerprint) for tool in tools]
        key = schema.fingerprint(pairs)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found.ranker
            others = [*reversed(self._kept.values())]
        by_name = dict(zip([tool.name for tool in tools], pairs, strict=True))
        made = self._updated(others, tools, by_name) or self._factory(_documents(tools))
        with self._lock:
            self._kept[key] = _Kept(made, by_name)
            while len(self._kept) > KEPT_INDEXES:
                self._kept.popitem(last=False)
        return made

    def _updated(
        self, others: Sequence[_Kept], tools: Sequence[Tool], by_name: Mapping[str, tuple[str, str]]
    ) -> Ranker | None:
        if not others or len(by_name) < len(tools):
            return None
        some = [*by_name][:: 1 + len(by_name) // _SAMPLE]
        base = min(others, key=lambda kept: kept.differences(by_name, some))
        changed = [tool for tool in tools if base.tools.get(tool.name) != by_name[tool.name]]
        gone = len(base.tools.keys() - by_name.keys())
        if not isinstance(base.ranker, UpdatableRanker) or len(changed) + gone > _MOST_CHANGED * len(tools):
            return None
        return base.ranker.updated([*by_name], _documents(changed))


def _documents(tools: Iterable[Tool]) -> list[Document]:
    return [
        Document(id=tool.name, name=tool.name, description=tool.description, parameters=_Parameters(tool),
                 owner=tool.owner, fingerprint=tool.fingerprint)
        for tool in tools
    ]  # fmt: skip
