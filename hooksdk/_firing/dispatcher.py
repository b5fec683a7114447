"""Firing hooks: the handlers of one session, awaited one by one, observing, or tracing.

pluggy has ordered and checked the handlers; its call loop is not used, since it is synchronous and one raising handler
stops the rest. `Firing` is the loop over handlers that the run waits for; `Attempt` has the rules on time limits and
cancellation.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar, cast, final

import anyio

from hooksdk._firing.calling import Failure, call_handler, settle
from hooksdk._firing.event import Block, CallEvent, Event, RunInfo, Trace
from hooksdk._firing.hook import Handler
from hooksdk._firing.mailbox import Mailbox
from hooksdk._tasks.background import Background, logger
from hooksdk._tasks.limits import Attempt, is_uncatchable
from hooksdk.errors import HookTimeout
from hooksdk.records import Content, Decision, HookFired, Record

T = TypeVar("T")
# The handlers of each hook in firing order; a hook without handlers is not in it.
Plans = Mapping[str, Sequence[Handler]]

# Trace records that wait for one handler before the run waits for it.
TRACE_CAPACITY = 1024


@dataclass(slots=True)
class HandlerOutcome:
    """What one handler came to: an answer, or a failure."""

    handler: Handler
    answer: Any
    failure: Failure | None

    def log(self, consequence: str = "") -> None:
        """Say in the log what went wrong, if anything did, and what follows from it."""
        if self.failure is not None:
            self.failure.log(consequence)

    async def use(self, step: Callable[[Any], Awaitable[T] | T]) -> T | None:
        """What `step` makes of the answer. None where the handler failed, and where `step` raises: that counts as the
        handler's failure, since the values in its answer are its own."""
        if self.failure is None:
            try:
                value = step(self.answer)
            except BaseException as error:
                if is_uncatchable(error):
                    raise
                self.failure = Failure(self.handler, error)
                return None
            if not isinstance(value, Awaitable):
                return value
            try:
                return await cast("Awaitable[T]", value)
            except Exception as error:
                self.failure = Failure(self.handler, error)
        return None

    @property
    def name(self) -> str:
        """`failed`, `passed` (no opinion), or the answer's name, such as `Block`."""
        return "failed" if self.failure else "passed" if self.answer is None else type(self.answer).__name__


