"""Asking a person about a call: all questions at once, what is remembered first, and an answer that comes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hooksdk import hooks, schema
from hooksdk._approvals.remembered import Remembered
from hooksdk._approvals.request import (
    GRAVITY,
    Approval,
    ApprovalRequest,
    Later,
    Question,
    ask_approver,
    definition_of,
    digest_of,
    read_answer,
    unanswered,
    wording_of,
)
from hooksdk._run import refusals
from hooksdk._run.effects import OWNER, effect_id, write_running
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._run.waiting_calls import digest_of_call
from hooksdk._tasks.background import logger
from hooksdk._transcript.storage import as_store_errors
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ApprovalPending, StoreError
from hooksdk.records import ApprovalAnswered, ApprovalAsked, Content


def _blocked(text: str) -> CallEnd:
    return CallEnd("blocked", ToolResult.error(text))


def read_question(plugin: str, ask: hooks.Ask) -> Question:
    """What a plugin asks. Raises what its answer raises."""
    return Question(
        title=ask.title, description=ask.description, severity=ask.severity, plugin=plugin, timeout=ask.timeout,
        rule=ask.rule, evidence=tuple(ask.evidence),
    )  # fmt: skip


async def ask(state: RunState, work: CallInProgress, questions: Sequence[Question]) -> CallEnd | None:
    """Ask a person what the policies ask, but for what was approved of this very call. What waits for its answer from before is
    asked first, and stands although no policy may ask it any more. None when the call may go on, and when an answer comes
    later: `work.pending` is set then."""
    if work.questions:
        end = await _ask_person(state, work, work.questions)
        if end is not None or work.pending is not None:
            return end
    mask = state.secrets.value
    granted = [(wording_of(question, mask), question.severity) for question in work.granted]
    if not (new := unanswered(questions, granted, mask)):
        return None
    if work.granted:  # whatever becomes of the new ones, nobody is asked these again
        await keep_call(state, work, Approval(True, by=work.answered_by or ""))
    return await _ask_person(state, work, new)


async def _ask_person(state: RunState, work: CallInProgress, questions: Sequence[Question]) -> CallEnd | None:
    """Ask all questions at once, the gravest first, unless the answer is remembered."""
    work.questions = tuple(sorted(questions, key=lambda question: -GRAVITY[question.severity]))
    request = _request(state, work)
    approval = await _remembered(state, request)
    if approval is not None:
        return await _settle(state, work, request, approval, remembered=True)
    await state.trace(
        ApprovalAsked(call_id=work.call.id, plugin=request.plugin, severity=request.severity, questions=len(questions),
                      digest=digest_of(work.own_arguments), evidence=tuple(one.place for one in request.evidence)),
        lambda: Content(text=request.title, arguments=work.own_arguments),
    )  # fmt: skip
    with work.clock_stopped():
        answer = await ask_approver(state.parts.approver, request)
    if isinstance(answer, Approval):
        return await _settle(state, work, request, answer)
    if work.depth:  # the tool that makes this call runs now: it cannot wait for days
        return await _settle(state, work, request, Approval(False, refusals.CANNOT_WAIT, unanswered="cannot_wait"))
    if not await keep_call(state, work, None):
        return await _settle(state, work, request, Approval(False, refusals.NOT_JSON, unanswered="cannot_wait"))
    work.pending = request
    return None


async def take_answer(state: RunState, work: CallInProgress, answer: object) -> CallEnd | None:
    """The answer that was waited for, from whoever judged the call."""
    assert work.pending is not None
    approval = read_answer(answer, work.pending)
    return None if isinstance(approval, Later) else await _settle(state, work, work.pending, approval)


async def take_refusal(state: RunState, work: CallInProgress, approval: Approval, text: str | None) -> CallEnd:
    """A no from whoever judged the call, asked for or not."""
    title = work.pending.title if work.pending else work.call.name
    work.pending = None
    await _trace_answer(state, work, approval, remembered=False)
    return _blocked(refusals.approval_refused(title, approval) if text is None else text)


def _request(state: RunState, work: CallInProgress) -> ApprovalRequest:
    assert work.tool is not None
    info, gravest = state.info, work.questions[0]
    return ApprovalRequest(
        title=gravest.title, description=gravest.description, severity=gravest.severity, timeout=gravest.timeout,
        plugin=gravest.plugin, questions=work.questions, session_id=info.session_id, run_id=info.run_id,
        agent_id=info.agent_id, workspace_dir=info.workspace_dir, requester=info.requester, trigger=info.trigger,
        triggers=info.triggers, agents=info.agents,
        call=work.call, tool=work.tool, arguments=schema.clone(work.own_arguments), effect_id=effect_id(state, work),
        store=state.parts.store, mask=state.secrets.value,
    )  # fmt: skip


async def _remembered(state: RunState, request: ApprovalRequest) -> Approval | None:
    try:
        with as_store_errors("the remembered approvals"):
            one = await Remembered(state.parts.store).find(request)
    except StoreError as error:
        logger.warning("the remembered approvals cannot be read, so a person is asked: %s", error)
        return None
    if one is None:
        return None
    return Approval(one.granted, one.reason, "always" if one.session is None else "session", by=one.by)


async def _settle(
    state: RunState, work: CallInProgress, request: ApprovalRequest, approval: Approval, *, remembered: bool = False
) -> CallEnd | None:
    if approval.scope != "once" and not remembered:
        problem = await _remember(state, request, approval)
        if problem:
            logger.warning("the answer about '%s' counts once, and is not remembered: %s", work.call.name, problem)
    work.pending = None
    await _trace_answer(state, work, approval, remembered=remembered)
    if not approval.granted:
        doubts = [one.description for one in request.questions if one.plugin == OWNER]
        return _blocked(". ".join([refusals.approval_refused(request.title, approval), *doubts]))
    if approval.agree == "values":
        await state.parts.reading.agree([each.digest for each in request.evidence])
    work.granted, work.questions, work.answered_by = (*work.granted, *work.questions), (), approval.by
    if not work.depth and not (work.runs_at_once and state.open):
        await keep_call(state, work, approval)
    return None


async def _remember(state: RunState, request: ApprovalRequest, approval: Approval) -> str:
    """Keep an answer, without values of secrets; answers why it cannot be kept, if so."""
    mask = state.secrets
    if approval.arguments is not None and mask.value(approval.arguments) != approval.arguments:
        return "it is for arguments with a secret's value"
    request = replace(request, title=mask.text(request.title))
    approval = replace(approval, reason=mask.text(approval.reason), by=mask.text(approval.by))
    try:
        with as_store_errors("the remembered approvals"):
            return "" if await Remembered(state.parts.store).add(request, approval) else "its arguments are not JSON"
    except StoreError as error:
        return str(error)


async def _trace_answer(state: RunState, work: CallInProgress, approval: Approval, *, remembered: bool) -> None:
    await state.trace(
        ApprovalAnswered(call_id=work.call.id, granted=approval.granted, by=approval.by, scope=approval.scope,
                         remembered=remembered, digest=digest_of(work.own_arguments), unanswered=approval.unanswered)
    )  # fmt: skip


# A call that waits


async def keep_call(state: RunState, work: CallInProgress, approval: Approval | None) -> bool:
    """Keep what was judged, so that the call goes on from here in whichever run its answer finds it."""
    assert work.tool is not None
    questions, granted = (work.questions, work.granted) if approval is None else (work.granted, ())
    return await state.waiting.keep(
        work.written, work.call, work.tool, work.arguments, questions, approval, granted=granted,
        rewriters=work.rewriters, let_through=work.let_through, mask=state.secrets,
    )  # fmt: skip


async def keep_let_through(state: RunState) -> None:
    """The run is paused: a call that was let through, and that nobody has run, was counted then. It is not counted once more."""
    if "tool_call_start" not in state.hooks.plans or not state.parts.transcript_kept:
        return
    for work in state.open_calls:
        if work.let_through and not (work.depth or work.running or work.begun or work.paused):
            await keep_call(state, work, Approval(True, by=work.answered_by) if work.answered_by is not None else None)


async def pause_tool(state: RunState, work: CallInProgress, error: ApprovalPending) -> ApprovalPending:
    """The tool's own framework has paused: the call waits as it was judged. Answers what to raise."""
    work.running, work.abandoned, work.attempt, work.paused = False, False, None, True
    work.own_arguments, work.short_secrets = schema.clone(work.arguments), None
    await keep_call(state, work, Approval(True, by=work.answered_by or ""))
    return ApprovalPending(state.secrets.value(vars(error).get("request")), work.call)


