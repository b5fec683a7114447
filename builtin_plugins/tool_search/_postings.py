"""Where the words of a catalog stand: an inverted index that another one, of a few other tools, is made from cheaply."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

from builtin_plugins.tool_search._entries import FIELDS, NAME, Document, Entry, entries
from builtin_plugins.tool_search._stems import beginnings

FIELD_BITS = 3
FIELD_MASK = (1 << FIELD_BITS) - 1
"""A place is a tool's slot, shifted, and the field: one number for each occurrence of a word."""

_MOST_GONE = 1_000
_NO_PLACES: array[int] = array("I")


@dataclass(frozen=True, slots=True)
class Row:
    """A tool in its slot."""

    id: str
    entry: Entry
    spellings: tuple[str, ...]
    name_words: int


_EMPTY = Row("", Entry("", (0,) * FIELDS, ""), (), 0)


def row(document: Document) -> Row:
    """A document as the index keeps it."""
    entry = entries.of(document)
    spellings = dict.fromkeys(filter(None, document.spellings()))
    return Row(document.id, entry, tuple(spellings), len(set(entry.fields()[NAME].split())))


class Postings:
    """The index of one catalog. It never changes once it is made; `updated` makes another.

    A tool keeps its slot as long as it is there, and a slot that became free goes to the next tool. Nothing in it
    depends on the rest of the catalog, such as the mean length of a field, so that a changed tool touches only the
    lists of its own words. The copies of the tables around them are shallow.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = [*rows]
        self.size = len(self.rows)
        self.order: Sequence[int] = range(self.size)
        """The place of each slot's tool in the catalog."""
        self.index: dict[str, array[int]] = {}
        """The places of each stem, ascending."""
        self.words: dict[str, int] = {}
        """How many tools have a word as it is written."""
        self.names: dict[str, tuple[int, ...]] = {}
        """The slots of an exact name."""
        self.lengths = [0] * FIELDS
        self.filled = [0] * FIELDS
        """The words in a field, over all tools, and how many tools have any there."""
        self.free: list[int] = []
        """The slots of no tool."""
        for slot, row in enumerate(self.rows):
            self._count(slot, row, 1)
            for place, word in _places(slot, row):
                if word in self.index:
                    self.index[word].append(place)
                else:
                    self.index[word] = array("I", (place,))
        self.terms = sorted(self.index)
        """The stems in alphabetical order."""
        self.beginnings = {start for term in self.terms for start in beginnings(term)}
        """Of the stems, and of some that were here once: updates share them, because one too many does no harm."""
        self.slots = {row.id: slot for slot, row in enumerate(self.rows)}

    def updated(self, ids: Sequence[str], changed: Iterable[Document]) -> Postings:
        """The index of the tools `ids`, in this order: new or other than here are those of `changed`."""
        new = copy(self)
        new.rows, new.terms, new.lengths, new.filled = [*self.rows], [*self.terms], [*self.lengths], [*self.filled]
        new.index, new.words, new.names = {**self.index}, {**self.words}, {**self.names}
        new.free, new.slots, new.size = [*self.free], {**self.slots}, len(ids)
        for gone in self.slots.keys() - dict.fromkeys(ids):
            slot = new.slots.pop(gone)
            new.put(slot, _EMPTY)
            new.free.append(slot)
        for one in map(row, changed):
            if one.id not in new.slots:
                if not new.free:
                    new.free.append(len(new.rows))
                    new.rows.append(_EMPTY)
                new.slots[one.id] = new.free.pop()
            new.put(new.slots[one.id], one)
        if 2 * len(ids) < len(new.rows):  # so many slots are free that they cost more than they save
            return Postings([new.rows[new.slots[one]] for one in ids])
        if len(new.beginnings) > _MOST_GONE + 4 * len(new.terms):
            new.beginnings = {start for term in new.terms for start in beginnings(term)}
        order = [0] * len(new.rows)
        for number, one in enumerate(ids):
            order[new.slots[one]] = number
        new.order = order
        return new

    def begins(self, start: str) -> bool:
        """Whether a stem begins so; asked first, because a new word takes long to stem."""
        place = bisect_left(self.terms, start)
        return place < len(self.terms) and self.terms[place].startswith(start)

    def put(self, slot: int, row: Row) -> None:
        """Give a slot another tool, while this is being made: the tables are its own by then, the lists in them not."""
        old, self.rows[slot] = self.rows[slot], row
        self._count(slot, old, -1)
        self._count(slot, row, 1)
        places: dict[str, array[int]] = {word: array("I") for _, word in _places(slot, old)}
        for place, word in _places(slot, row):
            places.setdefault(word, array("I")).append(place)
        for word, own in places.items():
            known = self.index.get(word, _NO_PLACES)
            first, last = (bisect_left(known, end << FIELD_BITS) for end in (slot, slot + 1))
            self.index[word] = known[:first] + own + known[last:]
            if not known:
                insort(self.terms, word)
                self.beginnings.update(beginnings(word))
            elif not self.index[word]:
                del self.index[word], self.terms[bisect_left(self.terms, word)]

    def _count(self, slot: int, row: Row, step: int) -> None:
        for field, length in enumerate(row.entry.lengths):
            self.lengths[field] += step * length
            self.filled[field] += step * (length > 0)
        for word in row.entry.words.split():
            self.words[word] = self.words.get(word, 0) + step
            if not self.words[word]:
                del self.words[word]
        for name in row.spellings:
            known = self.names.get(name, ())
            slots = (*known, slot) if step > 0 else tuple(other for other in known if other != slot)
            self.names[name] = slots
            if not slots:
                del self.names[name]


def _places(slot: int, row: Row) -> Iterable[tuple[int, str]]:
    for place, text in enumerate(row.entry.fields(), slot << FIELD_BITS):
        for word in text.split():
            yield place, word
