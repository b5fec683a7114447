"""One durable run as a DBOS workflow: what it does next follows from what its steps answered, so that another worker
that replays it comes to the same place. Whatever touches the session is a step, and each can be made again after a
crash: the session says what of it was done. Whoever changes the order, the names or the answers of steps raises `STEPS`
in `_dbos_versions`, or lets the runs that wait fail in the next deploy."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict, TypeVar, final

from dbos import DBOS, error

from hooksdk.adapters._dbos_stay import RunMovedOn, Stay
from hooksdk.agent import AgentLoop, OutcomeReason
from hooksdk.approvals import ApprovalRequest
from hooksdk.calls import ToolCall
from hooksdk.desk import ApprovalDesk
from hooksdk.errors import ApprovalPending, HostError, RunBlocked, StoreError
from hooksdk.formats.kit import replies_in
from hooksdk.session import Session
from hooksdk.tasks import describe

T = TypeVar("T")

# The topic of the message that wakes a run whose calls wait.
TOPIC = "hooksdk.approvals"
DAY = 86400.0
HOUR = 3600.0
# Stands for a question that is answered already; the numbers of others begin at 1.
ANSWERED = 0
WAITS = "calls wait for an approval"
ELSEWHERE = "it goes on in another worker"


@dataclass(eq=False)
class RunFailed(HostError):
    """A run failed with an error that DBOS cannot store; this is its text."""

    problem: str

    def __str__(self) -> str:
        return self.problem


class Call(TypedDict):
    """A call as the workflow knows it: its tool's name, and its place among the calls of the newest reply."""

    name: str
    place: int


class Turn(TypedDict):
    """A reply as the workflow knows it.

    Attributes:
        turns: The number of replies of the run, this one included. Tokens and reminders are sums as well.
        blocked: The plugin that has blocked the request and its reason; empty if none has.
    """

    turns: int
    text: str
    calls: list[Call]
    tokens: int
    reminders: int
    is_last: bool
    blocked: list[str]


class DurableOutcome(TypedDict):
    """How a durable run ended: what its workflow returns, as JSON. `reason` and the others are those of `Outcome`."""

    text: str
    reason: OutcomeReason
    turns: int
    blocked: str


class Bell(Protocol):
    """Wakes waiting runs by a message, once a person has answered."""

    def add(self, workflow_id: str, questions: Sequence[int]) -> None:
        """Note that a workflow waits for the answers to these questions of the desk."""
        ...

    def remove(self, workflow_id: str) -> None:
        """Note that a workflow waits no more."""
        ...


