"""hooksdk in front of a FastMCP server's tools: a middleware.

    mcp.add_middleware(HookSDK(LazyHost()))

Add it first. A client has a session, from its first request until it has made none for a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context as EmptyContext
from pathlib import Path
from typing import Any, final

import anyio
import mcp_types as types
from fastmcp.exceptions import to_mcp_error
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token, get_http_request
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.sessions import current_principal
from fastmcp.tools import InputRequiredToolResult
from fastmcp.tools import Tool as NativeTool
from fastmcp.tools import ToolResult as NativeResult
from fastmcp.utilities.versions import dedupe_with_versions
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.adapters import _fastmcp_forms as forms
from hooksdk.adapters._calls import NO_LIMIT, Native
from hooksdk.adapters._conversation import OwnerOf, SomeHost, ask_later, check_hook_sdk
from hooksdk.adapters._doubts import Doubts
from hooksdk.approvals import digest_of
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.errors import ApprovalPending, HookSDKError, SessionClosed, StoreError, check_number
from hooksdk.run import JudgedCall, Run
from hooksdk.tasks import describe
from hooksdk.tools import Annotations, Tool

__all__ = ["HookSDK"]

logger = logging.getLogger("hooksdk")
MOST_WAITING = 200
"""Calls of one client that wait for its answers at most; an older one is refused."""


@final
class HookSDK(Middleware):
    """Every policy and observer of a host, in front of a FastMCP server's tools.

    - `host`: a `hooksdk.sync.LazyHost`, or a `hooksdk.Host` that is open.
    - `core`: tools that tool search never hides, by name or pattern.
    - `owner_of`: where a tool comes from, such as `("mcp", "github")` for that of a mounted server, for rules that name
      it; `("host", "")` without it. A tool that begins with its owner's name and `_` is known to rules by the rest,
      too.
    - `session_of`: the session that a request belongs to, by FastMCP's `Context`. Without it: the client's, where the
      protocol has sessions, else that of the user who is logged in, else one for all.
    - `idle`: seconds without a request after which a session is closed.
    - other keywords are those of `Session.run`, such as `context_window=200_000` and `requester={...}`.

    A call that a policy asks about is asked of the person at the client, by elicitation; a client that shows no
    questions gets a refusal that says so. A host with an approver asks that one first.
    """

    def __init__(
        self,
        host: SomeHost,
        *,
        core: Sequence[str] = (),
        owner_of: OwnerOf[NativeTool] | None = None,
        session_of: Callable[[Context], str] | None = None,
        idle: float = 600.0,
        **options: Any,
    ) -> None:
        check_hook_sdk(host, core, options)
        check_number("HookSDK(idle=...)", idle, "idle=600")
        self.host, self.core, self.idle = host, core, idle
        approver = None if host.approver is not None else ask_later
        self.options: dict[str, Any] = {"approver": approver, "expose": "auto", **options}
        self._owner_of, self._session_of = owner_of, session_of
        place = f"fastmcp-{digest_of([platform.node(), str(Path.cwd())])[:12]}-"
        self._own_id = f"{place}{secrets.token_hex(6)}"
        self.doubts = Doubts(host, place)
        self._clients: dict[str, _Client] = {}
        self._tasks = set[asyncio.Task[None]]()

    async def aclose(self) -> None:
        """End all runs and close their sessions, such as before a `Host` closes in whose block the server runs. The end
        of the event loop does it, too."""
        for client in self._clients.values():
            client.leave.set()
        if self._tasks:
            await asyncio.wait([*self._tasks])

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Any) -> Sequence[NativeTool]:
        """List the tools that the client's run offers."""
        natives: Sequence[NativeTool] = await call_next(context)
        try:
            async with self._at_work(context) as client:
                run = await client.resolve(natives, self._tool)
                return forms.listed(run.offered, natives)
        except HookSDKError as problem:
            raise to_mcp_error(problem) from problem

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> NativeResult:
        """Judge the call, run FastMCP's tool with the judged arguments, and record the result."""
        message: types.CallToolRequestParams = context.message
        assert context.fastmcp_context is not None
        server, raised = context.fastmcp_context.fastmcp, list[Exception]()

        async def run_tool(name: str, arguments: dict[str, Any], _call_id: str) -> object:
            judged = message.model_copy(update={"name": name, "arguments": arguments})
            try:
                value = await call_next(context.copy(message=judged))
            except Exception as error:  # FastMCP's own errors for the client
                raised.append(error)
                return ToolResult.error(str(error))
            if isinstance(value, InputRequiredToolResult):
                raise _Pause(value)
            return value

        natives = [*await server.list_tools(run_middleware=False)]
        if message.name not in {one.name for one in natives}:  # FastMCP runs it, and does not list it
            natives += filter(None, [await server.get_tool(message.name)])
        native = Native(run_tool, forms.read_result, _Pause)
        try:
            async with self._at_work(context) as client:
                run = await client.resolve(natives, self._tool)
                result = await client.call(run, message, context.fastmcp_context, native)
        except HookSDKError as problem:
            return forms.refusal(f"'{message.name}' was not run: {describe(problem)}")
        if isinstance(result, NativeResult):
            return result
        if native.result != result:
            schema = next((one.output_schema for one in natives if one.name == message.name), None)
            return forms.changed_result(result, schema)
        if raised:
            raise raised[-1]
        return native.value  # type: ignore[return-value] - what FastMCP's tool answered

    @asynccontextmanager
    async def _at_work(self, context: MiddlewareContext[Any]) -> AsyncGenerator[_Client]:
        """The client with its session open, which is not idle inside the block."""
        assert context.fastmcp_context is not None
        session_id = (self._session_of or self._usual_session)(context.fastmcp_context)
        while (client := self._clients.get(session_id)) is None or client.closing:
            if client is not None and client.requests:
                raise HookSDKError("the session ends, since a record of it could not be stored; call again")
            if client is not None:
                await client.ended.wait()
            if self._clients.get(session_id) is client:
                self._begin(session_id)
        client.requests += 1
        try:
            await client.settled.wait()
            if client.error is not None:
                raise client.error
            yield client
        except StoreError:  # the run takes no more calls: the next request opens a new one
            client.closing = True
            raise
        finally:
            client.requests -= 1
            client.last = anyio.current_time()
            if client.closing and not client.requests:
                client.leave.set()

    def _begin(self, session_id: str) -> None:
        client = self._clients[session_id] = _Client(self, session_id)
        task = asyncio.get_running_loop().create_task(client.keep(_requester()), context=EmptyContext())
        self._tasks.add(task)

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if self._clients.get(session_id) is client:
                del self._clients[session_id]

        task.add_done_callback(end)

    def _usual_session(self, context: Context) -> str:
        if _has_session(context):
            return f"{self._own_id}-{context.session_id}"
        if (user := current_principal()) is None:
            return self._own_id
        return f"{self._own_id}-{hashlib.sha256(user.encode()).hexdigest()[:16]}"

    def _tool(self, native: NativeTool) -> Tool:
        source, owner = self._owner_of(native) if self._owner_of else ("host", "")

        async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return await context.native.execute(native.name, arguments, context.call)

        hints = native.annotations.model_dump(by_alias=True) if native.annotations else {}
        return Tool(
            name=native.name,
            own_name=native.name.removeprefix(f"{owner}_") if owner else "",
            source=source,
            owner=owner,
            description=native.description or "",
            label=native.title or "",
            parameters=native.parameters,
            annotations=Annotations.from_mcp(hints),
            output_schema=native.output_schema,
            execute=execute,
            timeout=NO_LIMIT,
            core=False,
            keeps_secrets=False,
        )


