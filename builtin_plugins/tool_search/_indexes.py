"""Rankers of whole catalogs, made once for each."""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from builtin_plugins.tool_search.rankers import Document, Ranker, RankerFactory, UpdatableRanker
from hooksdk import Tool, schema

__all__ = ["Indexes"]

KEPT_TOOLS = 100_000
"""Tools in all kept catalogs together, at 2 to 3 kB each."""
_FEWEST = 4  # catalogs that are kept however large they are
_SMALLEST = 500  # as so many tools a catalog counts at least: what a ranker remembers of its queries takes room, too
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

    @property
    def size(self) -> int:
        return max(len(self.tools), _SMALLEST)

    def differences(self, some: Mapping[str, tuple[str, str]]) -> int:
        """How many of these names stand for another tool here. Asked of every kept catalog, so it is to be quick."""
        return sum(map(operator.ne, map(self.tools.get, some), some.values()))


class Indexes:
    """Rankers by the fingerprint of what they rank, shared by all sessions of a host.

    A catalog that is new is ranked by an update of the ranker of the one most like it, where that ranker can be updated
    and most tools are the same. Those used last are kept, up to so many tools in all.
    """

    def __init__(self, factory: RankerFactory, *, kept_tools: int = KEPT_TOOLS) -> None:
        self._factory = factory
        self._kept_tools = kept_tools
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
            self._drop_the_oldest()
        return made

    def _drop_the_oldest(self) -> None:
        size = sum(kept.size for kept in self._kept.values())
        while size > self._kept_tools and len(self._kept) > _FEWEST:
            _, dropped = self._kept.popitem(last=False)
            size -= dropped.size

    def _updated(
        self, others: Sequence[_Kept], tools: Sequence[Tool], by_name: Mapping[str, tuple[str, str]]
    ) -> Ranker | None:
        if not others or len(by_name) < len(tools):
            return None
        some = dict(islice(by_name.items(), 0, None, 1 + len(by_name) // _SAMPLE))
        base = min(others, key=lambda kept: kept.differences(some))
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
