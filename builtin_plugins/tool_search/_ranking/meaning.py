"""Ranking by words and by what they mean: a static table of word vectors beside bm25."""

from __future__ import annotations

import importlib.util
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from builtin_plugins.tool_search._ranking.bm25 import Bm25Ranker
from builtin_plugins.tool_search._ranking.entries import Document
from builtin_plugins.tool_search._ranking.ranked import Ranked
from builtin_plugins.tool_search._ranking.vectors import QUERY, tool_text

WEIGHT = 0.8
"""What a cosine of 1 counts, where the best hit by words counts 1: chosen of .3, .5 and .8 on every second query of the
retrieval sets (docs/benchmarks.md has the others)."""
TEXT = 500
"""Characters of a description that are read."""
DEPTH = 50
"""Hits by words, and by meaning, that are looked at."""
TABLE = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
"""The files of the package `wordllama`, whose own loader looks for one of them elsewhere."""


class MeaningRanker:
    """Rank by the words of a query, and by what they mean: the mean of its words' vectors, rare words counting more.

    Needs `pip install 'hooksdk[embeddings]'`; the table is a part of it, and nothing leaves the machine. What the meaning alone
    finds is weak, and never shown unasked: `evidence` is that of the words. Safe to share between threads.
    """

    def __init__(self, documents: Sequence[Document], *, vocabulary: Mapping[str, list[str]] | None = None) -> None:
        self._words = Bm25Ranker(documents, vocabulary=vocabulary)
        self._ids = [document.id for document in documents]
        tokens = _tokens([tool_text(document, TEXT) for document in documents])
        self._counts = Counter(token for each in tokens for token in set(each))
        self._vectors: Any = self._mean_of(tokens)

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first; equal ones in the order of the catalog."""
        if limit < 1 or not self._ids:
            return []
        near: Any = self._vectors @ self._mean_of(_tokens([query[:QUERY]]))[0]
        return fused(self._words.search(query, max(limit, DEPTH)), self._ids, WEIGHT * near, limit)

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
    """What `hooksdk[embeddings]` brings and is not there; empty where all is."""
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
