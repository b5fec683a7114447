"""The steps of one tool call, in their order. `run.py` goes through them."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hooksdk import hooks, schema
from hooksdk._firing.dispatcher import Failure
from hooksdk._firing.hook import Handler
from hooksdk._run import secrets
from hooksdk._run.execution import MAX_DEPTH, Context, Settled, Work, check_output, execute
from hooksdk._run.state import RunState, results_of
from hooksdk._schema.values import clip
from hooksdk.approvals import ApprovalRequest, ask_approver
from hooksdk.calls import Origin, ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.errors import ToolError
from hooksdk.tools import BRIDGE_NAMES, Tool


async def unwrap_tool_call(state: RunState, work: Work, catalog: Catalog) -> None:
    work.tool = catalog.get(work.call.name)
    if work.tool is not None:
        if work.tool.name != work.call.name:  # called by its id: every hook sees the name all the same
            work.call = _renamed(work.call, work.tool.name)
        return
    if work.depth:
        return
    bridge = work.tool = state.bridges.get(work.call.name)
    if not state.hooks.has("unwrap_tool_call"):
        return
    event = hooks.UnwrapToolCall(
        info=state.info, call=work.call, arguments=_readable(work.call.arguments), tool=bridge, catalog=catalog
    )
    answer, failure = await state.hooks.first_answer("unwrap_tool_call", event)
    if failure is not None:
        if not isinstance(failure.error, ToolError):
            failure.log()
        await call_started(state, work)
        told = str(failure.error) if isinstance(failure.error, ToolError) else f"'{work.call.name}' failed: {failure}"
        raise Settled("invalid", ToolResult.error(told))
    if answer is not None:
        work.call = ToolCall(work.call.id, answer.name, answer.arguments, origin="bridge")
        work.tool = catalog.get(answer.name)
        if work.tool is not None:
            work.call = _renamed(work.call, work.tool.name)
        await state.hooks.trace(
            state.info, "unwrapped", call_id=work.call.id, bridge=work.written.name, tool=work.call.name
        )


def _readable(written: object) -> dict[str, Any]:
    """What the model wrote as an object, and nothing where it is none: `event.call.arguments` has it as it was written."""
    try:
        return schema.parse_arguments(written)
    except schema.BadArguments:
        return {}


def _renamed(call: ToolCall, name: str) -> ToolCall:
    return ToolCall(call.id, name, call.arguments, origin=call.origin, parent_id=call.parent_id)


async def call_started(state: RunState, work: Work) -> None:
    """Tell the trace, under the real name."""
    await state.hooks.trace(
        state.info, "call_started", call_id=work.call.id, parent_id=work.call.parent_id, origin=work.call.origin,
        tool=work.tool.id if work.tool else None, name=work.call.name,
    )  # fmt: skip


def check_scope(state: RunState, work: Work, catalog: Catalog) -> None:
    """Nothing outside the catalog runs, on whatever path the call came; a bridge that nobody unwrapped does not either."""
    if work.depth >= MAX_DEPTH:
        told = f"'{work.call.name}' was not run: tools may call tools {MAX_DEPTH} deep."
        raise Settled("blocked", ToolResult.error(told))
    if work.tool is None or (work.tool.execute is None and work.call.name in BRIDGE_NAMES):
        raise Settled("unknown", ToolResult.error(refusal_of(work.call.name, catalog, state.deferred_how)))


def repair_arguments(state: RunState, work: Work) -> None:
    """Read what the model wrote as arguments, and mend its shape where the meaning is certain."""
    assert work.tool is not None
    state.stats.called(work.call)
    written = work.call.arguments
    try:
        # Weak models write "null" for a tool without parameters.
        given = schema.parse_arguments(None if isinstance(written, str) and written.strip() == "null" else written)
        work.arguments = work.tool.repair(given)
    except schema.BadArguments as error:
        raise Settled("invalid", ToolResult.error(f"'{work.call.name}' was not run. {error}")) from None


async def rewrite_tool_call(state: RunState, work: Work) -> None:
    tool = work.tool
    assert tool is not None
    if not state.hooks.has("rewrite_tool_call"):
        return

    async def rewrite(_handler: Handler, answer: hooks.Rewrite) -> None:
        work.arguments = schema.clone(dict(answer.arguments))

    async def fail(failure: Failure) -> bool:
        raise policy_failed(failure)

    await state.hooks.transform(
        "rewrite_tool_call",
        lambda: hooks.RewriteToolCall(info=state.info, call=work.call, tool=tool, arguments=work.arguments),
        rewrite, tool, fail,
    )  # fmt: skip


def validate_arguments(work: Work) -> None:
    assert work.tool is not None
    if problems := work.tool.check(work.arguments):
        raise Settled("invalid", ToolResult.error(work.tool.refusal(problems)))


async def before_tool_call(state: RunState, work: Work) -> None:
    tool = work.tool
    assert tool is not None
    if not state.hooks.has("before_tool_call"):
        return
    event = hooks.BeforeToolCall(info=state.info, call=work.call, tool=tool, arguments=work.arguments)
    verdict = await state.hooks.decide("before_tool_call", event, hooks.Block, tool)
    if verdict.failure:
        raise policy_failed(verdict.failure)
    if block := verdict.get(hooks.Block):
        raise Settled("blocked", ToolResult.error(f"Blocked by {block[0].plugin}: {block[1].reason}"))
    if ask := verdict.get(hooks.Ask):
        await _ask(state, work, tool, *ask)
    elif answer := verdict.get(hooks.Answer):
        result = answer[1].result
        raise Settled("answered", ToolResult(result) if isinstance(result, str) else result)


async def _ask(state: RunState, work: Work, tool: Tool, handler: Handler, ask: hooks.Ask) -> None:
    request = ApprovalRequest(
        title=ask.title, description=ask.description, severity=ask.severity, timeout=ask.timeout,
        plugin=handler.plugin, session_id=state.info.session_id, run_id=state.info.run_id,
        agent_id=state.info.agent_id, requester=state.info.requester, trigger=state.info.trigger,
        call=work.call, tool=tool, arguments=work.arguments,
    )  # fmt: skip
    await state.hooks.trace(state.info, "approval_asked", call_id=work.call.id, plugin=handler.plugin, title=ask.title)
    with work.clock_stopped():
        approval = await ask_approver(state.parts.approver, request)
    await state.hooks.trace(state.info, "approval_answered", call_id=work.call.id, granted=approval.granted)
    if not approval.granted:
        reason = approval.reason or "a person said no"
        raise Settled("blocked", ToolResult.error(f"Blocked: '{ask.title}' was not approved: {reason}"))


async def resolve_secrets(state: RunState, work: Work) -> dict[str, Any]:
    tool = work.tool
    assert tool is not None
    private: dict[str, Any] = schema.clone(work.arguments)
    # A bridge gets no secrets: a script could print one in another form. The calls that it makes get theirs.
    asks = state.hooks.has("resolve_secrets") and tool.name not in BRIDGE_NAMES
    names = secrets.placeholders(private) if asks else []
    if not names:
        return private
    event = hooks.ResolveSecrets(
        info=state.info, call=work.call, tool=tool, arguments=work.arguments, names=tuple(names)
    )
    answer, failure = await state.hooks.first_answer("resolve_secrets", event, tool)
    if failure is not None:
        raise policy_failed(failure)
    given: Mapping[str, Any] = answer.values if answer else {}
    values = {name: value for name, value in given.items() if name in names and isinstance(value, str)}
    if missing := [name for name in names if name not in values]:
        raise Settled("blocked", ToolResult.error(f"Blocked: no plugin gives a value for {', '.join(missing)}"))
    work.secrets = values
    private = secrets.fill(private, values)
    if problems := tool.check(private, quote_values=False):
        raise Settled("invalid", ToolResult.error(tool.refusal(problems)))
    return private


NestedCall = Callable[[Work, str, Mapping[str, Any], Origin], Awaitable[ToolResult]]


async def run_tool(
    state: RunState, work: Work, private: dict[str, Any], catalog: Catalog, call_nested: NestedCall
) -> ToolResult:
    tool = work.tool
    assert tool is not None
    owner = tool.owner if tool.source == "plugin" else tool.id
    context = Context(
        work, state.info, catalog, results_of(state, owner), state.parts.storage(owner),
        call_nested=call_nested, report=functools.partial(state.hooks.trace, state.info), count=state.stats.count,
    )  # fmt: skip
    result = await execute(work, private, context)
    return check_output(tool, secrets.mask_result(result, work.secrets) if work.secrets else result)


async def transform_tool_result(state: RunState, work: Work, result: ToolResult) -> ToolResult:
    if not state.hooks.has("transform_tool_result"):
        return result
    current = [result]

    async def change(_handler: Handler, answer: hooks.Replace) -> None:
        given = answer.result
        current[0] = current[0].with_text(given) if isinstance(given, str) else given

    async def fail(failure: Failure) -> bool:
        failure.log(", so the result is withheld" if failure.handler.required else "")
        if failure.handler.required:
            current[0] = ToolResult.error(f"The result is withheld: {failure.handler.plugin} could not check it.")
        return False

    await state.hooks.transform(
        "transform_tool_result",
        lambda: hooks.TransformToolResult(
            info=state.info, call=work.call, arguments=work.arguments, tool=work.tool, result=current[0]
        ),
        change, work.tool, fail,
    )  # fmt: skip
    return current[0]


async def after_tool_call(state: RunState, work: Work, result: ToolResult) -> None:
    seconds = time.monotonic() - work.started
    state.stats.finished(work.status, result, work.tool, work.call)
    if state.hooks.has("after_tool_call"):
        event = hooks.AfterToolCall(
            info=state.info, call=work.call, arguments=work.arguments, tool=work.tool, result=result,
            status=work.status, seconds=seconds,
        )  # fmt: skip
        state.hooks.observe("after_tool_call", event)
    await state.hooks.trace(
        state.info, "call_finished", call_id=work.call.id, parent_id=work.call.parent_id, status=work.status,
        tool=work.tool.id if work.tool else None, name=work.call.name, origin=work.call.origin,
        seconds=round(seconds, 6), characters=len(result.text),
    )  # fmt: skip


def refusal_of(name: str, catalog: Catalog, deferred_how: str) -> str:
    """Why a call by this name is not run, in words that make the next attempt right."""
    if name in BRIDGE_NAMES:
        return f"'{name}' was not run: it is not offered to you now. Call the tools that are, each by its own name."
    if sharing := catalog.sharing(name):
        return f"'{name}' was not run: several tools have this name. Call one of {', '.join(sharing)}."
    if name in catalog.withheld:
        return f"'{name}' was not run: it is withheld from this run ({catalog.withheld[name]}). Do not retry."
    near = catalog.suggest(name)
    told = f" Did you mean {' or '.join(near)}?" if near else ""
    if name in catalog.removed_names:
        return f"'{name}' was not run: there is no such tool any more. Do not retry.{told}"
    if not near and deferred_how:
        told = f" There are tools that are not shown to you. {deferred_how}"
    return f"'{clip(name, 200)}' was not run: there is no such tool.{told}"


def policy_failed(failure: Failure) -> Settled:
    """A policy that cannot judge lets nothing through. The model learns whose it is; the log has the details."""
    failure.log(", so the call is blocked")
    told = f"Blocked: plugin '{failure.handler.plugin}' failed while it judged this call, so it was not run."
    return Settled("blocked", ToolResult.error(told))
