"""Which tools fit a query best: field-weighted BM25 over an inverted index."""

import heapq
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, pairwise
from typing import Protocol

from builtin_plugins.tool_search._entries import FIRST, NAME, OWNER, Document
from builtin_plugins.tool_search._postings import FIELD_BITS, FIELD_MASK, Postings, row
from builtin_plugins.tool_search._spelling import Spellings
from builtin_plugins.tool_search._stems import stem, stem_among
from builtin_plugins.tool_search._weights import K1, WEIGHTS, Gains
from builtin_plugins.tool_search._words import (
    abbreviations,
    capabilities,
    initials,
    listed,
    listed_beginnings,
    phrases,
    split_words,
    squeeze,
    synonyms,
)


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


_PROMINENT = frozenset({NAME, FIRST, OWNER})
# What a word counts that was not written as such, as a share of one that was.
_PAIR, _JOINED, _SYNONYM, _STAND_IN, _ABBREVIATION, _REPAIR = 0.5, 0.7, 0.25, 0.4, 0.8, 0.6
_REPAIRS = 3
_UNSURE = 0.5  # quoted text is mostly content, and a word taken apart is a guess
_NAME_COVERAGE = 0.25
_CLAUSES, _CLAUSE_SHARE = 3, 0.4
# Hits are judged weak by their share of a full score: below _LACKING when a capability is missing from the catalog.
_JUDGED_WORDS, _LACKING, _SHORT, _WEAK = 6, 0.5, 3, 0.15

_QUERY_LIMIT = 512
_VALUES_KEPT, _RECORD = 2_000_000, 20  # what is remembered of a word takes as much room as so many values

_CLAUSE_END = re.compile(
    r"[.!?;](?=\s|$)|[\u3002\uff01\uff1f\uff1b\n]|\b(?:and\s+)?(?:then|also|next|finally|lastly|afterwards|after that)\b",
    re.IGNORECASE,
)
_QUOTE = re.compile("[\"'“`]")
_QUOTED_TEXT = re.compile(r"\"[^\"]{2,}\"|(?<!\w)'[^']{2,}'(?!\w)|“[^”]{2,}”|`[^`]{2,}`")


@dataclass(slots=True)  # made for each new word: a frozen one takes three times as long to make
class _Term:
    """A stem of the catalog: the tools that have it, what it weighs in each, and those that have it in their name."""

    slots: Sequence[int]
    values: Sequence[float]
    named: Sequence[int]
    idf: float
    prominent: bool
    """Whether a tool is about it: has it in its name, its first sentence or its owner."""


@dataclass(slots=True)
class _Word:
    """A word of a query: the tools that it finds, and what it adds to each."""

    text: str
    stem: str
    slots: Sequence[int]
    values: Sequence[float]
    named: Sequence[int]
    """The tools that have it, or what stands for it, in their name."""
    idf: float
    foreign: bool
    """Whether it finds them only as a misspelling; its stem is then the word itself."""


_Values = tuple[Sequence[int], Sequence[float]]
"""Slots of tools, and what is added to each. Arrays, because a common word may have a hundred thousand."""


def _arrays(values: Mapping[int, float]) -> _Values:
    return (array("I", values), array("d", values.values())) if values else _NOTHING


_NOTHING: _Values = (), ()