@final
class Dispatcher:
    """Fires the hooks of one session.

    Attributes:
        tracing: The handlers that take trace records, each with its mailbox.
        on_shadow: Called with plugin and outcome of each handler in shadow mode that answered or failed: the open run
            counts them.
    """

    def __init__(
        self, plans: Plans, background: Background, *, clean: Callable[[Any], Any] = lambda record: record
    ) -> None:
        """`clean` takes out of each trace record, and of what it is about, what nobody may see."""
        self.plans = plans
        self._clean = clean
        self._background = background
        self.stopped = False
        self._observing: dict[str, Mailbox] = {}
        self.tracing = {
            handler: Mailbox(handler.plugin, background, self._traced, TRACE_CAPACITY)
            for handler in plans.get("trace", ())
        }
        # Held while a record is handed out: calls that run at once would else overtake each other at a full queue.
        self._in_order = anyio.Lock(fast_acquire=True)
        self._listeners: set[Handler] = set()
        self.on_shadow: Callable[[str, str], None] | None = None

    def has(self, hook: str) -> bool:
        """True when anybody handles this hook: nothing else needs doing otherwise."""
        return hook in self.plans

    def enforces(self, hook: str) -> bool:
        """True when anybody handles this hook with effect: a handler in shadow mode does not."""
        return any(not handler.shadow for handler in self.plans.get(hook, ()))

    # Handlers that the run waits for

    def fire(
        self, hook: str, event: Event | Callable[[], Event], tool: object = None, *, leave_out: Collection[str] = ()
    ) -> Firing:
        """Call the handlers in order, and loop over those that answer or fail; leave the loop to call no more of them.

            async for outcome in dispatcher.fire("before_tool_call", event, tool): ...

        A callable makes each handler its own event, from what the ones before it left. Plugins of the ids in
        `leave_out` are not called. The caller logs failures.
        """
        handlers = self.plans.get(hook, ())
        if leave_out:
            handlers = [handler for handler in handlers if handler.plugin not in leave_out]
        return Firing(self, handlers, event, tool)

    async def notify(self, hook: str, event: Event, *, backwards: bool = False) -> None:
        """All handlers in order, each with its own time limit; a failing one is logged and the others run."""
        handlers = self.plans.get(hook, ())
        async for outcome in Firing(self, handlers[::-1] if backwards else handlers, event):
            outcome.log()

    # Handlers that the run does not wait for

    def observe(self, hook: str, event: Event) -> None:
        """Queue the event for its observers; never waits, so those that the run waits for are told by `attend`. After
        `stop` nobody is told any more."""
        if self.stopped:
            return
        tool = getattr(event, "tool", None)
        for handler in self.plans.get(hook, ()):
            if handler.waits or (handler.tools is not None and not handler.concerns(tool)):
                continue
            box = self._observing.get(handler.plugin)
            if box is None:
                box = self._observing[handler.plugin] = Mailbox(handler.plugin, self._background, self._observed)
            box.put(handler, event)

    async def attend(self, hook: str, event: Event) -> None:
        """Tell the observers that the run waits for, one after another; a failing one is logged."""
        async for outcome in Firing(self, [one for one in self.plans.get(hook, ()) if one.waits], event):
            outcome.log()

    async def trace(self, info: RunInfo, record: Record, content: Callable[[], Content] | None = None) -> None:
        """Hand a record to every trace handler, and to the host's listeners with what it is about. Waits only for one
        whose queue is full; one that stays full past its limit is taken out, and that is logged."""
        if not self.tracing:
            return
        plain = full = Trace(info=info, record=self._clean(record), time=time.time())
        if content is not None and self._listeners:
            full = replace(plain, content=self._clean(content()))
        async with self._in_order:
            for handler, box in list(self.tracing.items()):
                event = full if handler in self._listeners else plain
                if box.full and not await box.wait(handler.timeout, until_quiet=False):
                    self._take_out(handler)
                else:
                    box.put(handler, event)

    def listen(self, handler: Handler) -> None:
        """Let a handler of the host's own have every record from now on, with what it is about."""
        self.tracing[handler] = Mailbox(handler.plugin, self._background, self._traced, TRACE_CAPACITY)
        self._listeners.add(handler)

    def ignore(self, handler: Handler) -> None:
        """End what `listen` began; what still waits is not handed over."""
        self._listeners.discard(handler)
        if (box := self.tracing.pop(handler, None)) is not None:
            box.stop()

    async def flush(self, seconds: float) -> None:
        """Let the observers see everything queued so far; who does not manage in time is named in the log."""
        deadline = time.monotonic() + seconds
        for name, box in list(self._observing.items()):
            if not box.quiet and not await box.wait(max(0.0, deadline - time.monotonic()), until_quiet=True):
                who = box.running or f"plugin '{name}'"
                logger.warning("%s was not done with its events after %.3g s", who, seconds)

    def give_up(self) -> None:
        """The session closes: what its observers have not seen yet they will not see any more. It is counted and
        told."""
        for name, box in self._observing.items():
            if lost := box.drop_all():
                problem = "plugin '%s' did not see %d events: the session closed before it was done"
                logger.warning(problem, name, lost, extra={"plugin": name})

    async def flush_trace(self, seconds: float) -> None:
        """Let the trace handlers see everything; called last."""
        deadline = time.monotonic() + seconds
        for handler, box in list(self.tracing.items()):
            if not await box.wait(max(0.0, deadline - time.monotonic()), until_quiet=True):
                self._take_out(handler)

    def stop(self) -> None:
        """End the background workers of this session."""
        self.stopped = True
        for box in (*self._observing.values(), *self.tracing.values()):
            box.stop()

    @property
    def dropped(self) -> dict[str, int]:
        """Observed events lost so far, by plugin."""
        return {name: box.dropped for name, box in self._observing.items() if box.dropped}

    async def trace_handler(self, handler: Handler, event: Event, seconds: float, outcome: HandlerOutcome) -> None:
        """Tell the trace that a handler was called, and what it decided."""
        failure, answer, info = outcome.failure, outcome.answer, event.info
        call_id = event.call.id if isinstance(event, CallEvent) else None
        problem = type(failure.error).__name__ if failure else None
        about: dict[str, Any] = {"hook": handler.hook, "plugin": handler.plugin, "handler": handler.function}
        about |= {"shadow": handler.shadow, "call_id": call_id}
        fired = HookFired(outcome=outcome.name, seconds=round(seconds, 6), problem=problem, **about)
        await self.trace(info, fired)
        decides = handler.decides or handler.shadow or isinstance(answer, Block)
        if decides and answer is not None and not failure:
            decision = Decision(decision=outcome.name, **about)
            await self.trace(info, decision, lambda: Content(text=_reason_of(answer)))

    def note_shadow(self, outcome: HandlerOutcome) -> None:
        """Count what a handler in shadow mode would have done, and log why it failed."""
        if outcome.failure:
            outcome.failure.log(", without effect: it is in shadow mode")
        if self.on_shadow is not None:
            self.on_shadow(outcome.handler.plugin, outcome.name)

    async def _observed(self, handler: Handler, event: Event, seconds: float, failure: Failure | None) -> None:
        if failure:
            failure.log()
        if self.tracing:
            await self.trace_handler(handler, event, seconds, HandlerOutcome(handler, None, failure))

    async def _traced(self, handler: Handler, _event: Event, _seconds: float, failure: Failure | None) -> None:
        if failure and isinstance(failure.error, HookTimeout):
            self._take_out(handler)
        elif failure:
            failure.log()

    def _take_out(self, handler: Handler) -> None:
        if (box := self.tracing.pop(handler, None)) is not None:
            lost = box.drop_all()
            box.stop()
            problem = "%s did not take trace records for %.3g s and is taken out; %d records did not reach it"
            extra = {"plugin": handler.plugin, "hook": "trace"}
            logger.warning(problem, handler.who, handler.timeout, lost, extra=extra)


