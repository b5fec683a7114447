"""One MCP server: started, held, called and started again. Each connection lives in one keeper task."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._life import Life, Terms
from hooksdk.mcp._offered import check_offered
from hooksdk.mcp._protocol import DiedOfTheQuestion, agree, hear_changes, is_modern
from hooksdk.mcp._relay import Callers, RunningCall, send_call
from hooksdk.mcp._status import ADVICE, CallFailed, ServerStatus
from hooksdk.mcp._transport import all_tools, client_info, first_cause, one_line, serving

logger = logging.getLogger("hooksdk")

_MAX_PAUSE = 60.0
"""Seconds between two attempts to start a server that keeps failing, at most."""

_CALL_WAIT = 1.0
"""Seconds that a call waits for the next attempt to start its server; if the pause is longer, the call fails at once."""

_PING_TIMEOUT = 5.0
"""Seconds that a server has to answer a ping after a call was cancelled."""

_STABLE_AFTER = 60.0
"""Seconds that a server has to be up before its end counts as the first one again."""

_UNCALLED_REST = 60.0
"""Seconds for which a server is kept that was started to be listed and that nobody has called: it holds nothing of anybody."""


class Connection:
    """One server. `keep` runs in a task of its own; everything else may be called from any task of the loop."""

    def __init__(
        self, spec: ServerSpec, terms: Terms, tools: tuple[types.Tool, ...] = (), *, beside: bool = False
    ) -> None:
        """`tools` are what to go on until the server, or a listing that was kept, tells of others. One that is `beside` another
        is for the clients of the older protocol, of a server that speaks both."""
        self.spec = spec
        self.status = ServerStatus(name=spec.name, state="disabled" if spec.disabled else "starting")
        self.tools = tools
        self._terms = terms
        self._start_timeout = spec.start_timeout or terms.start_timeout
        self._open = False
        self._life: Life | None = None
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._settled.set()
        self._failures = 0
        self._retry_at = 0.0
        self._queued = False
        self._callers = Callers(terms.relay)
        self._calls = 0
        self._last_call = 0.0
        self._quiet = anyio.Event()
        """Set once nobody waits for a call of it, for whoever retires it."""
        self._handshake = beside
        """The server is to be asked for the older protocol first: it speaks no other, as far as is known."""
        self._beside = beside
        self._older: Connection | None = None
        """The one beside it."""
        self._group: TaskGroup | None = None

    def open(self) -> bool:
        """Take calls from now on; `keep` is to run then. True for a server that is to be listed when it is its turn: `wake`
        says so."""
        self._open = True
        self._wanted = anyio.Event()
        self._failures, self._retry_at = 0, 0.0
        self.status = ServerStatus(name=self.spec.name, state="starting", tools=len(self.tools))
        lazy = self._terms.listings
        listing = lazy.read(self.spec) if lazy and not self._beside else None
        if listing is not None:
            self._handshake = listing.handshake
            self._learn(listing.tools)
            self._set(replace(self.status, state="idle", tools=len(self.tools), version=listing.version))
        if listing is None or not listing.fresh:
            self._queued = True
            self._settled = anyio.Event()
        return self._queued

    async def keep(self) -> None:
        """Start the server whenever it is wanted and hold the connection, until cancelled or stopped."""
        serving.set(self.spec.name)
        try:
            async with anyio.create_task_group() as self._group:
                while True:
                    await self._wanted.wait()
                    if not self._open:
                        break
                    self._wanted = anyio.Event()
                    await self._live()
                    if self._life and self._life.frightened and self._open:
                        await self._live()
        finally:
            self._group = None
            self._open = self._queued = False
            self._settled.set()
            self.tools = ()
            if self.status.state != "failed":
                self.status = replace(self.status, state="down", problem="", tools=0)

    def wake(self, *, patient: bool = False) -> None:
        """Ask for a start, unless the server is up or starting. With `patient`, only once its wait is over, and not of one
        that waits for its turn or that its next call starts."""
        if not self._open or (patient and (self._queued or (self._terms.listings and self.status.state != "failed"))):
            return
        if self._queued:
            self._queued = False
            self._wanted.set()
        if not self._settled.is_set() or (self._life and self._life.usable):
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
        if self._older is not None:
            self._older.stop()
        self._open = False
        self._wanted.set()
        if self._life is None:
            return None
        if self._life.starting is not None and not self._life.ready:
            self._life.starting.cancel()
        self._life.ended.set()
        return self._life.over

    async def retire(self) -> None:
        """End the connection once the calls that it has taken are over."""
        if self._older is not None:
            await self._older.retire()
        if self._calls:
            await self._quiet.wait()
        self.stop()

    async def call(
        self, tool: types.Tool, arguments: Mapping[str, Any], limit: float, call: RunningCall
    ) -> types.CallToolResult:
        """The result of one call of `tool`, as it was when it was looked up, within `limit` seconds, a start of the server
        included. Raises `CallFailed`."""
        if (older := self._older_for(call)) is not None:
            return await older.call(tool, arguments, limit, call)
        self._calls += 1
        try:
            with self._callers.serving(call):
                return await self._call(tool, arguments, limit, call)
        finally:
            self._calls -= 1
            self._last_call = anyio.current_time()
            if not self._calls:
                self._quiet.set()
                self._quiet = anyio.Event()

    def _older_for(self, call: RunningCall) -> Connection | None:
        """The connection in the older protocol, for a client that speaks it and that the server may ask; None where there is one
        for all, since the server speaks one protocol alone. A server that speaks both asks in ways that the other has not."""
        if not self._terms.relay or self._handshake or call.client is None or is_modern(call.client.protocol_version):
            return None
        if self._older is None and self._group is not None and self._open:
            self._older = Connection(self.spec, replace(self._terms, report=_ignore, changed=_ignore), beside=True)
            self._older.open()
            contextvars.Context().run(self._group.start_soon, self._older.keep)
        older = self._older
        return None if older is None or not older._handshake else older

    async def _call(
        self, tool: types.Tool, arguments: Mapping[str, Any], limit: float, call: RunningCall
    ) -> types.CallToolResult:
        name = tool.name
        life: Life | None = None
        with anyio.move_on_after(limit):
            life = await self._ready()
            try:
                return await self._send(life, tool, arguments, call)
            except MCPError as error:
                if not life.forgotten:
                    raise await self._failure(life, name, error) from None
            life.ended.set()  # the server has forgotten the session and did not run the call
            life = await self._ready()
            try:
                return await self._send(life, tool, arguments, call)
            except MCPError as error:
                raise await self._failure(life, name, error) from None
        if life is None or not life.ready:
            raise CallFailed(f"The MCP server '{self.spec.name}' could not be started within {limit:g} s. {ADVICE}")
        raise CallFailed(
            f"'{name}' of the MCP server '{self.spec.name}' did not answer within {limit:g} s and was cancelled. It may "
            "have taken effect in part: check before you repeat it, or ask for less at once.",
            in_doubt=True,
        )

    async def _send(
        self, life: Life, tool: types.Tool, arguments: Mapping[str, Any], call: RunningCall
    ) -> types.CallToolResult:
        check_offered(
            self.spec.name, tool, self.tools, arguments
        )  # without asking: each start lists, and it tells of changes
        assert life.session is not None
        life.called = True
        parameters = types.CallToolRequestParams(name=tool.name, arguments=dict(arguments), _meta=call.meta)
        try:
            result = await send_call(life.session, call, parameters)
        except anyio.get_cancelled_exc_class():
            life.doubtful = True
            raise
        except ValidationError as error:
            problem = one_line(self.spec.redact(str(error)))
            text = f"The MCP server '{self.spec.name}' gave a result for '{tool.name}' that is not MCP: {problem}"
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
        life = self._life = Life(self.spec)
        self._set(ServerStatus(name=self.spec.name, state="starting", tools=len(self.tools)))
        try:
            try:
                async with life.transport.open() as (read, write), self._session(life, read, write) as session:
                    life.session = session
                    with anyio.move_on_after(self._start_timeout) as life.starting:
                        await self._start(life, session)
                    if life.starting.cancelled_caught and self._open:
                        stderr = await life.transport.last_words(0.0)
                        self._failed(life, _with_stderr(f"did not answer within {self._start_timeout:g} s", stderr))
                    settled.set()
                    if life.ready:
                        async with life.listing:  # a change that is heard meanwhile is written after this, not under it
                            await self._remember(self.status.version)
                        async with anyio.create_task_group() as group:
                            group.start_soon(hear_changes, session, partial(self._list_anew, life))
                            await self._until_end(life)
                            group.cancel_scope.cancel()
            except Exception as error:
                if isinstance(first_cause(error), DiedOfTheQuestion):
                    life.frightened = self._handshake = True
                life.problem = life.problem or life.transport.http_status or self._describe(error)
            if life.frightened:
                pass  # it is started again at once, and not asked
            elif life.resting:
                self._set(replace(self.status, state="idle", problem=""))
            elif self._open and self.status.state != "failed":
                stderr = await life.transport.last_words()
                if life.ready:
                    self._ended(life, _with_stderr(life.problem or "ended the connection", stderr))
                else:
                    self._failed(life, _with_stderr(life.problem, stderr))
        finally:
            life.session = None
            life.ended.set()
            life.over.set()
            if not life.frightened:
                settled.set()

    def _session(self, life: Life, read: Any, write: Any) -> ClientSession:
        async def hear(message: IncomingMessage) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                await self._list_anew(life)

        return ClientSession(read, write, message_handler=hear, client_info=client_info(), **self._callers.callbacks())

    async def _start(self, life: Life, session: ClientSession) -> None:
        await agree(session, handshake=self._handshake)
        self._handshake = not is_modern(session.protocol_version)
        info = session.server_info
        seconds, version = anyio.current_time() - life.since, info.version if info else ""
        async with life.listing:
            self._learn(await all_tools(session))
            life.ready = True
        self._retry_at = 0.0
        count = len(self.tools)
        self._set(ServerStatus(name=self.spec.name, state="up", tools=count, seconds=seconds, version=version))

    async def _until_end(self, life: Life) -> None:
        """Wait for the end of a start, or bring it about when nobody has called the server for long."""
        while not life.ended.is_set():
            idle = self.spec.idle or self._terms.idle
            limit = idle if life.called else min(_UNCALLED_REST, idle or _UNCALLED_REST)
            if limit is None or self._terms.listings is None:
                await life.ended.wait()
                return
            left = max(life.since, self._last_call) + limit - anyio.current_time()
            if left <= 0 and not self._calls:
                life.resting = True
                life.ended.set()
                return
            with anyio.move_on_after(left if left > 0 else limit):
                await life.ended.wait()

    def _learn(self, tools: tuple[types.Tool, ...]) -> None:
        """What the server offers. The same tools stay the same objects."""
        if tools != self.tools:
            self.tools = tools
            self._terms.changed(self.spec.name)

    async def _remember(self, version: str) -> None:
        if self._terms.listings is not None and not self._beside:
            write = partial(self._terms.listings.write, handshake=self._handshake)
            await anyio.to_thread.run_sync(write, self.spec, self.tools, version)

    def _failed(self, life: Life, problem: str) -> None:
        life.problem = problem
        self._failures += 1
        self._retry_at = anyio.current_time() + min(0.5 * 2 ** (self._failures - 1), _MAX_PAUSE)
        self._learn(())
        seconds = anyio.current_time() - life.since
        self._set(ServerStatus(name=self.spec.name, state="failed", problem=problem, seconds=seconds))

    def _ended(self, life: Life, problem: str) -> None:
        """The first end is followed by a start at once; one that follows on another soon waits, longer each time."""
        life.problem = problem
        now = anyio.current_time()
        self._failures = 1 if now - life.since > _STABLE_AFTER else self._failures + 1
        self._retry_at = now + (min(0.5 * 2 ** (self._failures - 2), _MAX_PAUSE) if self._failures > 1 else 0.0)
        self._set(replace(self.status, state="down", problem=problem))

    async def _ready(self) -> Life:
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
        if self.spec.disabled:
            raise CallFailed(f"The MCP server '{self.spec.name}' is disabled in its file. {ADVICE}")
        if not self._open:
            raise CallFailed(f"The MCP servers of this host are closed. {ADVICE}")
        seconds = max(self._retry_at - anyio.current_time(), 0.0)
        again = f"It is tried again in {seconds:.0f} s. " if seconds >= 1 else ""
        raise CallFailed(
            f"The MCP server '{self.spec.name}' is not running and could not be started: "
            f"{self.status.problem or 'it ended at once'}. {again}{ADVICE}"
        )

    async def _answers(self, life: Life) -> bool:
        try:
            with anyio.move_on_after(_PING_TIMEOUT):
                assert life.session is not None
                await life.session.send_ping()
                life.doubtful = False
        except MCPError as error:
            life.doubtful = error.code == types.CONNECTION_CLOSED  # any other answer is an answer
        return not life.doubtful

    async def _failure(self, life: Life, name: str, error: MCPError) -> CallFailed:
        """What the model reads of a call that got an error instead of a result."""
        problem = one_line(self.spec.redact(error.message), 1000)
        if error.code != types.CONNECTION_CLOSED and not life.ended.is_set():
            status = f" ({life.transport.http_status})" if life.transport.http_status else ""
            return CallFailed(f"The MCP server '{self.spec.name}' refused '{name}': {problem}{status}")
        if self.spec.url:
            life.ended.set()  # a lost answer leaves the session in doubt: a new one is opened
        with anyio.move_on_after(1.0):
            await life.over.wait()
        return CallFailed(
            f"The MCP server '{self.spec.name}' ended during the call of '{name}': {life.problem or problem}. The call "
            "may have taken effect: check before you repeat it. The server is started again for the next call.",
            in_doubt=True,
        )

    async def _list_anew(self, life: Life) -> None:
        """The server says that its tools are others."""
        if not life.stale:
            life.stale = True
            await self._list(life)

    async def _list(self, life: Life) -> None:
        """List the tools anew; the old list stays where that fails."""
        async with life.listing:
            life.stale = False
            if not life.usable or life.session is None:
                return
            problem = f"no answer within {self._start_timeout:g} s"
            try:
                with anyio.move_on_after(self._start_timeout):
                    self._learn(await all_tools(life.session))
                    problem = ""
            except (MCPError, ValidationError) as error:
                problem = self._describe(error)
            if problem:
                life.doubtful = True
                logger.warning("MCP server '%s': its tools could not be listed: %s", self.spec.name, problem)
            else:
                self._set(replace(self.status, tools=len(self.tools)))
                await self._remember(self.status.version)

    def _set(self, status: ServerStatus) -> None:
        if status != self.status or status.state == "starting":
            self.status = status
            self._terms.report(status)

    def _describe(self, error: Exception) -> str:
        """The first cause in one line."""
        cause = first_cause(error)
        text = one_line(self.spec.redact(cause.message if isinstance(cause, MCPError) else str(cause)))
        if isinstance(cause, MCPError):
            return "exited during its start" if cause.code == types.CONNECTION_CLOSED else text
        text = text if isinstance(cause, FileNotFoundError) else f"{type(cause).__name__}: {text}"
        return f"{self.spec.place} cannot be reached: {text}" if self.spec.url else text


def _ignore(_told: object) -> None:
    """For a connection whose server another one tells of."""


def _with_stderr(problem: str, stderr: str) -> str:
    return f"{problem}; it wrote: {stderr}" if stderr else problem
