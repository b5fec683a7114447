"""Steps that are carried to their end whoever cancels the caller, and blocking work in threads."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import asyncio_task, cancel_requests
from hooksdk.errors import SessionBusy

T = TypeVar("T")
P = TypeVarTuple("P")
# Tasks that run a step now: a step within a step needs no task of its own, which costs more than most steps.
_shielded_tasks: set[asyncio.Future[Any]] = set()


async def run_shielded(step: Callable[[*P], Coroutine[Any, Any, T]], *args: *P) -> T:
    """Run `step(*args)` to completion. A cancellation of the caller, asyncio's own `task.cancel()` included, is raised
    again afterwards."""
    current = asyncio_task()
    if current is None or current in _shielded_tasks:  # nobody else can cancel such a task
        with anyio.CancelScope(shield=True):
            return await step(*args)
    task = asyncio.ensure_future(step(*args))
    _shielded_tasks.add(task)
    task.add_done_callback(_shielded_tasks.discard)
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


async def in_abandonable_thread(work: Callable[[*P], T], *args: *P, limiter: anyio.CapacityLimiter) -> T:
    """Run blocking work in a worker thread that is abandoned when its caller is cancelled, and keeps its place in the
    limiter until it really ends, so that hanging threads cannot pile up.

    Trio's threads do so by themselves; on asyncio anyio gives an abandoned thread's place away at once.
    """
    if cancel_requests() < 0:
        return await anyio.to_thread.run_sync(work, *args, abandon_on_cancel=True, limiter=limiter)
    loop, place = asyncio.get_running_loop(), object()
    begun = False

    def in_place() -> T:
        nonlocal begun
        begun = True
        try:
            return work(*args)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the place
                loop.call_soon_threadsafe(limiter.release_on_behalf_of, place)

    await limiter.acquire_on_behalf_of(place)
    try:
        return await anyio.to_thread.run_sync(in_place, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf))
    finally:
        if not begun:
            limiter.release_on_behalf_of(place)


async def keep_trying(take: Callable[[], Awaitable[bool]], session_id: str, wait: float) -> None:
    """Try until `take` succeeds. Raises `SessionBusy` after `wait` seconds."""
    pause, deadline = 0.005, time.monotonic() + wait
    while not await take():
        if time.monotonic() >= deadline:
            raise SessionBusy(session_id, wait)
        await anyio.sleep(pause)
        pause = min(pause * 2, 0.1)
