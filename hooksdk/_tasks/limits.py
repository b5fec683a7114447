"""Other people's code within a time limit: the one place that knows who cancelled whom."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, final

import anyio
import anyio.lowlevel

_scope_classes: dict[bool, type[anyio.CancelScope]] = {}
"""anyio's scope on asyncio (True) and trio (False): looking it up for each scope costs as much as ten handlers."""
SHARED_SLACK = 1.1
"""A shared scope ends a little after the limit, so that its deadline need not move for each piece of code."""


@final
class Attempt:
    """Run other people's code (a handler, a tool, an approver) within `limit` seconds.

    ```python
    async with Attempt(limit=5) as attempt:
        answer = await handler(event)
    if attempt.late: ...
    elif attempt.error is not None: ...
    ```

    - What the code raises ends the block and is in `error`.
    - `KeyboardInterrupt` and `GeneratorExit`, alone or in a group, must reach the caller and are raised. With
      `keep_interrupts` a `KeyboardInterrupt` counts as the code's own: in threads, and in trio's background tasks, Ctrl-C
      never arrives.
    - A cancellation that somebody outside asked for is raised again when the block is left, although the code swallowed it
      or turned it into something else.
    - A `CancelledError` that nobody outside asked for is the code's own, and is in `error`: asyncio lets anybody raise one,
      and code that awaits a cancelled task does.
    - `late` is True when the limit passed, even if the code swallowed the cancellation (the scope tells) or never gave the
      event loop a chance to cancel it (the clock tells).

    A `shared` attempt serves several pieces of code, one after the other, since opening a scope costs more than ten
    handlers: `begin(limit)` before each, `stop_clock()` after it. `paused()` stops the clock.
    """

    __slots__ = ("_clock", "_deadline_set_at", "_keep_interrupts", "_limit", "_now", "_pause_began", "_pauses", "_requests",
                 "_scope", "_slack", "_started", "error", "late", "seconds")  # fmt: skip

    def __init__(self, limit: float, *, shared: bool = False, keep_interrupts: bool = False) -> None:
        self.error: BaseException | None = None
        self.late = False
        self.seconds = 0.0
        """How long the last piece of code took, pauses left out."""
        self._limit = limit
        self._slack = SHARED_SLACK if shared else 1.0
        self._keep_interrupts = keep_interrupts
        self._pauses = 0
        self._pause_began = 0.0

    async def __aenter__(self) -> Self:
        self._requests = requests = cancel_requests()
        if requests > 0:  # one that this task has not met yet would look like the code's own
            await asyncio.sleep(0)
        on_asyncio = requests >= 0
        self._clock: Callable[[], float] = asyncio.get_running_loop().time if on_asyncio else anyio.current_time
        scope_class = _scope_classes.get(on_asyncio)
        if scope_class is None:
            scope_class = _scope_classes[on_asyncio] = type(anyio.CancelScope())
        self._started = self._deadline_set_at = self._now = now = self._clock()
        self._scope = scope_class(deadline=now + self._limit * self._slack)
        self._scope.__enter__()
        return self

    def begin(self, limit: float) -> None:
        """The next piece of code begins where the last one ended, and may take `limit` seconds."""
        now = self._started = self._now
        if limit != self._limit or now - self._deadline_set_at > (self._slack - 1) * limit:
            self._limit, self._deadline_set_at = limit, now
            self._scope.deadline = now + limit * self._slack

    def stop_clock(self) -> bool:
        """Take the time; True when the limit has passed."""
        now = self._now = self._clock()
        self.seconds = now - self._started
        self.late = not self.seconds <= self._limit
        return self.late

    @property
    def cancelled(self) -> bool:
        """True when the limit passed while the code gave the event loop a chance to cancel it."""
        return self._scope.cancel_called

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """While somebody else is waited for, the time stands still. Pauses may overlap."""
        if not self._pauses:
            self._pause_began, self._scope.deadline = self._clock(), math.inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._started += self._clock() - self._pause_began
                self._scope.deadline = self._started + self._limit * self._slack

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
        self.error = error
        self.late = self.stop_clock() or self._scope.cancel_called
        # The error stays out of the scope: whose a cancellation was shows once the scope is left.
        self._scope.__exit__(None, None, None)
        if error is not None or self.late or self._requests < 0 or cancel_requests() > self._requests:
            await reraise_cancellation(self._requests, error)
        return True


def cancel_requests() -> int:
    """How many cancellations this asyncio task was asked for so far; -1 under trio, which has no such count."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return -1
    return task.cancelling() if task else 0


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
    except Exception:
        text = "(its text cannot be read)"
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