def _reason_of(answer: object) -> str:
    """Why a handler decided as it did, or what it asks a person; empty where its answer has no words."""
    text: object = getattr(answer, "reason", None) or getattr(answer, "title", None)
    return text if isinstance(text, str) else ""


@final
@dataclass(slots=True)
class Firing:
    """The outcomes of one firing, in the handlers' order: those of handlers that answered or failed."""

    dispatcher: Dispatcher
    handlers: Sequence[Handler]
    event: Event | Callable[[], Event]
    tool: object = None
    rest: Iterator[Handler] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> HandlerOutcome:
        if not self.handlers:
            raise StopAsyncIteration
        tool, tracing = self.tool, self.dispatcher.tracing
        rest = self.rest = self.rest or iter(self.handlers)
        event, make_event = (self.event, None) if isinstance(self.event, Event) else (None, self.event)
        while True:
            answer: Any = None
            current: Event | None = None
            handler: Handler | None = None
            # One scope serves all handlers until one of them has something to say.
            limit = self.handlers[0].timeout
            async with Attempt(limit, shared=True) as attempt:
                for handler in rest:
                    if handler.tools is not None and not handler.concerns(tool):
                        continue
                    if handler.timeout != limit:
                        limit = handler.timeout
                        attempt.set_limit(limit)
                    current = event if make_event is None else make_event()
                    answer = await (handler.call(current) if handler.is_async else call_handler(handler, current))
                    if attempt.stop_clock() or answer is not None or tracing:
                        break
                else:
                    handler = None
            if handler is None:
                raise StopAsyncIteration
            outcome = HandlerOutcome(handler, *settle(handler, attempt, answer))
            if tracing and current is not None:
                await self.dispatcher.trace_handler(handler, current, attempt.seconds, outcome)
            if outcome.failure or outcome.answer is not None:
                if not handler.shadow:
                    return outcome
                self.dispatcher.note_shadow(outcome)
