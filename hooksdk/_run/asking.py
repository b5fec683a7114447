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
)
from hooksdk._run import refusals
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._tasks.background import logger
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ApprovalPending, StoreError
from hooksdk.records import ApprovalAnswered, ApprovalAsked, Content


def _blocked(text: str) -> CallEnd:
    return CallEnd("blocked", ToolResult.error(text))


def read_question(plugin: str, ask: hooks.Ask) -> Question:
    """What a plugin asks. Raises what its answer raises."""
    return Question(
        title=ask.title, description=ask.description, severity=ask.severity, plugin=plugin, timeout=ask.timeout
    )  # fmt: skip


async def ask_person(state: RunState, work: CallInProgress, questions: Sequence[Question]) -> CallEnd | None:
    """Ask all questions at once, the gravest first, unless the answer is remembered. None when the call may go on, and when
    its answer comes later: `work.pending` is set then."""
    work.questions = tuple(sorted(questions, key=lambda question: -GRAVITY[question.severity]))
    request = _request(state, work)
    approval = await _remembered(state, request)
    if approval is not None:
        return await _settle(state, work, request, approval, remembered=True)
    await state.trace(
        ApprovalAsked(call_id=work.call.id, plugin=request.plugin, severity=request.severity, questions=len(questions),
                      digest=digest_of(work.own_arguments)),
        lambda: Content(text=request.title, arguments=work.own_arguments),
    )  # fmt: skip
    with work.clock_stopped():
        answer = await ask_approver(state.parts.approver, request)
    if isinstance(answer, Approval):
        return await _settle(state, work, request, answer)
    if work.depth:  # the tool that makes this call runs now: it cannot wait for days
        return await _settle(state, work, request, Approval(False, refusals.CANNOT_WAIT))
    if not await keep_call(state, work, None):
        return await _settle(state, work, request, Approval(False, refusals.NOT_JSON))
    work.pending = request
    return None


async def take_answer(state: RunState, work: CallInProgress, answer: object) -> CallEnd | None:
    """The answer that was waited for, from whoever judged the call."""
    assert work.pending is not None
    approval = read_answer(answer, work.pending)
    return None if isinstance(approval, Later) else await _settle(state, work, work.pending, approval)


async def take_refusal(state: RunState, work: CallInProgress, reason: str, by: str) -> CallEnd:
    """A no from whoever judged the call, asked for or not."""
    title = work.pending.title if work.pending else work.call.name
    work.pending = None
    await _trace_answer(state, work, Approval(False, reason, by=by), remembered=False)
    return _blocked(refusals.approval_refused(title, reason))


def _request(state: RunState, work: CallInProgress) -> ApprovalRequest:
    assert work.tool is not None
    info, gravest = state.info, work.questions[0]
    return ApprovalRequest(
        title=gravest.title, description=gravest.description, severity=gravest.severity, timeout=gravest.timeout,
        plugin=gravest.plugin, questions=work.questions, session_id=info.session_id, run_id=info.run_id,
        agent_id=info.agent_id, workspace_dir=info.workspace_dir, requester=info.requester, trigger=info.trigger,
        call=work.call, tool=work.tool, arguments=schema.clone(work.own_arguments),
        store=state.parts.store, mask=state.secrets.value,
    )  # fmt: skip


async def _remembered(state: RunState, request: ApprovalRequest) -> Approval | None:
    try:
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
        return _blocked(refusals.approval_refused(request.title, approval.reason))
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
        return "" if await Remembered(state.parts.store).add(request, approval) else "its arguments are not JSON"
    except StoreError as error:
        return str(error)


async def _trace_answer(state: RunState, work: CallInProgress, approval: Approval, *, remembered: bool) -> None:
    await state.trace(
        ApprovalAnswered(call_id=work.call.id, granted=approval.granted, by=approval.by, scope=approval.scope,
                         remembered=remembered, digest=digest_of(work.own_arguments))
    )  # fmt: skip


# A call that waits


async def keep_call(state: RunState, work: CallInProgress, approval: Approval | None) -> bool:
    """Keep what was judged, so that the call goes on from here in whichever run its answer finds it."""
    assert work.tool is not None
    return await state.waiting.keep(
        work.written, work.call, work.tool, work.arguments, work.questions, approval, mask=state.secrets
    )  # fmt: skip


async def pause_tool(state: RunState, work: CallInProgress, error: ApprovalPending) -> ApprovalPending:
    """The tool's own framework has paused: the call waits as it was judged. Answers what to raise."""
    work.running, work.abandoned, work.attempt = False, False, None
    work.own_arguments, work.short_secrets = schema.clone(work.arguments), None
    await keep_call(state, work, Approval(True))
    return ApprovalPending(state.secrets.value(vars(error).get("request")), work.call)


def take_up(state: RunState, work: CallInProgress) -> bool:
    """True when the call was judged before and has no result: it goes on with what was judged then. False when it has to be
    judged: also when its tool is withheld now, has another definition, the call is written otherwise, or the run is somebody
    else's."""
    waiting = None if work.depth else state.waiting.take(work.written)
    if waiting is None:
        return False
    for other in [one for one in state.open_calls if one is not work and one.written.id == work.written.id]:
        if other.judged and not other.running:  # judged in this run: its `JudgedCall` goes on with this one
            state.open_calls.remove(other)
            other.replaced_by = work
    tool = state.granted(waiting.tool) or state.granted(waiting.name)  # a bridge goes by its name alone
    if tool is None or tool.id != waiting.tool or definition_of(tool) != waiting.fingerprint:
        return False
    work.tool = tool
    work.call = ToolCall(work.written.id, tool.name, waiting.arguments, origin=waiting.origin)
    work.arguments, work.own_arguments = waiting.arguments, schema.clone(waiting.arguments)
    work.questions, work.answered_by = waiting.questions, waiting.answered_by
    return True


async def ask_again(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Ask about a call that was judged before, unless somebody has approved it since."""
    if work.answered_by is None and work.questions:
        return await ask_person(state, work, work.questions)
    approval = Approval(True, by=work.answered_by or "")
    if work.questions:
        await _trace_answer(state, work, approval, remembered=True)
    await keep_call(state, work, approval)
    return None
