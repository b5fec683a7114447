"""Ranking by words and by what they mean: a function of texts to vectors beside bm25."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from builtin_plugins.tool_search._ranking.bm25 import Bm25Ranker
from builtin_plugins.tool_search._ranking.entries import Document
from builtin_plugins.tool_search._ranking.meaning import DEPTH, fused
from builtin_plugins.tool_search._ranking.ranked import Ranked
from builtin_plugins.tool_search._ranking.vectors import BATCH, Vectors, key_of

WEIGHT = 0.4
"""What the nearest tool counts, where the best hit by words counts 1. How near a tool is, is told as a share of the nearest
one's lead over the mean of all, since models differ in which cosines they give: those of some lie between .7 and .9."""


class EmbeddedRanker:
    """Rank by the words of a query, and by how near its vector is to those of the tools.

    While the vector of a tool is missing the words rank alone: up to 16 are made by the search itself, more by whoever made the
    ranker. Safe to share between threads.
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
        return fused(self._words.search(query, max(limit, DEPTH)), self._ids, WEIGHT * near, limit)

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
    """The rankers of one function of texts to vectors."""

    def __init__(self, vectors: Vectors, vocabulary: Mapping[str, list[str]] | None) -> None:
        self.vectors = vectors
        self.waits = True
        """Whether all vectors of a catalog are made with its ranker. A host makes them while its sessions work."""
        self._vocabulary = vocabulary

    def __call__(self, documents: Sequence[Document]) -> EmbeddedRanker:
        """The ranker of these documents."""
        if self.waits:
            self.vectors.make(self.vectors.missing(documents))
        return EmbeddedRanker(documents, self.vectors, vocabulary=self._vocabulary)
