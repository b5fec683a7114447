"""Which tools fit a query best: field-weighted BM25 over an inverted index."""

import heapq
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise

from builtin_plugins.tool_search._ranking import lexicon
from builtin_plugins.tool_search._ranking.entries import FIRST, NAME, OWNER, Document, Ranked
from builtin_plugins.tool_search._ranking.postings import (
    FIELD_BITS,
    FIELD_MASK,
    K1,
    WEIGHTS,
    Gains,
    Owners,
    Postings,
    Spellings,
    Term,
    Values,
    Word,
    arrays,
    only_reads,
)
from builtin_plugins.tool_search._ranking.words import split_words, squeeze, stem

_PROMINENT = frozenset({NAME, FIRST, OWNER})
# The weight of a word that was derived (a pair, a synonym, ...), as a share of one that stands in the query.
_PAIR, _JOINED, _SYNONYM, _STAND_IN, _ABBREVIATION, _REPAIR = 0.5, 0.7, 0.25, 0.4, 0.8, 0.6
_REPAIRS = 3
_UNSURE = 0.5  # for quoted text, which is mostly content, and for parts of a word, which are a guess
_NAME_COVERAGE = 0.25
_CLAUSES, _CLAUSE_SHARE = 3, 0.4
_KIND = 0.25  # of what a word is one of: a dollar is a currency
_STRONG = 0.25  # the share of the best score from which on a hit is weighed by its purpose and its owner
_PURPOSE = {"change": 0.8, "read": 1.03}  # how the score of a tool that does so changes where a query asks to know
# Hits are judged weak by their share of a full score: below _LACKING when a capability is missing from the catalog.
_JUDGED_WORDS, _LACKING, _SHORT, _WEAK = 6, 0.5, 3, 0.15
TELLING = 20  # tools of a catalog from which on the rarity of a word tells something

_QUERY_LIMIT = 512
_MAX_VALUES, _RECORD = 2_000_000, 20  # values that the record of one word counts as, besides its own

_CLAUSE_END = re.compile(
    r"[.!?;](?=\s|$)|[\u3002\uff01\uff1f\uff1b\n]|\b(?:and\s+)?(?:then|also|next|finally|lastly|afterwards|after that)\b",
    re.IGNORECASE,
)
_QUOTE = re.compile("[\"'“`]")
_QUOTED_TEXT = re.compile(r"\"[^\"]{2,}\"|(?<!\w)'[^']{2,}'(?!\w)|“[^”]{2,}”|`[^`]{2,}`")


