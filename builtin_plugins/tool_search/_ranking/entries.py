"""What a ranker is given and answers, and tools as search words, split and stemmed once for each definition."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from builtin_plugins.tool_search._ranking.words import APART, FIELD_END, chunked, split_words, squeeze, stem, tool_text


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tool that fits a query, and how well.

    Attributes:
        weak: The tool covers so little of the query that it is probably not what was asked for.
        evidence: How strongly the words speak for the tool, whatever the query's length: its score as a share of the
            weight of a word that only one tool has. None where that is not known: in a catalog of a few tools, or where
            the query is the tool's name. A ranker of your own that answers None is given the evidence of its words.
    """

    id: str
    score: float
    weak: bool
    evidence: float | None = None


class Ranker(Protocol):
    """Anything that orders a catalog by a query."""

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first."""
        ...


FIELDS = 7
NAME, FIRST, OWNER = 0, 1, 6
"""Fields of an entry, in the order of `tool_text`: the name, the first sentence and the owner."""
# Entries that are kept for catalogs to come, at about 1 kB each.
MAX_ENTRIES = 100_000
_MAX_CHUNKS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A tool as a ranker gets it.

    Attributes:
        fingerprint: Of the tool's name, description and parameters. A tool that has one is split into words once, in
            every catalog.
        read_only: What the tool's annotations say; None where they are silent.
    """

    id: str
    name: str
    description: str
    parameters: Mapping[str, Any] | None
    owner: str
    fingerprint: str = ""
    read_only: bool | None = None

    def spellings(self) -> Iterator[str]:
        """The forms of its exact name, without case and separators."""
        name = squeeze(self.name)
        yield name
        yield squeeze(self.owner) + name
        yield name if self.id == self.name else squeeze(self.id)


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as stems.

    Attributes:
        text: The fields, split by tabs; in each, a line break keeps apart words that are no neighbours.
        source: The text of the tool in chunks between blanks.
    """

    text: str
    source: str

    def fields(self) -> list[str]:
        """The stems of each field as a text."""
        return self.text.split("\t")


class _Stems(dict[str, str]):
    """By chunk of a text its stems, each with a blank behind it; stop words have none."""

    def __missing__(self, chunk: str) -> str:
        if len(self) >= _MAX_CHUNKS:
            self.clear()
        text = _SEPARATORS.get(chunk) or "".join([stem(word) + " " for word in split_words(chunk)])
        self[chunk] = text
        return text


_SEPARATORS = {APART: "\n ", FIELD_END: "\t "}
stems = _Stems()


def _entry(document: Document) -> Entry:
    source = chunked(tool_text(document.name, document.description, document.parameters, document.owner))
    return Entry(" " + "".join(map(stems.__getitem__, source.split())), source)


class Entries:
    """The latest entries by fingerprint, so that of a changed catalog only what changed is split and stemmed."""

    def __init__(self, limit: int = MAX_ENTRIES) -> None:
        self._limit = limit
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, document: Document) -> Entry:
        """The entry of a tool."""
        if not document.fingerprint:
            return _entry(document)
        key = (document.fingerprint, document.owner)
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        entry = _entry(document)
        with self._lock:
            self._entries[key] = entry
            while len(self._entries) > self._limit:
                self._entries.popitem(last=False)
        return entry


entries = Entries()
