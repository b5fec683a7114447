"""One tool call from top to bottom: it is judged, its tool runs, and it ends once.

`judge` and `execute` list the steps; each step is a function below them, in that order. A step answers None where the call
goes on, and a `CallEnd` where it ends: the steps after it are skipped then. A hook without handlers is skipped, too.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio.lowlevel import RunVar

from hooksdk import hooks, schema
from hooksdk._approvals.request import Question, digest_of
from hooksdk._firing.dispatcher import HandlerOutcome
from hooksdk._firing.signature import is_async, own_result, to_result
from hooksdk._ledger.calls import CallEnd, CallInProgress, EffectState, Stage
from hooksdk._masking.mask import MIN_MASKED, SecretMask
from hooksdk._origins.labels import UNLABELLED
from hooksdk._run import asking, equal_calls, refusals
from hooksdk._run.around import AroundStack
from hooksdk._run.context import Context, without_secrets
from hooksdk._run.labelling import label_result
from hooksdk._run.origins import origins_of
from hooksdk._run.state import RunState
from hooksdk._run.tools import grant_beside
from hooksdk._schema.fresh import peek, put_fresh
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import Attempt, describe
from hooksdk._tasks.shielding import in_abandonable_thread, run_shielded
from hooksdk._transcript.effects import in_doubt
from hooksdk.calls import CallOrigin, ToolCall, ToolResult, join_labels
from hooksdk.catalog import Catalog
from hooksdk.errors import ApprovalPending, SessionBusy, StoreError, ToolError
from hooksdk.records import CallFinished, CallStarted, CallStatus, Content, Unwrapped
from hooksdk.tools import Tool
from hooksdk.values import fill_secrets, secret_names

T = TypeVar("T")

# The depth to which tools may call tools.
MAX_DEPTH = 8
# Worker threads that one tool may hold at a time, abandoned ones included.
THREADS = 40
# Characters of a tool's own error that reach the model.
MAX_PROBLEM = 2000
# Seconds that cancelled calls have to end when their run ends.
CALLS_TIMEOUT = 10.0
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
    work.catalog = state.tools
    if await equal_calls.settle(state, work):
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
    if state.ledger.space.has_failed:  # another call's record, meanwhile
        return _refused("not_run", refusals.no_records(work.call.name))
    work.claimed = True
    return await execute(state, work)


async def judge(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Judge a call: find its tool, and ask every policy and, where one says so, a person. Answers None where it may run."""
    if work.options.tool is not None:
        work.catalog = await grant_beside(state, [work.options.tool])
    resumed = await equal_calls.take_up(state, work)
    end = None if resumed else await unwrap_tool_call(state, work)
    if state.hooks.tracing:
        await trace_start(state, work)
    if resumed:
        state.stats.called(work.call)
        if work.options.made:
            work.input.arguments = schema.clone(work.arguments)
        else:
            end = await _judge_resumed(state, work)
    else:
        end = end or await _judge_new(state, work)
    work.move(Stage.JUDGED)
    return end


async def _judge_new(state: RunState, work: CallInProgress) -> CallEnd | None:
    plans = state.hooks.plans
    end = check_scope(state, work) or check_way(work) or repair_arguments(state, work)
    if "rewrite_tool_call" in plans:
        end = end or await rewrite_tool_call(state, work)
    end = end or validate_arguments(work)
    if "before_tool_call" in plans or state.ledger.asked_about():
        end = end or await before_tool_call(state, work)
    return end or check_still_granted(state, work)


async def _judge_resumed(state: RunState, work: CallInProgress) -> CallEnd | None:
    was_approved = work.verdict.answered_by is not None
    end = await judge_again(state, work)
    if end is None and was_approved and work.verdict.resumed and work.verdict.pending is None:
        await asking.keep_approval(state, work)
    return end or check_still_granted(state, work)


