"""Running one judged call: its secrets, its tool within the time limit, its result on the way back."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar, final

import anyio
from anyio.lowlevel import RunVar

from hooksdk import hooks, schema
from hooksdk._firing.signature import is_async, own_result, to_result
from hooksdk._run import refusals
from hooksdk._run.around import HeldOpen
from hooksdk._run.call import policy_failed
from hooksdk._run.parts import PluginStorage
from hooksdk._run.secrets import MIN_MASKED, SecretMask, fill, placeholders
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._schema.fresh import peek
from hooksdk._tasks.limits import Attempt, describe
from hooksdk._tasks.shielding import in_abandonable_thread
from hooksdk.calls import Origin, ToolCall, ToolResult
from hooksdk.catalog import Catalog, Storage
from hooksdk.errors import ApprovalPending, RunClosed, ToolError
from hooksdk.records import CallFinished, Content, Progress
from hooksdk.tools import Tool
from hooksdk.transcript import Results

T = TypeVar("T")

THREADS = 40
"""Worker threads that one tool may hold at a time, those that were abandoned among them."""
MAX_PROGRESS = 500
"""Characters of a tool's progress text that reach the trace."""
MAX_PROBLEM = 2000
"""Characters of a tool's own error that reach the model."""
_limiters: RunVar[dict[str, anyio.CapacityLimiter] | None] = RunVar("hooksdk tool threads", None)

NestedCall = Callable[[RunState, CallInProgress, str, Mapping[str, Any], Origin], Awaitable[ToolResult]]
"""How a running tool calls another one."""


async def resolve_secrets(state: RunState, work: CallInProgress) -> CallEnd | None:
    """Fill `{{secret:NAME}}` in the tool's own copy of the arguments. A tool that a plugin offers to call others with gets no
    values: a script could print one in another form. The calls that it makes get theirs."""
    tool = work.tool
    assert tool is not None
    if work.call.name in state.bridges or not state.hooks.has("resolve_secrets"):
        return None
    names = placeholders(work.own_arguments)
    if not names:
        return None
    values: dict[str, str] | None = None
    event = hooks.ResolveSecrets(
        info=state.info, call=work.call, tool=tool, arguments=work.arguments, names=tuple(names)
    )
    async for outcome in state.hooks.fire("resolve_secrets", event, tool):
        values = await outcome.use(lambda answer: _values_of(answer.values, names))
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
        work.short_secrets = SecretMask(short, shortest=1)
    work.own_arguments = fill(work.own_arguments, values)
    if problems := tool.check(work.own_arguments, quote_values=False):
        return CallEnd("invalid", ToolResult.error(tool.refusal(problems)))
    return None


