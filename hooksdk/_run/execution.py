"""Running one tool within its time limit, and the `ToolContext` that it is given."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from hooksdk import schema
from hooksdk._firing.signature import is_async, to_result
from hooksdk._run.secrets import mask
from hooksdk._tasks.background import cancel_requests, describe, go_on_cancelling, goes_up
from hooksdk.calls import Origin, ToolCall, ToolResult
from hooksdk.catalog import Catalog, Storage
from hooksdk.errors import RunClosed, ToolError
from hooksdk.hooks import CallStatus, RunInfo
from hooksdk.tools import Tool
from hooksdk.transcript import Results

__all__ = ["MAX_DEPTH", "Context", "Settled", "Work", "check_output", "execute"]

MAX_DEPTH = 8
"""How deep tools may call tools."""
THREADS = 40
"""Worker threads that one tool may hold at a time, those that were left behind among them."""
_limiters: RunVar[dict[str, anyio.CapacityLimiter] | None] = RunVar("hooksdk tool threads", None)


class Settled(Exception):
    """A step of a call found the call's result; the steps after it are left out."""

    def __init__(self, status: CallStatus, result: ToolResult) -> None:
        super().__init__(status)
        self.status: CallStatus = status
        self.result = result


@final
@dataclass
class Work:
    """One call on its way through the run."""

    written: ToolCall
    """The call as the model wrote it: the transcript keeps this one."""
    depth: int = 0
    parent: Work | None = None
    call: ToolCall = field(init=False)
    """The call that it stands for."""
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    status: CallStatus = "ok"
    result: ToolResult | None = None
    scope: anyio.CancelScope | None = None
    """The time limit of the running tool."""
    asking: int = 0
    """People who are asked about calls inside this one: until none is, the time limit stands still."""
    remaining: float = 0.0
    started: float = 0.0
    left: bool = False
    """The tool returned or was given up; a thread of it may go on."""
    done: bool = False

    def __post_init__(self) -> None:
        self.call = self.written

    @contextmanager
    def clock_stopped(self) -> Generator[None, None, None]:
        """While a person is asked, the time of the tools around this call stands still."""
        outer = [(work, work.scope) for work in self.ancestors() if work.scope is not None]
        for work, scope in outer:
            if not work.asking:
                work.remaining, scope.deadline = scope.deadline - anyio.current_time(), math.inf
            work.asking += 1
        try:
            yield
        finally:
            for work, scope in outer:
                work.asking -= 1
                if not work.asking:
                    scope.deadline = anyio.current_time() + work.remaining

    def ancestors(self) -> Iterator[Work]:
        """The calls that this one was made by, nearest first."""
        work = self.parent
        while work is not None:
            yield work
            work = work.parent


@final
class Context:
    """The `ToolContext` of one running call."""

    def __init__(
        self,
        work: Work,
        info: RunInfo,
        catalog: Catalog,
        results: Results,
        storage: Storage,
        *,
        call_nested: Callable[[Work, str, Mapping[str, Any], Origin], Awaitable[ToolResult]],
        report: Callable[..., Awaitable[None]],
        count: Callable[[str, int], None],
    ) -> None:
        self._work = work
        self._info = info
        self._call_nested = call_nested
        self._report = report
        self.catalog = catalog
        self.results = results
        self.storage = storage
        self.count = count

    @property
    def session_id(self) -> str:
        return self._info.session_id

    @property
    def run_id(self) -> str:
        return self._info.run_id

    @property
    def attempt(self) -> int:
        return self._info.attempt

    @property
    def agent_id(self) -> str:
        return self._info.agent_id

    @property
    def call(self) -> ToolCall:
        return self._work.call

    @property
    def cancelled(self) -> bool:
        work = self._work
        if work.done or work.left or work.scope is None:
            return work.done or work.left
        try:
            return work.scope.cancel_called
        except RuntimeError:  # trio tells it to the thread of its event loop only
            return False

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, origin: Origin = "tool") -> ToolResult:
        if self._work.done or self._work.left:
            raise RunClosed(
                f"the call of '{self._work.call.name}' has returned, so its context calls no tools any more"
            )
        return await self._call_nested(self._work, name, mask(dict(arguments), self._work.secrets), origin)

    async def progress(self, text: str, share: float | None = None) -> None:
        if not self._work.done:
            await self._report(
                "progress", call_id=self._work.call.id, text=mask(text, self._work.secrets)[:500], share=share
            )


async def execute(work: Work, arguments: dict[str, Any], context: Context) -> ToolResult:
    """Run the tool of this call with exactly these arguments. What it raises, and a limit that it misses, are results."""
    tool = work.tool
    assert tool is not None
    if tool.execute is None:
        return ToolResult.error(f"'{tool.name}' cannot be run here: it has no executor.")
    given = (arguments, context) if _takes_context(tool.execute) else (arguments,)
    requests = cancel_requests()
    problem: BaseException | None = None
    result = ToolResult()
    with anyio.CancelScope(deadline=anyio.current_time() + tool.timeout) as work.scope:
        try:
            if is_async(tool.execute):
                value = await tool.execute(*given)
            else:
                value = await anyio.to_thread.run_sync(
                    tool.execute, *given, abandon_on_cancel=True, limiter=_threads_of(tool)
                )
                value = await value if inspect.isawaitable(value) else value
            result = to_result(value)
        except BaseException as error:
            if goes_up(error):
                raise
            problem = error
        finally:
            work.left = True
    await go_on_cancelling(requests, problem)
    if work.scope.cancel_called:
        return ToolResult.error(f"'{tool.name}' did not finish within {tool.timeout:g} s and was stopped.")
    if isinstance(problem, ToolError):
        return ToolResult.error(problem.text)
    if isinstance(problem, anyio.get_cancelled_exc_class()):
        return ToolResult.error(f"'{tool.name}' failed: it was cancelled from inside")
    if problem is not None:
        # Masked before it is clipped and set in one line: half a secret, or one on two lines, is found no more.
        told = describe(problem, 2000, lambda text: mask(text, work.secrets))
        return ToolResult.error(f"'{tool.name}' failed: {told}")
    return result


def _threads_of(tool: Tool) -> anyio.CapacityLimiter:
    """Each tool has threads of its own: what hangs in them keeps nobody else from running, stores least of all."""
    limiters = _limiters.get()
    if limiters is None:
        _limiters.set(limiters := {})
    return limiters.setdefault(tool.id, anyio.CapacityLimiter(THREADS))


def _takes_context(executor: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(executor).parameters
    except (TypeError, ValueError):
        return False
    return "context" in parameters


def check_output(tool: Tool, result: ToolResult) -> ToolResult:
    """The result, with a note for the model where it does not match the tool's declared output schema."""
    output_schema = tool.output_schema
    if output_schema is None or result.is_error:
        return result
    value = result.structured
    if value is None:
        try:
            value = json.loads(result.text)
        except (ValueError, RecursionError):
            value = result.text
    problems = schema.check(output_schema, value, root="result", quote_values=False)
    if not problems:
        return result
    told = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:3])
    note = f"[note: this result does not match the tool's output schema: {told}]"
    return result.with_text(f"{result.text}\n{note}", structured=result.structured)
