"""The host's own task: background workers and keepers live in it, so that no user's task holds a task group open."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar, final

import anyio
from anyio.abc import TaskGroup

from hooksdk._tasks.limits import cancel_requests, describe

T = TypeVar("T")
# Seconds that background work may take to end once it is cancelled.
STOP_TIMEOUT = 10.0
# The one logger of the library; it has no handler of its own.
logger = logging.getLogger("hooksdk")


# asyncio itself keeps only weak references to its tasks.
_tasks: set[asyncio.Task[None]] = set()


def start_task(work: Callable[..., Coroutine[Any, Any, None]], *args: object, name: str) -> None:
    """Begin `work(*args)` as a task of the event loop's own, in an empty context: it ends by itself, or with the loop.
    It must not raise."""
    if cancel_requests() < 0:
        import trio

        trio.lowlevel.spawn_system_task(work, *args, name=name, context=contextvars.Context())
        return
    task = asyncio.get_running_loop().create_task(work(*args), name=name, context=contextvars.Context())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


@final
class Background:
    """A task group in a task of its own, for one host."""

    def __init__(self) -> None:
        self._group: TaskGroup | None = None
        self._stop = anyio.Event()
        self._ended = anyio.Event()

    async def start(self) -> None:
        """Begin the task, and wait until it takes work."""
        ready = anyio.Event()

        async def live() -> None:
            try:
                async with anyio.create_task_group() as group:
                    self._group = group
                    ready.set()
                    await self._stop.wait()
                    self._group = None  # what ends now may still observe, and a closing group takes no work
                    group.cancel_scope.cancel()
            except BaseException as error:
                # Nothing may fail here but by the end of the event loop; a system task must not raise under trio.
                if isinstance(error, Exception):
                    logger.exception("background work of a host failed")
                elif isinstance(error, asyncio.CancelledError):
                    raise
            finally:
                self._group = None
                self._ended.set()
                ready.set()

        start_task(live, name="hooksdk host")
        await ready.wait()

    @property
    def alive(self) -> bool:
        """True while work can be given."""
        return self._group is not None

    def spawn(self, work: Callable[..., Awaitable[Any]], *args: object, name: str) -> bool:
        """Run `work(*args)` in the background, in an empty context. False when the background has ended."""
        if self._group is None:
            return False
        contextvars.Context().run(self._group.start_soon, work, *args, name=name)  # type: ignore[arg-type]
        return True

    async def stop(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        self._stop.set()
        with anyio.move_on_after(STOP_TIMEOUT, shield=True):
            await self._ended.wait()
        if not self._ended.is_set():
            logger.warning("background work of a host did not end within %g s of being cancelled", STOP_TIMEOUT)


@final
class Keeper(Generic[T]):
    """Enters an async context manager in one background task, and leaves it in the same."""

    def __init__(self, manager: AbstractAsyncContextManager[T], name: str) -> None:
        self._manager = manager
        self.name = name
        self._leave = anyio.Event()
        self._settled = anyio.Event()
        self._ended = anyio.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    async def enter(self, background: Background) -> T:
        """Enter it, and return what it yields. Raises what entering raises."""
        if not background.spawn(self._keep, name=self.name):
            raise RuntimeError(f"{self.name}: the host is closed")
        try:
            await self._settled.wait()
        except BaseException:
            self._leave.set()
            raise
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    async def leave(self) -> None:
        """Leave it, and wait until it is left. Raises what leaving raises."""
        self._leave.set()
        await self._ended.wait()
        if self._error is not None:
            raise self._error

    async def _keep(self) -> None:
        try:
            async with self._manager as value:
                self._value = value
                self._settled.set()
                await self._leave.wait()
        except BaseException as error:
            self._error = error if isinstance(error, Exception) else RuntimeError(describe(error))
            if not isinstance(error, (Exception, SystemExit)):
                raise
        finally:
            self._settled.set()
            self._ended.set()


async def leave_all(keepers: list[Keeper[Any]], seconds: float) -> None:
    """Leave them in reverse order, each within so many seconds; what fails is logged. The list is empty then."""
    while keepers:
        keeper = keepers.pop()
        with anyio.move_on_after(seconds) as scope:
            try:
                await keeper.leave()
            except Exception as error:
                logger.warning("%s failed at its end: %s", keeper.name, describe(error))
        if scope.cancel_called:
            logger.warning("%s did not end within %g s", keeper.name, seconds)
