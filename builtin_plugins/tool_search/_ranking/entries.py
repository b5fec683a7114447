"""Tools as search words, split and stemmed once for each definition."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from builtin_plugins.tool_search._ranking.stems import stem
from builtin_plugins.tool_search._ranking.words import squeeze, tool_words

FIELDS = 7
NAME, FIRST, OWNER = 0, 1, 6
"""Fields of an entry, in the order of `tool_words`: the name, the first sentence and the owner."""
MAX_ENTRIES = 100_000
"""Entries that are kept for catalogs to come, at about 1 kB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a ranker knows of a tool."""

    id: str
    name: str
    description: str
    parameters: Mapping[str, Any] | None
    owner: str
    fingerprint: str = ""
    """Of the tool's name, description and parameters. A tool that has one is split into words once, in every catalog."""
    read_only: bool | None = None
    """What the tool's annotations say; None where they are silent."""

    def spellings(self) -> Iterator[str]:
        """The forms of its exact name, without case and separators."""
        name = squeeze(self.name)
        yield name
        yield squeeze(self.owner) + name
        yield name if self.id == self.name else squeeze(self.id)


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool as stems."""

    text: str
    """The fields, split by tabs; in each, a line break keeps apart words that are no neighbours."""
    lengths: tuple[int, ...]
    """Of the fields, in words."""
    words: str
    """The words before they were stemmed, each once."""

    def fields(self) -> list[str]:
        """The stems of each field as a text."""
        return self.text.split("\t")


def _entry(document: Document) -> Entry:
    words: dict[str, None] = {}
    fields: list[str] = []
    lengths: list[int] = []
    for texts in tool_words(document.name, document.description, document.parameters, document.owner):
        for text in texts:
            words.update(dict.fromkeys(text))
        fields.append(" " + " \n ".join([" ".join(map(stem, text)) for text in texts]) + " " if texts else "")
        lengths.append(sum(map(len, texts)))
    return Entry("\t".join(fields), tuple(lengths), " ".join(words))


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
