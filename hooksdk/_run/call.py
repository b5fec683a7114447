"""One tool call from top to bottom: an equal call is looked for, the call is judged, its tool runs, and it ends once.

`judge` and `execute` list the steps; each step is a function below them, in that order. A step answers None where the
call goes on, and a `CallEnd` where it ends: the steps after it are skipped then. The steps that only plugins have are
in `hook_steps.py`.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import anyio
from anyio.lowlevel import RunVar

from hooksdk import hooks, schema
from hooksdk._approvals.request import Question, definition_of, digest_of
from hooksdk._firing.signature import to_result
from hooksdk._ledger.calls import CallEnd, CallInProgress, EffectState, Stage
from hooksdk._origins.labels import TRUSTED, UNLABELLED, UNTRUSTED, Labels, said_of, worsened
from hooksdk._run import asking, hook_steps, refusals
from hooksdk._run.context import Context, without_secrets
from hooksdk._run.hook_steps import policy_failed, readable, with_arguments
from hooksdk._run.origins import origins_of
from hooksdk._run.state import RunState
from hooksdk._run.tools import grant_uncatalogued
from hooksdk._schema.fresh import peek
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import Attempt, describe, in_abandonable_thread, is_async, is_cancelled, run_shielded
from hooksdk._transcript.effects import in_doubt
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import CallOrigin, ToolCall, ToolResult, join_labels
from hooksdk.errors import ApprovalPending, SessionBusy, StoreError, ToolError
from hooksdk.records import CallFinished, CallStarted, Content
from hooksdk.tools import Tool

# The depth to which tools may call tools.
MAX_DEPTH = 8
# Worker threads that one tool may hold at a time, abandoned ones included.
THREADS = 40
# Characters of a tool's own error that reach the model.
MAX_PROBLEM = 2000
# Seconds that cancelled calls have to end when their run ends.
CALLS_TIMEOUT = 10.0
# What became of calls whose results are hooksdk's own words. They may quote arguments, so they vouch for nothing.
REFUSALS: Final = frozenset({"blocked", "invalid", "unknown", "not_run"})
_limiters: RunVar[dict[str, anyio.CapacityLimiter] | None] = RunVar("hooksdk tool threads", None)

Steps = Callable[[RunState, CallInProgress], Awaitable[CallEnd | None]]


async def call_once(state: RunState, work: CallInProgress) -> ToolResult:
    """Judge a call and run its tool, in one go. Raises `ApprovalPending` for one whose approval comes later."""
    await begin(state, work, _judge_and_execute)
    work = work if work.replaced_by is None else work.newest
    if work.end is None:
        if work.verdict.pending is not None:
            raise ApprovalPending(work.verdict.pending, work.call)
        state.check_open()  # the run was paused while the call was judged
    assert work.end is not None
    return work.end.result


async def begin(state: RunState, work: CallInProgress, steps: Steps) -> None:
    """Take a call through these steps, unless its result is known already or comes from an equal call that runs."""
    work.call, work.catalog = work.written, state.tools
    if await find_equal(state, work):
        return
    state.ledger.open_calls.append(work)
    await go_on(state, work, steps(state, work))
    if work.end is None and state.ended not in {None, "paused"}:  # `end_calls` left it out: it was not judged yet
        await go_on(state, work, _not_run(state, work))
        state.check_open()


async def _judge_and_execute(state: RunState, work: CallInProgress) -> CallEnd | None:
    end = await judge(state, work)
    # A person may take longer to answer than the run lives.
    if end is not None or work.verdict.pending is not None or not state.open:
        return end
    if state.ledger.has_failed:  # another call's record, meanwhile
        return CallEnd.refused("not_run", refusals.no_records(work.call.name))
    work.claimed = True
    return await execute(state, work)


async def judge(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Judge a call: find its tool, and ask every policy and, where one says so, a person. Answers None where it may
    run."""
    plans = state.hooks.plans
    if work.options.tool is not None:
        work.catalog = await grant_uncatalogued(state, [work.options.tool])
    resumed = await take_up(state, work)
    end = None if resumed else await find_tool(state, work)
    if state.hooks.tracing:
        await trace_start(state, work)
    if resumed:
        end = await _judge_resumed(state, work)
    else:
        end = end or check_scope(state, work) or fit_arguments(state, work)
        if "rewrite_tool_call" in plans:
            end = end or await hook_steps.rewrite_tool_call(state, work)
        end = end or validate_arguments(work)
        if "before_tool_call" in plans or state.ledger.in_doubt(lost=True):
            end = end or await before_tool_call(state, work)
        end = end or check_still_granted(state, work)
    work.move(Stage.JUDGED)
    return end


