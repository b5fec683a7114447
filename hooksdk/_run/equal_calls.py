"""Find the same call, handed over before: it has its result, a task works on it, or it was judged and waits."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from hooksdk import schema
from hooksdk._approvals.request import definition_of
from hooksdk._ledger.calls import CallEnd, CallInProgress
from hooksdk._run.state import RunState
from hooksdk._tasks.limits import is_cancelled
from hooksdk.calls import ToolCall


async def settle(state: RunState, work: CallInProgress) -> bool:
    """True where the call need not run: its result is recorded, or an equal call ran meanwhile, whose result it shares
    (`work.newest`). Waits for that call. Raises `StoreError` where a record of the call could not be written."""
    if has_result(state, work):
        return True
    ledger, unwritten = state.ledger, state.parts.transcript.unwritten
    if not (unwritten.may_be_full or unwritten.failures or ledger.busy):
        return False
    await ledger.space.check()
    return await _join(state, work) or has_result(state, work)


def has_result(state: RunState, work: CallInProgress) -> bool:
    """True, with its end set, for a call whose result the transcript has."""
    recorded = work.parent is None and not state.asked_model and state.parts.transcript_kept
    result = state.parts.transcript.result_of(work.written) if recorded else None
    if result is not None:
        work.finish(CallEnd("error" if result.is_error else "ok", result))
    return result is not None


async def _join(state: RunState, work: CallInProgress) -> bool:
    """Wait while a task works on this very call of the newest reply: it is made once. True when its result is this one's."""
    if work.parent is not None or state.asked_model or not state.parts.transcript_kept:
        return False
    while twin := next((one for one in state.ledger.busy if _is_equal(one, work)), None):
        times = sum(call.id == work.written.id for call in state.parts.transcript.pending)
        if not times:  # it has its result, or its reply is not recorded
            return False
        await wait_until_at_rest(state, twin)
        twin = twin.newest
        goes_on = twin.judged and not work.options.at_once
        if times == 1 and (twin.end is not None or twin.verdict.pending is not None or goes_on):
            work.replaced_by = twin
            return True
    return False


def _is_equal(one: CallInProgress, work: CallInProgress) -> bool:
    return one.parent is None and one.written.id == work.written.id and one.digest == work.digest


async def wait_until_at_rest(state: RunState, work: CallInProgress) -> None:
    """Wait until no task works on the call. Meanwhile that task is shielded from cancellation, since others wait for what comes
    of it; asyncio's own `task.cancel()` goes through the shield."""
    scope = state.ledger.busy[work]
    work.at_rest = at_rest = work.at_rest or anyio.Event()
    if not is_cancelled(scope):
        scope.shield = True
    try:
        await at_rest.wait()
    finally:
        if not at_rest.statistics().tasks_waiting and state.ledger.busy.get(work) is scope:
            scope.shield = False


async def take_up(state: RunState, work: CallInProgress) -> bool:
    """True when the call was judged before and has no result: it is judged again, with the arguments of then, and what was
    approved of it stands. False when nothing of that counts: also when its tool is withheld now, has another definition, the
    call is written otherwise, or the run is somebody else's."""
    ledger = state.ledger
    if work.parent is not None or not (len(ledger.open_calls) > 1 or ledger.waiting.calls):
        return False
    waiting = ledger.waiting.take(work.written)
    others = [one for one in ledger.open_calls if _is_at_rest(state, one, work.written)]
    if any(one.effect.begun for one in others):  # somebody said so, and asks once more
        await ledger.write_running()
    if waiting is None:
        others = [one for one in others if _is_open_in_transcript(state, one.written)]
        return bool(others) and _take_over(state, work, others)
    for other in others:
        _replace(state, other, work)
    # A bridge is granted by its name alone.
    tool = state.granted_to(work, waiting.tool) or state.granted_to(work, waiting.name)
    if tool is None or tool.id != waiting.tool or definition_of(tool) != waiting.fingerprint:
        return False
    work.tool = tool
    work.call = ToolCall(work.written.id, tool.name, waiting.arguments, origin=waiting.origin)
    work.arguments, work.input.arguments = waiting.arguments, schema.clone(waiting.arguments)
    verdict = work.verdict
    verdict.answered_by, verdict.rewriters, verdict.resumed = waiting.answered_by, waiting.rewriters, True
    verdict.let_through = verdict.let_through or waiting.let_through
    if waiting.answered_by is None:
        verdict.questions, verdict.granted = waiting.questions, waiting.granted
    else:
        verdict.granted = waiting.questions
    return True


def _is_at_rest(state: RunState, other: CallInProgress, written: ToolCall) -> bool:
    """True for the same call, judged in this run, on which no task works at this moment."""
    is_same = other.parent is None and other.written.id == written.id
    return is_same and other.judged and not other.claimed and other not in state.ledger.busy


def _is_open_in_transcript(state: RunState, written: ToolCall) -> bool:
    open_calls = state.parts.transcript.pending if state.parts.transcript_kept and not state.asked_model else ()
    return sum(call.id == written.id for call in open_calls) == 1


def _replace(state: RunState, other: CallInProgress, work: CallInProgress) -> None:
    """Its `JudgedCall` goes on with this one."""
    state.ledger.open_calls.remove(other)
    other.replaced_by = work
    work.verdict.let_through = work.verdict.let_through or other.verdict.let_through
    work.effect.id = work.effect.id or other.effect.id


def _take_over(state: RunState, work: CallInProgress, others: Sequence[CallInProgress]) -> bool:
    """It was judged in this run, and nobody was asked about it."""
    before = others[-1]
    tool = before.tool and (state.granted_to(work, before.tool.id) or state.granted_to(work, before.tool.name))
    if before.digest != work.digest or tool is not before.tool:
        return False
    for other in others:
        _replace(state, other, work)
    work.call, work.tool, work.arguments, work.input.arguments = before.call, before.tool, before.arguments, {}
    work.verdict.rewriters, work.verdict.resumed = before.verdict.rewriters, True
    return True
