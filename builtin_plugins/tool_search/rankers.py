"""Ranking tools for a query: the protocol of a ranker, the three that come with tool search, and how one is chosen.

A ranker of your own is a factory that takes the documents of a catalog and answers an object with `search`; name it in
the configuration as `ranker = "my_package.my_module:make_ranker"`. It is made once for a catalog and shared by all
sessions, so `search` is to be safe in several threads at once. A catalog in which anything changed is another one.

No search fails because of it: where it raises or answers anything but a list of `Ranked`, `Bm25Ranker` answers in its
place, and the log says so, once for each kind of failure.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar, cast

from builtin_plugins.tool_search._ranking.bm25 import TELLING, Bm25Ranker
from builtin_plugins.tool_search._ranking.entries import Document, Ranked, Ranker, entries
from builtin_plugins.tool_search._ranking.meaning import (
    EmbeddedRanker,
    EmbeddedRankers,
    Embeddings,
    MeaningRanker,
    Vectors,
    missing_package,
)
from builtin_plugins.tool_search._ranking.words import split_words, stem
from hooksdk.errors import did_you_mean

__all__ = [
    "Bm25Ranker",
    "Document",
    "EmbeddedRanker",
    "Embeddings",
    "MeaningRanker",
    "RankBm25Ranker",
    "Ranked",
    "Ranker",
    "RankerFactory",
    "Vectors",
    "load_ranker",
]

logger = logging.getLogger("hooksdk.tool_search")

_OWN_VECTORS = "embeddings:"

RankerFactory = Callable[[Sequence[Document]], Ranker]
"""Makes a ranker for the documents of one catalog, which it leaves as they are."""


# How often the words of a field stand in a document, in the order of `tool_text`: rank-bm25 knows no fields.
_REPEATS = (4, 2, 1, 1, 1, 1, 2)
_QUERY_LIMIT = 512
# Only hits of short queries can be weak: the right tool shares few words with a sentence, and there are no synonyms.
_SHORT, _WEAK = 3, 0.35


class RankBm25Ranker:
    """Rank with the package `rank-bm25`, over the same words as `Bm25Ranker`. Needs `pip install 'hooksdk[rank-bm25]'`.

    Fields count by being repeated. The package gives a word that half of the tools have an idf of zero or less, and
    cannot take an empty catalog: here every idf is log(1 + (N - df + 0.5) / (df + 0.5)), so that in the smallest
    catalog each tool that shares a word with the query is found, and a catalog without words answers nothing. There are
    no synonyms, word pairs, repairs of spelling or exact names. Safe to share between threads.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._ids = [document.id for document in documents]
        corpus = [_tokens(document) for document in documents]
        self._idf: dict[str, float] = {}
        self._index: Any = None
        self._rare = 0.0
        if not any(corpus):
            return
        size = len(corpus)
        frequencies = Counter(word for words in corpus for word in set(words))
        self._idf = {word: math.log(1 + (size - df + 0.5) / (df + 0.5)) for word, df in frequencies.items()}
        self._rare = max(self._idf.values())
        self._index = import_module("rank_bm25").BM25Okapi(corpus)
        self._index.idf = self._idf

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones in the order of the catalog."""
        words = list(dict.fromkeys(stem(word) for word in split_words(query[:_QUERY_LIMIT])))
        if limit < 1 or not words or self._index is None:
            return []
        scores: list[float] = self._index.get_scores(words).tolist()
        best = heapq.nsmallest(limit, ((-score, number) for number, score in enumerate(scores) if score > 0))
        # What a word weighs at most that only one tool has; in the smallest catalogs rarity tells nothing.
        rare = (self._index.k1 + 1) * self._rare if len(self._ids) >= TELLING else 0.0
        return [
            Ranked(self._ids[number], -score, self._is_weak(words, number), -score / rare if rare else None)
            for score, number in best
        ]

    def _is_weak(self, words: Sequence[str], number: int) -> bool:
        """Whether the tool has too few of the query's words, where a word that no tool has counts as a rare one."""
        if len(words) > _SHORT:
            return False
        weights = {word: self._idf.get(word, self._rare) for word in words}
        has = self._index.doc_freqs[number]
        return sum(weight for word, weight in weights.items() if word in has) < _WEAK * sum(weights.values())


def load_ranker(name: str, vocabulary: Mapping[str, list[str]] | None = None) -> RankerFactory:
    """The factory that a configuration names. Raises `ValueError`.

    `bm25`, `embeddings`, `embeddings:package.module:function` for a function of texts to vectors of your own,
    `rank-bm25`, or `package.module:factory` for a ranker of your own; where that one fails, `bm25` answers in its
    place. `vocabulary` has a house's own terms, for `bm25` and `embeddings`.
    """
    if name == "bm25":
        return partial(Bm25Ranker, vocabulary=vocabulary) if vocabulary else Bm25Ranker
    if name == "embeddings":
        if package := missing_package():
            raise ValueError(f"'embeddings' needs {package}: pip install 'hooksdk[embeddings]'")
        return partial(MeaningRanker, vocabulary=vocabulary)
    if name.startswith(_OWN_VECTORS) and name.count(":") == 2:
        if package := missing_package(["numpy"]):
            raise ValueError(f"{name!r} needs {package}: pip install 'hooksdk[embeddings]'")
        own = name.removeprefix(_OWN_VECTORS)
        try:
            vectors = Vectors(own, cast("Embeddings", _import(own)))
        except ValueError:
            raise
        except Exception as error:  # whatever a foreign class raises
            raise ValueError(f"{own!r} cannot be made ({type(error).__name__}: {error})") from None
        return EmbeddedRankers(vectors, vocabulary)
    if name == "rank-bm25":
        try:
            import_module("rank_bm25")
        except ImportError as error:
            raise ValueError(f"'rank-bm25' needs {error.name}: pip install 'hooksdk[rank-bm25]'") from None
        return RankBm25Ranker
    if ":" not in name.strip(":"):
        hint = did_you_mean(name, ("bm25", "embeddings", "rank-bm25"))
        raise ValueError(
            f"{name!r} is no ranker: write 'bm25', 'embeddings', 'embeddings:package.module:function', 'rank-bm25' or "
            f"'package.module:factory'.{hint}"
        )
    factory = _import(name)
    if not callable(factory):
        kind = type(factory).__name__
        raise ValueError(f"{name!r} is a {kind}, not a factory that takes the documents")  # noqa: TRY004 - pydantic reads it
    return _OwnRankers(name, cast("Callable[[Sequence[Document]], object]", factory))


