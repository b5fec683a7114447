"""Rankers of whole catalogs, made once for each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, overload

from builtin_plugins.tool_search.rankers import Document, Ranker, RankerFactory
from hooksdk import Annotations, Tool

# Tools in all catalogs together whose rankers are kept, at 2 to 3 kB each.
MAX_TOOLS = 100_000
_FEWEST = 4  # so many catalogs are kept, however large they are
_OWNER, _FINGERPRINT, _ANNOTATIONS = map(attrgetter, ("owner", "fingerprint", "annotations"))
_SMALLEST = 500  # tools that a catalog counts as at least, since a ranker also remembers queries


class _Parameters(Mapping[str, Any]):
    """A tool's schema, copied when it is first read: of a changed catalog only the changed tools are read."""

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


class Documents(Sequence[Document]):
    """The documents of tools, each made when it is asked for: all copies of a large catalog's schemas at once would
    keep the garbage collector busy for a fifth of the time that an index takes."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools

    @overload
    def __getitem__(self, place: int) -> Document: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Document]: ...
    def __getitem__(self, place: int | slice) -> Document | Sequence[Document]:
        return Documents(self._tools[place]) if isinstance(place, slice) else _document(self._tools[place])

    def __iter__(self) -> Iterator[Document]:
        return map(_document, self._tools)

    def __len__(self) -> int:
        return len(self._tools)


class Indexes:
    """Rankers by the fingerprints of what they rank, shared by all sessions of a host. Those used last are kept."""

    def __init__(self, factory: RankerFactory, *, max_tools: int = MAX_TOOLS) -> None:
        self._factory = factory
        self._max_tools = max_tools
        # Each with the number of tools that it counts as.
        self._rankers: OrderedDict[tuple[Any, ...], tuple[Ranker, int]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tools: Sequence[Tool]) -> Ranker:
        """The ranker of these tools."""
        # Three long tuples, since one for each tool takes twice as long to make, and a large catalog is looked up
        # often.
        key = (*map(_OWNER, tools),), (*map(_FINGERPRINT, tools),), (*map(_read_only, map(_ANNOTATIONS, tools)),)
        with self._lock:
            if key in self._rankers:
                self._rankers.move_to_end(key)
                return self._rankers[key][0]
        ranker = self._factory(Documents(tools))
        with self._lock:
            self._rankers[key] = (ranker, max(len(tools), _SMALLEST))
            size = sum(count for _, count in self._rankers.values())
            while size > self._max_tools and len(self._rankers) > _FEWEST:
                size -= self._rankers.popitem(last=False)[1][1]
        return ranker


def _document(tool: Tool) -> Document:
    return Document(
        id=tool.name,
        name=tool.name,
        description=tool.description,
        parameters=_Parameters(tool),
        owner=tool.owner,
        fingerprint=tool.fingerprint,
        read_only=_read_only(tool.annotations),
    )


def _read_only(annotations: Annotations) -> bool | None:
    """The annotation `read_only`. A tool that is annotated as destructive does not count as reading, whatever else it
    says."""
    return False if annotations.destructive else annotations.read_only