class _Pause(Exception):
    """A tool asks its client, which repeats the call with its answer."""

    def __init__(self, value: InputRequiredToolResult) -> None:
        super().__init__()
        self.value = value


@final
class _Client:
    """One client's session and run, held open by a task, since no client says that it leaves.

    Attributes:
        requests: The number of requests that are at work.
        last: The time of the last request.
        settled: Set once the session is open, or has failed to open.
        leave: Set by whoever wants the session closed.
        ended: Set once the session is closed.
        closing: True once it takes no more requests.
        error: The error for which the session could not be opened.
    """

    def __init__(self, hooks: HookSDK, session_id: str) -> None:
        self._hooks, self._id = hooks, session_id
        self._run: Run | None = None
        self._lock = anyio.Lock()
        self._known: object = None
        # Calls that wait for the client's answer, each with the state that the client sends back (FastMCP seals it) and
        # a digest of name and arguments.
        self._waiting: list[tuple[str, str, JudgedCall]] = []
        # Calls whose results may not have reached the client yet.
        self._answered: list[JudgedCall] = []
        self.requests = 0
        self.last = anyio.current_time()
        self.settled, self.leave, self.ended = anyio.Event(), anyio.Event(), anyio.Event()
        self.closing = False
        self.error: Exception | None = None

    async def keep(self, requester: dict[str, Any] | None) -> None:
        """Hold session and run open until the client is idle, or the event loop ends."""
        doubts = self._hooks.doubts
        options: dict[str, Any] = {
            "requester": requester,
            "in_doubt": doubts.calls,
            **self._hooks.options,
            "transcript": False,
        }
        try:
            session = await self._hooks.host.hold(self._id, idle=self._hooks.idle)
            doubts.begin(self._id)
            reason: Any = "closed"
            try:
                async with session.run(**options) as self._run:
                    self.settled.set()
                    reason = await self._until_over()
                    self.closing = True
                    self._confirm()
            finally:
                self.closing = True
                doubts.end(self._id, session.in_doubt)
                await session.close(reason)
        except Exception as error:
            if self._run is None:
                self.error = error
            elif isinstance(error, SessionClosed):
                logger.warning("session '%s' was closed with its host: await HookSDK.aclose() before", self._id)
            else:
                logger.exception("session '%s' of a FastMCP server ended with an error", self._id)
        finally:
            self.closing = True
            self.settled.set()
            self.ended.set()

    async def _until_over(self) -> str:
        try:
            while not self.leave.is_set():
                idle = 0.0 if self.requests else anyio.current_time() - self.last
                if idle >= self._hooks.idle:
                    return "idle"
                with anyio.move_on_after(self._hooks.idle - idle):
                    await self.leave.wait()
        except asyncio.CancelledError:  # the event loop ends: close session and run first
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        return "closed"

    async def resolve(self, natives: Sequence[NativeTool], make: Callable[[NativeTool], Tool]) -> Run:
        """The run with these tools granted. The same tools are resolved once."""
        assert self._run is not None
        newest = dedupe_with_versions(natives, lambda one: one.name)
        known = [
            (one.name, one.title, one.description, one.parameters, one.output_schema, one.annotations) for one in newest
        ]
        async with self._lock:
            if self._known != known:
                await self._run.resolve_tools([*map(make, newest)], core=self._hooks.core)
                self._known = known
        return self._run

    async def call(
        self, run: Run, message: types.CallToolRequestParams, context: Context, native: Native
    ) -> ToolResult | NativeResult:
        """Judge a call and run it. Answers the result, or a question for the client."""
        self._confirm()
        await self._hooks.doubts.look()
        same = digest_of([message.name, message.arguments or {}])
        judged = self._take_waiting(message.request_state, same)
        if judged is None:
            judged, answer = await run.judge(ToolCall(_new("call"), message.name, message.arguments or {})), None
        else:  # only a call that waits has an answer
            answer = (message.input_responses or {}).get(forms.QUESTION) if judged.pending else None
        while True:
            if (request := judged.pending) is not None:
                if answer is None and forms.asks_by_result(context):
                    return forms.question_result(request, await self._wait(same, judged))
                await judged.approve(
                    await forms.ask_client(context, request) if answer is None else forms.read_answer(answer)
                )
                answer = None
                continue
            if judged.result is not None:
                return judged.result
            try:
                result = await judged.execute(native=native, confirms=True)
                await self._hooks.doubts.settle(judged, run)
                self._answered.append(judged)
                return result
            except ApprovalPending:
                if isinstance(native.pause, _Pause):
                    asked = native.pause.value.input_required
                    state = await self._wait(same, judged, asked.request_state)
                    return InputRequiredToolResult(asked.model_copy(update={"request_state": state}))
                if judged.pending is None:
                    raise
            except StoreError as problem:
                if judged.result is None:
                    raise
                logger.warning("'%s' ran, and what plugins keep of it was not stored: %s", message.name, problem)
                self._answered.append(judged)
                return judged.result

    def _confirm(self) -> None:
        """Confirm the results that were answered before this request, or before the end: FastMCP does not tell when it
        has sent one."""
        for judged in self._answered:
            judged.confirm()
        self._answered.clear()

    def _take_waiting(self, state: str | None, same: str) -> JudgedCall | None:
        """The waiting call that this request repeats, if it repeats one."""
        for one in self._waiting:
            if one[:2] == (state, same):
                self._waiting.remove(one)
                return one[2]
        return None

    async def _wait(self, same: str, judged: JudgedCall, state: str | None = None) -> str:
        """Let a call wait until the client repeats it with the state that is answered here."""
        state = state or _new("state")
        self._waiting.append((state, same, judged))
        if len(self._waiting) > MOST_WAITING:
            _, _, oldest = self._waiting.pop(0)
            await oldest.refuse("it was not made again in time", unanswered="timeout")
        return state


def _new(kind: str) -> str:
    """A random id."""
    return f"hooksdk-{kind}-{secrets.token_hex(16)}"


def _has_session(context: Context) -> bool:
    """True if FastMCP's session id outlives this request."""
    if (request := context.request_context) is None or request.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return False
    return context.transport != "streamable-http" or "mcp-session-id" in get_http_request().headers


def _requester() -> dict[str, Any] | None:
    """The logged-in user as the requester that policies see."""
    token = get_access_token()
    return None if token is None else {"id": token.subject or token.client_id, "roles": [*token.scopes]}
