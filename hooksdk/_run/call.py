"""Judging one tool call, step by step in the order of this file. `run.py` goes through the steps.

A step answers None when the call goes on, or the `CallEnd` that it found; the steps after it are left out then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hooksdk import hooks, schema
from hooksdk._approvals.request import Question
from hooksdk._firing.dispatcher import Outcome
from hooksdk._firing.signature import own_result
from hooksdk._run import refusals
from hooksdk._run.asking import ask_person, read_question
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._schema.fresh import Fresh, peek
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import ToolError
from hooksdk.records import CallStarted, CallStatus, Content, Unwrapped
from hooksdk.tools import Tool

MAX_DEPTH = 8
"""How deep tools may call tools."""


def _refused(status: CallStatus, text: str) -> CallEnd:
    return CallEnd(status, ToolResult.error(text))


async def unwrap_tool_call(state: RunState, work: CallInProgress, catalog: Catalog) -> CallEnd | None:
    """Find the tool; a name outside the catalog may be a bridge's, which stands for another call."""
    call = work.call
    work.tool = catalog.get(call.name)
    if work.tool is None and call.name not in catalog.withheld and call.name not in state.bridges:
        work.tool = catalog.meant(call.name, _readable(call.arguments))
    if work.tool is not None:
        await _take_real_name(state, work, work.tool)
        return None
    if work.depth or call.name in catalog.withheld:
        return None
    work.tool = state.bridges.get(call.name) or Catalog(state.bridges.values()).meant(call.name)
    if work.tool is not None:
        await _take_real_name(state, work, work.tool)
        call = work.call
    if not state.hooks.has("unwrap_tool_call"):
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
            work.tool = bridge  # its own: judged under its name, and refused below where it only stands for other calls
        name = work.tool.name if work.tool is not None else written
        work.call = with_arguments(ToolCall(call.id, name, origin="bridge"), arguments)
        await state.trace(
            Unwrapped(call_id=call.id, bridge=call.name, tool=name, written="" if written == name else written)
        )
        break
    return None


async def _take_real_name(state: RunState, work: CallInProgress, tool: Tool) -> None:
    """Called by its id, or by a name that means it: every hook sees the real name all the same."""
    call = work.call
    if tool.name != call.name:
        work.call = ToolCall(call.id, tool.name, peek(call, "arguments"), origin=call.origin, parent_id=call.parent_id)
        await state.trace(Unwrapped(call_id=call.id, bridge="", tool=tool.name, written=call.name))


def _name_in(answer: ToolCall) -> str:
    if not isinstance(answer.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"ToolCall(name=...) must be str, got {type(answer.name).__name__}")
    return answer.name


def _readable(written: object) -> dict[str, Any]:
    """What the model wrote as an object, and nothing where it is none: `event.call.arguments` has it as it was written."""
    try:
        return schema.parse_arguments(written)
    except schema.BadArguments:
        return {}


_ARGUMENTS: Fresh[Any] = vars(ToolCall)["arguments"]
_set_uncopied: Callable[[Fresh[Any], object, object], None] = cast("Any", Fresh).__set__


def with_arguments(call: ToolCall, arguments: object) -> ToolCall:
    """The same call with other arguments, which are not copied: nobody may change them any more."""
    twin = object.__new__(ToolCall)
    vars(twin).update(vars(call))
    _set_uncopied(_ARGUMENTS, twin, arguments)
    return twin


async def trace_start(state: RunState, work: CallInProgress) -> None:
    """Tell the trace, under the real name."""
    if state.hooks.tracing:
        call, tool = work.call, work.tool
        await state.trace(
            CallStarted(call_id=call.id, parent_id=call.parent_id, origin=call.origin, tool=tool.id if tool else None,
                        name=call.name),
            lambda: Content(arguments=_readable(peek(call, "arguments"))),
        )  # fmt: skip


