"""Where the words of a catalog stand: an inverted index."""

from array import array
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from builtin_plugins.tool_search._ranking.entries import NAME, Document, Entry, entries
from builtin_plugins.tool_search._ranking.purpose import Purpose, purpose
from builtin_plugins.tool_search._ranking.words import split_words

FIELD_BITS = 3
FIELD_MASK = (1 << FIELD_BITS) - 1
"""A place is a tool's number, shifted, and the field: one number for each occurrence of a word."""


class Postings:
    """The index of one catalog, whose tools are numbered in its order. It never changes once it is made."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.ids: list[str] = []
        self.owners: list[str] = []
        self.purposes: list[Purpose] = []
        self.entries: list[Entry] = []
        self.lengths: list[tuple[int, ...]] = []
        """Of each tool's fields, in words."""
        self.name_words: list[int] = []
        """How many different stems each tool has in its name."""
        self.names: dict[str, tuple[int, ...]] = {}
        """The numbers of the tools that have an exact name."""
        index: defaultdict[str, array[int]] = defaultdict(partial(array, "I"))
        for number, document in enumerate(documents):
            entry = entries.of(document)
            fields = [text.split() for text in entry.fields()]
            self.ids.append(document.id)
            self.owners.append(document.owner)
            self.purposes.append(purpose(document))
            self.entries.append(entry)
            self.lengths.append((*map(len, fields),))
            self.name_words.append(len(set(fields[NAME])))
            for spelling in dict.fromkeys(filter(None, document.spellings())):
                self.names[spelling] = (*self.names.get(spelling, ()), number)
            for place, stems in enumerate(fields, number << FIELD_BITS):
                for places in map(index.__getitem__, stems):
                    places.append(place)
        self.index = dict(index)
        """The places of each stem, ascending."""

    def words(self) -> set[str]:
        """The words of all tools as they are written."""
        chunks = {chunk for entry in self.entries for chunk in entry.source.split()}
        return {word for chunk in chunks for word in split_words(chunk)}
