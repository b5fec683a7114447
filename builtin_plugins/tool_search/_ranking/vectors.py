"""Vectors of texts, by a function that the configuration names: those of tools are made once, those of queries as they come."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

from builtin_plugins.tool_search._ranking.entries import Document
from builtin_plugins.tool_search._ranking.words import split_words

logger = logging.getLogger("hooksdk.tool_search")

TEXT, QUERY = 100, 512
"""Characters of a description, and of a query, that are read: with 300 of a description e5-small found no more on four of the
retrieval sets, and took 1.6 times as long."""
BATCH = 16
"""Texts that the function takes at once: at some 40 ms each a query waits .6 s at most for one that is being made."""
MAX_VECTORS = 100_000
"""Vectors that are held, at 1 kB each: those of tools that changed since, in a host that runs for months, make room."""


class Embeddings(Protocol):
    """What makes vectors of texts, as LangChain's embeddings do."""

    def embed_documents(self, texts: list[str]) -> Sequence[Sequence[float]]:
        """A vector for each text of a tool."""
        ...

    def embed_query(self, text: str) -> Sequence[float]:
        """The vector of a query."""
        ...


Function = Callable[[list[str]], Sequence[Sequence[float]]]
"""Answers a vector for each text."""


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


def tool_text(document: Document, chars: int = TEXT) -> str:
    """What the vector of a tool is made of, with so many characters of its description."""
    return f"{document.owner} {' '.join(split_words(document.name))}: {document.description[:chars]}"


def key_of(document: Document) -> str:
    """What the vector of a tool is kept under: it changes with the tool."""
    return f"{document.owner}/{document.fingerprint}" if document.fingerprint else tool_text(document)


class Vectors:
    """The vectors of tools and queries, made by a function of texts to vectors, or by an object (or a class of it) that has
    `embed_documents` and `embed_query`. `name` is told in the log. Raises `ValueError` for anything else.

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
        """Make the vectors of some tools. False where the function fails, which is logged once; the rest is left then."""
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
        """How many were made that nobody has taken yet."""
        return len(self._made)

    def take_made(self) -> dict[str, Any]:
        """What was made since this was asked last, by key: for whoever keeps it."""
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