async def _judge_resumed(state: RunState, work: CallInProgress) -> CallEnd | None:
    state.stats.origins[work.call.origin] += 1
    if work.options.made:
        work.input.arguments = schema.clone(work.arguments)
        return None
    was_approved = work.verdict.answered_by is not None
    end = await judge_again(state, work)
    if end is None and was_approved and work.verdict.resumed and work.verdict.pending is None:
        await asking.keep_approval(state, work)
    return end or check_still_granted(state, work)


async def judge_again(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The steps of a call that was judged and has waited: by the policies of now, with the arguments that were judged.
    Where a plugin that was not asked then rewrites them, no answer counts any more: each was about the others."""
    work.verdict.resumed, work.verdict.recorded = True, False
    if work.judged:
        work.move(Stage.JUDGED)
    end, judged = check_way(work), work.arguments
    if "rewrite_tool_call" in state.hooks.plans:
        end = end or await hook_steps.rewrite_tool_call(state, work)
    if work.arguments is not judged and digest_of(work.arguments) != (digest_of(judged) or None):
        work.verdict.forget_answers()
        work.effect.id = ""
    end = end or validate_arguments(work)
    end = end or await before_tool_call(state, work)
    return end or check_still_granted(state, work)


async def execute(state: RunState, work: CallInProgress) -> CallEnd:
    """Run the tool of a call that was judged and let through."""
    ledger = state.ledger
    if ledger.waiting.calls:
        await ledger.waiting.forget(work.written)  # a crash from here on has it judged anew: its tool may have run
    end = None
    if "resolve_secrets" in state.hooks.plans:
        end = await hook_steps.resolve_secrets(state, work)
    end = end or check_still_granted(state, work) or await let_through(state, work)
    end = end or check_still_granted(state, work)
    if end is None and await ledger.begin(work):
        end = check_still_granted(state, work)
    try:
        return end or await run_tool(state, work)
    except ApprovalPending as error:
        pause = error
    ledger.withdraw(work)
    # Raised outside the except block: the tool's own error, which may quote its arguments, is not chained.
    raise await asking.pause_tool(state, work, pause)


# An equal call is looked for


async def find_equal(state: RunState, work: CallInProgress) -> bool:
    """True where the call need not run: its result is recorded, or an equal call ran meanwhile, whose result it shares
    (`work.newest`). Waits for that call. Raises `StoreError` where a record of the call could not be written."""
    if has_result(state, work):
        return True
    ledger, unwritten = state.ledger, state.parts.transcript.unwritten
    if not (unwritten.may_be_full or unwritten.failures or ledger.busy):
        return False
    await ledger.check_space()
    return await _join(state, work) or has_result(state, work)


def has_result(state: RunState, work: CallInProgress) -> bool:
    """True, with its end set, for a call whose result the transcript has."""
    recorded = work.parent is None and not state.asked_model and state.parts.transcript_kept
    result = state.parts.transcript.ask(partial(Ledger.result_of, call=work.written)) if recorded else None
    if result is not None:
        work.finish(CallEnd("error" if result.is_error else "ok", result))
    return result is not None


async def _join(state: RunState, work: CallInProgress) -> bool:
    """Wait while a task works on this very call of the newest reply: it is made once. True when its result is this
    one's."""
    while twin := next((one for one in state.ledger.busy if _is_equal(one, work)), None):
        times = _times_open(state, work)
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
    are_models = one.parent is None and work.parent is None
    return are_models and one.written.id == work.written.id and one.digest == work.digest


async def wait_until_at_rest(state: RunState, work: CallInProgress) -> None:
    """Wait until no task works on the call. Meanwhile that task is shielded from cancellation, since others wait for
    what comes of it; asyncio's own `task.cancel()` goes through the shield."""
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
    """True when the call was judged before and has no result: it is judged again, with the arguments of then, and what
    was approved of it stands. False when nothing of that counts: also when its tool is withheld now, has another
    definition, the call is written otherwise, or the run is somebody else's."""
    ledger = state.ledger
    if work.parent is not None or not (len(ledger.open_calls) > 1 or ledger.waiting.calls):
        return False
    waiting = ledger.waiting.take(work)
    others = [one for one in ledger.open_calls if _is_at_rest(state, one, work.written)]
    if any(one.effect.begun for one in others):  # its executor said that it begins, and has it judged once more
        await ledger.write_running()
    if waiting is None:
        return bool(others) and _times_open(state, work) == 1 and _take_over(state, work, others)
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


def _times_open(state: RunState, work: CallInProgress) -> int:
    """How many calls of the newest reply have this call's id and no result; 0 once the model was asked again."""
    open_calls = state.parts.transcript.pending if state.parts.transcript_kept and not state.asked_model else ()
    return sum(call.id == work.written.id for call in open_calls)


def _replace(state: RunState, other: CallInProgress, work: CallInProgress) -> None:
    """`work` is the same call as `other`, made once more: a `JudgedCall` of the other goes on with it."""
    state.ledger.open_calls.remove(other)
    other.replaced_by = work
    work.verdict.let_through = work.verdict.let_through or other.verdict.let_through
    work.effect.id = work.effect.id or other.effect.id


def _take_over(state: RunState, work: CallInProgress, others: Sequence[CallInProgress]) -> bool:
    """Take over a call that was judged in this run, and about which no person was asked."""
    before = others[-1]
    tool = before.tool and (state.granted_to(work, before.tool.id) or state.granted_to(work, before.tool.name))
    if before.digest != work.digest or tool is not before.tool:
        return False
    for other in others:
        _replace(state, other, work)
    work.call, work.tool, work.arguments, work.input.arguments = before.call, before.tool, before.arguments, {}
    work.verdict.rewriters, work.verdict.resumed = before.verdict.rewriters, True
    return True


# It is judged


async def find_tool(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Find the tool by the name that the model wrote, by its id, or by a name that clearly means it. A name of none may
    be a bridge's."""
    call, catalog = work.call, work.catalog
    work.tool = catalog.get(call.name)
    if work.options.tool is not None:
        return None
    if work.tool is None and call.name not in catalog.withheld and call.name not in state.bridges:
        work.tool = catalog.meant(call.name, readable(call.arguments))
    if work.tool is None:
        is_bridge = work.parent is None and call.name not in catalog.withheld
        return await hook_steps.unwrap_tool_call(state, work) if is_bridge else None
    if work.tool.name != call.name:
        await hook_steps.take_real_name(state, work, work.tool)
    return None


async def trace_start(state: RunState, work: CallInProgress) -> None:
    """Write the call into the trace, under the tool's real name."""
    call, tool = work.call, work.tool
    await state.trace(
        CallStarted(
            call_id=call.id,
            parent_id=call.parent_id,
            origin=call.origin,
            tool=tool.id if tool else None,
            name=call.name,
        ),
        lambda: Content(arguments=readable(peek(call, "arguments"))),
    )


def check_scope(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Nothing outside the catalog runs, on whatever path the call came; a bridge that nobody unwrapped does not either,
    nor a tool to which the host does not let this call go (`only`)."""
    name, tool = work.call.name, work.tool
    if work.parent is not None and work.depth >= MAX_DEPTH:
        return CallEnd.refused("blocked", refusals.too_deep(name, MAX_DEPTH))
    if tool is None:
        status = "blocked" if name in work.catalog.withheld else "unknown"
        return CallEnd.refused(status, refusals.no_such_tool(name, work.catalog, state.call_hint))
    if name in state.bridges and state.runnable[name].execute is None:
        return CallEnd.refused("unknown", refusals.bridge_not_unwrapped(name))
    return check_way(work) if work.options.only is not None else None


def check_way(work: CallInProgress) -> CallEnd | None:
    """The host may limit a call to some tools (`only`), whatever bridge it came by."""
    reason = work.options.only(work.real_tool) if work.options.only is not None else None
    return CallEnd.refused("blocked", reason) if reason else None


def fit_arguments(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Read what the model wrote as arguments, and repair its shape where the meaning is certain."""
    assert work.tool is not None
    state.stats.origins[work.call.origin] += 1
    written = peek(work.call, "arguments")
    if isinstance(written, str) and written.strip() == "null":  # weak models write so for a tool without parameters
        written = None
    try:
        # A dict is the call's own copy already.
        arguments = cast("dict[str, Any]", written) if type(written) is dict else schema.parse_arguments(written)
        work.arguments, work.problems = work.tool.fit(arguments)
    except schema.BadArguments as error:
        return CallEnd.refused("invalid", refusals.arguments_unreadable(work.call.name, error))
    return None


def validate_arguments(work: CallInProgress) -> CallEnd | None:
    """The final arguments must fit the tool's schema. What is judged is what runs: the tool's own copy is taken
    here."""
    assert work.tool is not None
    if work.problems:
        return CallEnd.refused("invalid", work.tool.refusal(work.problems))
    work.input.arguments = schema.clone(work.arguments)
    if work.arguments is not peek(work.call, "arguments"):  # read from text, repaired or rewritten
        work.call = with_arguments(work.call, work.arguments)
    return None


async def before_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The policies judge: a block beats a question to a person beats an answer, whatever the order."""
    tool = work.tool
    assert tool is not None
    event = hooks.BeforeToolCall(
        info=state.info,
        call=work.call,
        tool=tool,
        arguments=work.arguments,
        again=work.verdict.resumed,
        begun=work.verdict.let_through,
        labels=state.labels,
        origins=partial(origins_of, state, work.arguments),
    )
    questions: list[Question] = []
    answer: CallEnd | None = None
    async for outcome in state.hooks.fire("before_tool_call", event, tool):
        if isinstance(outcome.answer, hooks.Block):
            return CallEnd.refused("blocked", refusals.blocked(outcome.handler.plugin, outcome.answer.reason))
        if isinstance(outcome.answer, hooks.Ask):
            plugin = outcome.handler.plugin
            question = await outcome.use(lambda ask, plugin=plugin: asking.read_question(plugin, ask))
            questions += [question] if question is not None else []
        elif answer is None:
            result = await outcome.use(lambda given: to_result(given.result))
            if result is not None:
                answer = CallEnd("answered", result, outcome.handler.plugin)
        if outcome.failure is not None:
            return policy_failed(outcome)
    if answer is None or questions:
        questions += state.ledger.question(work)
    if questions or work.verdict.questions:
        end = await asking.ask(state, work, questions)
        if end is not None:
            return end
    if answer is not None and not questions and work.verdict.pending is None:
        return answer
    if work.arguments != work.input.arguments:  # a policy reached into its event: the others judged other arguments
        return CallEnd.refused("blocked", refusals.arguments_changed(work.call.name))
    return None


def check_still_granted(state: RunState, work: CallInProgress) -> CallEnd | None:
    """A person may have taken long to answer, and the tools may have been resolved anew since the call was judged: a
    tool that is withheld now does not run, nor one whose arguments would have to be checked again."""
    tool, name = work.tool, work.call.name
    assert tool is not None
    if work.options.tool is not None or (
        state.catalog is work.catalog and state.parts.parent_run is None
    ):  # not resolved anew
        return None
    now = state.granted(name)
    if now is tool:
        return None
    if now is None or now.id != tool.id:
        reason = state.catalog.withheld.get(name) if state.catalog is not None else None
        return CallEnd.refused("blocked", refusals.granted_no_more(name, reason or "it is not granted any more"))
    if now.fingerprint != tool.fingerprint or now.annotations != tool.annotations:
        return CallEnd.refused("blocked", refusals.definition_changed(name))
    return None


# Its tool runs


async def let_through(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The last hooks before the tool: `tool_call_start` counts the call, `record_decision` writes the decision down. A
    call that was let through before is not counted again."""
    plans, verdict, end = state.hooks.plans, work.verdict, None
    counts, verdict.let_through = "tool_call_start" in plans and not verdict.let_through, True
    if counts:
        end = await hook_steps.tool_call_start(state, work)
    if end is None and not verdict.recorded and (state.parts.record_first or "record_decision" in plans):
        verdict.recorded = True
        end = await hook_steps.record_decision(state, work)
    return end


async def run_tool(state: RunState, work: CallInProgress) -> CallEnd:
    """Run the tool with exactly the arguments that were judged. Its errors and a missed time limit become results."""
    tool = work.options.tool or state.runnable[work.call.name]
    if tool.execute is None:
        return take_result(state, work, ToolResult.error(refusals.no_executor(tool.name)))
    around = hook_steps.AroundStack() if "around_tool_call" in state.hooks.plans else None
    result: ToolResult | None = None
    try:
        if around is not None:
            await around.enter_for_tool(state, work)
        inputs: tuple[Any, ...] = (work.input.arguments,)
        if tool.takes_context:
            inputs = (*inputs, Context(state, work, _call_nested))
        work.move(Stage.ENTERED)
        async with Attempt(tool.timeout) as attempt:
            work.attempt = attempt
            if is_async(tool.execute):
                value = await tool.execute(*inputs)
            else:
                value = await in_abandonable_thread(tool.execute, *inputs, limiter=_threads_of(tool))
                value = await value if inspect.isawaitable(value) else value
            result = to_result(value)
    finally:
        if around is not None:
            around.leave()
        if work.stage is Stage.ENTERED:
            work.move(Stage.LEFT)
    if attempt.late and attempt.cancelled:
        result = ToolResult.error(refusals.too_late(tool.name, tool.timeout, in_doubt=work.effect.doubt()))
    elif isinstance(attempt.error, ApprovalPending) and work.parent is None:
        raise attempt.error
    elif attempt.error is not None:
        result = ToolResult.error(_problem(state, work, attempt.error))
    assert result is not None
    return take_result(state, work, result)


def _problem(state: RunState, work: CallInProgress, error: BaseException) -> str:
    name = work.call.name
    if isinstance(error, ToolError):
        if error.in_doubt:
            work.effect.doubt()
        return error.text
    if isinstance(error, ApprovalPending):
        return refusals.cannot_pause(name)
    if isinstance(error, anyio.get_cancelled_exc_class()):
        work.effect.doubt()
        return refusals.tool_cancelled(name)
    # Masked before it is clipped and set in one line: half a secret, or one on two lines, is not recognised.
    return refusals.tool_failed(name, describe(error, MAX_PROBLEM, lambda text: without_secrets(state, work, text)))


def take_result(state: RunState, work: CallInProgress, result: ToolResult) -> CallEnd:
    """The end of a call whose tool has answered, here or elsewhere. Values of secrets are masked, and a note tells the
    model where the result does not match the tool's output schema."""
    if state.secrets.active:
        result = state.secrets.result(result)
    if work.input.short_secrets:
        result = work.input.short_secrets.result(result)
    if work.tool is not None and not result.is_error and peek(work.tool, "output_schema") is not None:
        result = _checked(work.tool, result)
    return CallEnd("error" if result.is_error else "ok", result)


def _checked(tool: Tool, result: ToolResult) -> ToolResult:
    value = result.structured
    if value is None:
        try:
            value = json.loads(result.text)
        except (ValueError, RecursionError):
            value = result.text
    problems = schema.check(peek(tool, "output_schema"), value, root="result", quote_values=False)
    if not problems:
        return result
    listing = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:3])
    note = f"[note: this result does not match the tool's output schema: {listing}]"
    return result.with_text(f"{result.text}\n{note}", structured=result.structured)


def _threads_of(tool: Tool) -> anyio.CapacityLimiter:
    """The worker threads of one tool. Each tool has its own, so that one that hangs blocks neither other tools nor
    stores."""
    limiters = _limiters.get()
    if limiters is None:
        _limiters.set(limiters := {})
    return limiters.setdefault(tool.id, anyio.CapacityLimiter(THREADS))


async def _call_nested(
    state: RunState, outer: CallInProgress, name: str, arguments: Mapping[str, Any], origin: CallOrigin
) -> ToolResult:
    state.check_open()
    call_id = f"{outer.call.id}/{state.stats.next_nested()}"
    call = ToolCall(call_id, name, dict(arguments), origin=origin, parent_id=outer.call.id)
    return await call_once(state, CallInProgress(call, parent=outer, native=outer.native))


# It ends


async def go_on(state: RunState, work: CallInProgress, steps: Awaitable[CallEnd | None]) -> None:
    """Work on a call, in a scope that the end of its run cancels."""
    state.ledger.busy[work] = scope = anyio.CancelScope()
    try:
        with scope:
            await _take_steps(state, work, steps)
        if scope.cancelled_caught and not work.claimed:
            state.check_open()
    finally:
        del state.ledger.busy[work]
        if work.at_rest is not None:
            work.at_rest.set()
            work.at_rest = None
        if not state.ledger.busy and state.calls_over is not None:
            state.calls_over.set()


async def _take_steps(state: RunState, work: CallInProgress, steps: Awaitable[CallEnd | None]) -> None:
    """Work on a call. When it ends or is interrupted, its result is recorded and every observer is told, once."""
    end: CallEnd | None = None
    clean: BaseException | None = None
    try:
        end = await steps
        if end is not None:
            # Masked before and after the plugins: a refusal, an answer and a change may each quote a secret.
            end = _masked(state, end) if state.secrets.active else end
            end = await label_result(state, work, end)
            if "transform_tool_result" in state.hooks.plans:
                end = _masked(state, await hook_steps.transform_tool_result(state, work, end))
    except BaseException as error:
        if work.stage is Stage.PAUSED:  # its tool has paused: there is no result yet
            raise
        in_doubt = work.entered and work.effect.doubt()
        text = refusals.interrupted(work.call.name, error, ran=work.entered, in_doubt=in_doubt)
        has_not_begun = isinstance(error, (StoreError, SessionBusy)) and not work.entered
        end = CallEnd("not_run" if has_not_begun else "error", ToolResult.error(text))
        if state.ended is not None and not work.claimed:  # cut off before its tool ran
            end = await _not_run(state, work)
        clean = state.secrets.error(error)
        if clean is error:
            raise
    finally:
        if end is not None:
            if end.status != "ok" and not work.entered:
                end = state.ledger.with_doubt(work, end)
                if work.effect.repeats:
                    work.effect.state = EffectState.IN_DOUBT
            work.finish(end)
            state.ledger.open_calls.remove(work)
            try:
                if work.parent is None:  # nested results stay out of the transcript
                    await run_shielded(_record_result, state, work, end.result)
                elif work.effect.begun:
                    await run_shielded(state.ledger.finish, work)
            finally:
                await after_tool_call(state, work, end)
    if clean is not None:  # raised outside the except block, so that the error with the value is not chained
        raise clean


def _masked(state: RunState, end: CallEnd) -> CallEnd:
    return replace(end, result=state.secrets.result(end.result))


async def label_result(state: RunState, work: CallInProgress, end: CallEnd) -> CallEnd:
    """The end of a call, its result with the labels that its text has from here on, wherever it is read again."""
    labels = frozenset[str]() if end.status in REFUSALS else await _labels_of(state, work, end)
    state.note_result(work, end.result.text, labels)
    result = object.__new__(ToolResult)  # `with_labels` would check them once more
    vars(result).update(vars(end.result), labels=labels)
    return replace(end, result=result)


async def _labels_of(state: RunState, work: CallInProgress, end: CallEnd) -> Labels:
    tool, result = work.tool, end.result
    said = [result.labels]
    if end.status != "answered" and tool is not None:
        said = [tool.labels, result.labels]
        if tool.source == "plugin" and tool.owner in state.parts.missing_grants:
            # A plugin that may not read what the agent reads may not vouch for any of it either.
            said = [None if labels is None else (labels - {TRUSTED}) | {UNTRUSTED} for labels in said]
    if "label_result" in state.hooks.plans:
        said += await hook_steps.ask_labels(state, work.call, work.arguments, tool, end)
    if tool is not None and tool.search and not any(said):
        said.append(frozenset())  # it hands on what the calls that it makes have answered, and vouches for none of it
    labels = said_of(*said)
    if work.read:
        labels = join_labels(labels, *work.read)
    if (meta := peek(result, "meta")) is not None:
        labels = worsened(labels, meta)
    return labels - {TRUSTED} if end.status == "error" else labels  # its text may quote the arguments


async def _record_result(state: RunState, work: CallInProgress, result: ToolResult) -> None:
    ledger, parts, effect = state.ledger, state.parts, work.effect
    if parts.transcript_kept:
        try:
            if effect.state is EffectState.IN_DOUBT:
                await ledger.write_doubt(work)
            await parts.transcript.answer(
                work.written, result, work.tool, replies=state.replies_at_end, ends=effect.ends
            )
        except Exception:
            ledger.keep_result(work, result, state.replies_at_end)
            raise
    elif effect.begun:
        await ledger.finish(work)
    if ledger.waiting.calls:
        await ledger.waiting.forget(work.written)
    if parts.states.opened:
        await parts.states.save()


async def after_tool_call(state: RunState, work: CallInProgress, end: CallEnd) -> None:
    """Count the call, and tell observers and the trace what became of it."""
    seconds = time.monotonic() - work.started
    call, tool = work.call, work.tool
    state.stats.finished(end.status, end.result, tool, call)
    if "after_tool_call" in state.hooks.plans:
        event = hooks.AfterToolCall(
            info=state.info,
            call=call,
            arguments=work.arguments,
            tool=tool,
            result=end.result,
            status=end.status,
            seconds=seconds,
        )
        state.hooks.observe("after_tool_call", event)
    if state.hooks.tracing:
        await state.trace(
            CallFinished(
                call_id=call.id,
                parent_id=call.parent_id,
                origin=call.origin,
                tool=tool.id if tool else None,
                name=call.name,
                status=end.status,
                seconds=round(seconds, 6),
                characters=len(end.result.text),
                labels=tuple(sorted(UNLABELLED if end.result.labels is None else end.result.labels)),
                in_doubt=work.effect.in_doubt,
            ),
            lambda: Content(text=end.result.text, arguments=work.arguments),
        )


async def end_calls(state: RunState) -> None:
    """The run ends: cancel the calls that tasks work on, and wait for them. Calls that were judged and never executed
    end as `not_run`."""
    for scope in state.ledger.busy.values():
        scope.cancel()
    if state.ledger.busy:
        state.calls_over = anyio.Event()
        with anyio.move_on_after(CALLS_TIMEOUT):
            await state.calls_over.wait()
    if state.ledger.busy:
        names = ", ".join(sorted({work.call.name for work in state.ledger.busy}))
        await state.ledger.write_running()
        logger.warning("calls of run %s did not end within %g s: %s", state.info.run_id, CALLS_TIMEOUT, names)
    at_rest = [work for work in state.ledger.open_calls if work not in state.ledger.busy]
    for work in [work for work in at_rest if work.judged and not work.claimed]:
        await go_on(state, work, _not_run(state, work))


async def _not_run(state: RunState, work: CallInProgress) -> CallEnd:
    if work.effect.doubt() or state.ledger.has_begun_before(work):  # its executor said so, and gave no result
        return CallEnd("error", ToolResult.error(in_doubt(work.call.name)))
    return CallEnd("not_run", ToolResult.error(refusals.not_run_at_end(work.call.name)))