async def take_up(state: RunState, work: CallInProgress) -> bool:
    """True when the call was judged before and has no result: it is judged again, with the arguments of then, and what was
    approved of it stands. False when nothing of that counts: also when its tool is withheld now, has another definition, the
    call is written otherwise, or the run is somebody else's."""
    waiting = None if work.depth else state.waiting.take(work.written)
    others = [] if work.depth else [one for one in state.open_calls if _is_at_rest(state, one, work.written)]
    if any(one.begun for one in others):  # somebody said so, and asks once more
        await write_running(state)
    if waiting is None:
        others = [one for one in others if _is_open_in_transcript(state, one.written)]
        return bool(others) and _take_over(state, work, others)
    for other in others:
        _replace(state, other, work)
    tool = state.granted_to(work, waiting.tool) or state.granted_to(
        work, waiting.name
    )  # a bridge goes by its name alone
    if tool is None or tool.id != waiting.tool or definition_of(tool) != waiting.fingerprint:
        return False
    work.tool = tool
    work.call = ToolCall(work.written.id, tool.name, waiting.arguments, origin=waiting.origin)
    work.arguments, work.own_arguments = waiting.arguments, schema.clone(waiting.arguments)
    work.answered_by, work.rewriters, work.again = waiting.answered_by, waiting.rewriters, True
    work.let_through = work.let_through or waiting.let_through
    if waiting.answered_by is None:
        work.questions, work.granted = waiting.questions, waiting.granted
    else:
        work.granted = waiting.questions
    return True