class Bm25Ranker:
    """Rank tools by the words that they share with a query. Safe to share between threads."""

    def __init__(self, documents: Sequence[Document], vocabulary: Mapping[str, list[str]] | None = None) -> None:
        self._short_forms = lexicon.abbreviations()
        if vocabulary:  # a house's own terms count as short forms do
            own = lexicon.by_stem(vocabulary)
            self._short_forms = {**self._short_forms, **{one: own[one] + self._short_forms.get(one, ()) for one in own}}
        self._postings = Postings(documents)
        self._index = self._postings.index
        self._size = len(self._postings.ids)
        self._purposes = [_PURPOSE.get(purpose, 1.0) for purpose in self._postings.purposes]
        self._owners = Owners(self._postings.owners)
        self._forget()

    def _forget(self) -> None:
        self._gains = Gains(self._postings)
        self._terms: dict[str, Term] = {}
        self._words: dict[str, Word] = {}
        self._parts: dict[str, tuple[Word, ...]] = {}
        self._pairs: dict[tuple[str, str], Values] = {}
        self._kinds: dict[lexicon.Kind, Values] = {}
        self._room = _MAX_VALUES

    @cached_property
    def _spellings(self) -> Spellings:
        return Spellings(self._postings.words())

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones by their ids."""
        if limit < 1 or not self._size:
            return []
        query = query[:_QUERY_LIMIT]
        all_words, full_scores, own_scores = self._scores(query)
        exact = self._postings.names.get(squeeze(query), ())
        scores = self._weighed(own_scores, limit, reads=only_reads(query))
        if exact:
            scores |= dict.fromkeys(exact, max(scores.values(), default=0.0) + 1.0)
        cut = heapq.nlargest(limit, scores.values())[-1] if len(scores) > limit else 0.0
        ids = self._postings.ids
        best = sorted([(-score, ids[number], number) for number, score in scores.items() if score >= cut])[:limit]
        floor, named = self._floor(all_words)
        rare = self._rare
        return [
            Ranked(name, -score, weak=False)
            if number in exact
            else Ranked(
                name,
                -score,
                own_scores[number] <= floor and number not in named,
                full_scores[number] / rare if rare else None,
            )
            for score, name, number in best
        ]

    def evidence(self, query: str) -> dict[str, float | None]:
        """What speaks for each tool that shares a word with the query, by its id: see `Ranked.evidence`. Of a tool that
        is not there nothing speaks for it."""
        query = query[:_QUERY_LIMIT]
        ids, rare = self._postings.ids, self._rare
        if not rare:
            return dict.fromkeys(ids)
        _, scores, _ = self._scores(query)
        exact = self._postings.names.get(squeeze(query), ())
        found: dict[str, float | None] = {ids[number]: score / rare for number, score in enumerate(scores) if score}
        return found | dict.fromkeys(ids[number] for number in exact)

    @cached_property
    def _rare(self) -> float:
        """What a word weighs that only one tool has; 0 in a catalog where that tells nothing."""
        return self._idf(1) if self._size >= TELLING else 0.0

    def _scores(self, text: str) -> tuple[Sequence[Word], list[float], list[float]]:
        """The words of a query; the scores of all tools by them, and with the best that a tool has in one clause."""
        texts: list[str] = []
        clauses: list[list[Word]] = []
        for part in _CLAUSE_END.split(text):
            if words := split_words(part):
                texts += words
                clauses.append(self._find(words))
        all_words = [word for clause in clauses for word in clause]
        plain = set(split_words(_QUOTED_TEXT.sub(" ", text)) if _QUOTE.search(text) else texts)
        full_scores = self._sum(all_words, plain)
        return all_words, full_scores, self._with_clauses(full_scores, clauses, plain)

    def _weighed(self, scores: Sequence[float], limit: int, *, reads: bool) -> dict[int, float]:
        """The scores of the best hits, by what they do and by how well their owner's other tools fit; of all hits where
        one of the others may be among so many."""
        least = _STRONG * max(scores)
        strong = {number: score for number, score in enumerate(scores) if score >= least > 0.0}
        if reads:
            purposes = self._purposes
            strong = {number: score * purposes[number] for number, score in strong.items()}
        weighed = {number: strong[number] + share for number, share in self._owners.shares(strong).items()}
        if sum([score >= least for score in weighed.values()]) >= limit:
            return weighed
        return {number: score for number, score in enumerate(scores) if score} | weighed

    def _floor(self, words: Sequence[Word]) -> tuple[float, set[int]]:
        """Tell the score up to which a hit is weak, and the tools that are not weak all the same.

        Correct paraphrases score as low as wrong answers do, so only short queries are judged: those that name a
        capability which the catalog lacks, and those whose words a hit hardly has. All but the shortest may name
        several, of which a tool that has one in its name is meant.
        """
        unique = _unique(words)
        terms = {word.stem: word.idf for word in unique}
        if len(terms) > _JUDGED_WORDS:
            return 0.0, set()
        missing = {term for term in terms if not self._is_about(term)}
        wanted, is_short = lexicon.capabilities().intersection(terms), len(terms) <= _SHORT
        lacks = not wanted.isdisjoint(missing) and max(terms[term] for term in missing) >= max(terms.values())
        least = _LACKING if lacks else _WEAK if is_short else 0.0
        there = set[str]() if is_short else wanted - missing
        named = {number for word in unique if word.stem in there for number in word.in_name}
        return least * sum(terms.values()) * WEIGHTS[NAME] / (WEIGHTS[NAME] + K1), named

    def _is_about(self, term: str) -> bool:
        forms = (term, *self._short_forms.get(term, ()), *lexicon.synonyms().get(term, ()))
        return any(self._term(form).prominent for form in forms if form in self._index)

    def _with_clauses(self, full: list[float], clauses: Sequence[Sequence[Word]], plain: set[str]) -> list[float]:
        """The scores of a whole query, with the best that a tool has in one of its clauses."""
        top = max(full)
        if len(clauses) < _CLAUSES or not top:
            return full
        best = [0.0] * self._size
        for clause in clauses:
            part = self._sum(clause, plain)
            most = max(part) or 1.0
            best = [max(score, own / most) if own else score for score, own in zip(best, part, strict=True)]
        whole, share = (1 - _CLAUSE_SHARE) / top, _CLAUSE_SHARE
        return [whole * score + share * own if score else 0.0 for score, own in zip(full, best, strict=True)]

    def _sum(self, words: Sequence[Word], plain: set[str]) -> list[float]:
        """What the words add to each tool, by its number."""
        sums = [0.0] * self._size
        unique = _unique(words)
        for word in unique:
            values = [_UNSURE * value for value in word.values] if plain and word.text not in plain else word.values
            for number, value in zip(word.numbers, values, strict=True):
                sums[number] += value
        pairs = {(one.text, two.text): (one, two) for one, two in pairwise(words)}
        for key, (one, two) in pairs.items():
            values = self._pairs.get(key)
            if values is None:
                values = self._pairs[key] = arrays(self._pair(one, two))
                self._use(len(values[0]))
            for number, value in zip(*values, strict=True):
                sums[number] += value
        for numbers, values in self._kinds_of(unique, plain):
            for number, value in zip(numbers, values, strict=True):
                sums[number] += value
        name_words = self._postings.name_words
        for number, hits in Counter(chain.from_iterable([word.in_name for word in unique])).items():
            sums[number] *= 1 + _NAME_COVERAGE * min(1.0, hits / name_words[number])
        return sums

    def _kinds_of(self, words: Sequence[Word], plain: set[str]) -> Iterator[Values]:
        """What the kinds add of which the words name one, each kind once; one that the words name themselves is
        none."""
        named = {word.stem for word in words}
        wanted = [
            kind for word in words if not plain or word.text in plain for kind in lexicon.kinds().get(word.stem, ())
        ]
        for kind in dict.fromkeys(wanted):
            if named.isdisjoint(kind):
                values = self._kinds.get(kind)
                if values is None:
                    values = self._kinds[kind] = arrays(self._kind(kind))
                    self._use(len(values[0]))
                yield values

    def _kind(self, kind: lexicon.Kind) -> Mapping[int, float]:
        best: dict[int, float] = {}
        for name in kind:
            if name in self._index:
                term = self._term(name)
                for number, value in zip(term.numbers, term.values, strict=True):
                    best[number] = max(best.get(number, 0.0), _KIND * term.idf * value)
        return best

    def _use(self, values: int) -> None:
        self._room -= values + _RECORD
        if self._room < 0:
            self._forget()

    def _find(self, words: Iterable[str]) -> list[Word]:
        """What the words of a text find, and the parts of those that had to be taken apart."""
        all_parts: list[Word] = []
        for word in words:
            parts = self._parts.get(word)
            if parts is None:
                parts = self._parts[word] = tuple([self._word(part) for part in self._expand(word)])
            all_parts += parts
        return all_parts

    def _word(self, text: str) -> Word:
        word = self._words.get(text)
        if word is None:
            word = self._words[text] = self._collect(text)
            self._use(len(word.numbers))
        return word

    def _term(self, name: str) -> Term:
        term = self._terms.get(name)
        if term is None:
            term = self._terms[name] = self._weigh(name)
            self._use(len(term.numbers))
        return term

    def _weigh(self, term: str) -> Term:
        places = self._index[term]
        gains = self._gains
        weights: dict[int, float] = {}
        for place in places:
            number = place >> FIELD_BITS
            weights[number] = weights.get(number, 0.0) + gains[place]
        values = array("d", [weight / (weight + K1) for weight in weights.values()])
        fields = [place & FIELD_MASK for place in places]
        in_name = array("I", dict.fromkeys([place >> FIELD_BITS for place in places if place & FIELD_MASK == NAME]))
        return Term(array("I", weights), values, in_name, self._idf(len(values)), not _PROMINENT.isdisjoint(fields))

    def _idf(self, frequency: int) -> float:
        return math.log(1 + (self._size - frequency + 0.5) / (frequency + 0.5))

    def _is_known(self, word: str) -> bool:
        return stem(word) in self._index

    def _expand(self, word: str) -> Sequence[str]:
        """Take apart a word that no tool has, if its parts are known."""
        own = stem(word)
        if own in self._index or any(other in self._index for other in self._short_forms.get(own, ())):
            return (word,)
        phrase = lexicon.phrases().get(word, ())
        if phrase and all(map(self._is_known, phrase)) and (own not in lexicon.capabilities() or self._stands(phrase)):
            return phrase
        return self._split(word, 3) or (word,)

    def _stands(self, phrase: Sequence[str]) -> bool:
        """Whether a tool has the words of a phrase side by side."""
        return all(self._neighbours(stem(one), stem(two)) for one, two in pairwise(phrase))

    def _split(self, word: str, most: int) -> tuple[str, ...]:
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
        is_known = own in index
        weights = {own: 1.0} if is_known else {}
        weight = _ABBREVIATION if is_known else 1.0
        for other in self._short_forms.get(own, ()):
            if other in index:
                weights[other] = weight
        weight = _SYNONYM if is_known else _STAND_IN
        for other in lexicon.synonyms().get(own, ()):
            if other in index:
                weights.setdefault(other, weight)
        return weights or ({} if own in lexicon.capabilities() else self._repair(text))

    def _collect(self, text: str) -> Word:
        own = stem(text)
        best: dict[int, float] = {}
        in_name: dict[int, None] = {}
        frequency = len(self._term(own).numbers) if own in self._index else 0
        idf = self._idf(frequency)
        for name, weight in self._alternatives(text, own).items():
            term = self._term(name)
            scale = weight * min(idf, term.idf)
            if best:
                for number, value in zip(term.numbers, term.values, strict=True):
                    if scale * value > best.get(number, 0.0):
                        best[number] = scale * value
            else:
                best = dict(zip(term.numbers, [scale * value for value in term.values], strict=True))
            in_name.update(dict.fromkeys(term.in_name))
        # An unknown word counts as a rare one: in a small catalog it would otherwise outweigh all others.
        return Word(text, own, *arrays(best), array("I", in_name), self._idf(max(1, frequency)))

    def _pair(self, one: Word, two: Word) -> Mapping[int, float]:
        """What two neighbouring words add to the tools that have them as neighbours, or as one word."""
        best: dict[int, float] = {}
        for form in (stem(one.text + two.text), lexicon.initials().get((one.stem, two.stem), "")):
            if form in self._index:
                term = self._term(form)
                scale = _JOINED * term.idf
                best.update([(number, scale * value) for number, value in zip(term.numbers, term.values, strict=True)])
        if one.stem in self._index and two.stem in self._index:
            for number, value in self._neighbours(one.stem, two.stem).items():
                best[number] = max(best.get(number, 0.0), value)
        return best

    def _neighbours(self, one: str, two: str) -> dict[int, float]:
        text = f" {one} {two} "
        weights: dict[int, float] = {}
        for number in set(self._term(one).numbers).intersection(self._term(two).numbers):
            entry = self._postings.entries[number]
            if text in entry.text:
                fields = enumerate(entry.fields(), number << FIELD_BITS)
                weights[number] = sum(
                    self._gains[place] * field.count(text) for place, field in fields if text in field
                )
        scale = _PAIR * self._idf(len(weights))
        return {number: scale * weight / (weight + K1) for number, weight in weights.items()}

    def _repair(self, word: str) -> dict[str, float]:
        """Find the words of the catalog that an unknown word may be a misspelling of."""
        overlaps: dict[str, float] = {}
        for other, overlap in self._spellings.alike(word).items():
            term = stem(other)
            overlaps[term] = max(overlaps.get(term, 0.0), overlap)
        best = sorted(overlaps.items(), key=lambda pair: (-pair[1], pair[0]))[:_REPAIRS]
        return {term: _REPAIR * overlap for term, overlap in best}


def _unique(words: Sequence[Word]) -> list[Word]:
    """The words of a text, each in one form."""
    unique: dict[str, Word] = {}
    for word in words:
        unique.setdefault(word.stem, word)
    return [*unique.values()]
