"""Ask a person about a call: all questions at once, remembered answers first. An answer may come in a later run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hooksdk import hooks, schema
from hooksdk._approvals.request import (
    GRAVITY,
    REMEMBERED,
    Approval,
    ApprovalRequest,
    Later,
    Question,
    ask_approver,
    digest_of,
    read_answer,
    unanswered,
    wording_of,
)
from hooksdk._ledger.calls import CallEnd, CallInProgress, Stage, ToolInput
from hooksdk._ledger.effects import OWNER
from hooksdk._run import refusals
from hooksdk._run.state import RunState
from hooksdk._tasks.background import logger
from hooksdk._transcript.storage import as_store_errors
from hooksdk.errors import ApprovalPending, StoreError
from hooksdk.records import ApprovalAnswered, ApprovalAsked, Content


def read_question(plugin: str, ask: hooks.Ask) -> Question:
    """The question in a plugin's answer. Raises what reading that answer raises."""
    return Question(
        title=ask.title,
        description=ask.description,
        severity=ask.severity,
        plugin=plugin,
        timeout=ask.timeout,
        rule=ask.rule,
        evidence=tuple(ask.evidence),
    )


async def ask(state: RunState, work: CallInProgress, questions: Sequence[Question]) -> CallEnd | None:
    """Ask a person the questions of the policies, without those that were approved for this very call. Questions that
    still wait from before are asked first, even where no policy asks them any more. Answers None when the call may go
    on, and when the answer comes later: `work.verdict.pending` is set then."""
    if work.verdict.questions:
        end = await _ask_person(state, work, work.verdict.questions)
        if end is not None or work.verdict.pending is not None:
            return end
    mask = state.secrets.value
    granted = [(wording_of(question, mask), question.severity) for question in work.verdict.granted]
    if not (new := unanswered(questions, granted, mask)):
        return None
    if work.verdict.granted:  # whatever becomes of the new ones, nobody is asked these again
        await state.ledger.waiting.keep(work, _yes_to(work), state.secrets)
    return await _ask_person(state, work, new)


async def _ask_person(state: RunState, work: CallInProgress, questions: Sequence[Question]) -> CallEnd | None:
    """Ask all questions at once, the gravest first, unless the answer is remembered."""
    work.verdict.questions = tuple(sorted(questions, key=lambda question: -GRAVITY[question.severity]))
    request = _request(state, work)
    approval = await _remembered(state, request)
    if approval is not None:
        return await _settle(state, work, request, approval, remembered=True)
    await state.trace(
        ApprovalAsked(
            call_id=work.call.id,
            plugin=request.plugin,
            severity=request.severity,
            questions=len(questions),
            digest=digest_of(work.input.arguments),
            evidence=tuple(one.place for one in request.evidence),
        ),
        lambda: Content(text=request.title, arguments=work.input.arguments),
    )
    with work.clock_stopped():
        answer = await ask_approver(state.parts.approver, request)
    if isinstance(answer, Approval):
        return await _settle(state, work, request, answer)
    if work.parent is not None:  # the tool that makes this call runs now: it cannot wait for days
        return await _settle(state, work, request, Approval(False, refusals.CANNOT_WAIT, unanswered="cannot_wait"))
    if not await state.ledger.waiting.keep(work, None, state.secrets):
        return await _settle(state, work, request, Approval(False, refusals.NOT_JSON, unanswered="cannot_wait"))
    work.verdict.pending = request
    return None


async def take_answer(state: RunState, work: CallInProgress, answer: object) -> CallEnd | None:
    """Take the answer that the call waits for, as `JudgedCall.approve` hands it over."""
    assert work.verdict.pending is not None
    approval = read_answer(answer, work.verdict.pending)
    return None if isinstance(approval, Later) else await _settle(state, work, work.verdict.pending, approval)


async def take_refusal(state: RunState, work: CallInProgress, approval: Approval, text: str | None) -> CallEnd:
    """End the call by a refusal, as `JudgedCall.refuse` hands it over, whether or not it was asked for."""
    title = work.verdict.pending.title if work.verdict.pending else work.call.name
    work.verdict.pending = None
    await _trace_answer(state, work, approval, remembered=False)
    return CallEnd.refused("blocked", refusals.approval_refused(title, approval) if text is None else text)


