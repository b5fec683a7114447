"""Steps that are carried to their end whoever cancels the caller, and blocking work in threads."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from hooksdk._tasks.background import logger
from hooksdk.errors import SessionBusy

T = TypeVar("T")
P = TypeVarTuple("P")


def _on_asyncio() -> bool:
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.current_task() is not None
    except RuntimeError:
        return False


async def run_shielded(step: Callable[[*P], Coroutine[Any, Any, T]], *args: *P) -> T:
    """Run `step(*args)` to completion. A cancellation of the caller, asyncio's own `task.cancel()` included, is raised
    again afterwards."""
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
