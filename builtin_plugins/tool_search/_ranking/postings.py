"""The words of a catalog: an inverted index, the weight of one occurrence, words that look like a misspelt one, and the
weight that the tools of one owner give each other."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, Literal

from builtin_plugins.tool_search._ranking.entries import FIELDS, NAME, Document, Entry, entries
from builtin_plugins.tool_search._ranking.words import name_words, split_words, word_list

FIELD_BITS = 3
# A place is a tool's number, shifted, and the field: one number for each occurrence of a word.
FIELD_MASK = (1 << FIELD_BITS) - 1


class Postings:
    """The index of one catalog, whose tools are numbered in its order. It never changes once it is made.

    Attributes:
        lengths: Of each tool's fields, in words.
        name_words: How many different stems each tool has in its name.
        names: The numbers of the tools that have an exact name.
        index: The places of each stem, ascending.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self.ids: list[str] = []
        self.owners: list[str] = []
        self.purposes: list[Purpose] = []
        self.entries: list[Entry] = []
        self.lengths: list[tuple[int, ...]] = []
        self.name_words: list[int] = []
        self.names: dict[str, tuple[int, ...]] = {}
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

    def words(self) -> set[str]:
        """The words of all tools as they are written."""
        chunks = {chunk for entry in self.entries for chunk in entry.source.split()}
        return {word for chunk in chunks for word in split_words(chunk)}


# By field, in the order of `tool_text`. Chosen on the public retrieval sets; small changes of them change little.
# How much a word there counts.
WEIGHTS = (4.0, 1.5, 0.7, 0.6, 0.3, 0.4, 1.5)
# How much a longer text than in other tools lowers it.
LENGTHS = (0.3, 0.4, 0.6, 0.5, 0.4, 0.9, 0.2)
# How quickly further occurrences stop counting.
K1 = 1.8


class Gains(dict[int, float]):
    """What an occurrence adds to the weight of a word, by its place; computed at first use."""

    def __init__(self, postings: Postings) -> None:
        self._lengths = postings.lengths
        columns = [[lengths[field] for lengths in postings.lengths] for field in range(FIELDS)]
        self._means = [sum(lengths) / max(1, sum(map(bool, lengths))) or 1.0 for lengths in columns]

    def __missing__(self, place: int) -> float:
        field = place & FIELD_MASK
        b = LENGTHS[field]
        length = self._lengths[place >> FIELD_BITS][field]
        gain = self[place] = WEIGHTS[field] / (1 - b + b * length / self._means[field])
        return gain


@dataclass(slots=True)  # made for each new word: a frozen one takes three times as long to make
class Term:
    """A stem of the catalog: the tools that have it, what it weighs in each, and those that have it in their name.

    Attributes:
        prominent: Whether a tool is about it: has it in its name, its first sentence or its owner.
    """

    numbers: Sequence[int]
    values: Sequence[float]
    in_name: Sequence[int]
    idf: float
    prominent: bool


@dataclass(slots=True)
class Word:
    """A word of a query: the tools that it finds, and what it adds to each.

    Attributes:
        in_name: The tools that have the word, or one of its alternatives, in their name.
    """

    text: str
    stem: str
    numbers: Sequence[int]
    values: Sequence[float]
    in_name: Sequence[int]
    idf: float


# Numbers of tools, and what is added to each. Arrays, because a common word may have a hundred thousand.
Values = tuple[Sequence[int], Sequence[float]]


def arrays(values: Mapping[int, float]) -> Values:
    return (array("I", values), array("d", values.values())) if values else _NOTHING


_NOTHING: Values = (), ()


_LEAST_OVERLAP = 0.4
_SHORTEST, _SHORTEST_KNOWN = 4, 3


class Spellings:
    """The words of a catalog by their groups of three letters."""

    def __init__(self, words: Iterable[str]) -> None:
        # By group.
        self._words: dict[str, list[str]] = {}
        for word in words:
            if len(word) >= _SHORTEST_KNOWN:
                for group in _trigrams(word):
                    self._words.setdefault(group, []).append(word)

    def alike(self, word: str) -> dict[str, float]:
        """The words that share many groups of letters with this one, and the share."""
        if len(word) < _SHORTEST:
            return {}
        own = _trigrams(word)
        # A known word has at least as many letters as groups are shared: fewer than this cannot reach the least
        # overlap.
        least = _LEAST_OVERLAP / (2 - _LEAST_OVERLAP) * len(own)
        groups = [self._words[group] for group in own if group in self._words]
        if len(groups) < least:
            return {}
        overlaps = {
            other: 2 * count / (len(own) + len(other))
            for other, count in Counter(chain.from_iterable(groups)).items()
            if count >= least
        }
        return {other: overlap for other, overlap in overlaps.items() if overlap >= _LEAST_OVERLAP}


def _trigrams(word: str) -> list[str]:
    padded = f"^{word}$"
    return list(dict.fromkeys([padded[i : i + 3] for i in range(len(word))]))


_SHARE: Final = 0.2
_COUNTED: Final = 5


class Owners:
    """The owners of one catalog's tools."""

    def __init__(self, owners: Sequence[object]) -> None:
        # Of a ranker's documents the owner may be anything.
        self._owners = [owner if isinstance(owner, str) else "" for owner in owners]
        # How many tools of each owner count, at most.
        self._counted: dict[str, int] = {}
        for owner in self._owners:
            self._counted[owner] = min(_COUNTED, self._counted.get(owner, 0) + 1)

    def shares(self, scores: Mapping[int, float]) -> dict[int, float]:
        """The addition to each score: a share of the mean of its owner's best scores. A tool without an owner counts
        alone."""
        owners = self._owners
        best: defaultdict[str, list[float]] = defaultdict(list)
        for number, score in scores.items():
            best[owners[number]].append(score)
        means = {
            owner: sum(sorted(values, reverse=True)[:_COUNTED]) / self._counted[owner]
            for owner, values in best.items()
            if owner
        }
        return {number: _SHARE * means.get(owners[number], score) for number, score in scores.items()}


Purpose = Literal["read", "change", "other"]

_LONGEST = 8  # words of a query that is judged: a longer one asks for several things
_VERB_PLACES = 3  # words of a name among which its verb is looked for: git_commit, mail_send_message
_LETTERS = re.compile(r"[a-z]+")


def only_reads(query: str) -> bool:
    """Whether a short query asks for no change: its verb stands first, or last as in "issue create"."""
    if len(query.split()) > _LONGEST:
        return False
    words = [word for word in _LETTERS.findall(query.lower()) if word not in word_list("stop_words")]
    return bool(words) and word_list("changing").isdisjoint((words[0], words[-1]))


def purpose(document: Document) -> Purpose:
    """The purpose of a tool: by its annotations, else by the first verb in its name."""
    if document.read_only is not None:
        return "read" if document.read_only else "change"
    for word in name_words(document.name, _VERB_PLACES):
        if word in word_list("reading"):
            return "read"
        if word in word_list("changing"):
            return "change"
    return "other"