class Bm25Ranker:
    """Rank tools by the words that they share with a query. Safe to share between threads."""

    def __init__(
        self, documents: Sequence[Document], *, index: Postings | None = None, spellings: Spellings | None = None
    ) -> None:
        self._postings = Postings(map(row, documents)) if index is None else index
        self._index = self._postings.index
        self._spellings = Spellings() if spellings is None else spellings
        self._spelt = False
        self._forget()

    def _forget(self) -> None:
        self._gains = Gains(self._postings)
        self._stems: dict[str, str] = {}
        self._terms: dict[str, _Term] = {}
        self._words: dict[str, _Word] = {}
        self._parts: dict[str, tuple[_Word, ...]] = {}
        self._pairs: dict[tuple[str, str], _Values] = {}
        self._room = _VALUES_KEPT

    def updated(self, ids: Sequence[str], changed: Sequence[Document]) -> "Bm25Ranker":
        """A ranker of the tools `ids`, in this order; new or other than here are those of `changed`.

        It answers as one that is made of all of them does, at the cost of those that are not here as they are there.
        This ranker stays as it is.
        """
        index = self._postings.updated(ids, changed)
        return Bm25Ranker((), index=index, spellings=self._spellings if self._spellings.serves(index.words) else None)

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones in the order of the catalog."""
        if limit < 1 or not self._postings.size:
            return []
        text = query[:_QUERY_LIMIT]
        written: list[str] = []
        clauses: list[list[_Word]] = []
        for part in _CLAUSE_END.split(text):
            if found := split_words(part):
                written += found
                clauses.append(self._find(found))
        words = clauses[0] if len(clauses) == 1 else [word for clause in clauses for word in clause]
        plain = set(split_words(_QUOTED_TEXT.sub(" ", text)) if _QUOTE.search(text) else written)
        scores = self._score(words, clauses, plain)
        floor = self._floor(words)
        exact = self._postings.names.get(squeeze(text), ())
        if exact:
            scores |= dict.fromkeys(exact, max(scores.values(), default=0.0) + 1.0)
        cut = min(heapq.nlargest(limit, scores.values())) if len(scores) > limit else 0.0
        order, rows = self._postings.order, self._postings.rows
        best = sorted([(-score, order[slot], slot) for slot, score in scores.items() if score >= cut])[:limit]
        return [Ranked(rows[slot].id, -score, -score <= floor and slot not in exact) for score, _, slot in best]

    def unmatched_terms(self, query: str) -> list[str]:
        """Tell which words of a query no tool has, not even as a synonym or in another spelling."""
        words = self._find(split_words(query[:_QUERY_LIMIT]))
        return [text for text, word in {word.text: word for word in words}.items() if not word.slots]

    def _floor(self, words: Sequence[_Word]) -> float:
        """Tell the score up to which a hit is weak.

        Correct paraphrases score as low as wrong answers do, so only short queries are judged: those that name a
        capability which nothing in the catalog is about, and those whose words a hit hardly has.
        """
        terms = {word.stem: word.idf for word in _unique(words)}
        if len(terms) > _JUDGED_WORDS:
            return 0.0
        missing = [term for term in terms if not self._is_about(term)]
        lacks = (
            bool(missing)
            and max(terms[term] for term in missing) >= max(terms.values())
            and not capabilities().isdisjoint(missing)
        )
        least = _LACKING if lacks else _WEAK if len(terms) <= _SHORT else 0.0
        return least * sum(terms.values()) * WEIGHTS[NAME] / (WEIGHTS[NAME] + K1)

    def _is_about(self, term: str) -> bool:
        forms = (term, *abbreviations().get(term, ()), *synonyms().get(term, ()))
        return any(self._term(form).prominent for form in forms if form in self._index)

    def _score(self, words: Sequence[_Word], clauses: Sequence[Sequence[_Word]], plain: set[str]) -> dict[int, float]:
        full = self._sum(words, plain)
        if len(clauses) < _CLAUSES or not full:
            return full
        best: dict[int, float] = {}
        for clause in clauses:
            part = self._sum(clause, plain)
            top = max(part.values(), default=1.0)
            for slot, score in part.items():
                best[slot] = max(best.get(slot, 0.0), score / top)
        top = max(full.values())
        whole, share = (1 - _CLAUSE_SHARE) / top, _CLAUSE_SHARE
        return {slot: whole * score + share * best.get(slot, 0.0) for slot, score in full.items()}

    def _sum(self, words: Sequence[_Word], plain: set[str]) -> dict[int, float]:
        sums = [0.0] * len(self._postings.rows)
        unique = _unique(words)
        for word in unique:
            weight = _UNSURE if plain and word.text not in plain else 1.0
            for slot, value in zip(word.slots, word.values, strict=True):
                sums[slot] += weight * value
        pairs = {(one.text, two.text): (one, two) for one, two in pairwise(words)}
        for key, (one, two) in pairs.items():
            found = self._pairs.get(key)
            if found is None:
                found = self._pairs[key] = _arrays(self._pair(one, two))
                self._use(len(found[0]))
            for slot, value in zip(*found, strict=True):
                sums[slot] += value
        rows = self._postings.rows
        for slot, hits in Counter(chain.from_iterable([word.named for word in unique])).items():
            sums[slot] *= 1 + _NAME_COVERAGE * min(1.0, hits / rows[slot].name_words)
        return dict(zip(compress(range(len(sums)), sums), filter(None, sums), strict=True))

    def _use(self, values: int) -> None:
        self._room -= values + _RECORD
        if self._room < 0:
            self._forget()

    def _find(self, words: Iterable[str]) -> list[_Word]:
        """What the words of a text find, and the parts of those that had to be taken apart."""
        found: list[_Word] = []
        for word in words:
            parts = self._parts.get(word)
            if parts is None:
                parts = self._parts[word] = tuple([self._word(part) for part in self._expand(word)])
            found += parts
        return found

    def _word(self, text: str) -> _Word:
        found = self._words.get(text)
        if found is None:
            found = self._words[text] = self._collect(text)
            self._use(len(found.slots))
        return found

    def _term(self, term: str) -> _Term:
        found = self._terms.get(term)
        if found is None:
            found = self._terms[term] = self._weigh(term)
            self._use(len(found.slots))
        return found

    def _weigh(self, term: str) -> _Term:
        places = self._index[term]
        gains = self._gains
        weights: dict[int, float] = {}
        for place in places:
            slot = place >> FIELD_BITS
            weights[slot] = weights.get(slot, 0.0) + gains[place]
        values = array("d", [weight / (weight + K1) for weight in weights.values()])
        fields = [place & FIELD_MASK for place in places]
        named = array("I", dict.fromkeys([place >> FIELD_BITS for place in places if place & FIELD_MASK == NAME]))
        return _Term(array("I", weights), values, named, self._idf(len(values)), not _PROMINENT.isdisjoint(fields))

    def _idf(self, frequency: int) -> float:
        return math.log(1 + (self._postings.size - frequency + 0.5) / (frequency + 0.5))

    def _stem(self, word: str) -> str:
        """The stem of a word, if the catalog or a list has it; otherwise the word."""
        known = self._stems.get(word)
        if known is None:
            found = stem_among(word, self._postings.beginnings, listed_beginnings())
            known = self._stems[word] = found if found in self._index or found in listed() else word
        return known

    def _is_known(self, word: str) -> bool:
        return stem_among(word, self._postings.beginnings) in self._index

    def _expand(self, word: str) -> Sequence[str]:
        """Take apart a word that no tool has, if its parts are known."""
        own = self._stem(word)
        if own in self._index or any(other in self._index for other in abbreviations().get(own, ())):
            return (word,)
        phrase = phrases().get(word, ())
        if phrase and all(map(self._is_known, phrase)):
            return phrase
        return self._split(word, 3) or (word,)

    def _split(self, word: str, most: int) -> tuple[str, ...]:
        if len(word) < 6 or not (self._postings.begins(word[:3]) or word[:2] in self._index):
            return ()
        for cut in range(3, len(word) - 2):
            head, tail = word[:cut], word[cut:]
            if not self._is_known(head):
                continue
            rest = (tail,) if self._is_known(tail) else self._split(tail, most - 1) if most > 2 else ()
            if rest:
                return (head, *rest)
        return ()

    def _alternatives(self, text: str, own: str) -> dict[str, float]:
        """Map the stems that may stand for a word to what they count."""
        index = self._index
        known = own in index
        found = {own: 1.0} if known else {}
        weight = _ABBREVIATION if known else 1.0
        for other in abbreviations().get(own, ()):
            if other in index:
                found[other] = weight
        weight = _SYNONYM if known else _STAND_IN
        for other in synonyms().get(own, ()):
            if other in index:
                found.setdefault(other, weight)
        return found or ({} if own in capabilities() else self._repair(text))

    def _collect(self, text: str) -> _Word:
        own = self._stem(text)
        best: dict[int, float] = {}
        named: dict[int, None] = {}
        frequency = len(self._term(own).slots) if own in self._index else 0
        idf = self._idf(frequency)
        alternatives = self._alternatives(text, own)
        for term, weight in alternatives.items():
            found = self._term(term)
            scale = weight * min(idf, found.idf)
            if best:
                for slot, value in zip(found.slots, found.values, strict=True):
                    if scale * value > best.get(slot, 0.0):
                        best[slot] = scale * value
            else:
                best = dict(zip(found.slots, [scale * value for value in found.values], strict=True))
            named.update(dict.fromkeys(found.named))
        # To a hit's strength an unknown word matters no more than a rare one: in small catalogs it would drown the rest.
        foreign = bool(alternatives) and own not in self._index and own not in listed()
        return _Word(text, own, *_arrays(best), array("I", named), self._idf(max(1, frequency)), foreign)

    def _pair(self, one: _Word, two: _Word) -> Mapping[int, float]:
        """What two neighbouring words add to the tools that have them as neighbours, or as one word."""
        joined = one.text + two.text
        certain = len(one.text) + (1 if len(two.text) > 4 else -1)  # a short second word may be an ending
        form = stem_among(joined, self._postings.beginnings) if self._postings.begins(joined[:certain]) else ""
        forms = [form, initials().get((one.stem, two.stem), "")]
        best: dict[int, float] = {}
        for form in forms:
            if form in self._index:
                found = self._term(form)
                scale = _JOINED * found.idf
                best.update([(slot, scale * value) for slot, value in zip(found.slots, found.values, strict=True)])
        if one.stem in self._index and two.stem in self._index:
            for slot, value in self._neighbours(one.stem, two.stem).items():
                best[slot] = max(best.get(slot, 0.0), value)
        return best

    def _neighbours(self, one: str, two: str) -> dict[int, float]:
        text = f" {one} {two} "
        weights: dict[int, float] = {}
        for slot in set(self._term(one).slots).intersection(self._term(two).slots):
            entry = self._postings.rows[slot].entry
            if text in entry.text:
                fields = enumerate(entry.fields(), slot << FIELD_BITS)
                weights[slot] = sum(self._gains[place] * field.count(text) for place, field in fields if text in field)
        scale = _PAIR * self._idf(len(weights))
        return {slot: scale * weight / (weight + K1) for slot, weight in weights.items()}

    def _repair(self, word: str) -> dict[str, float]:
        """Find the words of the catalog that an unknown word may be a misspelling of."""
        if not self._spelt:
            self._spellings.learn(self._postings.words)
            self._spelt = True
        found: dict[str, float] = {}
        for known, overlap in self._spellings.alike(word, self._postings.words).items():
            term = stem(known)
            found[term] = max(found.get(term, 0.0), overlap)
        best = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:_REPAIRS]
        return {term: _REPAIR * overlap for term, overlap in best}


def _unique(words: Sequence[_Word]) -> list[_Word]:
    """The words of a text, each in one form."""
    unique: dict[str, _Word] = {}
    for word in words:
        unique.setdefault(word.stem, word)
    foreign = [word.text[:2] for word in unique.values() if word.foreign]
    if len(foreign) > len(set(foreign)):  # perhaps forms of one word: only now they are worth stemming
        forms: dict[str, _Word] = {}
        for word in unique.values():
            forms.setdefault(stem(word.text) if word.foreign else word.stem, word)
        return [*forms.values()]
    return [*unique.values()]
