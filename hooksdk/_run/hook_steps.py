"""The steps of a call in which plugins take part: each function fires one hook. `call.py` has their order, and leaves
out the steps whose hooks nobody handles."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Literal, final

from hooksdk import hooks, schema
from hooksdk._firing.calling import Failure
from hooksdk._firing.dispatcher import HandlerOutcome
from hooksdk._firing.hook import Handler
from hooksdk._firing.signature import own_result
from hooksdk._ledger.calls import CallEnd, CallInProgress
from hooksdk._masking.mask import MIN_MASKED, SecretMask
from hooksdk._origins.labels import UNLABELLED, Labels, join_labels, read_labels, said_of
from hooksdk._run import refusals
from hooksdk._run.state import RunState
from hooksdk._schema.fresh import peek, put_fresh
from hooksdk._tasks.limits import is_uncatchable
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import ConfigError, PolicyFailed, ToolError
from hooksdk.records import Unwrapped
from hooksdk.tools import Tool
from hooksdk.values import fill_secrets, secret_names


def policy_failed(outcome: HandlerOutcome) -> CallEnd:
    """A policy that cannot judge lets nothing through."""
    outcome.log(", so the call is blocked")
    return CallEnd.refused("blocked", refusals.policy_failed(outcome.handler.plugin))


def readable(written: object) -> dict[str, Any]:
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


# It is judged


async def unwrap_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """A call of a tool that is not in the catalog may be a bridge's, which stands for the call of another tool."""
    call, catalog = work.call, work.catalog
    work.tool = state.bridges.get(call.name) or Catalog(state.bridges.values()).meant(call.name)
    if work.tool is not None:
        await take_real_name(state, work, work.tool)
        call = work.call
    if "unwrap_tool_call" not in state.hooks.plans:
        return None
    event = hooks.UnwrapToolCall(
        info=state.info, call=call, arguments=readable(call.arguments), tool=work.tool, catalog=catalog
    )
    async for outcome in state.hooks.fire("unwrap_tool_call", event):
        written = await outcome.use(_name_in)
        if (failure := outcome.failure) is not None:
            if isinstance(failure.error, ToolError):  # the plugin's own words for the model
                return CallEnd.refused("unknown" if work.tool is None else "invalid", str(failure.error))
            failure.log()
            return CallEnd.refused("invalid", refusals.bridge_failed(call.name, failure))
        assert written is not None
        arguments = peek(outcome.answer, "arguments")
        work.tool = catalog.meant(written, readable(arguments))
        bridge = state.bridges.get(written)
        if work.tool is None and bridge is not None and bridge.owner == outcome.handler.plugin:
            work.tool = bridge  # the plugin's own bridge: `check_scope` refuses it unless it has an executor
        name = work.tool.name if work.tool is not None else written
        work.call = with_arguments(ToolCall(call.id, name, origin="bridge"), arguments)
        record = Unwrapped(call_id=call.id, bridge=call.name, tool=name, written="" if written == name else written)
        await state.trace(record)
        break
    return None


async def take_real_name(state: RunState, work: CallInProgress, tool: Tool) -> None:
    """The model may write a tool's id, or a name that clearly means it. Every hook sees the real name."""
    call = work.call
    if tool.name != call.name:
        work.call = ToolCall(call.id, tool.name, peek(call, "arguments"), origin=call.origin, parent_id=call.parent_id)
        await state.trace(Unwrapped(call_id=call.id, bridge="", tool=tool.name, written=call.name))


def _name_in(answer: ToolCall) -> str:
    if not isinstance(answer.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"ToolCall(name=...) must be str, got {type(answer.name).__name__}")
    return answer.name