def _request(state: RunState, work: CallInProgress) -> ApprovalRequest:
    assert work.tool is not None
    info, gravest = state.info, work.verdict.questions[0]
    return ApprovalRequest(
        title=gravest.title,
        description=gravest.description,
        severity=gravest.severity,
        timeout=gravest.timeout,
        plugin=gravest.plugin,
        questions=work.verdict.questions,
        session_id=info.session_id,
        run_id=info.run_id,
        agent_id=info.agent_id,
        workspace_dir=info.workspace_dir,
        requester=info.requester,
        trigger=info.trigger,
        triggers=info.triggers,
        agents=info.agents,
        call=work.call,
        tool=work.tool,
        arguments=schema.clone(work.input.arguments),
        effect_id=state.ledger.effect_id(work),
        store=state.parts.store,
        mask=state.secrets.value,
    )


async def _remembered(state: RunState, request: ApprovalRequest) -> Approval | None:
    try:
        with as_store_errors("the remembered approvals"):
            if not await state.parts.store.list_keys(REMEMBERED):
                return None
            from hooksdk._approvals.remembered import Remembered  # most stores remember none

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
    work.verdict.pending = None
    await _trace_answer(state, work, approval, remembered=remembered)
    if not approval.granted:
        doubts = [one.description for one in request.questions if one.plugin == OWNER]
        return CallEnd.refused("blocked", ". ".join([refusals.approval_refused(request.title, approval), *doubts]))
    if approval.agree == "values":
        await state.parts.reading.agree([each.digest for each in request.evidence])
    work.verdict.granted, work.verdict.questions, work.verdict.answered_by = (
        (*work.verdict.granted, *work.verdict.questions),
        (),
        approval.by,
    )
    if work.parent is None and not (work.options.at_once and state.open):
        await state.ledger.waiting.keep(work, approval, state.secrets)
    return None


async def _remember(state: RunState, request: ApprovalRequest, approval: Approval) -> str:
    """Remember an answer, without values of secrets. Answers why it cannot be remembered, or an empty text."""
    from hooksdk._approvals.remembered import Remembered

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
        ApprovalAnswered(
            call_id=work.call.id,
            granted=approval.granted,
            by=approval.by,
            scope=approval.scope,
            remembered=remembered,
            digest=digest_of(work.input.arguments),
            unanswered=approval.unanswered,
        )
    )


# A call that waits


async def keep_let_through(state: RunState) -> None:
    """The run is paused. Store which calls were let through and have not run: a later run does not count them again."""
    if "tool_call_start" not in state.hooks.plans or not state.parts.transcript_kept:
        return
    for work in state.ledger.open_calls:
        is_at_its_tool = work.stage is Stage.PAUSED or work.effect.begun
        if work.verdict.let_through and not (work.parent is not None or work.claimed or is_at_its_tool):
            by = work.verdict.answered_by
            await state.ledger.waiting.keep(work, None if by is None else Approval(True, by=by), state.secrets)


async def pause_tool(state: RunState, work: CallInProgress, error: ApprovalPending) -> ApprovalPending:
    """The tool's own framework has paused, so the call waits as it was judged. Answers the error to raise."""
    work.move(Stage.PAUSED)
    work.claimed, work.attempt, work.input = False, None, ToolInput(schema.clone(work.arguments))
    await state.ledger.waiting.keep(work, _yes_to(work), state.secrets)
    return ApprovalPending(state.secrets.value(vars(error).get("request")), work.call)


async def keep_approval(state: RunState, work: CallInProgress) -> None:
    """The policies still let a call through that was approved before: store that, until it runs."""
    approval = _yes_to(work)
    if work.verdict.granted:
        await _trace_answer(state, work, approval, remembered=True)
    await state.ledger.waiting.keep(work, approval, state.secrets)


def _yes_to(work: CallInProgress) -> Approval:
    return Approval(True, by=work.verdict.answered_by or "")