def _values_of(answers: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    return {name: str.__str__(value) for name in names if isinstance(value := answers.get(name), str)}


async def run_tool(state: RunState, work: CallInProgress, catalog: Catalog, call_nested: NestedCall) -> CallEnd:
    """Run the tool with exactly the arguments that were judged. What it raises, and a limit that it misses, are results."""
    tool = state.runnable[work.call.name]
    if tool.execute is None:
        return take_result(state, work, ToolResult.error(refusals.no_executor(tool.name)))
    context = Context(state, work, catalog, call_nested)
    inputs = (work.own_arguments, context) if tool.takes_context else (work.own_arguments,)
    result = ToolResult()
    held = HeldOpen()
    try:
        await held.enter(state, "around_tool_call", lambda: _around_event(state, work), work.tool)
        async with Attempt(tool.timeout) as attempt:
            work.attempt = attempt
            if is_async(tool.execute):
                value = await tool.execute(*inputs)
            else:
                value = await in_abandonable_thread(tool.execute, *inputs, limiter=_threads_of(tool))
                value = await value if inspect.isawaitable(value) else value
            result = to_result(value)
    finally:
        work.abandoned = True
        held.leave()
    if attempt.cancelled:
        result = ToolResult.error(refusals.too_late(tool.name, tool.timeout))
    elif isinstance(attempt.error, ApprovalPending) and not work.depth:
        raise attempt.error
    elif attempt.error is not None:
        result = ToolResult.error(_problem(state, work, attempt.error))
    return take_result(state, work, result)


def _around_event(state: RunState, work: CallInProgress) -> hooks.AroundToolCall:
    assert work.tool is not None
    began = time.time() - (time.monotonic() - work.started)
    return hooks.AroundToolCall(
        info=state.info, call=work.call, tool=work.tool, arguments=work.arguments, began=began
    )  # fmt: skip


def _problem(state: RunState, work: CallInProgress, error: BaseException) -> str:
    name = work.call.name
    if isinstance(error, ToolError):
        return error.text
    if isinstance(error, ApprovalPending):
        return refusals.cannot_pause(name)
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return refusals.tool_cancelled(name)
    # Masked before it is clipped and set in one line: half a secret, or one on two lines, would not be recognised.
    return refusals.tool_failed(name, describe(error, MAX_PROBLEM, lambda text: _without_secrets(state, work, text)))


def _without_secrets(state: RunState, work: CallInProgress, value: T) -> T:
    value = state.secrets.value(value)
    return work.short_secrets.value(value) if work.short_secrets else value


def take_result(state: RunState, work: CallInProgress, result: ToolResult) -> CallEnd:
    """A tool's result, wherever the tool ran: without the values of secrets, and with a note for the model where it does
    not match the tool's declared output schema."""
    result = state.secrets.result(result)
    if work.short_secrets:
        result = work.short_secrets.result(result)
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
    """Each tool has threads of its own: what hangs in them keeps nobody else from running, stores least of all."""
    limiters = _limiters.get()
    if limiters is None:
        _limiters.set(limiters := {})
    return limiters.setdefault(tool.id, anyio.CapacityLimiter(THREADS))


async def transform_tool_result(state: RunState, work: CallInProgress, end: CallEnd) -> CallEnd:
    """Plugins change the result; each sees what the ones before it made of it."""
    if not state.hooks.has("transform_tool_result"):
        return end
    result = end.result

    def event() -> hooks.TransformToolResult:
        return hooks.TransformToolResult(
            info=state.info, call=work.call, arguments=work.arguments, tool=work.tool, result=result,
            count=state.stats.count,
        )  # fmt: skip

    async for outcome in state.hooks.fire("transform_tool_result", event, work.tool):
        handler = outcome.handler
        replacement = await outcome.use(lambda answer, before=result: _replaced(before, answer.result))
        if replacement is not None:
            result = replacement
        elif outcome.failure is not None:
            outcome.log(", so the result is withheld" if handler.required else "")
            if handler.required:
                result = ToolResult.error(refusals.result_withheld(handler.plugin))
    return CallEnd(end.status, result)


def _replaced(result: ToolResult, replacement: ToolResult | str) -> ToolResult:
    return result.with_text(replacement) if isinstance(replacement, str) else own_result(replacement)


async def after_tool_call(state: RunState, work: CallInProgress, end: CallEnd) -> None:
    """Count the call, and tell observers and the trace what became of it."""
    seconds = time.monotonic() - work.started
    call, tool = work.call, work.tool
    state.stats.finished(end.status, end.result, tool, call)
    if state.hooks.has("after_tool_call"):
        event = hooks.AfterToolCall(
            info=state.info, call=call, arguments=work.arguments, tool=tool, result=end.result, status=end.status,
            seconds=seconds,
        )  # fmt: skip
        state.hooks.observe("after_tool_call", event)
    if state.hooks.tracing:
        await state.trace(
            CallFinished(call_id=call.id, parent_id=call.parent_id, origin=call.origin, tool=tool.id if tool else None,
                         name=call.name, status=end.status, seconds=round(seconds, 6), characters=len(end.result.text)),
            lambda: Content(text=end.result.text, arguments=work.arguments),
        )  # fmt: skip


@final
class Context:
    """The `ToolContext` of one running call."""

    def __init__(self, state: RunState, work: CallInProgress, catalog: Catalog, call_nested: NestedCall) -> None:
        self._state = state
        self._work = work
        self._call_nested = call_nested
        self.catalog = catalog
        self.count = state.stats.count

    @property
    def _owner(self) -> str:
        tool = self._work.tool
        assert tool is not None
        return tool.owner if tool.source == "plugin" else tool.id

    @property
    def results(self) -> Results:
        return self._state.results(self._owner)

    @property
    def storage(self) -> Storage:
        return PluginStorage(self._state.parts.store, self._owner, self._state.secrets)

    @property
    def session_id(self) -> str:
        return self._state.info.session_id

    @property
    def run_id(self) -> str:
        return self._state.info.run_id

    @property
    def attempt(self) -> int:
        return self._state.info.attempt

    @property
    def agent_id(self) -> str:
        return self._state.info.agent_id

    @property
    def info(self) -> hooks.RunInfo:
        return self._state.info

    @property
    def call(self) -> ToolCall:
        return self._work.call

    @property
    def _over(self) -> bool:
        return self._work.abandoned or self._work.end is not None

    @property
    def cancelled(self) -> bool:
        if self._over or self._work.attempt is None:
            return self._over
        try:
            return self._work.attempt.cancelled
        except RuntimeError:  # trio tells it to the thread of its event loop only
            return False

    def mask(self, text: str) -> str:
        return _without_secrets(self._state, self._work, text)

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, origin: Origin = "tool") -> ToolResult:
        if self._over:
            raise RunClosed(
                f"the call of '{self._work.call.name}' has returned, so its context calls no tools any more"
            )
        masked = _without_secrets(self._state, self._work, dict(arguments))
        return await self._call_nested(self._state, self._work, name, masked, origin)

    async def progress(self, text: str, share: float | None = None) -> None:
        work = self._work
        if work.end is None:
            text = _without_secrets(self._state, work, text)[:MAX_PROGRESS]
            await self._state.trace(Progress(call_id=work.call.id, text=text, share=share))
