"""Firing hooks: the plans of one session, and one short method for each kind of hook.

pluggy has ordered and checked the handlers; its call loop is not used, since it is synchronous and one raising handler
stops the rest. All awaited kinds share `_in_order`, which holds the rules on time limits and cancellation.
"""

from __future__ import annotations

import asyncio
import math
import reprlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import anyio

from hooksdk._firing.event import Event, RunInfo, Trace
from hooksdk._firing.hook import Handler
from hooksdk._firing.mailbox import Failure, Mailbox, Observers, call
from hooksdk._tasks.background import Background, cancel_requests, go_on_cancelling, goes_up, logger
from hooksdk.errors import BadAnswer, HookTimeout

__all__ = ["Dispatcher", "Failure", "Plans", "Verdict"]

T = TypeVar("T")
Plans = Mapping[str, Sequence[Handler]]
"""The handlers of each hook in firing order; a hook without handlers is not in it."""

TRACE_CAPACITY = 1024
"""Trace records that wait for one handler before the run waits for it."""


@dataclass(slots=True)
class Verdict:
    """What a `decide` hook came to: the first answer of each type, with whose it is."""

    answers: dict[type, tuple[Handler, Any]] = field(default_factory=dict[type, "tuple[Handler, Any]"])
    failure: Failure | None = None

    def get(self, kind: type[T]) -> tuple[Handler, T] | None:
        """The first answer of this type, with its handler."""
        return self.answers.get(kind)


