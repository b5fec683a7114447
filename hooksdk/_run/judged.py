"""One tool call from top to bottom: it is judged, then executed (or its result is supplied), and ends once.

One line of `_judge` and of `_execute` is one step, to be found under its name in `call.py` and `execution.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, final

import anyio

from hooksdk import schema
from hooksdk._approvals.request import Approval, ApprovalRequest
from hooksdk._run import asking, execution, refusals
from hooksdk._run import call as judging
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._tasks.background import logger
from hooksdk._tasks.shielding import run_shielded
from hooksdk.calls import Origin, ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import ApprovalPending, CallSettled
from hooksdk.records import CallStatus
from hooksdk.tools import Tool

YES = Approval(True)
CALLS_TIMEOUT = 10.0
"""Seconds that calls have to end once they are cancelled, since their run ends."""


@final
class JudgedCall:
    """A call that went through unwrapping, scope, repair, rewriting, validation, the policies and their approvals.

    It ends once: it is settled already, or by `execute()`, `supply()` or `refuse()`. One that nobody ends is `not_run` when
    its run ends, and stays open when the run is paused. One whose approval comes later is `pending`: after `approve()`, or
    once it is judged again and the approver says yes, it can be executed.

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
        work = self._first
        while work.replaced_by is not None:
            work = work.replaced_by
        return work

    def __repr__(self) -> str:
        return (
            f"<JudgedCall '{self.call.name}': {self.status or ('waits for approval' if self.pending else 'to be run')}>"
        )

    @property
    def call(self) -> ToolCall:
        """The call under the tool's real name, whatever bridge it came by, with the arguments that run; where they are invalid,
        as they were written."""
        return self._work.call

    @property
    def tool(self) -> Tool | None:
        """The real tool, without its executor; None for a name that nobody granted."""
        return self._work.tool

    @property
    def arguments(self) -> dict[str, Any]:
        """What was judged and what runs: repaired, rewritten, valid; a fresh copy. Placeholders of secrets are not filled.
        Of an invalid call, as far as they could be read."""
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
        return self._work.pending

    async def approve(self, approval: Approval = YES) -> None:
        """Give the answer that the call waits for, in the approver's place; `execute()` runs it then. An `Approval` that
        grants nothing refuses it. Raises `CallSettled` for a call that has a result, and `RunClosed` after its run."""
        if self._work.end is None and self._work.pending is None:
            return
        self._claim()
        try:
            await _go_on(self._state, self._work, _approve(self._state, self._work, approval))
        finally:
            self._work.running = False

    async def refuse(self, reason: str = "", *, by: str = "") -> ToolResult:
        """A person said no: the result is a refusal with this reason, recorded, observed and traced like any other. `by` is
        who said so. Raises `CallSettled` for a call that has a result, and `RunClosed` after its run."""
        self._claim()
        return await self._finish(asking.take_refusal(self._state, self._work, reason, by))

    async def execute(self) -> ToolResult:
        """Run the tool, and record its result; of a settled call answer the result. Raises `ApprovalPending` while it waits
        for an approval, `CallSettled` while another task executes it, and `RunClosed` after its run."""
        if self._work.end is not None:
            return self._work.end.result
        self._check_approved()
        self._claim()
        return await self._finish(_execute(self._state, self._work))

    async def supply(self, result: ToolResult | str) -> ToolResult:
        """Record a result made elsewhere, after the same masking, output check and transforming as the tool's own;
        answers what was recorded. Raises `CallSettled` for a call that has a result, `ApprovalPending` for one that waits for
        an approval, and `RunClosed` after its run."""
        self._check_approved()
        self._claim()
        return await self._finish(
            _supply(self._state, self._work, ToolResult(result) if isinstance(result, str) else result)
        )

    def _check_approved(self) -> None:
        if self._work.pending is not None:
            raise ApprovalPending(self._work.pending, self._work.call)

    def _claim(self) -> None:
        work = self._work
        if work.end is not None or work.running:
            raise CallSettled(work.call.id, work.call.name, work.end.status if work.end else "running")
        self._state.check_open()  # a person may have taken longer to answer than the run lived
        work.running = True

    async def _finish(self, steps: Awaitable[CallEnd]) -> ToolResult:
        await _go_on(self._state, self._work, steps)
        assert self._work.end is not None
        return self._work.end.result


async def judge_call(state: RunState, work: CallInProgress) -> JudgedCall:
    """Take a call through all steps before its tool runs."""
    catalog = state.tools
    known = work.depth == 0 and not state.asked_model and state.parts.transcript_kept
    if known and (result := state.parts.transcript.result_of(work.call)):
        work.end = CallEnd("error" if result.is_error else "ok", result)
        return JudgedCall(state, work)
    state.open_calls.append(work)
    await _go_on(state, work, _judge(state, work, catalog))
    if work.end is None and state.ended not in {None, "paused"}:  # meanwhile, so `end_calls` left it out
        await _go_on(state, work, _not_run(work))
        state.check_open()
    return JudgedCall(state, work)


