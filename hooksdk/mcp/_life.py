"""One start of a server, until its end: the protocol that both sides agree on, its messages, and the settings that all
connections share.

MCP has two protocols: that of 2026-07-28, and the older one that begins with a handshake.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast, final

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hooksdk.errors import HookSDKError
from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._listings import Listings
from hooksdk.mcp._relay import ASKED, Client, RunningCall, sent_for
from hooksdk.mcp._scope import ScopeKey
from hooksdk.mcp._status import CallFailed, ServerStatus
from hooksdk.mcp._transport import Transport, one_line
from hooksdk.mcp.sign_in._auth import SignedIn
from hooksdk.mcp.sign_in._store import SignIns

T = TypeVar("T")
# Makes one request.
Send = Callable[[ClientSession], Awaitable[T]]

# Seconds between two attempts to start a server that keeps failing, at most.
_MAX_PAUSE = 60.0

# Seconds that a server has to be up before its end counts as the first one again.
_STABLE_AFTER = 60.0
# Seconds that a server has to say whether it speaks the newer protocol: some never answer a request that they do not
# know. One that only starts slowly is not mistaken for those, since it then answers the handshake in the same way.
PATIENCE = 3.0
# Seconds that a server has to answer a ping after a call was cancelled.
_PING_TIMEOUT = 5.0


@dataclass(eq=False)
class Wishes:
    """Wishes that a gateway has of the servers behind it.

    Attributes:
        log_level: The level from which on they are to log; None: their own.
        extensions: The extensions of the protocol that servers are told of when they start.
    """

    log_level: types.LoggingLevel | None = None
    extensions: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The settings that all connections of one `McpServers` share.

    Attributes:
        changed: Is called with the name of a server whose offer has changed.
        hear: Is called with a server's name, a message of it that belongs to no call, and the clients that the
            connection is for.
        listings: The kept lists of offers; None where all servers are started at once.
        relay: The kinds of questions that servers may ask of the client whose call they serve.
        idle: Seconds without a call after which a server is ended, where it is started when it is needed.
        rests: True where servers are started when they are needed, and may be ended between calls.
    """

    start_timeout: float
    report: Callable[[ServerStatus], None]
    changed: Callable[[str], None]
    hear: Callable[[str, types.ServerNotification, ScopeKey], Awaitable[None]]
    wishes: Wishes = field(default_factory=Wishes)
    listings: Listings | None = None
    relay: frozenset[str] = frozenset()
    idle: float | None = None
    rests: bool = False
    sign_ins: SignIns = field(default_factory=SignIns)

    def aside(self) -> Terms:
        """The settings of a second connection to a server: it reports nothing, and keeps nothing."""
        return replace(self, report=_ignore, changed=_ignore, listings=None)


def _ignore(_told: object) -> None:
    """Ignore a report."""


@dataclass(eq=False)
class Attempts:
    """The time of the next attempt to start a server that could not be started, or that has ended."""

    failures: int = 0
    next_at: float = 0.0

    def failed(self) -> None:
        """Wait after a failed start, longer each time."""
        self.failures += 1
        self.next_at = anyio.current_time() + min(0.5 * 2 ** (self.failures - 1), _MAX_PAUSE)

    def ended(self, life: Life) -> None:
        """Start again at once after a first end; wait after one that soon follows another, longer each time."""
        self.failures = 1 if anyio.current_time() - life.since > _STABLE_AFTER else self.failures + 1
        pause = min(0.5 * 2 ** (self.failures - 2), _MAX_PAUSE) if self.failures > 1 else 0.0
        self.next_at = anyio.current_time() + pause


