"""The vectors of tools, made while sessions work, and kept in the plugin's storage for the processes that come."""

from __future__ import annotations

import hashlib
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, cast

import anyio

from builtin_plugins.tool_search._ranking.entries import Document
from builtin_plugins.tool_search._ranking.meaning import BATCH, EmbeddedRankers, Vectors, key_of
from hooksdk import Storage
from hooksdk.tasks import in_abandonable_thread

logger = logging.getLogger("hooksdk.tool_search")

# The most vectors that the storage holds, at 1 kB each. Beyond it vectors of tools that the catalog no longer has are
# deleted.
MAX_KEPT = 20_000
# Vectors under one key: a store of files writes all of a plugin's values anew for each.
TOGETHER = 256
_PREFIX = "vectors:"
_PROBE = "Whether two models are the same is told by what they make of this text."
_SAME = 0.99  # the least cosine of what one model makes of one text, on whatever machine


class Keeping:
    """Makes the vectors of a host's tools in the background. All its methods are for the host's loop."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._storage: Storage | None = None
        self._sign: Any = None
        self._wanted: Sequence[Document] = ()
        self._wake = anyio.Event()
        self._loading = anyio.Lock()
        self._loaded = False
        self._thread = anyio.CapacityLimiter(1)

    async def want(self, documents: Sequence[Document], storage: Storage) -> None:
        """Have the vectors of these tools made, unless they are there. Waits for those that were kept, once, and for
        none that is made."""
        missing = self._vectors.missing(documents)
        if missing:
            async with self._loading:
                if not self._loaded:
                    self._loaded = True
                    try:
                        await self._load(storage, {key_of(one) for one in missing})
                    except Exception:
                        logger.warning("tool_search: the vectors that were kept cannot be read", exc_info=True)
        if missing or self._vectors.made:
            self._storage, self._wanted = storage, missing
            self._wake.set()

    async def work(self) -> None:
        """Make the wanted vectors and store new ones, also those that a search made, until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            try:
                await self._make(self._vectors.missing(self._wanted))
            except Exception:
                logger.warning("tool_search: vectors were made that cannot be kept", exc_info=True)

    async def _make(self, missing: Sequence[Document]) -> None:
        if await self._probe() is None:
            return
        try:
            for start in range(0, len(missing), BATCH):
                part = missing[start : start + BATCH]
                if not await in_abandonable_thread(self._vectors.make, part, limiter=self._thread):
                    return  # with the next run it is tried again
                if self._vectors.made >= TOGETHER:
                    await self._keep()
        finally:
            with anyio.CancelScope(shield=True):  # a host that closes early keeps what it made
                await self._keep()

    async def _keep(self) -> None:
        if (rows := self._vectors.take_made()) and self._storage is not None:
            name = hashlib.blake2b("\n".join(rows).encode(), digest_size=8).hexdigest()
            value = {"probe": _text(self._sign), "rows": {key: _text(row) for key, row in rows.items()}}
            await self._storage.set(f"{self._prefix}{name}", value)

    async def _probe(self) -> Any:
        """The vector of a fixed text, by which the model is known again."""
        if self._sign is None:
            rows = await in_abandonable_thread(self._vectors.of_texts, [_PROBE], limiter=self._thread)
            self._sign = None if rows is None else rows[0]
        return self._sign

    @property
    def _prefix(self) -> str:
        return f"{_PREFIX}{self._vectors.name}:"

    async def _load(self, storage: Storage, wanted: set[str]) -> None:
        """Load the stored vectors. Damaged ones and those of another model are deleted, and above the limit those that
        no wanted tool has."""
        keys = [key for key in await storage.keys() if key.startswith(self._prefix)]
        if not keys:
            return
        if (probe := await self._probe()) is None:
            return
        kept: dict[str, dict[str, Any]] = {}
        for key in keys:
            rows = _read(await storage.get(key), probe)
            if rows is None:
                await storage.delete(key)
            else:
                kept[key] = rows
        surplus = sum(map(len, kept.values())) - MAX_KEPT
        for key, rows in kept.items():
            if surplus > 0 and wanted.isdisjoint(rows):
                surplus -= len(rows)
                await storage.delete(key)
            else:
                self._vectors.add(rows)


@asynccontextmanager
async def keeping(factory: object) -> AsyncGenerator[Keeping | None, None]:
    """The background worker for a factory's vectors, as long as the block lasts; None where its rankers need no
    vectors."""
    if not isinstance(factory, EmbeddedRankers):
        yield None
        return
    factory.waits = False
    kept = Keeping(factory.vectors)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.work)
        yield kept
        tasks.cancel_scope.cancel()


def _text(row: Any) -> str:
    return b64encode(row.astype("<f2").tobytes()).decode()


def _row(text: object) -> Any:
    np: Any = import_module("numpy")
    row = np.frombuffer(b64decode(cast("str", text), validate=True), dtype="<f2").astype(np.float32)
    if not np.isfinite(row).all():
        raise ValueError("no numbers")
    return row


def _read(value: object, probe: Any) -> dict[str, Any] | None:
    """Decode stored vectors; None where they are damaged, or another model made them."""
    try:
        kept = cast("Mapping[str, Any]", value)
        before = _row(kept["probe"])
        rows = {str(key): _row(text) for key, text in cast("Mapping[str, str]", kept["rows"]).items()}
        fits = all(row.shape == probe.shape for row in (before, *rows.values()))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return rows if fits and float(before @ probe) >= _SAME else None