def _import(place: str) -> object:
    """Import the object that `package.module:name` names. Raises `ValueError`."""
    module_name, _, path = place.partition(":")
    try:
        value: Any = import_module(module_name)
    except Exception as error:  # whatever a foreign module raises
        raise ValueError(f"{module_name!r} cannot be imported ({type(error).__name__}: {error})") from None
    for part in path.split("."):
        if not hasattr(value, part):
            raise ValueError(f"{module_name!r} has no {path!r}.{did_you_mean(part, dir(value))}")
        value = getattr(value, part)
    return value


def _tokens(document: Document) -> list[str]:
    fields = zip(entries.of(document).fields(), _REPEATS, strict=True)
    return [word for text, times in fields for word in text.split() * times]


_Answer = TypeVar("_Answer")


class _BadRankerAnswer(TypeError):
    """A foreign ranker answered something else than it is to."""


class _OwnRankers:
    """A factory of a user's own. What it makes may raise or answer anything."""

    def __init__(self, name: str, factory: Callable[[Sequence[Document]], object]) -> None:
        self._name = name
        self._factory = factory
        self._problems: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, documents: Sequence[Document]) -> Ranker:
        """A ranker of these documents that always answers."""
        ranker = self.attempt("the factory", partial(self._factory, [*documents]), _read_ranker)
        return _OwnRanker(self, documents, ranker)

    def attempt(self, step: str, do: Callable[[], object], parse: Callable[[object], _Answer]) -> _Answer | None:
        """The parsed answer of `do`; None where it raises or cannot be parsed, which is logged."""
        try:
            return parse(do())
        except _BadRankerAnswer as error:
            self._warn(f"{step} {error}")
        except (Exception, SystemExit) as error:  # whatever foreign code raises
            self._warn(f"{step} raised {type(error).__name__}", error)
        return None

    def _warn(self, problem: str, error: BaseException | None = None) -> None:
        with self._lock:
            if problem in self._problems:
                return
            self._problems.add(problem)
        logger.warning(
            "tool_search: the ranker %r failed, so bm25 answers in its place (told once): %s",
            self._name,
            problem,
            exc_info=error,
        )


class _OwnRanker:
    """A user's ranker of one catalog, and the built-in one for where it fails."""

    def __init__(self, factory: _OwnRankers, documents: Sequence[Document], ranker: Ranker | None) -> None:
        self._factory = factory
        self._documents = documents
        self._ranker = ranker

    def search(self, query: str, limit: int) -> list[Ranked]:
        own = self._ranker
        if own is not None:
            parse = partial(_read_hits, limit=limit)
            hits = self._factory.attempt("search", lambda: own.search(query, limit), parse)
            if hits is not None:
                return self._with_evidence(hits, query)
        return self._by_words.search(query, limit)

    def _with_evidence(self, hits: list[Ranked], query: str) -> list[Ranked]:
        """What the words say for the hits of which the ranker has told nothing: else every prompt would be shown
        tools."""
        if all(hit.evidence is not None for hit in hits):
            return hits
        words = self._by_words.evidence(query)
        return [hit if hit.evidence is not None else replace(hit, evidence=words.get(hit.id, 0.0)) for hit in hits]

    @cached_property
    def _by_words(self) -> Bm25Ranker:
        return Bm25Ranker(self._documents)


def _read_ranker(answer: object) -> Ranker:
    if not callable(getattr(answer, "search", None)):
        raise _BadRankerAnswer(f"answered {_kind(answer)}, not an object with search(query, limit)")
    return cast("Ranker", answer)


def _read_hits(answer: object, limit: int) -> list[Ranked]:
    """The first hits, each tool once."""
    kind = _kind(answer)
    if not isinstance(answer, Iterable):
        raise _BadRankerAnswer(f"answered {kind}, not a list of Ranked")
    hits: dict[str, Ranked] = {}
    for hit in islice(cast("Iterable[object]", answer), max(0, limit)):
        if not isinstance(hit, Ranked):
            raise _BadRankerAnswer(f"answered {kind} with {_kind(hit)} in it, not a list of Ranked")
        if not isinstance(cast("object", hit.id), str):
            raise _BadRankerAnswer(f"answered a Ranked whose id is {_kind(hit.id)}, not a str")
        hits.setdefault(hit.id, hit)
    return [*hits.values()]


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
