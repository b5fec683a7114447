"""What a store promises, and how a step that writes is carried to its end."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from hooksdk._journal import Entry
from hooksdk.errors import SessionBusy
from hooksdk.formats import Message

__all__ = ["SessionLog", "Store", "in_thread", "keep_trying", "to_the_end"]

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
P = TypeVarTuple("P")


class SessionLog(Protocol):
    """One session of a store, held by one owner at a time. Everything appended is durable when the call returns, and
    stored whole or not at all; an append that was begun completes, whoever cancels the caller.
    """

    existed: bool
    """The session had been opened before."""
    token: int
    """Rises with every holder. One who lost the session gets `SessionBusy` or `StoreError` for an append."""
    materialized: bool
    """True when the store wants `write_view` after each drain."""

    async def read(self) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal. A last line torn by a crash is left out; other damage is a `StoreError`."""
        ...

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages."""
        ...

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one atomic step; with `verify`, only if `verify()` finds nothing changed."""
        ...

    async def write_view(self, messages: Sequence[Message]) -> None:
        """Write the model's view beside the stored messages, for tools that read it."""
        ...

    async def verify(self) -> None:
        """Raise `TranscriptChanged` when somebody else changed what is stored, judged by the content."""
        ...

    async def close(self) -> None:
        """Let the session go."""
        ...


class Store(Protocol):
    """Where sessions and the plugins' key-value spaces are kept."""

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> SessionLog:
        """Take hold of a session, new or old. Raises `SessionBusy` when another holder does not let go in time."""
        ...

    async def session_exists(self, session_id: str) -> bool:
        """True when the session has been opened before."""
        ...

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted."""
        ...

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value, a fresh copy."""
        ...

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Store a JSON value; durable when this returns."""
        ...

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        ...

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        ...

    async def aclose(self) -> None:
        """Let everything go."""
        ...


def _on_asyncio() -> bool:
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False


async def to_the_end(step: Callable[[*P], Coroutine[Any, Any, T]], *args: *P) -> T:
    """Await `step(*args)` whole. A cancellation of the caller, asyncio's own `task.cancel()` included, comes after it."""
    if not _on_asyncio():
        with anyio.CancelScope(shield=True):
            return await step(*args)
    import asyncio

    task = asyncio.ensure_future(step(*args))
    cancelled: BaseException | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and (failure := task.exception()):
        logger.warning("a step of the transcript failed while its caller was cancelled: %s", failure)
    raise cancelled


async def in_thread(work: Callable[[*P], T], *args: *P, limiter: anyio.CapacityLimiter | None = None) -> T:
    """Run blocking work in a worker thread. Never behind the threads that plugins and tools keep busy."""
    return await anyio.to_thread.run_sync(work, *args, limiter=limiter or anyio.CapacityLimiter(1))


async def keep_trying(take: Callable[[], Awaitable[bool]], session_id: str, wait: float) -> None:
    """Try until `take` succeeds. Raises `SessionBusy` after `wait` seconds."""
    pause, deadline = 0.005, time.monotonic() + wait
    while not await take():
        if time.monotonic() >= deadline:
            raise SessionBusy(session_id, wait)
        await anyio.sleep(pause)
        pause = min(pause * 2, 0.1)