class Life:
    """One start of a server, until its end.

    Attributes:
        session: The connection; None before and after the start's life.
        transport: Its process or HTTP connection.
        starting: The scope of the start itself.
        ready: True once the server has listed its tools.
        ended: Set once the connection cannot be used any more.
        over: Set once its process and streams are closed.
        problem: Why it ended.
        doubtful: A call was cancelled, so the server must answer a ping before the next one.
        listing: Held while one of its lists is read.
        stale: The lists that wait to be read again; that reading will see every change until then.
        since: When it began.
        called: It has answered a call, and may keep something from one call to the next.
        frightened: It ended because it was asked something before the handshake.
        resting: It was ended because it was unused for long.

    """

    def __init__(self, spec: ServerSpec, signed_in: SignedIn | None = None) -> None:
        self.session: ClientSession | None = None
        self.ready = False
        self.starting: anyio.CancelScope | None = None
        self.ended = anyio.Event()
        self._spec, self._signed_in = spec, signed_in
        self.transport = Transport(spec, signed_in)
        self.over = anyio.Event()
        self.problem = ""
        self.doubtful = False
        self.listing = anyio.Lock()
        self.stale: set[str] = set()
        self.since = anyio.current_time()
        self.called = False
        self.frightened = False
        self.resting = False

    async def fill(self, client: Client | None) -> None:
        """Fill in the secrets of the client that needs the server. Raises where it has no value of one."""
        spec = self._spec
        if client is None:
            self.problem = (
                "its entry asks for secrets, and no client of a gateway has called it yet, whose they would be"
            )
            raise LookupError(self.problem)
        try:
            texts = await secrets_of(spec, client)
        except HookSDKError as error:
            self.problem = f"the secrets of {client.holder} could not be filled in: {one_line(str(error))}"
            raise
        self.transport = Transport(spec.with_secrets(**texts), self._signed_in)

    async def send(self, name: str, call: RunningCall, send: Send[T]) -> T:
        """The answer to one request, which `send` makes; `name` is its subject. Raises `MCPError` and `CallFailed`."""
        assert self.session is not None
        self.called = True
        call.is_sent = not self._spec.url  # for a request over HTTP its transport sets it
        token = sent_for.set(call)
        try:
            return await send(self.session)
        except anyio.get_cancelled_exc_class():
            self.doubtful = True
            raise
        except ValidationError as error:
            problem = one_line(self._spec.redact(str(error)))
            text = f"The MCP server '{self._spec.name}' gave a result for '{name}' that is not MCP: {problem}"
            raise CallFailed(text) from None
        finally:
            sent_for.reset(token)

    @property
    def forgotten(self) -> bool:
        """True when an HTTP server answered that it does not know the session (it was restarted, say)."""
        return self.transport.http_status.startswith("HTTP 404")

    @property
    def usable(self) -> bool:
        return self.ready and not self.ended.is_set()


async def secrets_of(spec: ServerSpec, client: Client) -> dict[str, dict[str, str]]:
    """The texts of an entry with the secrets of this client. Raises `HookSDKError` for a secret without a value."""
    texts = {"env": spec.env, "headers": spec.headers}
    return await client.fill_secrets(spec.name, texts, shared=spec.own_scope == "gateway")


def is_modern(protocol_version: str | None) -> bool:
    """True for the protocol without a handshake."""
    return protocol_version in MODERN_PROTOCOL_VERSIONS


async def agree(life: Life, session: ClientSession, *, handshake: bool) -> None:
    """Agree on the protocol with a server that has just been started: the newer one where it speaks both, or with
    `handshake` the older. Raises `MCPError` for a server that takes neither."""
    if not handshake:
        with anyio.move_on_after(PATIENCE):
            try:
                await session.discover()
            except MCPError as error:
                life.frightened = error.code == types.CONNECTION_CLOSED
                if life.frightened:
                    raise
            except (RuntimeError, ValidationError):
                pass  # an answer that names older versions alone, or is none
            else:
                return
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()  # it speaks the newer one alone, or answers the question after all


async def answers(life: Life) -> bool:
    """True where a server whose call was cancelled still answers."""
    try:
        with anyio.move_on_after(_PING_TIMEOUT):
            assert life.session is not None
            await life.session.send_ping()
            life.doubtful = False
    except MCPError as error:
        life.doubtful = error.code == types.CONNECTION_CLOSED  # any other answer is an answer
    return not life.doubtful


@final
class LifeDispatcher(JSONRPCDispatcher[TransportContext]):
    """The messages of one start of a server, whose end it notes.

    A call in the protocol of 2026-07-28 is sent with the capabilities of the client that makes it, and not with those
    of all clients: servers act differently for clients that cannot answer their questions."""

    def __init__(self, life: Life, read: Any, write: Any) -> None:
        super().__init__(read, write)
        self._life = life

    async def run(self, *callbacks: Any, **options: Any) -> None:
        """Take the server's messages until its stream ends."""
        try:
            await super().run(*callbacks, **options)
        finally:
            self._life.ended.set()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send one request, and wait for its result. Raises `MCPError`."""
        call = sent_for.get()
        if call is not None and params is not None:
            params = declared(call, params)
        return await super().send_raw_request(method, params, opts, **related)


def declared(call: RunningCall, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of a request, without capabilities that its client does not have."""
    meta = cast("dict[str, Any]", params.get("_meta") or {})
    allowed = cast("dict[str, Any] | None", meta.get(types.CLIENT_CAPABILITIES_META_KEY))
    if allowed is None:
        return params
    said = call.client.capabilities if call.client is not None else None
    able = said.model_dump(by_alias=True, mode="json", exclude_none=True) if said is not None else {}
    told = {kind: able.get(kind) if kind in ASKED else allowed[kind] for kind in allowed}
    capabilities = {kind: value for kind, value in told.items() if value is not None}
    return {**params, "_meta": {**meta, types.CLIENT_CAPABILITIES_META_KEY: capabilities}}
