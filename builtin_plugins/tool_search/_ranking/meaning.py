"""Ranking by words and by what they mean, beside bm25: a static table of word vectors, or a function of texts to
vectors that the configuration names."""

from __future__ import annotations

import importlib.util
import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from builtin_plugins.tool_search._ranking.bm25 import Bm25Ranker
from builtin_plugins.tool_search._ranking.entries import Document, Ranked
from builtin_plugins.tool_search._ranking.words import split_words

logger = logging.getLogger("hooksdk.tool_search")

VECTOR_TEXT, QUERY = 100, 512
"""Characters of a description, and of a query, that are read: with 300 of a description e5-small found no more on four
of the retrieval sets, and took 1.6 times as long."""
# Texts that the function takes at once: at some 40 ms each a query waits .6 s at most for one that is being made.
BATCH = 16
# Vectors that are held, at 1 kB each: those of tools that changed since, in a host that runs for months, make room.
MAX_VECTORS = 100_000


class Embeddings(Protocol):
    """An object that turns texts into vectors, with the methods of LangChain's embeddings."""

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """A vector for each text of a tool."""
        ...

    def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a query."""
        ...


# Answers a vector for each text.
Function = Callable[[list[str]], Sequence[Sequence[float]]]


class _Function:
    """A function of texts to vectors, for tools and queries alike."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        return self._function(texts)

    def embed_query(self, text: str) -> Sequence[float]:
        return self.embed_documents([text])[0]


def _read(value: object) -> Embeddings:
    made = value() if isinstance(value, type) else value
    if all(callable(getattr(made, name, None)) for name in ("embed_documents", "embed_query")):
        return cast("Embeddings", made)
    if callable(made):
        return _Function(cast("Function", made))
    raise ValueError(
        f"a {type(made).__name__} is neither a function of texts to vectors nor has it embed_documents and embed_query"
    )


def tool_text(document: Document, chars: int = VECTOR_TEXT) -> str:
    """The text of a tool that is turned into its vector, with so many characters of its description."""
    return f"{document.owner} {' '.join(split_words(document.name))}: {document.description[:chars]}"


def key_of(document: Document) -> str:
    """The key of a tool's vector: it changes with the tool."""
    return f"{document.owner}/{document.fingerprint}" if document.fingerprint else tool_text(document)


class Vectors:
    """The vectors of tools and queries, made by a function of texts to vectors, or by an object (or a class of it) that
    has `embed_documents` and `embed_query`. `name` is told in the log. Raises `ValueError` for anything else.

    Safe to share between threads: whatever makes the vectors is called by one of them at a time.
    """

    def __init__(self, name: str, embeddings: Function | Embeddings | type[Embeddings]) -> None:
        self.name = name
        self._embeddings = _read(embeddings)
        self._rows: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._calling = threading.Lock()
        self._lock = threading.Lock()
        self._problems: set[str] = set()

    def missing(self, documents: Iterable[Document]) -> list[Document]:
        """The tools of which no vector is there, each once."""
        rows = self._rows
        return [*{key: one for one in documents if (key := key_of(one)) not in rows}.values()]

    def make(self, documents: Sequence[Document]) -> bool:
        """Make the vectors of some tools. False where the function fails, which is logged once; the rest is left
        then."""
        for start in range(0, len(documents), BATCH):
            part = documents[start : start + BATCH]
            rows = self.of_texts([tool_text(one) for one in part])
            if rows is None:
                return False
            new = dict(zip(map(key_of, part), rows, strict=True))
            self.add(new)
            with self._lock:
                self._made = {**self._made, **new}
        return True

    def add(self, rows: dict[str, Any]) -> None:
        """Hold vectors that were made before, by key."""
        with self._lock:
            held = {**self._rows, **rows}
            for key in [*held][: max(0, len(held) - MAX_VECTORS)]:
                del held[key]
            self._rows = held

    @property
    def made(self) -> int:
        """How many new vectors wait for the storage."""
        return len(self._made)

    def take_made(self) -> dict[str, Any]:
        """The vectors that were made since the last call of this method, by key, for the storage."""
        with self._lock:
            made, self._made = self._made, {}
        return made

    def of_texts(self, texts: list[str]) -> Any:
        """A row for each text of a tool; None where the function fails, which is logged once."""
        return self._call(lambda: self._embeddings.embed_documents(texts), len(texts))

    def table(self, keys: Sequence[str]) -> Any:
        """A row for each tool; None while one is missing, or has another length than the others."""
        held = self._rows
        rows: list[Any] = [held.get(key) for key in keys]
        if not rows or any(row is None or row.shape != rows[0].shape for row in rows):
            return None
        return import_module("numpy").stack(rows)

    def of_query(self, text: str) -> Any:
        """The vector of a query; None where the function fails, which is logged once."""
        rows = self._call(lambda: [self._embeddings.embed_query(text[:QUERY])], 1)
        return None if rows is None else rows[0]

    def _call(self, work: Callable[[], Any], count: int) -> Any:
        """Rows of length 1."""
        np: Any = import_module("numpy")
        try:
            with self._calling:
                rows = np.asarray(work(), dtype=np.float32)
            if rows.ndim != 2 or len(rows) != count or not np.isfinite(rows).all():
                raise ValueError(f"it answered numbers in the shape {rows.shape} for {count} texts")
        except (Exception, SystemExit) as error:  # whatever foreign code raises
            self._warn(error)
            return None
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    def _warn(self, error: BaseException) -> None:
        kind = type(error).__name__
        with self._lock:
            if kind in self._problems:
                return
            self._problems.add(kind)
        logger.warning(
            "tool_search: %s gives no vectors (%s), so words alone rank (told once)", self.name, kind, exc_info=error
        )