@final
class Dispatcher:
    """Fires the hooks of one session."""

    def __init__(self, plans: Plans, background: Background) -> None:
        self.plans = plans
        self._observers = Observers(background, self._observed)
        # anyio looks up the event loop each time that it makes a scope, which costs as much as ten handlers.
        self._scope = type(anyio.CancelScope())
        self._loop = asyncio.get_running_loop() if cancel_requests() >= 0 else None
        self._clock = self._loop.time if self._loop else anyio.current_time
        self._tracing = {
            handler: Mailbox(handler.plugin, background, self._traced, TRACE_CAPACITY)
            for handler in plans.get("trace", ())
        }
        self._unlimited = {
            hook: tuple(handler.call for handler in plan)
            for hook, plan in plans.items()
            if all(handler.timeout == math.inf and handler.is_async and handler.tools is None for handler in plan)
        }

    def has(self, hook: str) -> bool:
        """True when anybody handles this hook: nothing else needs doing otherwise."""
        return hook in self.plans

    # The kinds

    async def notify(self, hook: str, event: Event) -> None:
        """All handlers in order; a failing one is logged and the others run."""
        await self._in_order(self.plans.get(hook, ()), event, _ignore, _log)

    async def decide(self, hook: str, event: Event, stop: type, tool: object = None) -> Verdict:
        """All handlers in order until one answers `stop`, or fails; the first answer of each type counts. The caller
        tells of a failure."""
        handlers = self.plans.get(hook, ())
        if hook not in self._unlimited or self._tracing:
            return await self._decide(handlers, event, stop, tool)
        # Where the operator has lifted every limit, only the calls need doing until somebody has an opinion.
        task = asyncio.current_task(self._loop) if self._loop else None
        requests = task.cancelling() if task else -1
        answer: Any = None
        error: BaseException | None = None
        for handle in self._unlimited[hook]:
            try:
                answer = await handle(event)
            except BaseException as raised:
                if goes_up(raised):
                    raise
                error = raised
            if answer is not None or error is not None:
                break
        else:
            if task is None or task.cancelling() > requests:
                await go_on_cancelling(requests)
            return _NO_OPINION
        await go_on_cancelling(requests, error)
        rest = handlers[self._unlimited[hook].index(handle) :]
        return await self._decide(rest, event, stop, tool, answer, _failure(rest[0], answer, error, 0.0))

    async def _decide(
        self,
        handlers: Sequence[Handler],
        event: Event,
        stop: type,
        tool: object,
        answer: Any = None,
        failure: Failure | None = None,
    ) -> Verdict:
        """The same; the first handler may have been called already, with this answer or failure."""
        verdict = Verdict()

        async def accept(handler: Handler, answer: Any) -> bool:
            kind = next(kind for kind in handler.answers if isinstance(answer, kind))
            verdict.answers.setdefault(kind, (handler, answer))
            await self.trace(event.info, "decision", hook=handler.hook, plugin=handler.plugin,
                             handler=handler.function, decision=kind.__name__,
                             reason=getattr(answer, "reason", ""))  # fmt: skip
            return isinstance(answer, stop)

        async def fail(failure: Failure) -> bool:
            verdict.failure = failure
            return True

        if failure is not None or answer is not None:
            if await (fail(failure) if failure else accept(handlers[0], answer)):
                return verdict
            handlers = handlers[1:]
        await self._in_order(handlers, event, accept, fail, tool)
        return verdict

    async def transform(
        self,
        hook: str,
        event_of: Callable[[], Event],
        apply: Callable[[Handler, Any], Awaitable[None]],
        tool: object = None,
        fail: Callable[[Failure], Awaitable[bool]] | None = None,
    ) -> None:
        """All handlers in order, each with the event that `event_of` makes of what the ones before it left. An answer
        that `apply` refuses counts as a failure of its handler. By default a failing handler is logged and skipped."""
        failed = fail or _log

        async def accept(handler: Handler, answer: Any) -> bool:
            try:
                await apply(handler, answer)
            except Exception as error:
                return await failed(Failure(handler, error))
            return False

        await self._in_order(self.plans.get(hook, ()), event_of, accept, failed, tool)

    async def first_answer(self, hook: str, event: Event, tool: object = None) -> tuple[Any, Failure | None]:
        """Handlers in order until one answers or fails. The caller tells of a failure."""
        found: list[Any] = [None, None]

        async def accept(_handler: Handler, answer: Any) -> bool:
            found[0] = answer
            return True

        async def fail(failure: Failure) -> bool:
            found[1] = failure
            return True

        await self._in_order(self.plans.get(hook, ()), event, accept, fail, tool)
        return found[0], found[1]

    async def drain(self, hook: str, event: Event) -> None:
        """All handlers in reverse order, each with its own time limit; a failing one is logged and the others run."""
        await self._in_order(tuple(reversed(self.plans.get(hook, ()))), event, _ignore, _log)

    def observe(self, hook: str, event: Event) -> None:
        """Queue the event for its observers; never waits."""
        plan = self.plans.get(hook)
        if plan:
            self._observers.post(plan, event)

    async def trace(self, info: RunInfo, kind: str, **detail: Any) -> None:
        """Hand a record to every trace handler. Waits only for one whose queue is full; one that stays full past its
        limit is taken out, and that is logged."""
        if not self._tracing:
            return
        event = Trace(info=info, kind=kind, time=time.time(), detail=detail)
        for handler, box in list(self._tracing.items()):
            if box.full and not await box.wait(handler.timeout, until_quiet=False):
                self._take_out(handler)
            else:
                box.put(handler, event)

    async def flush(self, seconds: float) -> None:
        """Let the observers see everything posted so far; who does not manage in time is named in the log."""
        for who in await self._observers.flush(seconds):
            logger.warning("%s was not done with its events after %.3g s", who, seconds)

    async def flush_trace(self, seconds: float) -> None:
        """Let the trace handlers see everything; called last."""
        deadline = time.monotonic() + seconds
        for handler, box in list(self._tracing.items()):
            if not await box.wait(max(0.0, deadline - time.monotonic()), until_quiet=True):
                self._take_out(handler)

    def stop(self) -> None:
        """End the background workers of this session."""
        self._observers.stop()
        for box in self._tracing.values():
            box.stop()

    @property
    def dropped(self) -> dict[str, int]:
        """Observed events lost so far, by plugin."""
        return self._observers.dropped

    # The one loop

    async def _in_order(
        self,
        handlers: Sequence[Handler],
        event: Event | Callable[[], Event],
        accept: Callable[[Handler, Any], Awaitable[bool]],
        fail: Callable[[Failure], Awaitable[bool]],
        tool: object = None,
    ) -> None:
        """Call handlers in order until `accept` or `fail` says stop; a callable makes each its own event.

        One cancel scope serves all handlers: its deadline is moved when it would come too early for the next one, and it
        is opened anew after an answer or a time-out. An answer after the limit is late even if the handler swallowed the
        cancellation (the scope tells) or never yielded (the clock tells).
        """
        if not handlers:
            return
        task = asyncio.current_task(self._loop) if self._loop else None
        requests = task.cancelling() if task else -1
        clock = self._clock
        tracing = bool(self._tracing)
        fixed = isinstance(event, Event)
        queue = iter(handlers)
        limit = handlers[0].timeout
        handler: Handler | None = None
        while True:
            given: Event | None = None
            answer: Any = None
            error: BaseException | None = None
            set_at = started = now = clock()
            # The scope ends a little after the limit, so that its deadline need not move for each handler.
            with self._scope(deadline=now + 1.1 * limit) as scope:
                for handler in queue:
                    if handler.tools is not None and not handler.concerns(tool):
                        continue
                    started = now
                    if handler.timeout != limit or started - set_at > 0.1 * limit:
                        limit, set_at = handler.timeout, started
                        scope.deadline = started + 1.1 * limit
                    try:
                        given = event if fixed else event()  # type: ignore[operator]
                        answer = await (handler.call(given) if handler.is_async else call(handler, given))
                    except BaseException as raised:
                        # A cancellation is kept back too: whose it was shows once the scope is left.
                        if goes_up(raised):
                            raise
                        error = raised
                    now = clock()
                    if (
                        answer is not None
                        or error is not None
                        or tracing
                        or now - started > limit
                        or scope.cancel_called
                    ):
                        break
                else:
                    handler = None
            if handler is None:
                break
            await go_on_cancelling(requests, error)
            if scope.cancel_called or now - started > handler.timeout:
                error = HookTimeout(handler.hook, handler.who, handler.timeout)
            failure = _failure(handler, answer, error, now - started)
            if tracing and given is not None:
                await self._trace_hook(handler, given.info, now - started, answer, failure)
            if await fail(failure) if failure else answer is not None and await accept(handler, answer):
                break
        if task is None or task.cancelling() > requests:
            # A handler may have swallowed a cancellation of the whole run: it still counts.
            await go_on_cancelling(requests)

    async def _trace_hook(
        self, handler: Handler, info: RunInfo, seconds: float, answer: object, failure: Failure | None
    ) -> None:
        outcome = "failed" if failure else "passed" if answer is None else type(answer).__name__
        problem = {"problem": type(failure.error).__name__} if failure else {}
        await self.trace(
            info, "hook", hook=handler.hook, plugin=handler.plugin, handler=handler.function, outcome=outcome,
            seconds=round(seconds, 6), **problem,
        )  # fmt: skip

    async def _observed(self, handler: Handler, event: Event, seconds: float, failure: Failure | None) -> None:
        if failure:
            failure.log()
        if self._tracing:
            await self._trace_hook(handler, event.info, seconds, None, failure)

    async def _traced(self, handler: Handler, _event: Event, _seconds: float, failure: Failure | None) -> None:
        if failure and isinstance(failure.error, HookTimeout):
            self._take_out(handler)
        elif failure:
            failure.log()

    def _take_out(self, handler: Handler) -> None:
        box = self._tracing.pop(handler, None)
        if box is None:
            return
        lost = box.drop_all()
        box.stop()
        logger.warning(
            "%s did not take trace records for %.3g s and is taken out; %d records did not reach it",
            handler.who, handler.timeout, lost, extra={"plugin": handler.plugin, "hook": "trace"},
        )  # fmt: skip


_NO_OPINION = Verdict()


async def _ignore(_handler: Handler, _answer: Any) -> bool:
    return False


async def _log(failure: Failure) -> bool:
    failure.log()
    return False


def _failure(handler: Handler, answer: object, error: BaseException | None, seconds: float) -> Failure | None:
    if error is None and answer is not None and not isinstance(answer, handler.answers):
        expected = " or ".join((*(kind.__name__ for kind in handler.answers), "None"))
        error = BadAnswer(handler.hook, handler.who, f"{reprlib.repr(answer)} ({type(answer).__name__})", expected)
    return Failure(handler, error, seconds) if error is not None else None