@final
@dataclass(eq=False)
class DurableRun:
    """One run, from its first step to its outcome."""

    stay: Stay
    system: str | None
    bell: Bell
    turns: int = 0
    tokens: int = 0
    reminders: int = 0
    text: str = ""
    # The calls of the newest reply, once this worker has read it.
    _calls: list[ToolCall] = field(default_factory=list[ToolCall])
    # True once this worker has checked that the workflow knows every reply of the session.
    _caught_up: bool = False

    async def go(self) -> DurableOutcome:
        """Make all steps. Raises what `run_agent` raises."""
        try:
            return await self._go()
        except error.DBOSWorkflowCancelledError:
            await self.stay.leave(asyncio.CancelledError())
            raise
        except Exception as problem:
            await self.stay.leave(problem)
            raise
        except BaseException:  # the worker stops, or another one runs the workflow
            await self._leave_open()
            raise

    async def _leave_open(self) -> None:
        self._caught_up, self._calls = False, []
        await self.stay.leave(ELSEWHERE)

    async def _go(self) -> DurableOutcome:
        begun = await _step("begin", self._begin)
        self.stay.start = begun["start"]
        await self._make(begun["calls"])
        reason: OutcomeReason | None = None
        blocked: list[str] = []
        while reason is None:
            if (reason := self._limit(*begun["limits"])) is not None:
                break
            turn: Turn = await _step("model", self._turn)
            self.turns, self.text, self.tokens = turn["turns"], turn["text"], turn["tokens"]
            self.reminders, blocked = turn["reminders"], turn["blocked"]
            await self._make(turn["calls"])
            if turn["is_last"]:
                reason = "blocked" if blocked else "completed"
        await _step("end", self._end_as(blocked))
        return {
            "text": self.text,
            "reason": reason,
            "turns": self.turns,
            "blocked": str(RunBlocked(*blocked)) if blocked else "",
        }

    def _limit(self, turns: int, tokens: int | None) -> OutcomeReason | None:
        if self.turns >= turns:
            return "turn_limit"
        return "token_limit" if tokens is not None and self.tokens >= tokens else None

    # The beginning

    async def _begin(self) -> dict[str, Any]:
        async def begin(_session: Session, loop: AgentLoop) -> list[Call]:
            if self.stay.prompt is not None:
                return []
            waiting = {call.id for call in loop.run.pending}
            return [call for call, written in self._read_calls(_session, loop) if written.id in waiting]

        calls = await self.stay.do(begin)
        limits = self.stay.agent.limits  # recorded: the next worker, which may have others, comes to the same place
        return {"start": self.stay.start, "calls": calls, "limits": [limits.turns, limits.tokens]}

    # Replies

    async def _turn(self) -> Turn:
        return await self.stay.do(self._take_turn)

    async def _take_turn(self, session: Session, loop: AgentLoop) -> Turn:
        loop.turns, loop.tokens, loop.reminders = self.turns, self.tokens, self.reminders
        known = None if self._caught_up else await self._catch_up(session, loop)
        loop.text = self.text if known is None else loop.text
        calls, blocked, is_last, turns = list[ToolCall](), list[str](), True, self.turns
        try:
            calls = await loop.take_turn() if known is None else known
            turns += 1
            is_last = not calls and await loop.is_done()
        except RunBlocked as problem:
            blocked = [problem.who, problem.reason]
        self._calls = calls
        return {
            "turns": turns,
            "text": loop.text,
            "calls": [{"name": call.name, "place": place} for place, call in enumerate(calls)],
            "tokens": loop.tokens,
            "reminders": loop.reminders,
            "is_last": is_last,
            "blocked": blocked,
        }

    async def _catch_up(self, session: Session, loop: AgentLoop) -> list[ToolCall] | None:
        """The calls of the reply that this turn is to bring, where a worker recorded it and died before the workflow
        knew."""
        start = self.stay.start
        assert start is not None
        messages = session.messages[start:]
        replies = replies_in(messages, loop.message_format)
        if len(replies) < self.turns:
            problem = f"{self.turns} replies of workflow '{self.stay.workflow_id}' were recorded, and {len(replies)} are there"
            raise StoreError(f"session '{self.stay.session_id}'", problem)
        if len(replies) > self.turns:
            return loop.read_reply(replies[self.turns])
        self._caught_up = True
        if not messages and self.stay.prompt is not None:
            prompt = (
                loop.message_format.user(self.stay.prompt) if isinstance(self.stay.prompt, str) else self.stay.prompt
            )
            system = [{"role": "system", "content": self.system}] if self.system and not start else []
            await loop.run.record([*system, prompt])
        return None

    # Calls

    async def _make(self, calls: Sequence[Call]) -> None:
        """Make the calls. Calls that wait for an answer are made again after each answer, until none waits."""
        while calls:
            waiting = await self._make_once(calls)
            if waiting:
                await self._wait(list(waiting.values()))
            calls = [call for call in calls if call["place"] in waiting]

    async def _make_once(self, calls: Sequence[Call]) -> dict[int, int | None]:
        """Make these calls, a few at a time. Answers the calls that wait: by place, the number of the question at the
        desk."""
        steps = [(number, call, DBOS.reserve_step()) for number, call in enumerate(calls)]
        begun = [asyncio.Event() for _ in calls]  # each call begins after the call before it has begun
        places = asyncio.Semaphore(self.stay.agent.limits.parallel)

        async def make(number: int, call: Call, step: Any) -> dict[str, Any]:
            async def work() -> dict[str, Any]:
                if number:
                    await begun[number - 1].wait()
                begun[number].set()
                return await self.stay.do(lambda session, loop: self._call(session, loop, call["place"]))

            async with places:
                try:
                    return await step.run_async({"name": f"tool {call['name']}", "preemptible": True}, _storable(work))
                finally:
                    begun[number].set()

        ends = await asyncio.gather(*(make(*step) for step in steps), return_exceptions=True)
        waiting: dict[int, int | None] = {}
        for call, end in zip(calls, ends, strict=True):
            if isinstance(end, BaseException):
                raise end
            if end["waits"]:
                waiting[call["place"]] = end["question"]
        return waiting

    async def _call(self, session: Session, loop: AgentLoop, place: int) -> dict[str, Any]:
        if not self._calls:
            self._read_calls(session, loop)
        try:
            result = await loop.run.call_tool(self._calls[place])
        except ApprovalPending as pending:
            return {"waits": True, "question": await self._question(pending.request)}
        return {"waits": False, "is_error": result.is_error}

    def _read_calls(self, session: Session, loop: AgentLoop) -> list[tuple[Call, ToolCall]]:
        replies = replies_in(session.messages, loop.message_format)
        self._calls = loop.read_reply(replies[-1]) if replies else []
        return [({"name": call.name, "place": place}, call) for place, call in enumerate(self._calls)]

    async def _question(self, request: object) -> int | None:
        """The number of this question at the desk, or `ANSWERED` if it is answered already; None where the tool itself
        or another approver waits."""
        desk = self.stay.host.approver
        if not isinstance(desk, ApprovalDesk) or not isinstance(request, ApprovalRequest):
            return None
        record = await desk.records_in(self.stay.host.store).find(request)
        return record.number if record is not None else ANSWERED

    async def _wait(self, questions: Sequence[int | None]) -> None:
        """Close the session and wait for the message that an answer has come. Without a desk to send it, the calls are
        made again each hour."""
        if ANSWERED in questions:
            return
        self._caught_up, self._calls = False, []
        await self.stay.leave(WAITS)
        at_desk = [number for number in questions if number is not None]
        self.bell.add(self.stay.workflow_id, at_desk)
        try:
            await DBOS.recv_async(TOPIC, timeout_seconds=DAY if len(at_desk) == len(questions) else HOUR)
        finally:
            self.bell.remove(self.stay.workflow_id)

    # The end

    def _end_as(self, blocked: Sequence[str]) -> Callable[[], Coroutine[Any, Any, Mapping[str, Any]]]:
        async def end() -> Mapping[str, Any]:
            if not self.stay.is_open:
                try:
                    await self.stay.do(_nothing)
                except RunMovedOn:
                    return {}  # the run has ended; its worker died, or was taken for dead, before the workflow knew
            await self.stay.leave(RunBlocked(*blocked) if blocked else None)
            await self.stay.give_up_claim()
            return {}

        return end


async def _nothing(_session: Session, _loop: AgentLoop) -> None:
    """Do nothing in the open run."""


async def _step(name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await DBOS.run_step_async({"name": name, "preemptible": True}, _storable(work))


def _storable(work: Callable[[], Coroutine[Any, Any, T]]) -> Callable[[], Coroutine[Any, Any, T]]:
    """The step with errors that DBOS can store: those of a provider's SDK often cannot be pickled."""

    async def make() -> T:
        try:
            return await work()
        except Exception as problem:
            try:
                pickle.loads(pickle.dumps(problem))  # noqa: S301 - made here
            except Exception:
                raise RunFailed(describe(problem)) from problem
            raise

    return make
