"""A call that was judged, handed to the host that runs its tool itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, final

from hooksdk import schema
from hooksdk._ledger.calls import CallEnd, CallInProgress, EffectState, Stage
from hooksdk._run import asking
from hooksdk._run.call import (
    begin,
    execute,
    go_on,
    has_result,
    judge,
    judge_again,
    let_through,
    take_result,
    wait_until_at_rest,
)
from hooksdk._run.state import RunState
from hooksdk._tasks.limits import run_shielded
from hooksdk.approvals import YES, Approval, ApprovalRequest, Unanswered
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ApprovalPending, CallSettled
from hooksdk.records import CallStatus
from hooksdk.tools import Tool


@final
class JudgedCall:
    """A call that went through unwrapping, scope, repair, rewriting, validation, the policies and their approvals.

    It ends once: it is settled already, or by `execute()`, `supply()` or `refuse()`. One that nobody ends is `not_run`
    when its run ends, and stays open when the run is paused. One whose approval comes later is `pending`: after
    `approve()`, or once it is judged again and the approver says yes, it can be executed.

    ```python
    import anyio

    from hooksdk import Tool, ToolCall
    from hooksdk.testing import open_session

    async def main() -> None:
        async with open_session() as session, session.run() as run:
            await run.resolve_tools([Tool(name="add", source="host")])
            judged = await run.judge(ToolCall("c1", "add", {"one": 2}))
            if judged.result is None:  # not blocked: run it where you like
                await judged.supply(f"computed elsewhere from {judged.arguments}")
            assert judged.status == "ok"

    anyio.run(main)
    ```
    """

    def __init__(self, state: RunState, work: CallInProgress) -> None:
        self._state = state
        self._first = work

    @property
    def _work(self) -> CallInProgress:
        return self._first.newest

    def __repr__(self) -> str:
        return (
            f"<JudgedCall '{self.call.name}': {self.status or ('waits for approval' if self.pending else 'to be run')}>"
        )

    @property
    def call(self) -> ToolCall:
        """The call under the tool's real name, whatever bridge it came by, with the arguments that run; where they are
        invalid, as they were written."""
        return self._work.call

    @property
    def tool(self) -> Tool | None:
        """The real tool, without its executor; None for a name that nobody granted."""
        return self._work.tool

    @property
    def arguments(self) -> dict[str, Any]:
        """What was judged and what runs: repaired, rewritten, valid; a fresh copy. Placeholders of secrets are not
        filled. Of an invalid call, as far as they could be read."""
        return schema.clone(self._work.arguments)

    @property
    def status(self) -> CallStatus | None:
        """What became of the call, or None while it has no result."""
        return self._work.end.status if self._work.end else None

    @property
    def result(self) -> ToolResult | None:
        """The result of a call that is settled (blocked, answered, invalid, unknown, or executed since); else None."""
        return self._work.end.result if self._work.end else None

    @property
    def pending(self) -> ApprovalRequest | None:
        """What a person is still to answer, while the call waits for it; else None."""
        return self._work.verdict.pending

    @property
    def approval(self) -> Approval | None:
        """The yes that counts for the call, asked for just now, remembered or given before it waited; None where nobody
        had to say one. For a framework that asks, too: this call was asked about."""
        by = self._work.verdict.answered_by
        return None if by is None else Approval(True, by=by)

    async def approve(self, approval: Approval = YES) -> None:
        """Give the answer that the call waits for, in the approver's place; `execute()` runs it then. With a yes the
        call is judged again, by the policies of now: it may be blocked, or wait for the answer to a question that is
        new. An `Approval` that grants nothing refuses it. Raises `CallSettled` for a call that has a result, and
        `RunClosed` after its run."""
        await self._until_judged()
        self._take_settled()
        if self._work.end is None and self._work.verdict.pending is None:
            return
        work = self._claim()
        try:
            await go_on(self._state, work, _approve(self._state, work, approval))
        finally:
            work.claimed = False

    async def refuse(
        self, reason: str = "", *, by: str = "", text: str | None = None, unanswered: Unanswered = ""
    ) -> ToolResult:
        """A person said no: the result is a refusal with this reason, recorded, observed and traced like any other.
        `by` is who said so, or `unanswered` says why it was nobody; `text` is what the model was told already, in the
        place of hooksdk's words. Raises `CallSettled` for a call that has a result, and `RunClosed` after its run."""
        await self._until_judged()
        work = self._claim()
        approval = Approval(False, reason, by=by, unanswered=unanswered)
        return await self._finish(work, asking.take_refusal(self._state, work, approval, text))

    async def execute(self, *, native: object = None, confirms: bool = False) -> ToolResult:
        """Run the tool, and record its result; of a settled call answer the result, and of one that another task
        executes the result that comes of that. `native` is an object of yours, which the executor finds in
        `ToolContext.native`. With `confirms` you hand the result on and say with `confirm()` when it has arrived, in a
        run that keeps no transcript: should the process die before, the call is in doubt. Without it the end is written
        with what the session writes next. Raises `ApprovalPending` while it waits for an approval, `RunClosed` after
        its run, and `StoreError`, without running anything, where a record of the run could not be written."""
        while (work := self._work) in self._state.ledger.busy:
            await wait_until_at_rest(self._state, work)
        self._take_settled()
        if work.end is not None:
            return work.end.result
        self._check_approved()
        self._state.ledger.check_records()
        self._claim().native, work.effect.confirms = native, confirms
        return await self._finish(work, _after_pause(self._state, work, lambda: execute(self._state, work)))

    def confirm(self, *, arrived: bool = True) -> None:
        """Whoever made the call has the result of `execute(confirms=True)`; or will not get it, so that the call is in
        doubt, as it is where the run ends unconfirmed. Nothing happens for a call that was not executed so, or whose
        run is over."""
        self._state.parts.transcript.confirm(self._work.effect.id, arrived=arrived)

    @property
    def effect_id(self) -> str:
        """Stands for what the call does: the same whenever it is made again, in this run, a later one or another
        process. Hand it to the service that the tool calls, which can tell a repeated request by it. Of a call without
        a tool it is empty."""
        return self._state.ledger.effect_id(self._work) if self._work.tool is not None else ""

    async def begin(self) -> str:
        """Say that the tool begins now, elsewhere: durable when this returns, so that a call without a result is in
        doubt from here on, and is not called not run. Answers its `effect_id`. `supply` it the result. Nothing is
        written for a tool that only reads. Raises as `supply` does, and `StoreError`: then the tool must not run."""
        await self._until_judged()
        self._take_settled()
        self._check_approved()
        work = self._claim()
        try:
            if work.stage is Stage.PAUSED:
                await go_on(self._state, work, judge_again(self._state, work))
                if work.end is not None:
                    raise CallSettled(work.call.id, work.call.name, work.end.status)
                self._check_approved()
            if self._state.ledger.waiting.calls:
                await self._state.ledger.waiting.forget(work.written)
            await run_shielded(self._state.ledger.begin, work)
            if work.effect.begun:
                work.move(Stage.ENTERED)
        finally:
            work.claimed = False
        return self.effect_id

    async def supply(self, result: ToolResult | str) -> ToolResult:
        """Record a result made elsewhere, after the same masking, output check and transforming as the tool's own;
        answers what was recorded. Raises `CallSettled` for a call that has a result, `ApprovalPending` for one that
        waits for an approval, and `RunClosed` after its run."""
        await self._until_judged()
        self._check_approved()
        work = self._claim()
        made = ToolResult(result) if isinstance(result, str) else result
        return await self._finish(work, _after_pause(self._state, work, lambda: _supply(self._state, work, made)))

    async def _until_judged(self) -> None:
        """Wait while another task judges the same call again."""
        while (work := self._work) in self._state.ledger.busy and not work.claimed:
            await wait_until_at_rest(self._state, work)

    def _take_settled(self) -> None:
        """Take the result that `session.settle` has given the call meanwhile: it does not run then."""
        work = self._work
        if work in self._state.ledger.open_calls and not work.claimed and has_result(self._state, work):
            self._state.ledger.open_calls.remove(work)
            work.verdict.pending = None

    def _check_approved(self) -> None:
        if self._work.verdict.pending is not None:
            raise ApprovalPending(self._work.verdict.pending, self._work.call)

    def _claim(self) -> CallInProgress:
        work = self._work
        if work.end is not None or work.claimed:
            raise CallSettled(work.call.id, work.call.name, work.end.status if work.end else "running")
        self._state.check_open()  # a person may have taken longer to answer than the run lived
        work.claimed = True
        return work

    async def _finish(self, work: CallInProgress, steps: Awaitable[CallEnd | None]) -> ToolResult:
        await go_on(self._state, work, steps)
        if work.end is None:
            work.claimed = False
            self._check_approved()
        assert work.end is not None
        return work.end.result