async def rewrite_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Plugins change the arguments, one after the other, and each plugin once."""
    tool = work.real_tool

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


# Secrets


async def resolve_secrets(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Fill `{{secret:NAME}}` in the tool's own copy of the arguments. A tool that a plugin offers to call others with
    gets no
    values: a script could print one in another form. The calls that it makes get theirs."""
    tool, names = work.real_tool, secret_names(work.input.arguments)
    if work.call.name in state.bridges or not names:
        return None
    enforced = state.hooks.enforces("resolve_secrets")
    if not tool.keeps_secrets and enforced:
        return CallEnd.refused("blocked", refusals.secret_not_kept(work.call.name))
    event = hooks.ResolveSecrets(
        info=state.info, call=work.call, tool=tool, arguments=work.arguments, names=tuple(names)
    )
    values, failed = await _ask_values(state, event)
    if failed is not None:
        return policy_failed(failed)
    if not enforced:
        return None
    if missing := [name for name in names if name not in values]:
        return CallEnd.refused("blocked", refusals.no_secret_value(missing))
    state.secrets.add(values)
    if short := [(name, value) for name, value in values.items() if len(value.strip()) < MIN_MASKED]:
        work.input.short_secrets = SecretMask(short, shortest=1)
    work.input.arguments = fill_secrets(work.input.arguments, values)
    problems = tool.check(work.input.arguments, quote_values=False)
    return CallEnd.refused("invalid", tool.refusal(problems)) if problems else None


async def fill_for_owner(state: RunState, tool: Tool, value: Any, *, shared: bool) -> Any:
    """A copy of a value with its secrets filled in, as for a call of the tool: for what is started before its first
    call, such as the server that it is on."""
    names = secret_names(value)
    if not names:
        return value
    info, call = (
        replace(state.info, requester=None) if shared else state.info,
        ToolCall("start", tool.name, {}, origin="tool"),
    )
    event = hooks.ResolveSecrets(info=info, call=call, tool=tool, arguments=value, names=tuple(names))
    values, failed = await _ask_values(state, event)
    if failed is not None:
        raise PolicyFailed("resolve_secrets", failed.handler.who, str(failed.failure))
    if missing := [name for name in names if name not in values]:
        raise ConfigError("secrets", (refusals.no_secret_value(missing).removeprefix("Blocked: "),))
    state.secrets.add(values)
    return fill_secrets(value, values)


async def _ask_values(state: RunState, event: hooks.ResolveSecrets) -> tuple[dict[str, str], HandlerOutcome | None]:
    """The values that the first plugin gives which answers, and its outcome where it failed."""

    def read(answer: hooks.Secrets) -> dict[str, str]:
        given = {name: answer.values.get(name) for name in event.names}
        return {name: str.__str__(value) for name, value in given.items() if isinstance(value, str)}

    async for outcome in state.hooks.fire("resolve_secrets", event, event.tool):
        values = await outcome.use(read)
        return values or {}, outcome if outcome.failure is not None else None
    return {}, None


# Its tool runs


