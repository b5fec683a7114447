"""Where the words of a catalog stand: an inverted index."""

from array import array
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from builtin_plugins.tool_search._ranking.entries import NAME, Document, Entry, entries

FIELD_BITS = 3
FIELD_MASK = (1 << FIELD_BITS) - 1
"""A place is a tool's number, shifted, and the field: one number for each occurrence of a word."""


class Postings:
    """The index of one catalog, whose tools are numbered in its order. It never changes once it is made."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.ids: list[str] = []
        self.entries: list[Entry] = []
        self.name_words: list[int] = []
        """How many different stems each tool has in its name."""
        self.names: dict[str, list[int]] = {}
        """The numbers of the tools that have an exact name."""
        self.words: dict[str, None] = {}
        """The words as they are written."""
        index: defaultdict[str, array[int]] = defaultdict(partial(array, "I"))
        for number, document in enumerate(documents):
            entry = entries.of(document)
            fields = [text.split() for text in entry.fields()]
            self.ids.append(document.id)
            self.entries.append(entry)
            self.name_words.append(len(set(fields[NAME])))
            for spelling in dict.fromkeys(filter(None, document.spellings())):
                self.names.setdefault(spelling, []).append(number)
            self.words.update(dict.fromkeys(entry.words.split()))
            for place, stems in enumerate(fields, number << FIELD_BITS):
                for stem in stems:
                    index[stem].append(place)
        self.index = dict(index)
        """The places of each stem, ascending."""