def check_scope(state: RunState, work: CallInProgress, catalog: Catalog) -> CallEnd | None:
    """Nothing outside the catalog runs, on whatever path the call came; a bridge that nobody unwrapped does not either."""
    name, tool = work.call.name, work.tool
    if work.depth >= MAX_DEPTH:
        return _refused("blocked", refusals.too_deep(name, MAX_DEPTH))
    if tool is None:
        return _refused("unknown", refusals.no_such_tool(name, catalog, state.call_hint))
    if name in state.bridges and state.runnable[name].execute is None:
        return _refused("unknown", refusals.bridge_not_unwrapped(name))
    return None


def check_way(work: CallInProgress) -> CallEnd | None:
    """Whoever makes the call may take some tools only, whatever bridge it came by."""
    assert work.tool is not None
    reason = work.only(work.tool) if work.only is not None else None
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
    """Plugins change the arguments; each sees what the ones before it made of them."""
    tool = work.tool
    assert tool is not None
    if not state.hooks.has("rewrite_tool_call"):
        return None

    def event() -> hooks.RewriteToolCall:
        own = schema.clone(work.arguments)  # a change reached through the event's insides would never be checked
        return hooks.RewriteToolCall(info=state.info, call=work.call, tool=tool, arguments=own)

    async for outcome in state.hooks.fire("rewrite_tool_call", event, tool):
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
    work.own_arguments = schema.clone(work.arguments)
    if work.arguments is not peek(work.call, "arguments"):  # read from text, repaired or rewritten
        work.call = with_arguments(work.call, work.arguments)
    return None


async def before_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The policies judge: a block beats a question to a person beats an answer, whatever the order."""
    tool = work.tool
    assert tool is not None
    if not state.hooks.has("before_tool_call"):
        return None
    event = hooks.BeforeToolCall(info=state.info, call=work.call, tool=tool, arguments=work.arguments)
    questions: list[Question] = []
    answer: ToolResult | None = None
    async for outcome in state.hooks.fire("before_tool_call", event, tool):
        if isinstance(outcome.answer, hooks.Block):
            return _refused("blocked", refusals.verdict(outcome.handler.plugin, outcome.answer.reason))
        if isinstance(outcome.answer, hooks.Ask):
            plugin = outcome.handler.plugin
            question = await outcome.use(lambda ask, plugin=plugin: read_question(plugin, ask))
            questions += [question] if question is not None else []
        elif answer is None:
            answer = await outcome.use(_result_in)
        if outcome.failure is not None:
            return policy_failed(outcome)
    if questions:
        end = await ask_person(state, work, questions)
        if end is not None:
            return end
    elif answer is not None:
        return CallEnd("answered", answer)
    if work.arguments != work.own_arguments:  # somebody reached into an event: not everybody judged what would run
        return _refused("blocked", refusals.arguments_changed(work.call.name))
    return None


def check_still_granted(state: RunState, work: CallInProgress) -> CallEnd | None:
    """A person may have taken long to answer, and the tools may have been resolved anew since the call was judged: a tool
    that is withheld now does not run, nor one whose arguments would have to be checked again."""
    tool, name = work.tool, work.call.name
    assert tool is not None
    now = state.granted(name)
    if now is tool:
        return None
    if now is None or now.id != tool.id:
        reason = state.catalog.withheld.get(name) if state.catalog is not None else None
        return _refused("blocked", refusals.granted_no_more(name, reason or "it is not granted any more"))
    if now.fingerprint != tool.fingerprint or now.annotations != tool.annotations:
        return _refused("blocked", refusals.definition_changed(name))
    return None


def _result_in(answer: hooks.Answer) -> ToolResult:
    return ToolResult(answer.result) if isinstance(answer.result, str) else own_result(answer.result)


def policy_failed(outcome: Outcome) -> CallEnd:
    """A policy that cannot judge lets nothing through."""
    outcome.log(", so the call is blocked")
    return _refused("blocked", refusals.policy_failed(outcome.handler.plugin))