async def tool_call_start(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Plugins that count calls may still block this one."""
    event = hooks.ToolCallStart(
        info=state.info, call=work.call, tool=work.real_tool, arguments=work.arguments, granted=work.verdict.granted
    )
    async for outcome in state.hooks.fire("tool_call_start", event, work.tool):
        if outcome.failure is not None:
            return policy_failed(outcome)
        return CallEnd.refused("blocked", refusals.blocked(outcome.handler.plugin, outcome.answer.reason))
    return None


async def record_decision(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Plugins write the decision down. With `record_first` a call is blocked whose decision was not written."""
    first, written = state.parts.record_first, "record_decision" in state.hooks.plans
    if written:
        async for outcome in state.hooks.fire("record_decision", _decision_event(state, work)):
            outcome.log(", so the call is blocked" if first else "")
            written = False
    return CallEnd.refused("blocked", refusals.not_recorded(work.call.name)) if first and not written else None


def _decision_event(state: RunState, work: CallInProgress) -> hooks.RecordDecision:
    tool, arguments = work.real_tool, state.ledger.storable_arguments(work)
    judges = [one for one in state.hooks.plans.get("before_tool_call", ()) if not one.shadow and one.concerns(tool)]
    return hooks.RecordDecision(
        info=state.info,
        call=with_arguments(work.call, arguments),
        tool=tool,
        arguments=arguments,
        judged_by=tuple(dict.fromkeys(one.plugin for one in judges)),
        labels=state.labels,
        granted=work.verdict.granted,
        approved_by=work.verdict.answered_by,
        effect_id=state.ledger.effect_id(work),
        required=state.parts.record_first,
    )


@final
class AroundStack:
    """The context managers that plugins hold open around a run, or around a tool while it runs. They are left by the
    task that has entered them, in reverse order. What fails is logged."""

    def __init__(self) -> None:
        self._entered: list[tuple[Handler, AbstractContextManager[Any]]] = []

    async def enter_for_tool(self, state: RunState, work: CallInProgress) -> None:
        """Enter those of `around_tool_call`."""
        began = time.time() - (time.monotonic() - work.started)

        def event() -> hooks.AroundToolCall:
            return hooks.AroundToolCall(
                info=state.info, call=work.call, tool=work.real_tool, arguments=work.arguments, began=began
            )

        await self.enter(state, "around_tool_call", event, work.tool)

    async def enter(
        self,
        state: RunState,
        hook: Literal["around_run", "around_tool_call"],
        event: Callable[[], hooks.Event],
        tool: Tool | None = None,
    ) -> None:
        """Enter what the handlers of this hook answer."""

        def open_manager(answer: hooks.Around) -> AbstractContextManager[Any]:
            answer.manager.__enter__()
            return answer.manager

        async for outcome in state.hooks.fire(hook, event, tool):
            manager = await outcome.use(open_manager)
            outcome.log(", so it is left out")
            if manager is not None:
                self._entered.append((outcome.handler, manager))

    def leave(self) -> None:
        """Nothing is waited for, so that a cancelled task leaves them as well."""
        while self._entered:
            handler, manager = self._entered.pop()
            try:
                manager.__exit__(None, None, None)
            except BaseException as error:
                if is_uncatchable(error):
                    raise
                Failure(handler, error).log(" at its end")


# It ends


async def ask_labels(
    state: RunState, call: ToolCall, arguments: dict[str, object], tool: Tool | None, end: CallEnd
) -> list[Labels | None]:
    """What plugins say the text of a result is worth."""
    event = hooks.LabelResult(
        info=state.info,
        call=call,
        arguments=arguments,
        tool=tool,
        result=end.result,
        status=end.status,
        answered_by=end.answerer,
    )
    said: list[Labels | None] = []
    async for outcome in state.hooks.fire("label_result", event, tool):
        labels = await outcome.use(lambda answer: read_labels("Label(...)", answer.labels))
        outcome.log(", so the result is untrusted")
        said.append(UNLABELLED if labels is None else labels)
    return said


async def label_loaded(state: RunState) -> None:
    """Label the results of a history from elsewhere, once there are tools: by the names that it has for them."""
    transcript = state.parts.transcript
    if not (count := transcript.ask(lambda ledger: ledger.unlabelled)):
        return
    labels: list[Labels] = []
    for number in range(count):
        call, result = transcript.ask(lambda ledger, number=number: _loaded(ledger, number))
        tool = state.tools.get(call.name)
        end = CallEnd("error" if result.is_error else "ok", result)
        said = await ask_labels(state, call, {}, tool, end) if "label_result" in state.hooks.plans else []
        labels.append(said_of(tool.labels if tool is not None else None, *said))
    await transcript.label_loaded(labels)
    state.parts.reading.begin_anew()


def _loaded(ledger: Ledger, number: int) -> tuple[ToolCall, ToolResult]:
    row = ledger.records[number]
    call = ToolCall(row.call_id, row.tool) if row.call is None else ledger.call_at(row.call)
    body = ledger.body(row)
    return call, ToolResult(body.text, is_error=body.is_error)


async def transform_tool_result(state: RunState, work: CallInProgress, end: CallEnd) -> CallEnd:
    """Plugins change the result, one after the other."""
    result = end.result

    def event() -> hooks.TransformToolResult:
        return hooks.TransformToolResult(
            info=state.info,
            call=work.call,
            arguments=work.arguments,
            tool=work.tool,
            result=result,
            status=end.status,
            answered_by=end.answerer,
            count=state.stats.count,
        )

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
