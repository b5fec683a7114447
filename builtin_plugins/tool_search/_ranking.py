"""Which tools fit a query best: field-weighted BM25 over an inverted index."""

import heapq
import math
import re
import threading
from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any, Protocol

from builtin_plugins.tool_search._words import (
    abbreviations,
    capabilities,
    initials,
    phrases,
    split_words,
    squeeze,
    stem,
    synonyms,
    tool_words,
)


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


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tool that fits a query, and how well."""

    id: str
    score: float
    weak: bool
    """The tool covers so little of the query that it is probably not what was asked for."""


class Ranker(Protocol):
    """Anything that orders a catalog by a query."""

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first."""
        ...


# Chosen on the public retrieval sets; all are flat near their values. By field, in the order of `tool_words`: how much
# a word there counts, and how much a long text lowers it.
_NAME, _FIRST, _OWNER = 0, 1, 6
_WEIGHTS = (4.0, 1.5, 0.7, 0.6, 0.3, 0.4, 1.5)
_LENGTHS = (0.3, 0.4, 0.6, 0.5, 0.4, 0.9, 0.2)
_K1 = 1.8
# What a word counts that was not written as such, as a share of one that was.
_PAIR, _JOINED, _SYNONYM, _STAND_IN, _ABBREVIATION, _REPAIR = 0.5, 0.7, 0.25, 0.4, 0.8, 0.6
_LEAST_OVERLAP = 0.4
_UNSURE = 0.5  # quoted text is mostly content, and a word taken apart is a guess
_NAME_COVERAGE = 0.25
_CLAUSES, _CLAUSE_SHARE = 3, 0.4
# Hits are judged weak by their share of a full score: below _LACKING when a capability is missing from the catalog.
_JUDGED_WORDS, _LACKING, _SHORT, _WEAK = 6, 0.5, 3, 0.15

_QUERY_LIMIT = 512
_ENTRIES_KEPT, _FOUND_KEPT = 1 << 15, 500_000

_CLAUSE_END = re.compile(
    r"[.!?;](?=\s|$)|[\u3002\uff01\uff1f\uff1b\n]|\b(?:and\s+)?(?:then|also|next|finally|lastly|afterwards|after that)\b",
    re.IGNORECASE,
)
_QUOTED_TEXT = re.compile(r"\"[^\"]{2,}\"|(?<!\w)'[^']{2,}'(?!\w)|“[^”]{2,}”|`[^`]{2,}`")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tool as stems: a text for each field, where a line break keeps apart words that are no neighbours."""

    fields: tuple[str, ...]
    lengths: tuple[int, ...]
    words: str


def _entry(document: Document) -> _Entry:
    words: dict[str, None] = {}
    fields: list[str] = []
    for split in tool_words(document.name, document.description, document.parameters, document.owner):
        words.update(dict.fromkeys(word for found in split for word in found))
        stems = [" ".join([stem(word) for word in found]) for found in split]
        fields.append(" " + " \n ".join(stems) + " " if stems else "")
    return _Entry(tuple(fields), tuple(len(text.split()) for text in fields), " ".join(words))


class _Entries:
    """The latest entries by fingerprint, so that a changed catalog costs only what changed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, document: Document) -> _Entry:
        if not document.fingerprint:
            return _entry(document)
        key = (document.fingerprint, document.owner)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        entry = _entry(document)
        with self._lock:
            self._kept[key] = entry
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return entry


entries = _Entries(_ENTRIES_KEPT)


@dataclass(frozen=True, slots=True)
class _Found:
    """The tools that a word of the query finds, and what it adds to each."""

    docs: Sequence[int]
    values: Sequence[float]
    named: Sequence[int]
    """Those that have it in their name."""
    idf: float