async def judge_call(state: RunState, work: CallInProgress) -> JudgedCall:
    """Take a call through all steps before its tool runs."""
    await begin(state, work, _judge)
    return JudgedCall(state, work)


async def _judge(state: RunState, work: CallInProgress) -> CallEnd | None:
    return await _let_through(state, work, await judge(state, work))


async def _let_through(state: RunState, work: CallInProgress, end: CallEnd | None) -> CallEnd | None:
    """The host may run the call anywhere from now on, so this is the last place to count and to record it."""
    is_over = end is not None or work.verdict.pending is not None or (work.options.made and work.verdict.resumed)
    return end if is_over else await let_through(state, work)


async def _after_pause(
    state: RunState, work: CallInProgress, steps: Callable[[], Awaitable[CallEnd]]
) -> CallEnd | None:
    """Judge a call again whose tool has paused, then go on."""
    if work.stage is Stage.PAUSED:
        end = await judge_again(state, work)
        if end is not None or work.verdict.pending is not None:
            return end
    return await steps()


async def _approve(state: RunState, work: CallInProgress, approval: Approval) -> CallEnd | None:
    end = await asking.take_answer(state, work, approval)
    return end if end or work.verdict.pending else await _let_through(state, work, await judge_again(state, work))


async def _supply(state: RunState, work: CallInProgress, result: ToolResult) -> CallEnd:
    if state.ledger.take_place(work):
        work.effect.state = EffectState.BEGUN
    work.move(Stage.ENTERED)
    return take_result(state, work, result)