async def _judge(state: RunState, work: CallInProgress, catalog: Catalog) -> CallEnd | None:
    if asking.take_up(state, work):
        await judging.trace_start(state, work)
        state.stats.called(work.call)
        end = judging.check_way(work) or await asking.ask_again(state, work)
        end = end or judging.check_still_granted(state, work)
        work.judged = True
        return end
    end = await judging.unwrap_tool_call(state, work, catalog)
    await judging.trace_start(state, work)
    end = end or judging.check_scope(state, work, catalog)
    end = end or judging.check_way(work)
    end = end or judging.repair_arguments(state, work)
    end = end or await judging.rewrite_tool_call(state, work)
    end = end or judging.validate_arguments(work)
    end = end or await judging.before_tool_call(state, work)
    end = end or judging.check_still_granted(state, work)
    work.judged = True
    return end


async def _approve(state: RunState, work: CallInProgress, approval: Approval) -> CallEnd | None:
    end = await asking.take_answer(state, work, approval)
    return end if end or work.pending else judging.check_still_granted(state, work)


async def _execute(state: RunState, work: CallInProgress) -> CallEnd:
    await state.verdicts.forget(work.written)  # a crash from here on has it judged anew: its tool may have run
    end = await execution.resolve_secrets(state, work)
    end = end or judging.check_still_granted(state, work)
    try:
        return end or await execution.run_tool(state, work, state.tools, _call_nested)
    except ApprovalPending as error:
        pause = error
    # Here, where nothing is handled any more, or the tool's own error, with what it was given, would be the context.
    raise await asking.pause_tool(state, work, pause)


async def _supply(state: RunState, work: CallInProgress, result: ToolResult) -> CallEnd:
    return execution.take_result(state, work, result)


async def _go_on(state: RunState, work: CallInProgress, steps: Awaitable[CallEnd | None]) -> None:
    """Take a call further, until its run ends at the latest."""
    state.busy[work] = scope = anyio.CancelScope()
    try:
        with scope:
            await _take_steps(state, work, steps)
        if scope.cancelled_caught and not work.running:
            state.check_open()
    finally:
        del state.busy[work]
        if not state.busy and state.at_rest is not None:
            state.at_rest.set()


async def _take_steps(state: RunState, work: CallInProgress, steps: Awaitable[CallEnd | None]) -> None:
    """Take a call further. When its end is reached, or something interrupts it, its result is recorded and everybody who
    observes is told, once."""
    end: CallEnd | None = None
    clean: BaseException | None = None
    try:
        end = await steps
        if end is not None:
            # Before the plugins see it, and of what they made of it: a refusal, an answer and a change quote things, too.
            end = _masked(state, end)
            if state.hooks.has("transform_tool_result"):
                end = _masked(state, await execution.transform_tool_result(state, work, end))
    except ApprovalPending:  # its tool has paused: there is no result yet
        raise
    except BaseException as error:
        end = CallEnd("error", ToolResult.error(refusals.interrupted(work.call.name, error)))
        if state.ended is not None and not work.running:  # cut off before its tool ran
            end = await _not_run(work)
        clean = state.secrets.error(error)
        if clean is error:
            raise
    finally:
        if end is not None:
            work.end = end
            state.open_calls.remove(work)
            try:
                if work.depth == 0:  # nested results stay out of the transcript
                    await run_shielded(_record_result, state, work, end.result)
            finally:
                await execution.after_tool_call(state, work, end)
    if clean is not None:  # here, where nothing is handled any more, or the error with the value would be its context
        raise clean


def _masked(state: RunState, end: CallEnd) -> CallEnd:
    return CallEnd(end.status, state.secrets.result(end.result)) if state.secrets else end


async def _record_result(state: RunState, work: CallInProgress, result: ToolResult) -> None:
    parts = state.parts
    if parts.transcript_kept:
        await parts.transcript.answer(work.written, result, work.tool, replies=state.replies_at_end)
    await state.verdicts.forget(work.written)
    await parts.states.save()


async def _call_nested(
    state: RunState, outer: CallInProgress, name: str, arguments: Mapping[str, Any], origin: Origin
) -> ToolResult:
    state.check_open()
    call_id = f"{outer.call.id}/{state.stats.next_nested()}"
    call = ToolCall(call_id, name, dict(arguments), origin=origin, parent_id=outer.call.id)
    judged = await judge_call(state, CallInProgress(call, depth=outer.depth + 1, parent=outer))
    return await judged.execute()


async def end_calls(state: RunState) -> None:
    """The run ends: cancel the calls that are at work, and wait for them; those that were judged, and that nobody executed
    or gave a result, end as not run."""
    for scope in state.busy.values():
        scope.cancel()
    if state.busy:
        state.at_rest = anyio.Event()
        with anyio.move_on_after(CALLS_TIMEOUT):
            await state.at_rest.wait()
    if state.busy:
        names = ", ".join(sorted({work.call.name for work in state.busy}))
        logger.warning("calls of run %s did not end within %g s: %s", state.info.run_id, CALLS_TIMEOUT, names)
    for work in [work for work in state.open_calls if work.judged and not work.running]:
        await _go_on(state, work, _not_run(work))


async def _not_run(work: CallInProgress) -> CallEnd:
    return CallEnd("not_run", ToolResult.error(refusals.not_run_at_end(work.call.name)))
