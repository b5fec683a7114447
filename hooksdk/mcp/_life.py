"""One start of a server, until its end, and the settings that all connections share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.client.session import ClientSession
from pydantic import ValidationError

from hooksdk.errors import HookSDKError
from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._listings import Listings
from hooksdk.mcp._relay import Client, RunningCall, sent_for
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
