"""One MCP server: started, held, called and started again. Each connection lives in one keeper task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from hooksdk._tasks.background import logger
from hooksdk.errors import did_you_mean
from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._transport import Transport, all_tools, client_info, first_cause, one_line, serving

State = Literal["starting", "up", "failed", "down", "disabled"]
"""`failed`: it could not be started; `down`: it was up and ended, and is started again when it is needed."""

_MAX_PAUSE = 60.0
"""Seconds between two attempts to start a server that keeps failing, at most."""

_CALL_WAIT = 1.0
"""Seconds that a call waits for the next attempt to start its server; if the pause is longer, the call fails at once."""

_PING_TIMEOUT = 5.0
"""Seconds that a server has to answer a ping after a call was cancelled."""

_STABLE_AFTER = 60.0
"""Seconds that a server has to be up before its end counts as the first one again."""

_ADVICE = "Go on without its tools, or tell the user."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How one server is."""

    name: str
    state: State
    problem: str = ""
    """Why it is not up, in one line, with the end of what it wrote to stderr."""
    tools: int = 0
    """How many tools it offers."""
    seconds: float = 0.0
    """How long its last start took."""
    version: str = ""
    """The version that the server gives itself."""


class CallFailed(Exception):
    """No result came; the text tells the model why and what to do. It never leaves this package."""


class _Life:
    """One start of a server, until its end."""

    def __init__(self, spec: ServerSpec) -> None:
        self.session: ClientSession | None = None
        self.ready = False
        self.ended = anyio.Event()
        """Set once the connection cannot be used any more."""
        self.transport = Transport(spec, self.ended.set)
        self.over = anyio.Event()
        """Set once its process and streams are closed."""
        self.problem = ""
        self.doubtful = False
        """A call was cancelled, by its time limit or its caller: the server must answer a ping before the next one."""
        self.listing = anyio.Lock()
        self.stale = False
        """A listing waits for its turn, and will see every change until then."""
        self.since = anyio.current_time()

    @property
    def forgotten(self) -> bool:
        """True when an HTTP server answered that it does not know the session (it was restarted, say)."""
        return self.transport.http_status.startswith("HTTP 404")

    @property
    def usable(self) -> bool:
        return self.ready and not self.ended.is_set()


