"""The connection to one MCP server, which is started, called and started again. It is kept by a task of its own."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._life import Attempts, Life, Send, Terms, agree, answers, is_modern
from hooksdk.mcp._offer import ServerOffer, check_offered
from hooksdk.mcp._offering import Offering
from hooksdk.mcp._relay import Callers, Client, RunningCall, current_client, masked, send_call
from hooksdk.mcp._scope import EVERYBODY, NOBODY, ScopeKey
from hooksdk.mcp._status import (
    CallFailed,
    ServerStatus,
    SignInNeeded,
    describe,
    ended_during,
    starting,
    too_late,
    unavailable,
    with_stderr,
)
from hooksdk.mcp._transport import one_line, serving
from hooksdk.mcp.sign_in._auth import SignedIn

T = TypeVar("T")

# Seconds that a call waits for the next attempt to start its server; if the pause is longer, the call fails at once.
_CALL_WAIT = 1.0
# Seconds for which a server runs that was only started to be listed: it keeps nothing of any caller.
_UNCALLED_REST = 60.0


class Connection:
    """The connection to one server. `keep` runs in a task of its own; all else may be called from any task of the loop.

    Attributes:
        spec: The server's entry.
        key: The clients that the connection is for.
        client: The client that needed the server last.
        status: The server's status.
        offering: The server's offer.
        handshake: True for a server that speaks the older protocol alone, or is to be asked for it; None while that
            is not known.
        older: A second connection to a server of both protocols, for the same clients as far as they speak the older
            one.

    """

    def __init__(
        self,
        spec: ServerSpec,
        terms: Terms,
        offer: ServerOffer | None = None,
        key: ScopeKey = NOBODY,
        *,
        handshake: bool | None = None,
    ) -> None:
        """`offer` counts until the server, or a kept listing, gives another one."""
        self.spec = spec
        self.key = key
        self.client: Client | None = None
        self._signed_in = SignedIn(spec, key.holder, terms.sign_ins) if spec.may_sign_in else None
        self.status = ServerStatus(name=spec.name, state="disabled" if spec.disabled else "starting")
        self._terms = terms
        self._start_timeout = spec.start_timeout or terms.start_timeout
        self._open = False
        self._life: Life | None = None
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._settled.set()
        self._attempts = Attempts()
        self._queued = False
        self._callers = Callers(terms.relay, bool(key.session))
        told_to = EVERYBODY if spec.own_scope == "gateway" else key
        offer = offer or ServerOffer(server=spec.name)
        self.offering = Offering(offer, spec, told_to, terms, self._callers, self._listed)
        self._calls = 0
        self._last_call = 0.0
        # Set, and replaced, when no call is under way.
        self._quiet = anyio.Event()
        self.handshake = handshake
        self.older: Connection | None = None
        self._spawn: Callable[..., Any] | None = None

    @property
    def tools(self) -> tuple[types.Tool, ...]:
        """Its tools."""
        return self.offering.offer.tools

    @property
    def session(self) -> ClientSession | None:
        """The connection itself, while the server runs."""
        return self._life.session if self._life and self._life.usable else None

    def open(self) -> bool:
        """Take calls from now on, while `keep` runs. True for a server that is to be listed, which `wake` begins when
        its turn comes."""
        self._open = True
        self._wanted = anyio.Event()
        self._attempts = Attempts()
        self.status = ServerStatus(name=self.spec.name, state="starting", tools=len(self.tools))
        listing = self.offering.read_kept()
        if listing is not None:
            self.handshake = listing.handshake
            self._set(replace(self.status, state="idle", tools=len(self.tools), version=listing.version))
        if listing is None or not listing.fresh:
            self._queued = True
            self._settled = anyio.Event()
        return self._queued

    async def keep(self) -> None:
        """Start the server whenever it is wanted and keep the connection, until this is cancelled or stopped."""
        serving.set(self.spec.name)
        try:
            async with anyio.create_task_group() as group:
                self._spawn = group.start_soon
                while True:
                    await self._wanted.wait()
                    if not self._open:
                        break
                    self._wanted = anyio.Event()
                    await self._live()
                    if self._life and self._life.frightened and self._open:
                        await self._live()
        finally:
            self._spawn = None
            self._open = self._queued = False
            self.older = None
            self._settled.set()
            self.offering.offer = ServerOffer(server=self.spec.name)
            if not self.status.failed:
                self.status = replace(self.status, state="down", problem="", tools=0)

    def wake(self, *, patient: bool = False) -> None:
        """Ask for a start, unless the server is up or starting. With `patient`, only once its pause is over, and not
        for a server that waits for its turn or is started by its next call."""
        self.client = current_client.get() or self.client
        if self._signed_in is not None:
            self._attempts.next_at = self._signed_in.due(self._attempts.next_at)
        if not self._open or (patient and (self._queued or (self._terms.rests and not self.status.failed))):
            return
        if self._queued:
            self._queued = False
            self._wanted.set()
        if not self._settled.is_set() or (self._life and self._life.usable):
            return
        if patient and ((self._life and not self._life.over.is_set()) or anyio.current_time() < self._attempts.next_at):
            return
        self._settled = anyio.Event()
        self._wanted.set()

    async def settled(self) -> None:
        """Wait until the start under way has succeeded or failed."""
        await self._settled.wait()

    def stop(self) -> anyio.Event | None:
        """End the connection in good order. The event in the answer is set when that is done."""
        if self.older is not None:
            self.older.stop()
        self._open = False
        self._wanted.set()
        if self._life is None:
            return None
        if self._life.starting is not None and not self._life.ready:
            self._life.starting.cancel()
        self._life.ended.set()
        return self._life.over

    async def retire(self) -> None:
        """End the connection once its calls are over."""
        if self.older is not None:
            await self.older.retire()
        if self._calls:
            await self._quiet.wait()
        self.stop()

    async def call(
        self, tool: types.Tool, arguments: Mapping[str, Any], limit: float, call: RunningCall
    ) -> types.CallToolResult:
        """The result of one call of `tool`, as it was when it was looked up, within `limit` seconds, a start of the
        server included. Raises `CallFailed`."""
        params = types.CallToolRequestParams(name=tool.name, arguments=dict(arguments), _meta=call.meta)

        async def send(session: ClientSession) -> types.CallToolResult:
            # The known offer counts, without a request: the server tells of changes.
            check_offered(self.spec.name, tool, self.tools, arguments)
            return await send_call(session, call, types.CallToolRequest(params=params), types.CallToolResult)

        return await self.request(tool.name, limit, call, send)

    async def request(self, what: str, limit: float, call: RunningCall, send: Send[T]) -> T:
        """The answer to one request, which `send` makes, in the same way; `what` names its subject in errors."""
        if (older := await self._older_for(call)) is not None:
            return await older.request(what, limit, call, send)
        self._calls += 1
        try:
            with self._callers.serving(call):
                return await self._request(what, limit, call, send)
        finally:
            self._calls -= 1
            self._last_call = anyio.current_time()
            if not self._calls:
                self._quiet.set()
                self._quiet = anyio.Event()

    async def _older_for(self, call: RunningCall) -> Connection | None:
        """The second connection, for a client that speaks the older protocol and that the server may ask questions,
        which differ by the protocol. None where the server speaks one protocol alone. Raises `CallFailed` where the
        server cannot be started to find out."""
        if not self._terms.relay or self.handshake or call.client is None or is_modern(call.client.protocol_version):
            return None
        if self.handshake is None:
            await self._ready()
        if self.older is None and self._spawn is not None and self._open and not self.handshake:
            self.older = Connection(self.spec, self._terms.aside(), key=self.key, handshake=True)
            self.older.client = call.client
            self.older.open()
            contextvars.Context().run(self._spawn, self.older.keep)
        return self.older if self.older is not None and self.older.handshake else None

    async def _request(self, name: str, limit: float, call: RunningCall, send: Send[T]) -> T:
        with anyio.move_on_after(limit):
            for is_last in (False, True):
                call.is_sent = False
                life = await self._ready()
                try:
                    result = await life.send(name, call, send)
                except MCPError as error:
                    if is_last or (call.is_sent and not life.forgotten):
                        raise await self._failure(life, name, call, error) from None
                else:
                    self._attempts.failures = 0
                    return result
                # The server does not know the session any more, or was not reached: it did not run the call.
                life.ended.set()
        raise too_late(self.spec.name, name, limit, started=call.is_sent)

    async def refresh(self) -> None:
        """Read all lists again, and start the server if it is not up. A failure is in `status`."""
        self._attempts.next_at = 0.0
        with contextlib.suppress(CallFailed):
            await self.offering.read_all_again(await self._ready())

    async def watch(self, uri: str, *, on: bool) -> None:
        """Begin or end to watch a resource. The server runs as long as a resource of it is watched. Raises
        `CallFailed`."""
        call = RunningCall(None)
        if (older := await self._older_for(call)) is not None:
            return await older.watch(uri, on=on)  # this client's calls change the resource there
        change = self.offering.watch if on else self.offering.unwatch
        if not on and self.session is None:
            return await change(uri, session=None)
        return await self.request(uri, self._start_timeout, call, lambda session: change(uri, session=session))

    async def _live(self) -> None:
        """Run the server once, from its start to its end. Raises nothing but cancellation."""
        settled = self._settled
        life = self._life = Life(self.spec, self._signed_in)
        self._set(starting(self.status, len(self.tools)))
        try:
            try:
                if self.spec.asks_secrets:
                    await life.fill(self.client)
                async with life.transport.open() as streams, self.offering.session(life, *streams) as session:
                    life.session = session
                    with anyio.move_on_after(self._start_timeout) as life.starting:
                        await self._start(life, session)
                    if life.starting.cancelled_caught and self._open:
                        stderr = await life.transport.last_words(0.0)
                        self._failed(life, with_stderr(f"did not answer within {self._start_timeout:g} s", stderr))
                    settled.set()
                    if life.ready:
                        async with life.listing:  # a change that comes meanwhile is written after this
                            await self.offering.keep(self.status.version, handshake=self.handshake)
                        async with anyio.create_task_group() as group:
                            group.start_soon(self.offering.listen, session)
                            await self._until_end(life)
                            group.cancel_scope.cancel()
            except Exception as error:
                if life.frightened:
                    self.handshake = True
                    return  # it is started again at once, with the handshake
                life.problem = life.problem or life.transport.refusal or describe(self.spec, error)
            if life.resting:
                self._set(replace(self.status, state="idle", problem=""))
            elif self._open and not self.status.failed:
                stderr = await life.transport.last_words()
                if life.ready and not life.transport.needs_sign_in:
                    self._ended(life, with_stderr(life.problem or "ended the connection", stderr))
                else:
                    self._failed(life, with_stderr(life.transport.needs_sign_in or life.problem, stderr))
        finally:
            life.session = None
            life.ended.set()
            life.over.set()
            if not life.frightened:
                settled.set()

    async def _start(self, life: Life, session: ClientSession) -> None:
        await agree(life, session, handshake=bool(self.handshake))
        self.handshake = not is_modern(session.protocol_version)
        info = session.server_info
        seconds, version = anyio.current_time() - life.since, info.version if info else ""
        async with life.listing:
            await self.offering.ask_all(session)
            life.ready = True
        await self.offering.begin(session)
        self._attempts.next_at = 0.0
        count = len(self.tools)
        self._set(ServerStatus(name=self.spec.name, state="up", tools=count, seconds=seconds, version=version))

    async def _until_end(self, life: Life) -> None:
        """Wait for the end of the server, or end it when it was not called for long."""
        while not life.ended.is_set():
            idle = self.spec.idle or self._terms.idle
            limit = idle if life.called else min(_UNCALLED_REST, idle or _UNCALLED_REST)
            if limit is None or not self._terms.rests:
                await life.ended.wait()
                return
            left = max(life.since, self._last_call) + limit - anyio.current_time()
            if left <= 0 and not (self._calls or self.offering.watched):
                life.resting = True
                life.ended.set()
                return
            with anyio.move_on_after(left if left > 0 else limit):
                await life.ended.wait()

    async def _listed(self) -> None:
        self._set(replace(self.status, tools=len(self.tools)))
        await self.offering.keep(self.status.version, handshake=self.handshake)

    def _failed(self, life: Life, problem: str) -> None:
        life.problem = problem
        self._attempts.failed()
        state = "needs sign-in" if life.transport.needs_sign_in else "failed"
        count, seconds = len(self.tools), anyio.current_time() - life.since
        self._set(ServerStatus(name=self.spec.name, state=state, problem=problem, tools=count, seconds=seconds))

    def _ended(self, life: Life, problem: str) -> None:
        life.problem = problem
        self._attempts.ended(life)
        self._set(replace(self.status, state="down", problem=problem))

    async def _ready(self) -> Life:
        """The server's present life; the server is started first if need be. Raises `CallFailed`."""
        life = self._life
        if life and life.usable and life.doubtful and not await answers(life):
            life.problem = "did not answer a ping after a call was cancelled"
            life.ended.set()
        if not (life and life.usable):
            if self._signed_in is not None:
                self._attempts.next_at = self._signed_in.due(self._attempts.next_at)
            if life and life.ended.is_set():
                await life.over.wait()
            wait = self._attempts.next_at - anyio.current_time()
            if wait <= _CALL_WAIT:
                await anyio.sleep(max(wait, 0.0))
                self.wake()
                await self._settled.wait()
            life = self._life
        if life and life.usable and self._open:
            return life
        raise self._unavailable()

    def _unavailable(self) -> CallFailed:
        return unavailable(self.spec, self.status, self._attempts.next_at - anyio.current_time(), is_open=self._open)

    async def _failure(self, life: Life, name: str, call: RunningCall, error: MCPError) -> CallFailed:
        """The error that the model reads of a call that got an error instead of a result."""
        problem = one_line(self.spec.redact(error.message), 1000)
        needs_sign_in = life.transport.needs_sign_in
        if not needs_sign_in and error.code != types.CONNECTION_CLOSED and not life.ended.is_set():
            status = f" ({life.transport.refusal})" if life.transport.refusal else ""
            text = f"The MCP server '{self.spec.name}' refused '{name}': {problem}{status}"
            data = types.ErrorData(code=error.code, message=problem, data=masked(error.data, self.spec.redact))
            return CallFailed(text, error=data)
        if self.spec.url:
            life.ended.set()  # after a lost answer a new session is opened
        with anyio.move_on_after(1.0):
            await life.over.wait()
        if needs_sign_in:
            return SignInNeeded(self.spec.name, needs_sign_in)
        return ended_during(self.spec.name, name, life.problem or problem) if call.is_sent else self._unavailable()

    def _set(self, status: ServerStatus) -> None:
        if status != self.status or status.state == "starting":
            self.status = status
            self._terms.report(status)