async def judge_again(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The steps of a call that was judged and has waited: by the policies of now, with the arguments that were judged. Where a
    plugin that was not asked then rewrites them, no answer counts any more: each was about the others."""
    work.verdict.resumed, work.verdict.recorded = True, False
    if work.judged:
        work.move(Stage.JUDGED)
    end, judged = check_way(work), work.arguments
    if "rewrite_tool_call" in state.hooks.plans:
        end = end or await rewrite_tool_call(state, work)
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
    end = await resolve_secrets(state, work) if "resolve_secrets" in state.hooks.plans else None
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


# It is judged


def _refused(status: CallStatus, text: str) -> CallEnd:
    return CallEnd(status, ToolResult.error(text))


async def unwrap_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Find the tool; a name outside the catalog may be a bridge's, which stands for another call."""
    call, catalog = work.call, work.catalog
    work.tool = catalog.get(call.name)
    if work.options.tool is not None:
        return None
    if work.tool is None and call.name not in catalog.withheld and call.name not in state.bridges:
        work.tool = catalog.meant(call.name, _readable(call.arguments))
    if work.tool is not None:
        await _take_real_name(state, work, work.tool)
        return None
    if work.parent is not None or call.name in catalog.withheld:
        return None
    work.tool = state.bridges.get(call.name) or Catalog(state.bridges.values()).meant(call.name)
    if work.tool is not None:
        await _take_real_name(state, work, work.tool)
        call = work.call
    if "unwrap_tool_call" not in state.hooks.plans:
        return None
    event = hooks.UnwrapToolCall(
        info=state.info, call=call, arguments=_readable(call.arguments), tool=work.tool, catalog=catalog
    )
    async for outcome in state.hooks.fire("unwrap_tool_call", event):
        written = await outcome.use(_name_in)
        if (failure := outcome.failure) is not None:
            if isinstance(failure.error, ToolError):  # the plugin's own words for the model
                return _refused("unknown" if work.tool is None else "invalid", str(failure.error))
            failure.log()
            return _refused("invalid", refusals.bridge_failed(call.name, failure))
        assert written is not None
        arguments = peek(outcome.answer, "arguments")
        work.tool = catalog.meant(written, _readable(arguments))
        bridge = state.bridges.get(written)
        if work.tool is None and bridge is not None and bridge.owner == outcome.handler.plugin:
            work.tool = bridge  # the plugin's own bridge: `check_scope` refuses it unless it has an executor
        name = work.tool.name if work.tool is not None else written
        work.call = with_arguments(ToolCall(call.id, name, origin="bridge"), arguments)
        await state.trace(
            Unwrapped(call_id=call.id, bridge=call.name, tool=name, written="" if written == name else written)
        )
        break
    return None


async def _take_real_name(state: RunState, work: CallInProgress, tool: Tool) -> None:
    """The model may write a tool's id, or a name that clearly means it. Every hook sees the real name."""
    call = work.call
    if tool.name != call.name:
        work.call = ToolCall(call.id, tool.name, peek(call, "arguments"), origin=call.origin, parent_id=call.parent_id)
        await state.trace(Unwrapped(call_id=call.id, bridge="", tool=tool.name, written=call.name))


def _name_in(answer: ToolCall) -> str:
    if not isinstance(answer.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"ToolCall(name=...) must be str, got {type(answer.name).__name__}")
    return answer.name


def _readable(written: object) -> dict[str, Any]:
    """The arguments as an object, empty where the model wrote none: `event.call.arguments` has them as written."""
    try:
        return schema.parse_arguments(written)
    except schema.BadArguments:
        return {}


def with_arguments(call: ToolCall, arguments: object) -> ToolCall:
    """The same call with other arguments. They are not copied, so the caller must not change them afterwards."""
    twin = object.__new__(ToolCall)
    vars(twin).update(vars(call))
    put_fresh(twin, arguments=arguments)
    return twin


async def trace_start(state: RunState, work: CallInProgress) -> None:
    """Write the call into the trace, under the tool's real name."""
    call, tool = work.call, work.tool
    await state.trace(
        CallStarted(call_id=call.id, parent_id=call.parent_id, origin=call.origin, tool=tool.id if tool else None,
                    name=call.name),
        lambda: Content(arguments=_readable(peek(call, "arguments"))),
    )  # fmt: skip


def check_scope(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Nothing outside the catalog runs, on whatever path the call came; a bridge that nobody unwrapped does not either."""
    name, tool = work.call.name, work.tool
    if work.depth >= MAX_DEPTH:
        return _refused("blocked", refusals.too_deep(name, MAX_DEPTH))
    if tool is None:
        status = "blocked" if name in work.catalog.withheld else "unknown"
        return _refused(status, refusals.no_such_tool(name, work.catalog, state.call_hint))
    if name in state.bridges and state.runnable[name].execute is None:
        return _refused("unknown", refusals.bridge_not_unwrapped(name))
    return None


def check_way(work: CallInProgress) -> CallEnd | None:
    """The host may limit a call to some tools (`only`), whatever bridge it came by."""
    assert work.tool is not None
    reason = work.options.only(work.tool) if work.options.only is not None else None
    return _refused("blocked", reason) if reason else None


def repair_arguments(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Read what the model wrote as arguments, and repair its shape where the meaning is certain."""
    assert work.tool is not None
    state.stats.called(work.call)
    written = peek(work.call, "arguments")
    if isinstance(written, str) and written.strip() == "null":  # weak models write so for a tool without parameters
        written = None
    try:
        # A dict is the call's own copy already.
        arguments = cast("dict[str, Any]", written) if type(written) is dict else schema.parse_arguments(written)
        work.arguments, work.problems = work.tool.fit(arguments)
    except schema.BadArguments as error:
        return _refused("invalid", refusals.arguments_unreadable(work.call.name, error))
    return None


async def rewrite_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Plugins change the arguments, one after the other, and each plugin once."""
    tool = work.tool
    assert tool is not None

    def event() -> hooks.RewriteToolCall:
        own = schema.clone(work.arguments)  # a change reached through the event's insides would never be checked
        return hooks.RewriteToolCall(info=state.info, call=work.call, tool=tool, arguments=own)

    asked = [one for one in state.hooks.plans["rewrite_tool_call"] if not one.shadow and one.concerns(tool)]
    before, everybody = work.verdict.rewriters or (), work.verdict.rewriters is None
    leave_out = {one.plugin for one in asked} if everybody else {*before}
    work.verdict.rewriters = tuple(sorted({*before, *(one.plugin for one in asked)}))
    async for outcome in state.hooks.fire("rewrite_tool_call", event, tool, leave_out=leave_out):
        arguments = await outcome.use(lambda answer: schema.clone(dict(answer.arguments)))
        if arguments is None:
            return policy_failed(outcome)
        work.arguments = arguments
        work.problems = tool.check(work.arguments)
    return None


def validate_arguments(work: CallInProgress) -> CallEnd | None:
    """The final arguments must fit the tool's schema. What is judged is what runs: the tool's own copy is taken here."""
    assert work.tool is not None
    if work.problems:
        return _refused("invalid", work.tool.refusal(work.problems))
    work.input.arguments = schema.clone(work.arguments)
    if work.arguments is not peek(work.call, "arguments"):  # read from text, repaired or rewritten
        work.call = with_arguments(work.call, work.arguments)
    return None


async def before_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The policies judge: a block beats a question to a person beats an answer, whatever the order."""
    tool = work.tool
    assert tool is not None
    event = hooks.BeforeToolCall(
        info=state.info, call=work.call, tool=tool, arguments=work.arguments, again=work.verdict.resumed, begun=work.verdict.let_through,
        labels=state.labels, origins=partial(origins_of, state, work.arguments),
    )  # fmt: skip
    questions: list[Question] = []
    answer: CallEnd | None = None
    async for outcome in state.hooks.fire("before_tool_call", event, tool):
        if isinstance(outcome.answer, hooks.Block):
            return _refused("blocked", refusals.blocked(outcome.handler.plugin, outcome.answer.reason))
        if isinstance(outcome.answer, hooks.Ask):
            plugin = outcome.handler.plugin
            question = await outcome.use(lambda ask, plugin=plugin: asking.read_question(plugin, ask))
            questions += [question] if question is not None else []
        elif answer is None:
            answer = await outcome.use(lambda given, plugin=outcome.handler.plugin: _answered(plugin, given))
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
    if work.arguments != work.input.arguments:  # somebody reached into an event: not everybody judged what would run
        return _refused("blocked", refusals.arguments_changed(work.call.name))
    return None


def check_still_granted(state: RunState, work: CallInProgress) -> CallEnd | None:
    """A person may have taken long to answer, and the tools may have been resolved anew since the call was judged: a tool
    that is withheld now does not run, nor one whose arguments would have to be checked again."""
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
        return _refused("blocked", refusals.granted_no_more(name, reason or "it is not granted any more"))
    if now.fingerprint != tool.fingerprint or now.annotations != tool.annotations:
        return _refused("blocked", refusals.definition_changed(name))
    return None


def _answered(plugin: str, answer: hooks.Answer) -> CallEnd:
    result = ToolResult(answer.result) if isinstance(answer.result, str) else own_result(answer.result)
    return CallEnd("answered", result, plugin)


def policy_failed(outcome: HandlerOutcome) -> CallEnd:
    """A policy that cannot judge lets nothing through."""
    outcome.log(", so the call is blocked")
    return _refused("blocked", refusals.policy_failed(outcome.handler.plugin))


# Its tool runs


async def resolve_secrets(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Fill `{{secret:NAME}}` in the tool's own copy of the arguments. A tool that a plugin offers to call others with gets no
    values: a script could print one in another form. The calls that it makes get theirs."""
    tool = work.tool
    assert tool is not None
    if work.call.name in state.bridges:
        return None
    names = secret_names(work.input.arguments)
    if not names:
        return None
    if not tool.keeps_secrets and state.hooks.enforces("resolve_secrets"):
        return _refused("blocked", refusals.secret_not_kept(work.call.name))
    values: dict[str, str] | None = None
    event = hooks.ResolveSecrets(
        info=state.info, call=work.call, tool=tool, arguments=work.arguments, names=tuple(names)
    )
    async for outcome in state.hooks.fire("resolve_secrets", event, tool):
        values = await outcome.use(lambda answer: values_of(answer.values, names))
        if outcome.failure is not None:
            return policy_failed(outcome)
        break
    values = values or {}
    if not state.hooks.enforces("resolve_secrets"):
        return None
    if missing := [name for name in names if name not in values]:
        return CallEnd("blocked", ToolResult.error(refusals.no_secret_value(missing)))
    state.secrets.add(values)
    if short := [(name, value) for name, value in values.items() if len(value.strip()) < MIN_MASKED]:
        work.input.short_secrets = SecretMask(short, shortest=1)
    work.input.arguments = fill_secrets(work.input.arguments, values)
    if problems := tool.check(work.input.arguments, quote_values=False):
        return CallEnd("invalid", ToolResult.error(tool.refusal(problems)))
    return None


def values_of(answers: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """The values among a plugin's answers that belong to these secrets."""
    return {name: str.__str__(value) for name in names if isinstance(value := answers.get(name), str)}


async def let_through(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The last hooks before the tool: `tool_call_start` counts the call, `record_decision` writes the decision down."""
    return await tool_call_start(state, work) or await record_decision(state, work)


async def record_decision(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Plugins write the decision down. With `record_first` a call is blocked whose decision was not written."""
    first, written = state.parts.record_first, "record_decision" in state.hooks.plans
    if work.verdict.recorded or not (first or written):
        return None
    work.verdict.recorded = True
    if written:
        async for outcome in state.hooks.fire("record_decision", _decision_event(state, work)):
            outcome.log(", so the call is blocked" if first else "")
            written = False
    return _refused("blocked", refusals.not_recorded(work.call.name)) if first and not written else None


def _decision_event(state: RunState, work: CallInProgress) -> hooks.RecordDecision:
    tool = work.tool
    assert tool is not None
    judges = [one for one in state.hooks.plans.get("before_tool_call", ()) if not one.shadow and one.concerns(tool)]
    return hooks.RecordDecision(
        info=state.info, call=with_arguments(work.call, arguments := state.ledger.storable_arguments(work)), tool=tool,
        arguments=arguments, judged_by=tuple(dict.fromkeys(one.plugin for one in judges)), labels=state.labels,
        granted=work.verdict.granted, approved_by=work.verdict.answered_by, effect_id=state.ledger.effect_id(work),
        required=state.parts.record_first,
    )  # fmt: skip


async def tool_call_start(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Plugins that count calls may still block this one. A call that was let through before is not counted again."""
    tool, before = work.tool, work.verdict.let_through
    assert tool is not None
    work.verdict.let_through = True
    if before or "tool_call_start" not in state.hooks.plans:
        return None
    event = hooks.ToolCallStart(
        info=state.info, call=work.call, tool=tool, arguments=work.arguments, granted=work.verdict.granted
    )
    async for outcome in state.hooks.fire("tool_call_start", event, tool):
        if outcome.failure is not None:
            return policy_failed(outcome)
        return _refused("blocked", refusals.blocked(outcome.handler.plugin, outcome.answer.reason))
    return None


async def run_tool(state: RunState, work: CallInProgress) -> CallEnd:
    """Run the tool with exactly the arguments that were judged. Its errors and a missed time limit become results."""
    tool = work.options.tool or state.runnable[work.call.name]
    if tool.execute is None:
        return take_result(state, work, ToolResult.error(refusals.no_executor(tool.name)))
    try:
        inside = _attempt_inside if "around_tool_call" in state.hooks.plans else _attempt
        result = await inside(state, work, tool)
    finally:
        if work.stage is Stage.ENTERED:
            work.move(Stage.LEFT)
    return take_result(state, work, result)


async def _attempt_inside(state: RunState, work: CallInProgress, tool: Tool) -> ToolResult:
    """Run the tool inside the context managers of `around_tool_call`."""
    around = AroundStack()
    try:
        await around.enter(state, "around_tool_call", lambda: _around_event(state, work), work.tool)
        return await _attempt(state, work, tool)
    finally:
        around.leave()


def _around_event(state: RunState, work: CallInProgress) -> hooks.AroundToolCall:
    assert work.tool is not None
    began = time.time() - (time.monotonic() - work.started)
    return hooks.AroundToolCall(
        info=state.info, call=work.call, tool=work.tool, arguments=work.arguments, began=began
    )  # fmt: skip


async def _attempt(state: RunState, work: CallInProgress, tool: Tool) -> ToolResult:
    assert tool.execute is not None
    inputs = (
        (work.input.arguments, Context(state, work, _call_nested)) if tool.takes_context else (work.input.arguments,)
    )
    result: ToolResult | None = None
    work.move(Stage.ENTERED)
    async with Attempt(tool.timeout) as attempt:
        work.attempt = attempt
        if is_async(tool.execute):
            value = await tool.execute(*inputs)
        else:
            value = await in_abandonable_thread(tool.execute, *inputs, limiter=_threads_of(tool))
            value = await value if inspect.isawaitable(value) else value
        result = to_result(value)
    if attempt.late and attempt.cancelled:
        return ToolResult.error(refusals.too_late(tool.name, tool.timeout, in_doubt=work.effect.doubt()))
    if isinstance(attempt.error, ApprovalPending) and work.parent is None:
        raise attempt.error
    if attempt.error is not None:
        return ToolResult.error(_problem(state, work, attempt.error))
    assert result is not None
    return result


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
    """The end of a call whose tool has answered, here or elsewhere. Values of secrets are masked, and a note tells the model
    where the result does not match the tool's output schema."""
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
    """The worker threads of one tool. Each tool has its own, so that one that hangs blocks neither other tools nor stores."""
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
                end = _masked(state, await transform_tool_result(state, work, end))
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
            end = state.ledger.with_doubt(work, end)
            if work.effect.repeats and not work.entered:
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


async def _record_result(state: RunState, work: CallInProgress, result: ToolResult) -> None:
    parts = state.parts
    if parts.transcript_kept:
        try:
            ends = await state.ledger.prepare_end(work)
            await parts.transcript.answer(work.written, result, work.tool, replies=state.replies_at_end, ends=ends)
        except Exception:
            state.ledger.space.keep_result(work, result, state.replies_at_end)
            raise
    elif work.effect.begun:
        await state.ledger.finish(work)
    if state.ledger.waiting.calls:
        await state.ledger.waiting.forget(work.written)
    if parts.states.opened:
        await parts.states.save()


async def transform_tool_result(state: RunState, work: CallInProgress, end: CallEnd) -> CallEnd:
    """Plugins change the result, one after the other."""
    result = end.result

    def event() -> hooks.TransformToolResult:
        return hooks.TransformToolResult(
            info=state.info, call=work.call, arguments=work.arguments, tool=work.tool, result=result,
            status=end.status, answered_by=end.answerer, count=state.stats.count,
        )  # fmt: skip

    async for outcome in state.hooks.fire("transform_tool_result", event, work.tool):
        handler = outcome.handler
        replacement = await outcome.use(lambda answer, before=result: _replaced(before, answer.result))
        if replacement is not None:
            result = replacement
        elif outcome.failure is not None:
            outcome.log(", so the result is withheld" if handler.required else "")
            if handler.required:
                result = ToolResult.error(refusals.result_withheld(handler.plugin)).with_labels(())
    return replace(end, result=result)


def _replaced(result: ToolResult, replacement: ToolResult | str) -> ToolResult:
    """A changed text keeps the labels of the text before. Labels of the change can only make it less trusted."""
    if isinstance(replacement, str):
        return result.with_text(replacement)
    changed = own_result(replacement)
    said = (result.labels,) if changed.labels is None else (result.labels, changed.labels)
    return changed.with_labels(join_labels(*said))


async def after_tool_call(state: RunState, work: CallInProgress, end: CallEnd) -> None:
    """Count the call, and tell observers and the trace what became of it."""
    seconds = time.monotonic() - work.started
    call, tool = work.call, work.tool
    state.stats.finished(end.status, end.result, tool, call)
    if "after_tool_call" in state.hooks.plans:
        event = hooks.AfterToolCall(
            info=state.info, call=call, arguments=work.arguments, tool=tool, result=end.result, status=end.status,
            seconds=seconds,
        )  # fmt: skip
        state.hooks.observe("after_tool_call", event)
    if state.hooks.tracing:
        await state.trace(
            CallFinished(call_id=call.id, parent_id=call.parent_id, origin=call.origin, tool=tool.id if tool else None,
                         name=call.name, status=end.status, seconds=round(seconds, 6), characters=len(end.result.text),
                         labels=tuple(sorted(UNLABELLED if end.result.labels is None else end.result.labels)),
                         in_doubt=work.effect.in_doubt),
            lambda: Content(text=end.result.text, arguments=work.arguments),
        )  # fmt: skip


async def end_calls(state: RunState) -> None:
    """The run ends: cancel the calls that tasks work on, and wait for them. Calls that were judged and never executed end as
    `not_run`."""
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