# The weight of a cosine of 1, where the best hit by words weighs 1: chosen of .3, .5 and .8 on every second query of
# the retrieval sets (docs/benchmarks.md has the others).
TABLE_WEIGHT = 0.8
# Characters of a description that are read.
TABLE_TEXT = 500
# Hits by words, and by meaning, that are looked at.
DEPTH = 50
# The files of the package `wordllama`, whose own loader looks for one of them elsewhere.
TABLE = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")


class MeaningRanker:
    """Rank by the words of a query, and by what they mean: the mean of its words' vectors, rare words counting more.

    Needs `pip install 'hooksdk[embeddings]'`; the table is a part of it, and nothing leaves the machine. What the
    meaning alone finds is weak, and never shown unasked: `evidence` is that of the words. Safe to share between
    threads.
    """

    def __init__(self, documents: Sequence[Document], *, vocabulary: Mapping[str, list[str]] | None = None) -> None:
        self._words = Bm25Ranker(documents, vocabulary=vocabulary)
        self._ids = [document.id for document in documents]
        tokens = _tokens([tool_text(document, TABLE_TEXT) for document in documents])
        self._counts = Counter(token for each in tokens for token in set(each))
        self._vectors: Any = self._mean_of(tokens)

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones in the order of the catalog."""
        if limit < 1 or not self._ids:
            return []
        near: Any = self._vectors @ self._mean_of(_tokens([query[:QUERY]]))[0]
        return fused(self._words.search(query, max(limit, DEPTH)), self._ids, TABLE_WEIGHT * near, limit)

    def _mean_of(self, texts: Sequence[Sequence[int]]) -> Any:
        """A row of length 1 for each text; zeros for one without words."""
        np: Any = import_module("numpy")
        table, _ = _loaded()
        rows = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        size = len(self._ids) + 1
        for row, tokens in zip(rows, texts, strict=True):
            if tokens:
                rareness = [math.log(size / (self._counts.get(token, 0) + 0.5)) for token in tokens]
                row[:] = np.asarray(rareness, dtype=np.float32) @ table[tokens].astype(np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def fused(hits: Sequence[Ranked], ids: Sequence[str], near: Any, limit: int) -> list[Ranked]:
    """The hits by words, the best of which counts 1, and the tools that are nearest in meaning, whose `near` is added.

    What the meaning alone finds is weak and has no evidence.
    """
    by_words = {hit.id: hit for hit in hits}
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    order: list[int] = (-near).argsort(kind="stable")[: max(limit, DEPTH)].tolist()
    scores: list[tuple[float, int, Ranked]] = []
    for place in {*order, *(place for place, one in enumerate(ids) if one in by_words)}:
        hit = by_words.get(ids[place])
        if hit is not None or near[place] > 0:
            by_meaning = Ranked(ids[place], 0.0, weak=True, evidence=0.0)
            scores.append(((hit.score / best if hit else 0.0) + float(near[place]), place, hit or by_meaning))
    scores.sort(key=lambda one: (-one[0], one[1]))
    return [replace(hit, score=score) for score, _, hit in scores[:limit]]


def missing_package(names: Sequence[str] = ("wordllama", "numpy", "safetensors", "tokenizers")) -> str:
    """The first package of `hooksdk[embeddings]` that is not installed; empty where all are."""
    return next((name for name in names if not importlib.util.find_spec(name)), "")


_loading = threading.Lock()


@cache
def _load() -> tuple[Any, Any]:
    # By name: their types are not whole, and the extra may be missing.
    load_file, tokenizer = import_module("safetensors.numpy").load_file, import_module("tokenizers").Tokenizer
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0])
    weights, words = (folder / name for name in TABLE)
    (table,) = load_file(weights).values()
    return table, tokenizer.from_file(str(words))


def _loaded() -> tuple[Any, Any]:
    with _loading:
        return _load()


def _tokens(texts: Sequence[str]) -> list[list[int]]:
    _, tokenizer = _loaded()
    return [encoding.ids for encoding in tokenizer.encode_batch([*texts], add_special_tokens=False)]


# The weight of the nearest tool, where the best hit by words weighs 1. Models differ in which cosines they give (some
# only between .7 and .9), so nearness is a share: of how far the nearest tool lies above the mean of all.
VECTOR_WEIGHT = 0.4


class EmbeddedRanker:
    """Rank by the words of a query, and by how near its vector is to those of the tools.

    While the vector of a tool is missing the words rank alone: up to 16 are made by the search itself, more by whoever
    made the ranker. Safe to share between threads.
    """

    def __init__(
        self, documents: Sequence[Document], vectors: Vectors, *, vocabulary: Mapping[str, list[str]] | None = None
    ) -> None:
        self._words = Bm25Ranker(documents, vocabulary=vocabulary)
        self._documents = documents
        self._ids = [document.id for document in documents]
        self._keys = [key_of(document) for document in documents]
        self._vectors = vectors
        self._table: Any = None

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones in the order of the catalog."""
        if limit < 1 or not self._ids:
            return []
        near = self._near(query)
        if near is None:
            return self._words.search(query, limit)
        return fused(self._words.search(query, max(limit, DEPTH)), self._ids, VECTOR_WEIGHT * near, limit)

    def _near(self, query: str) -> Any:
        """How near each tool is, 0 to 1; None where that cannot be told."""
        if self._table is None:
            self._table = self._made()
        return None if self._table is None else self._shares(self._table, query)

    def _made(self) -> Any:
        table = self._vectors.table(self._keys)
        if table is None and len(missing := self._vectors.missing(self._documents)) <= BATCH:
            self._vectors.make(missing)
            table = self._vectors.table(self._keys)
        return table

    def _shares(self, table: Any, query: str) -> Any:
        wanted = self._vectors.of_query(query)
        if wanted is None or wanted.shape != table.shape[1:]:
            return None
        cosines = table @ wanted
        mean = cosines.mean()
        return ((cosines - mean) / max(float(cosines.max() - mean), 1e-9)).clip(0.0)


class EmbeddedRankers:
    """The rankers of one function of texts to vectors.

    Attributes:
        waits: Whether all vectors of a catalog are made with its ranker. A host makes them while its sessions work.
    """

    def __init__(self, vectors: Vectors, vocabulary: Mapping[str, list[str]] | None) -> None:
        self.vectors = vectors
        self.waits = True
        self._vocabulary = vocabulary

    def __call__(self, documents: Sequence[Document]) -> EmbeddedRanker:
        """The ranker of these documents."""
        if self.waits:
            self.vectors.make(self.vectors.missing(documents))
        return EmbeddedRanker(documents, self.vectors, vocabulary=self._vocabulary)