def _is_at_rest(state: RunState, other: CallInProgress, written: ToolCall) -> bool:
    """True for the same call, judged in this run, which nobody takes further at this moment."""
    is_same = other.depth == 0 and other.written.id == written.id
    return is_same and other.judged and not other.running and other not in state.busy


def _is_open_in_transcript(state: RunState, written: ToolCall) -> bool:
    open_calls = state.parts.transcript.pending if state.parts.transcript_kept and not state.asked_model else ()
    return sum(call.id == written.id for call in open_calls) == 1


def _replace(state: RunState, other: CallInProgress, work: CallInProgress) -> None:
    """Its `JudgedCall` goes on with this one."""
    state.open_calls.remove(other)
    other.replaced_by = work
    work.let_through = work.let_through or other.let_through
    work.effect = work.effect or other.effect


def _take_over(state: RunState, work: CallInProgress, others: Sequence[CallInProgress]) -> bool:
    """Judged in this run, and nobody was asked about it."""
    before = others[-1]
    tool = before.tool and (state.granted_to(work, before.tool.id) or state.granted_to(work, before.tool.name))
    if digest_of_call(before.written) != digest_of_call(work.written) or tool is not before.tool:
        return False
    for other in others:
        _replace(state, other, work)
    work.call, work.tool, work.arguments, work.own_arguments = before.call, before.tool, before.arguments, {}
    work.rewriters, work.again = before.rewriters, True
    return True


async def keep_approval(state: RunState, work: CallInProgress) -> None:
    """A call that was approved before is still let through: it is kept so until it runs."""
    approval = Approval(True, by=work.answered_by or "")
    if work.granted:
        await _trace_answer(state, work, approval, remembered=True)
    await keep_call(state, work, approval)
