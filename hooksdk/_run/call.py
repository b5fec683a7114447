"""Judging one tool call, step by step in the order of this file. `run.py` goes through the steps.

A step answers None when the call goes on, or the `CallEnd` that it found; the steps after it are left out then.
"""

from __future__ import annotations

from typing import Any, cast

from hooksdk import hooks, schema
from hooksdk._approvals.request import Question
from hooksdk._firing.dispatcher import Failure
from hooksdk._run import refusals
from hooksdk._run.asking import ask_person, read_question
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._schema.values import peek
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import ToolError
from hooksdk.records import CallStarted, CallStatus, Unwrapped

MAX_DEPTH = 8
"""How deep tools may call tools."""


def _refused(status: CallStatus, text: str) -> CallEnd:
    return CallEnd(status, ToolResult.error(text))


async def unwrap_tool_call(state: RunState, work: CallInProgress, catalog: Catalog) -> CallEnd | None:
    """Find the tool; a name outside the catalog may be a bridge's, which stands for another call."""
    call = work.call
    work.tool = catalog.get(call.name)
    if work.tool is not None:
        if work.tool.name != call.name:  # called by its id: every hook sees the name all the same
            work.call = _renamed(call, work.tool.name)
        return None
    if work.depth:
        return None
    work.tool = state.bridges.get(call.name)
    if not state.hooks.has("unwrap_tool_call"):
        return None
    event = hooks.UnwrapToolCall(
        info=state.info, call=call, arguments=_readable(call.arguments), tool=work.tool, catalog=catalog
    )
    async for outcome in state.hooks.fire("unwrap_tool_call", event):
        failure, answer = outcome.failure, outcome.answer
        if failure is None and not isinstance(answer.name, str):
            error = TypeError(f"ToolCall(name=...) must be str, got {type(answer.name).__name__}")
            failure = Failure(outcome.handler, error)
        if failure is not None:
            if isinstance(failure.error, ToolError):  # the plugin's own words for the model
                return _refused("invalid", str(failure.error))
            failure.log()
            return _refused("invalid", refusals.bridge_failed(call.name, failure))
        work.tool = catalog.get(answer.name)
        name = work.tool.name if work.tool is not None else answer.name
        work.call = ToolCall(call.id, name, peek(answer, "arguments"), origin="bridge")
        await state.trace(Unwrapped(call_id=call.id, bridge=call.name, tool=name))
        break
    return None


def _readable(written: object) -> dict[str, Any]:
    """What the model wrote as an object, and nothing where it is none: `event.call.arguments` has it as it was written."""
    try:
        return schema.parse_arguments(written)
    except schema.BadArguments:
        return {}


def _renamed(call: ToolCall, name: str) -> ToolCall:
    return ToolCall(call.id, name, peek(call, "arguments"), origin=call.origin, parent_id=call.parent_id)


async def trace_start(state: RunState, work: CallInProgress) -> None:
    """Tell the trace, under the real name."""
    if state.hooks.tracing:
        call, tool = work.call, work.tool
        await state.trace(
            CallStarted(call_id=call.id, parent_id=call.parent_id, origin=call.origin, tool=tool.id if tool else None,
                        name=call.name)
        )  # fmt: skip


def check_scope(state: RunState, work: CallInProgress, catalog: Catalog) -> CallEnd | None:
    """Nothing outside the catalog runs, on whatever path the call came; a bridge that nobody unwrapped does not either."""
    name, tool = work.call.name, work.tool
    if work.depth >= MAX_DEPTH:
        return _refused("blocked", refusals.too_deep(name, MAX_DEPTH))
    if tool is None:
        return _refused("unknown", refusals.no_such_tool(name, catalog, state.call_hint))
    if tool.bridge and tool.execute is None:
        return _refused("unknown", refusals.bridge_not_unwrapped(name))
    return None


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
        failure = outcome.failure
        if failure is None:
            try:
                work.arguments = schema.clone(dict(outcome.answer.arguments))
            except Exception as error:
                failure = Failure(outcome.handler, error)
        if failure is not None:
            return policy_failed(failure)
        work.problems = tool.check(work.arguments)
    return None


def validate_arguments(work: CallInProgress) -> CallEnd | None:
    """The final arguments must fit the tool's schema. What is judged is what runs: the tool's own copy is taken here."""
    assert work.tool is not None
    if work.problems:
        return _refused("invalid", work.tool.refusal(work.problems))
    work.own_arguments = schema.clone(work.arguments)
    return None


async def before_tool_call(state: RunState, work: CallInProgress) -> CallEnd | None:
    """The policies judge: a block beats a question to a person beats an answer, whatever the order."""
    tool = work.tool
    assert tool is not None
    if not state.hooks.has("before_tool_call"):
        return None
    event = hooks.BeforeToolCall(info=state.info, call=work.call, tool=tool, arguments=work.arguments)
    questions: list[Question] = []
    answer: hooks.Answer | None = None
    async for outcome in state.hooks.fire("before_tool_call", event, tool):
        if outcome.failure is not None:
            return policy_failed(outcome.failure)
        if isinstance(outcome.answer, hooks.Block):
            return _refused("blocked", refusals.verdict(outcome.handler.plugin, outcome.answer.reason))
        if isinstance(outcome.answer, hooks.Ask):
            try:
                questions.append(read_question(outcome.handler.plugin, outcome.answer))
            except Exception as error:
                return policy_failed(Failure(outcome.handler, error))
        else:
            answer = answer or outcome.answer
    if questions:
        end = await ask_person(state, work, questions)
        if end is not None:
            return end
    elif answer is not None:
        return CallEnd("answered", ToolResult(answer.result) if isinstance(answer.result, str) else answer.result)
    if work.arguments != work.own_arguments:  # somebody reached into an event: not everybody judged what would run
        return _refused("blocked", refusals.arguments_changed(work.call.name))
    return None


def policy_failed(failure: Failure) -> CallEnd:
    """A policy that cannot judge lets nothing through."""
    failure.log(", so the call is blocked")
    return _refused("blocked", refusals.policy_failed(failure.handler.plugin))