class Bm25Ranker:
    """Rank tools by the words that they share with a query. Safe to share between threads."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._ids = [document.id for document in documents]
        self._entries = [entries.of(document) for document in documents]
        self._size = len(documents)
        lengths = [
            sum(column) / max(1, sum(map(bool, column)))
            for column in zip(*[e.lengths for e in self._entries], strict=True)
        ]
        self._gains: list[tuple[float, ...]] = []
        self._index: dict[str, tuple[array[int], array[float]]] = {}
        self._named: dict[str, array[int]] = {}
        self._name_words: list[int] = []
        for number, entry in enumerate(self._entries):
            gains = tuple(
                weight / (1 - b + b * length / (mean or 1.0))
                for weight, b, length, mean in zip(_WEIGHTS, _LENGTHS, entry.lengths, lengths, strict=True)
            )
            self._gains.append(gains)
            self._add(number, entry, gains)
        self._terms = sorted(self._index)
        self._prominent = frozenset(
            word for entry in self._entries for place in (_NAME, _FIRST, _OWNER) for word in entry.fields[place].split()
        )
        self._exact: dict[str, list[int]] = {}
        for number, document in enumerate(documents):
            name = squeeze(document.name)
            own = name if document.id == document.name else squeeze(document.id)
            for form in dict.fromkeys((name, squeeze(document.owner) + name, own)):
                self._exact.setdefault(form, []).append(number)
        self._exact.pop("", None)
        self._found: dict[tuple[str, ...], _Found] = {}
        self._room = _FOUND_KEPT
        self._vocabulary: tuple[list[str], dict[str, list[int]]] | None = None

    def _add(self, number: int, entry: _Entry, gains: Sequence[float]) -> None:
        weights: dict[str, float] = {}
        for text, gain in zip(entry.fields, gains, strict=True):
            for word in text.split():
                weights[word] = weights.get(word, 0.0) + gain
        for word, weight in weights.items():
            found = self._index.get(word)
            if found is None:
                found = self._index[word] = (array("I"), array("f"))
            found[0].append(number)
            found[1].append(weight / (weight + _K1))
        names = dict.fromkeys(entry.fields[_NAME].split())
        self._name_words.append(len(names))
        for word in names:
            self._named.setdefault(word, array("I")).append(number)

    def _idf(self, frequency: int) -> float:
        return math.log(1 + (self._size - frequency + 0.5) / (frequency + 0.5))

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones in the order of the catalog."""
        if limit < 1 or not self._size:
            return []
        text = query[:_QUERY_LIMIT]
        clauses = [found for part in _CLAUSE_END.split(text) if (found := self._words(part))]
        scores = self._score(clauses, set(split_words(_QUOTED_TEXT.sub(" ", text))))
        floor = self._floor([word for clause in clauses for word in clause])
        exact = self._exact.get(squeeze(text), ())
        if exact:
            scores |= dict.fromkeys(exact, max(scores.values(), default=0.0) + 1.0)
        cut = min(heapq.nlargest(limit, scores.values()), default=0.0)
        best = sorted((-score, number) for number, score in scores.items() if score >= cut)[:limit]
        return [Ranked(self._ids[number], -score, -score <= floor and number not in exact) for score, number in best]

    def unmatched_terms(self, query: str) -> list[str]:
        """Tell which words of a query no tool has, not even as a synonym or in another spelling."""
        return [word for word in dict.fromkeys(self._words(query[:_QUERY_LIMIT])) if not self._find(word).docs]

    def _floor(self, words: Sequence[str]) -> float:
        """Tell the score up to which a hit is weak.

        Correct paraphrases score as low as wrong answers do, so only short queries are judged: those that name a
        capability which nothing in the catalog is about, and those whose words a hit hardly has.
        """
        terms = {stem(word): self._find(word).idf for word in words}
        missing = [term for term in terms if not self._is_about(term)]
        lacks = (
            bool(missing)
            and len(terms) <= _JUDGED_WORDS
            and max(terms[term] for term in missing) >= max(terms.values())
            and not capabilities().isdisjoint(missing)
        )
        share = _LACKING if lacks else _WEAK if len(terms) <= _SHORT else 0.0
        return share * sum(terms.values()) * _WEIGHTS[_NAME] / (_WEIGHTS[_NAME] + _K1)

    def _is_about(self, term: str) -> bool:
        forms = (term, *abbreviations().get(term, ()), *synonyms().get(term, ()))
        return any(form in self._prominent for form in forms)

    def _score(self, clauses: Sequence[Sequence[str]], plain: set[str]) -> dict[int, float]:
        full = self._sum([word for clause in clauses for word in clause], plain)
        if len(clauses) < _CLAUSES or not full:
            return full
        best: dict[int, float] = {}
        for clause in clauses:
            part = self._sum(clause, plain)
            top = max(part.values(), default=1.0)
            for number, score in part.items():
                best[number] = max(best.get(number, 0.0), score / top)
        top = max(full.values())
        whole, share = (1 - _CLAUSE_SHARE) / top, _CLAUSE_SHARE
        return {number: whole * score + share * best.get(number, 0.0) for number, score in full.items()}

    def _words(self, text: str) -> list[str]:
        return [part for word in split_words(text) for part in self._expand(word)]

    def _expand(self, word: str) -> Sequence[str]:
        """Take apart a word that no tool has, if its parts are known."""
        own = stem(word)
        if own in self._index or any(other in self._index for other in abbreviations().get(own, ())):
            return (word,)
        phrase = phrases().get(word, ())
        if phrase and all(stem(part) in self._index for part in phrase):
            return phrase
        return self._split(word, 3) or (word,)

    def _begins(self, start: str) -> bool:
        """Whether a word of the catalog begins so; asked first, because a new word takes long to stem."""
        place = bisect_left(self._terms, start)
        return place < len(self._terms) and self._terms[place].startswith(start)

    def _split(self, word: str, most: int) -> tuple[str, ...]:
        if not (self._begins(word[:3]) or word[:2] in self._index):
            return ()
        for cut in range(3, len(word) - 2):
            head, tail = word[:cut], word[cut:]
            if stem(head) not in self._index:
                continue
            rest = (tail,) if stem(tail) in self._index else self._split(tail, most - 1) if most > 2 else ()
            if rest:
                return (head, *rest)
        return ()

    def _sum(self, words: Sequence[str], plain: set[str]) -> dict[int, float]:
        sums = [0.0] * self._size
        named: Counter[int] = Counter()
        unique: dict[str, str] = {}
        for word in words:
            unique.setdefault(stem(word), word)
        for word in unique.values():
            found = self._find(word)
            weight = _UNSURE if plain and word not in plain else 1.0
            for number, value in zip(found.docs, found.values, strict=True):
                sums[number] += weight * value
            named.update(found.named)
        for one, two in dict.fromkeys(pairwise(words)):
            pair = self._pair(one, two)
            for number, value in zip(pair.docs, pair.values, strict=True):
                sums[number] += value
        for number, hits in named.items():
            sums[number] *= 1 + _NAME_COVERAGE * min(1.0, hits / self._name_words[number])
        return dict(zip(compress(range(self._size), sums), filter(None, sums), strict=True))

    def _find(self, word: str) -> _Found:
        return self._found.get((word,)) or self._keep((word,), self._collect(stem(word), self._alternatives(word)))

    def _keep(self, key: tuple[str, ...], found: _Found) -> _Found:
        self._room -= len(found.docs) + 1
        if self._room < 0:
            self._found.clear()
            self._room = _FOUND_KEPT
        self._found[key] = found
        return found

    def _alternatives(self, word: str) -> dict[str, float]:
        """Map the stems that may stand for a word to what they count."""
        own = stem(word)
        known = {own: 1.0} if own in self._index else {}
        weight = _ABBREVIATION if known else 1.0
        found = known | {other: weight for other in abbreviations().get(own, ()) if other in self._index}
        for other in synonyms().get(own, ()):
            if other in self._index:
                found.setdefault(other, _SYNONYM if known else _STAND_IN)
        return found or ({} if own in capabilities() else self._repair(word))

    def _collect(self, own: str, alternatives: Mapping[str, float]) -> _Found:
        best: dict[int, float] = {}
        named: dict[int, None] = {}
        frequency = len(self._index[own][0]) if own in self._index else 0
        idf = self._idf(frequency)
        for term, weight in alternatives.items():
            docs, values = self._index[term]
            scale = weight * min(idf, self._idf(len(docs)))
            for number, value in zip(docs, values, strict=True):
                if scale * value > best.get(number, 0.0):
                    best[number] = scale * value
            named.update(dict.fromkeys(self._named.get(term, ())))
        # To a hit's strength an unknown word matters no more than a rare one: in small catalogs it would drown the rest.
        idf = self._idf(max(1, frequency))
        return _Found(array("I", best), array("d", best.values()), array("I", named), idf)

    def _pair(self, one: str, two: str) -> _Found:
        key = one, two
        if found := self._found.get(key):
            return found
        certain = len(one) + (1 if len(two) > 4 else -1)  # letters that stay: a short second word may be an ending
        joined = stem(one + two) if self._begins((one + two)[:certain]) else ""
        return self._keep(key, self._collect_pair(stem(one), stem(two), joined))

    def _collect_pair(self, one: str, two: str, joined: str) -> _Found:
        best: dict[int, float] = {}
        for term in (joined, initials().get((one, two), "")):
            docs, values = self._index.get(term, ((), ()))
            scale = _JOINED * self._idf(len(docs))
            best.update((number, scale * value) for number, value in zip(docs, values, strict=True))
        if one in self._index and two in self._index:
            text = f" {one} {two} "
            weights: dict[int, float] = {}
            for number in set(self._index[one][0]).intersection(self._index[two][0]):
                fields = zip(self._gains[number], self._entries[number].fields, strict=True)
                if weight := sum(gain * field.count(text) for gain, field in fields if text in field):
                    weights[number] = weight
            scale = _PAIR * self._idf(len(weights))
            for number, weight in weights.items():
                best[number] = max(best.get(number, 0.0), scale * weight / (weight + _K1))
        return _Found(array("I", best), array("d", best.values()), (), 0.0)

    def _repair(self, word: str) -> dict[str, float]:
        """Find the words of the catalog that an unknown word may be a misspelling of."""
        if len(word) < 4:
            return {}
        if self._vocabulary is None:
            words = list(dict.fromkeys(w for entry in self._entries for w in entry.words.split() if len(w) > 2))
            grams: dict[str, list[int]] = {}
            for number, known in enumerate(words):
                for gram in _trigrams(known):
                    grams.setdefault(gram, []).append(number)
            self._vocabulary = words, grams
        words, grams = self._vocabulary
        own = _trigrams(word)
        shared: dict[int, int] = {}
        for gram in own:
            for number in grams.get(gram, ()):
                shared[number] = shared.get(number, 0) + 1
        found: dict[str, float] = {}
        for number, count in shared.items():
            overlap = 2 * count / (len(own) + len(words[number]))
            if overlap >= _LEAST_OVERLAP:
                term = stem(words[number])
                found[term] = max(found.get(term, 0.0), overlap)
        best = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
        return {term: _REPAIR * overlap for term, overlap in best}


def _trigrams(word: str) -> list[str]:
    padded = f"^{word}$"
    return list(dict.fromkeys(padded[i : i + 3] for i in range(len(padded) - 2)))