class Connection:
    """One server. `keep` runs in a task of its own; everything else may be called from any task of the loop."""

    def __init__(self, spec: ServerSpec, start_timeout: float, report: Callable[[ServerStatus], None]) -> None:
        self.spec = spec
        self.status = ServerStatus(name=spec.name, state="disabled" if spec.disabled else "starting")
        self.tools: tuple[types.Tool, ...] = ()
        self._start_timeout = start_timeout
        self._report = report
        self._open = False
        self._life: _Life | None = None
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._settled.set()
        self._failures = 0
        self._retry_at = 0.0

    async def keep(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start the server whenever it is wanted and hold the connection, until cancelled or stopped."""
        serving.set(self.spec.name)
        self._open = True
        self._wanted = anyio.Event()
        self._failures, self._retry_at = 0, 0.0
        self.wake()
        task_status.started()
        try:
            while True:
                await self._wanted.wait()
                if not self._open:
                    break
                self._wanted = anyio.Event()
                await self._live()
        finally:
            self._open = False
            self._settled.set()
            self.tools = ()
            if self.status.state != "failed":
                self.status = replace(self.status, state="down", problem="", tools=0)

    def wake(self, *, patient: bool = False) -> None:
        """Ask for a start, unless the server is up or starting; with `patient`, only once its wait is over."""
        if not self._open or not self._settled.is_set() or (self._life and self._life.usable):
            return
        ending = self._life is not None and not self._life.over.is_set()
        if patient and (ending or anyio.current_time() < self._retry_at):
            return
        self._settled = anyio.Event()
        self._wanted.set()

    async def settled(self) -> None:
        """Wait until the start under way has succeeded or failed."""
        await self._settled.wait()

    def stop(self) -> anyio.Event | None:
        """End the connection in good order; gives the event that is set when it is done."""
        self._open = False
        self._wanted.set()
        if self._life is None:
            return None
        self._life.ended.set()
        return self._life.over

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        limit: float,
        on_progress: ProgressFnT,
    ) -> types.CallToolResult:
        """The result of one tool call, within `limit` seconds, a start of the server included. Raises `CallFailed`."""
        life: _Life | None = None
        with anyio.move_on_after(limit):
            life = await self._ready()
            try:
                return await self._send(life, name, arguments, on_progress)
            except MCPError as error:
                if not life.forgotten:
                    raise CallFailed(await self._explain(life, name, error)) from None
            life.ended.set()  # the server has forgotten the session and did not run the call
            life = await self._ready()
            try:
                return await self._send(life, name, arguments, on_progress)
            except MCPError as error:
                raise CallFailed(await self._explain(life, name, error)) from None
        if life is None or not life.ready:
            raise CallFailed(f"The MCP server '{self.spec.name}' could not be started within {limit:g} s. {_ADVICE}")
        raise CallFailed(
            f"'{name}' of the MCP server '{self.spec.name}' did not answer within {limit:g} s and was cancelled. It may "
            "have taken effect in part: check before you repeat it, or ask for less at once."
        )

    async def _send(
        self, life: _Life, name: str, arguments: Mapping[str, Any], on_progress: ProgressFnT
    ) -> types.CallToolResult:
        self._check_offered(name)
        assert life.session is not None
        parameters = types.CallToolRequestParams(name=name, arguments=dict(arguments))
        request = types.CallToolRequest(params=parameters)
        try:
            # Not `call_tool`: it raises for a result that misses the output schema, which the run itself checks.
            result = await life.session.send_request(request, types.CallToolResult, progress_callback=on_progress)
        except anyio.get_cancelled_exc_class():
            life.doubtful = True
            raise
        except ValidationError as error:
            problem = one_line(self.spec.redact(str(error)))
            text = f"The MCP server '{self.spec.name}' gave a result for '{name}' that is not MCP: {problem}"
            raise CallFailed(text) from None
        self._failures = 0
        return result

    async def refresh(self) -> None:
        """List the tools anew, starting the server if it is not up; what fails is in `status`."""
        self._retry_at = 0.0
        with contextlib.suppress(CallFailed):
            await self._list(await self._ready())

    async def _live(self) -> None:
        """One start, until its end. Raises nothing but cancellation."""
        settled = self._settled
        life = self._life = _Life(self.spec)
        self._set(ServerStatus(name=self.spec.name, state="starting", tools=len(self.tools)))
        try:
            try:
                async with life.transport.open() as (read, write), self._session(life, read, write) as session:
                    life.session = session
                    with anyio.move_on_after(self._start_timeout) as limit:
                        await self._start(life, session)
                    if limit.cancelled_caught:
                        stderr = await life.transport.last_words(0.0)
                        self._failed(life, _with_stderr(f"did not answer within {self._start_timeout:g} s", stderr))
                    settled.set()
                    if life.ready:
                        await life.ended.wait()
            except Exception as error:
                life.problem = life.problem or life.transport.http_status or self._describe(error)
            if self._open and self.status.state != "failed":
                stderr = await life.transport.last_words()
                if life.ready:
                    self._ended(life, _with_stderr(life.problem or "ended the connection", stderr))
                else:
                    self._failed(life, _with_stderr(life.problem, stderr))
        finally:
            life.session = None
            life.ended.set()
            life.over.set()
            settled.set()

    def _session(self, life: _Life, read: Any, write: Any) -> ClientSession:
        async def hear(message: IncomingMessage) -> None:
            if isinstance(message, types.ToolListChangedNotification) and not life.stale:
                life.stale = True
                await self._list(life)

        return ClientSession(read, write, message_handler=hear, client_info=client_info())

    async def _start(self, life: _Life, session: ClientSession) -> None:
        try:
            await session.initialize()
        except MCPError as error:
            if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
                raise
            await session.discover()  # a server that knows only the protocol of 2026, which has no handshake
        info = session.server_info
        seconds = anyio.current_time() - life.since
        async with life.listing:
            self.tools = await all_tools(session)
            life.ready = True
        self._retry_at = 0.0
        count, version = len(self.tools), info.version if info else ""
        self._set(ServerStatus(name=self.spec.name, state="up", tools=count, seconds=seconds, version=version))

    def _failed(self, life: _Life, problem: str) -> None:
        life.problem = problem
        self._failures += 1
        self._retry_at = anyio.current_time() + min(0.5 * 2 ** (self._failures - 1), _MAX_PAUSE)
        self.tools = ()
        seconds = anyio.current_time() - life.since
        self._set(ServerStatus(name=self.spec.name, state="failed", problem=problem, seconds=seconds))

    def _ended(self, life: _Life, problem: str) -> None:
        """The first end is followed by a start at once; one that follows on another soon waits, longer each time."""
        life.problem = problem
        now = anyio.current_time()
        self._failures = 1 if now - life.since > _STABLE_AFTER else self._failures + 1
        self._retry_at = now + (min(0.5 * 2 ** (self._failures - 2), _MAX_PAUSE) if self._failures > 1 else 0.0)
        self._set(replace(self.status, state="down", problem=problem))

    async def _ready(self) -> _Life:
        """The connection, started or tried again if need be."""
        life = self._life
        if life and life.usable and life.doubtful and not await self._answers(life):
            life.problem = "did not answer a ping after a call was cancelled"
            life.ended.set()
        if not (life and life.usable):
            if life and life.ended.is_set():
                await life.over.wait()
            wait = self._retry_at - anyio.current_time()
            if wait <= _CALL_WAIT:
                await anyio.sleep(max(wait, 0.0))
                self.wake()
                await self._settled.wait()
            life = self._life
        if life and life.usable and self._open:
            return life
        if not self._open:
            raise CallFailed(f"The MCP servers of this host are closed. {_ADVICE}")
        seconds = max(self._retry_at - anyio.current_time(), 0.0)
        again = f"It is tried again in {seconds:.0f} s. " if seconds >= 1 else ""
        raise CallFailed(
            f"The MCP server '{self.spec.name}' is not running and could not be started: "
            f"{self.status.problem or 'it ended at once'}. {again}{_ADVICE}"
        )

    async def _answers(self, life: _Life) -> bool:
        try:
            with anyio.move_on_after(_PING_TIMEOUT):
                assert life.session is not None
                await life.session.send_ping()
                life.doubtful = False
        except MCPError as error:
            life.doubtful = error.code == types.CONNECTION_CLOSED  # any other answer is an answer
        return not life.doubtful

    def _check_offered(self, name: str) -> None:
        names = [tool.name for tool in self.tools]
        if name not in names:
            more = f" and {len(names) - 10} more" if len(names) > 10 else ""
            now = f"It now has: {', '.join(names[:10])}{more}." if names else "It now has none."
            raise CallFailed(
                f"The MCP server '{self.spec.name}' no longer has a tool '{name}'.{did_you_mean(name, names)} {now}"
            )

    async def _explain(self, life: _Life, name: str, error: MCPError) -> str:
        """The text that the model reads of a call that got an error instead of a result."""
        problem = one_line(self.spec.redact(error.message), 1000)
        if error.code != types.CONNECTION_CLOSED and not life.ended.is_set():
            status = f" ({life.transport.http_status})" if life.transport.http_status else ""
            return f"The MCP server '{self.spec.name}' refused '{name}': {problem}{status}"
        if self.spec.url:
            life.ended.set()  # a lost answer leaves the session in doubt: a new one is opened
        with anyio.move_on_after(1.0):
            await life.over.wait()
        return (
            f"The MCP server '{self.spec.name}' ended during the call of '{name}': {life.problem or problem}. The call "
            "may have taken effect: check before you repeat it. The server is started again for the next call."
        )

    async def _list(self, life: _Life) -> None:
        """List the tools anew; the old list stays where that fails."""
        async with life.listing:
            life.stale = False
            if not life.usable or life.session is None:
                return
            problem = f"no answer within {self._start_timeout:g} s"
            try:
                with anyio.move_on_after(self._start_timeout):
                    self.tools = await all_tools(life.session)
                    problem = ""
            except (MCPError, ValidationError) as error:
                problem = self._describe(error)
            if problem:
                life.doubtful = True
                logger.warning("MCP server '%s': its tools could not be listed: %s", self.spec.name, problem)
            else:
                self._set(replace(self.status, tools=len(self.tools)))

    def _set(self, status: ServerStatus) -> None:
        if status != self.status or status.state == "starting":
            self.status = status
            self._report(status)

    def _describe(self, error: Exception) -> str:
        """The first cause in one line."""
        cause = first_cause(error)
        text = one_line(self.spec.redact(cause.message if isinstance(cause, MCPError) else str(cause)))
        if isinstance(cause, MCPError):
            return "ended before it was ready" if cause.code == types.CONNECTION_CLOSED else text
        text = text if isinstance(cause, FileNotFoundError) else f"{type(cause).__name__}: {text}"
        return f"{self.spec.place} cannot be reached: {text}" if self.spec.url else text


def _with_stderr(problem: str, stderr: str) -> str:
    return f"{problem}; it wrote: {stderr}" if stderr else problem
