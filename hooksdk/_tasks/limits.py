"""Other people's code within a time limit, in threads, and steps of our own that are carried to their end: the one
place that knows who cancelled whom."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, cast, final

import anyio
import anyio.lowlevel
import anyio.to_thread

from hooksdk.errors import SessionBusy

T = TypeVar("T")
P = TypeVarTuple("P")
# Tasks that run a step now: a step within a step needs no task of its own, which costs more than most steps.
_shielded_tasks: set[asyncio.Future[Any]] = set()
_logger = logging.getLogger("hooksdk")
# anyio's scope on trio (True) and asyncio (False): looking it up for each scope costs as much as ten handlers.
_scope_classes: dict[bool, type[anyio.CancelScope]] = {}
# A shared scope ends up to this share of the limit later, so that its deadline need not move for each piece of code.
SHARED_SLACK = 0.1


@final
class Attempt:
    """Run other people's code (a handler, a tool, an approver) within `limit` seconds.

    ```python
    import anyio

    from hooksdk.tasks import Attempt

    async def main() -> None:
        async with Attempt(limit=0.01) as attempt:
            await anyio.sleep_forever()
        assert attempt.late

    anyio.run(main)
    ```

    - What the code raises ends the block and is in `error`.
    - `KeyboardInterrupt` and `GeneratorExit`, alone or in a group, must reach the caller and are raised. With
      `keep_interrupts` a `KeyboardInterrupt` counts as the code's own: in threads, and in trio's background tasks,
      Ctrl-C never arrives.
    - A cancellation that somebody outside asked for is raised again when the block is left, although the code swallowed
      it or turned it into something else.
    - A `CancelledError` that nobody outside asked for is the code's own, and is in `error`: asyncio lets anybody raise
      one, and code that awaits a cancelled task does.
    - `late` is True when the limit passed, even if the code swallowed the cancellation (the scope tells) or never gave
      the event loop a chance to cancel it (the clock tells).

    A `shared` attempt serves several pieces of code, one after the other, since opening a scope costs more than ten
    handlers: `stop_clock()` after each, and `set_limit(limit)` before one whose limit is another. `paused()` stops the
    clock of one that is not shared.

    Attributes:
        seconds: How long the last piece of code took, pauses left out.
    """

    __slots__ = (
        "_deadline_set_at",
        "_keep_interrupts",
        "_limit",
        "_max_drift",
        "_pause_began",
        "_pauses",
        "_requests",
        "_scope",
        "_shared",
        "_started",
        "_task",
        "error",
        "late",
        "seconds",
    )

    def __init__(self, limit: float, *, shared: bool = False, keep_interrupts: bool = False) -> None:
        self.error: BaseException | None = None
        self.late = False
        self.seconds = 0.0
        self._limit = limit
        self._shared = shared
        self._max_drift = limit * SHARED_SLACK if shared else 0.0
        self._keep_interrupts = keep_interrupts
        self._pauses = 0

    async def __aenter__(self) -> Self:
        self._task = task = asyncio_task()
        if task is None:  # trio
            self._requests, now = -1, anyio.current_time()
        else:
            self._requests, now = task.cancelling(), task.get_loop().time()
            if self._requests:  # one that this task has not met yet would look like the code's own
                await asyncio.sleep(0)
        scope_class = _scope_classes.get(task is None)
        if scope_class is None:
            scope_class = _scope_classes[task is None] = type(anyio.CancelScope())
        self._started = started = time.monotonic()
        self._deadline_set_at = started if self._shared else math.inf  # only a shared one moves
        self._scope = scope = scope_class(deadline=now + self._limit + self._max_drift)
        scope.__enter__()
        return self

    def set_limit(self, limit: float) -> None:
        """The next piece of code may take `limit` seconds."""
        if limit != self._limit:
            self._limit, self._max_drift = limit, limit * SHARED_SLACK
            self._move_deadline(self._started)

    def stop_clock(self) -> bool:
        """The piece of code has ended, and the next one begins; True when it took longer than its limit."""
        now = time.monotonic()
        self.seconds = seconds = now - self._started
        self._started = now
        if now - self._deadline_set_at > self._max_drift:
            self._move_deadline(now)
        if seconds > self._limit:
            self.late = True
        return self.late

    def _move_deadline(self, began: float) -> None:
        self._deadline_set_at = began
        self._scope.deadline = anyio.current_time() + self._limit + self._max_drift

    @property
    def cancelled(self) -> bool:
        """True when the limit passed while the code gave the event loop a chance to cancel it."""
        return self._scope.cancel_called

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """While somebody else is waited for, the time stands still. Pauses may overlap."""
        if not self._pauses:
            self._pause_began, self._scope.deadline = time.monotonic(), math.inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                now = time.monotonic()
                self._started += now - self._pause_began
                self._scope.deadline = anyio.current_time() + self._limit - (now - self._started)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if (
            error is not None
            and is_uncatchable(error)
            and (not self._keep_interrupts or isinstance(error, GeneratorExit))
        ):
            self._scope.__exit__(kind, error, traceback)
            return False
        if error is not None or not self._shared:
            self.stop_clock()
        self.error, scope = error, self._scope
        if scope.cancel_called:
            self.late = True
        # The error stays out of the scope: whose a cancellation was shows once the scope is left.
        scope.__exit__(None, None, None)
        task = self._task
        if task is None or error is not None or self.late or task.cancelling() > self._requests:
            await reraise_cancellation(self._requests, error)
        return True


def asyncio_task() -> asyncio.Task[Any] | None:
    """The asyncio task that runs now; None under trio."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def cancel_requests() -> int:
    """How many cancellations this asyncio task was asked for so far; -1 under trio, which has no such count."""
    task = asyncio_task()
    return -1 if task is None else task.cancelling()


def is_cancelled(scope: anyio.CancelScope) -> bool:
    """True where another task's scope is cancelled, by a scope around it as well: whoever shields it then would leave
    the task half cancelled. Neither anyio nor trio says so in public; True where they do not say it at all."""
    trios: Any = getattr(scope, "_CancelScope__original", None)
    if trios is not None:
        return getattr(getattr(trios, "_cancel_status", None), "effectively_cancelled", True)
    return getattr(scope, "_effectively_cancelled", True)


def is_uncatchable(error: BaseException) -> bool:
    """KeyboardInterrupt or GeneratorExit, also inside a group: must reach the caller."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_uncatchable, error.exceptions))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


async def reraise_cancellation(requests_before: int, error: BaseException | None = None) -> None:
    """Raise a cancellation from outside that other people's code swallowed or replaced since `requests_before` was
    counted; `error` is what that code raised."""
    if anyio.current_effective_deadline() == -math.inf:
        await anyio.lowlevel.checkpoint_if_cancelled()
    if cancel_requests() > requests_before >= 0:
        raise error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError


def describe(error: BaseException, max_chars: int = 300, clean: Callable[[str], str] = str) -> str:
    """The error's type and text in one line, clipped; `clean` is given the text as it was."""
    try:
        text = " ".join(clean(str(error)).split())
    except BaseException as problem:  # somebody else's `__str__`
        if is_uncatchable(problem):
            raise
        text = "(its text cannot be read)"
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def is_async(function: Any) -> bool:
    """True when calling it gives something to await, through partials and callable objects."""
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


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
        _logger.warning("a step of the transcript failed while its caller was cancelled: %s", failure)
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
