"""Mailboxes: bounded queues with a worker each, for handlers that the run does not wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, final

import anyio

from hooksdk._firing.calling import Failure, call_handler, settle
from hooksdk._firing.hook import Handler
from hooksdk._tasks.background import Background, logger
from hooksdk._tasks.limits import Attempt, cancel_requests

# Events that wait for one plugin before its oldest are dropped.
CAPACITY = 256

# What to do with the outcome of a background handler: handler, event, seconds, and the failure if it failed.
OnOutcome = Callable[[Handler, Any, float, Failure | None], Awaitable[None]]


@final
class Mailbox:
    """The events that wait for one plugin, in order, and the worker that hands them over."""

    def __init__(self, name: str, background: Background, on_outcome: OnOutcome, capacity: int = CAPACITY) -> None:
        self.name = name
        self.dropped = 0
        self._capacity = capacity
        self._background = background
        self._on_outcome = on_outcome
        self._waiting: deque[tuple[Handler, object]] = deque()
        self._busy: Handler | None = None
        self._started = False
        self._bell: anyio.Event | None = None
        self._changed: anyio.Event | None = None
        self._scope = anyio.CancelScope()

    @property
    def quiet(self) -> bool:
        """True when nothing waits and nothing runs."""
        return not self._waiting and self._busy is None

    @property
    def full(self) -> bool:
        """True when another event would push out the oldest."""
        return len(self._waiting) >= self._capacity

    @property
    def running(self) -> str | None:
        """The handler that runs at this moment, for messages."""
        return self._busy.who if self._busy else None

    def put(self, handler: Handler, event: object) -> None:
        """Add an event; when the box is full its oldest is dropped, counted, and logged once."""
        if self._scope.cancel_called:
            return
        if self.full:
            self._waiting.popleft()
            self.dropped += 1
            if self.dropped == 1:
                problem = "plugin '%s' is too slow for its events: the oldest are dropped (%s; %d wait)"
                extra = {"plugin": self.name, "hook": handler.hook}
                logger.warning(problem, self.name, handler.who, self._capacity, extra=extra)
        self._waiting.append((handler, event))
        if not self._started:
            self._started = self._background.spawn(self._work, name=f"hooksdk mailbox of {self.name}")
        elif self._bell is not None:
            self._bell.set()
            self._bell = None

    async def wait(self, seconds: float, *, until_quiet: bool) -> bool:
        """Wait until the box is quiet (or has room again), at most so long. False when the time was not enough."""
        with anyio.move_on_after(seconds):
            while not self.quiet if until_quiet else self.full:
                if self._changed is None:
                    self._changed = anyio.Event()
                await self._changed.wait()
        return self.quiet if until_quiet else not self.full

    def drop_all(self) -> int:
        """Forget what waits, count it as dropped, and say how many events that were."""
        lost = len(self._waiting)
        self._waiting.clear()
        self.dropped += lost
        return lost

    def stop(self) -> None:
        """End the worker; what still waits is not handed over."""
        self._waiting.clear()
        self._scope.cancel()
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _work(self) -> None:
        with self._scope:
            while True:
                while self._waiting:
                    self._busy, event = self._waiting.popleft()
                    try:
                        await self._hand_over(self._busy, event)
                    finally:
                        self._busy = None
                        self._wake_waiters()
                self._bell = bell = anyio.Event()
                await bell.wait()

    async def _hand_over(self, handler: Handler, event: Any) -> None:
        answer: object = None
        # Ctrl-C arrives neither in threads nor, under trio, in background tasks: there it is the handler's own.
        async with Attempt(handler.timeout, keep_interrupts=handler.threaded or cancel_requests() < 0) as attempt:
            answer = await call_handler(handler, event)
        _, failure = settle(handler, attempt, answer)
        await self._on_outcome(handler, event, attempt.seconds, failure)
