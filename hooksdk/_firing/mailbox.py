"""Mailboxes: bounded queues with a worker each, for handlers that the run does not wait for."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import reprlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import anyio
import anyio.to_thread

from hooksdk._firing.hook import Handler
from hooksdk._tasks.background import Background, cancel_requests, describe, go_on_cancelling, goes_up, logger
from hooksdk.errors import BadAnswer, HookTimeout

__all__ = ["Failure", "Mailbox", "Observers", "Outcome", "call", "call_in_background"]

CAPACITY = 256
"""Events that wait for one plugin before its oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A handler that raised, was late, or answered nonsense."""

    handler: Handler
    error: BaseException
    seconds: float = 0.0

    def __str__(self) -> str:
        if isinstance(self.error, HookTimeout):
            return f"no answer within {self.error.seconds:g} s (it took {_duration(self.seconds)})"
        if isinstance(self.error, BadAnswer):
            told = f"it answered {self.error.got}; expected {self.error.expected}"
        elif isinstance(self.error, asyncio.CancelledError):
            told = "CancelledError: it was cancelled from inside"
        else:
            told = describe(self.error)
        return f"{told} (after {_duration(self.seconds)})"

    def log(self, consequence: str = "") -> None:
        """Say it in one line: whose handler, where it stands, which hook, what happened, after how long."""
        logger.warning(
            "%s failed in %s%s: %s", self.handler.who, self.handler.hook, consequence, self,
            extra={"plugin": self.handler.plugin, "hook": self.handler.hook},
        )  # fmt: skip


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{max(seconds * 1000, 1):.0f} ms"


Outcome = Callable[[Handler, Any, float, Failure | None], Awaitable[None]]
"""What to do with the outcome of a background handler: handler, event, seconds, and the failure if it failed."""


async def call(handler: Handler, event: Any) -> Any:
    """Call one handler, however it is written, without a time limit."""
    if handler.threaded:
        answer = await _in_thread(handler, event)
    else:
        answer = handler.call(event)
    # A wrapped coroutine function looks like a plain def: its coroutine is to be awaited, it is no opinion.
    return await answer if answer is not None and inspect.isawaitable(answer) else answer


async def _in_thread(handler: Handler, event: Any) -> Any:
    """Call a handler in a worker thread, which keeps its place in the handler's limiter until it really ends.

    Trio's threads do so by themselves; on asyncio anyio gives an abandoned thread's place away at once.
    """
    limiter = handler.limiter
    if cancel_requests() < 0:
        return await anyio.to_thread.run_sync(handler.call, event, abandon_on_cancel=True, limiter=limiter)
    loop, place = asyncio.get_running_loop(), object()
    begun = False

    def work() -> Any:
        nonlocal begun
        begun = True
        try:
            return handler.call(event)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the place
                loop.call_soon_threadsafe(limiter.release_on_behalf_of, place)

    await limiter.acquire_on_behalf_of(place)
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(math.inf))
    finally:
        if not begun:
            limiter.release_on_behalf_of(place)


async def call_in_background(handler: Handler, event: Any, outcome: Outcome) -> None:
    """Call one handler within its limit; whatever it raises ends in `outcome`, but for a cancellation from outside."""
    started = time.monotonic()
    requests = cancel_requests()
    problem: BaseException | None = None
    with anyio.CancelScope() as scope:
        scope.deadline = anyio.current_time() + handler.timeout
        try:
            answer = await call(handler, event)
            if answer is not None:
                got = f"{reprlib.repr(answer)} ({type(answer).__name__})"
                problem = BadAnswer(handler.hook, handler.who, got, "None: an observer decides nothing")
        except BaseException as error:
            # Ctrl-C arrives neither in threads nor, under trio, in background tasks: there it is the handler's own.
            in_the_way = goes_up(error) and not (handler.threaded or requests < 0)
            if in_the_way or isinstance(error, GeneratorExit):
                raise
            problem = error
    seconds = time.monotonic() - started
    await go_on_cancelling(requests, problem)
    if scope.cancel_called or seconds > handler.timeout:
        problem = HookTimeout(handler.hook, handler.who, handler.timeout)
    await outcome(handler, event, seconds, Failure(handler, problem, seconds) if problem else None)


@final
class Mailbox:
    """The events that wait for one plugin, in order, and the worker that hands them over."""

    def __init__(self, name: str, background: Background, outcome: Outcome, capacity: int = CAPACITY) -> None:
        self.name = name
        self.dropped = 0
        self._capacity = capacity
        self._background = background
        self._outcome = outcome
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
                logger.warning(
                    "plugin '%s' is too slow for its events: the oldest are dropped (%s; %d wait)",
                    self.name, handler.who, self._capacity, extra={"plugin": self.name, "hook": handler.hook},
                )  # fmt: skip
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
        """Forget what waits, and say how many events that were."""
        lost = len(self._waiting)
        self._waiting.clear()
        return lost

    def stop(self) -> None:
        """End the worker; what still waits is not handed over."""
        self._waiting.clear()
        self._scope.cancel()
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _work(self) -> None:
        with self._scope:
            while True:
                while self._waiting:
                    self._busy, event = self._waiting.popleft()
                    try:
                        await call_in_background(self._busy, event, self._outcome)
                    finally:
                        self._busy = None
                        self._tell()
                self._bell = bell = anyio.Event()
                await bell.wait()


@final
class Observers:
    """All observers of one session: the run posts an event in constant time, a pump hands it to the plugins' boxes."""

    def __init__(self, background: Background, outcome: Outcome) -> None:
        self._background = background
        self._outcome = outcome
        self._feed: deque[tuple[Sequence[Handler], Any]] = deque()
        self._boxes: dict[str, Mailbox] = {}
        self._started = False
        self._bell: anyio.Event | None = None
        self._scope = anyio.CancelScope()

    def post(self, handlers: Sequence[Handler], event: Any) -> None:
        """Queue an event for these handlers; never waits."""
        self._feed.append((handlers, event))
        if self._bell is not None:
            self._bell.set()
            self._bell = None
        elif not self._started:
            self._started = self._background.spawn(self._pump, name="hooksdk observers")
        if len(self._feed) >= CAPACITY:
            # A run that never yields would pile events up here; the boxes have a bound, so hand them over now.
            self._hand_over()

    @property
    def dropped(self) -> dict[str, int]:
        """Events lost so far, by plugin."""
        return {name: box.dropped for name, box in self._boxes.items() if box.dropped}

    async def flush(self, seconds: float) -> list[str]:
        """Wait until every observer has seen every event, at most so long; answers who was not done."""
        self._hand_over()
        deadline = time.monotonic() + seconds
        late: list[str] = []
        for box in list(self._boxes.values()):
            if not box.quiet and not await box.wait(max(0.0, deadline - time.monotonic()), until_quiet=True):
                late.append(box.running or f"plugin '{box.name}'")
        return late

    def _hand_over(self) -> None:
        while self._feed:
            handlers, event = self._feed.popleft()
            tool = getattr(event, "tool", None)
            for handler in handlers:
                if not handler.concerns(tool):
                    continue
                box = self._boxes.get(handler.plugin)
                if box is None:
                    box = self._boxes[handler.plugin] = Mailbox(handler.plugin, self._background, self._outcome)
                box.put(handler, event)

    def stop(self) -> None:
        """End the pump and all workers."""
        self._scope.cancel()
        for box in self._boxes.values():
            box.stop()

    async def _pump(self) -> None:
        with self._scope:
            while True:
                self._hand_over()
                self._bell = bell = anyio.Event()
                await bell.wait()
