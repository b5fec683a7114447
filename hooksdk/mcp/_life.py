"""One start of a server, until its end; and what all connections share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import mcp_types as types
from mcp.client.session import ClientSession

from hooksdk.errors import HookSDKError
from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._listings import Listings
from hooksdk.mcp._relay import Client
from hooksdk.mcp._scope import ScopeKey
from hooksdk.mcp._status import ServerStatus
from hooksdk.mcp._transport import Transport, one_line
from hooksdk.mcp.sign_in._auth import SignedIn
from hooksdk.mcp.sign_in._store import SignIns

_MAX_PAUSE = 60.0
"""Seconds between two attempts to start a server that keeps failing, at most."""

_STABLE_AFTER = 60.0
"""Seconds that a server has to be up before its end counts as the first one again."""


class Wishes:
    """What whoever stands in front of the servers wants of them."""

    def __init__(self) -> None:
        self.log_level: types.LoggingLevel | None = None
        """How much they are to log; None: as they do by themselves."""
        self.extensions: dict[str, dict[str, Any]] = {}
        """The extensions of the protocol that servers are told of at their start."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the connections of one `McpServers` share."""

    start_timeout: float
    report: Callable[[ServerStatus], None]
    changed: Callable[[str], None]
    """Told the name of a server that offers something else now."""
    hear: Callable[[str, types.ServerNotification, ScopeKey], Awaitable[None]]
    """Told what a server says that belongs to no call, the server's name, and whose the connection is."""
    wishes: Wishes = field(default_factory=Wishes)
    listings: Listings | None = None
    """Where servers are started only when they are needed."""
    relay: frozenset[str] = frozenset()
    """What servers may ask of the client whose call they serve."""
    idle: float | None = None
    """Seconds without a call after which a server is ended that is started when it is needed."""
    rests: bool = False
    """A server is started when it is needed, and may be ended while it is not."""
    sign_ins: SignIns = field(default_factory=SignIns)

    def aside(self) -> Terms:
        """The same for a connection whose server another one tells of: nobody hears of it, and nothing of it is kept."""
        return replace(self, report=_ignore, changed=_ignore, listings=None)


def _ignore(_told: object) -> None:
    """Tell nobody."""


class Attempts:
    """When a server is tried again that could not be started, or that has ended."""

    def __init__(self) -> None:
        self.failures = 0
        self.next_at = 0.0

    def failed(self) -> None:
        """It could not be started. It waits, longer each time."""
        self.failures += 1
        self.next_at = anyio.current_time() + min(0.5 * 2 ** (self.failures - 1), _MAX_PAUSE)

    def ended(self, life: Life) -> None:
        """The first end is followed by a start at once; one that follows on another soon waits, longer each time."""
        self.failures = 1 if anyio.current_time() - life.since > _STABLE_AFTER else self.failures + 1
        pause = min(0.5 * 2 ** (self.failures - 2), _MAX_PAUSE) if self.failures > 1 else 0.0
        self.next_at = anyio.current_time() + pause


class Life:
    """What is known of one start."""

    def __init__(self, spec: ServerSpec, signed_in: SignedIn | None = None) -> None:
        self.session: ClientSession | None = None
        self.ready = False
        self.starting: anyio.CancelScope | None = None
        self.ended = anyio.Event()
        """Set once the connection cannot be used any more."""
        self._spec, self._signed_in = spec, signed_in
        self.transport = Transport(spec, self.ended.set, signed_in)
        self.over = anyio.Event()
        """Set once its process and streams are closed."""
        self.problem = ""
        self.doubtful = False
        """A call was cancelled, by its time limit or its caller: the server must answer a ping before the next one."""
        self.listing = anyio.Lock()
        self.stale: set[str] = set()
        """The lists whose reading waits for its turn: it will see every change until then."""
        self.since = anyio.current_time()
        self.called = False
        """It has answered a call, and may keep something from one call to the next."""
        self.frightened = False
        """It ended because it was asked something before the handshake."""
        self.resting = False
        """It was ended because nobody had used it for long."""

    async def fill(self, client: Client | None) -> None:
        """Let it be started with the secrets of this client, who needs it. Raises where they cannot be had."""
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
        self.transport = Transport(spec.with_secrets(**texts), self.ended.set, self._signed_in)

    @property
    def forgotten(self) -> bool:
        """True when an HTTP server answered that it does not know the session (it was restarted, say)."""
        return self.transport.http_status.startswith("HTTP 404")

    @property
    def usable(self) -> bool:
        return self.ready and not self.ended.is_set()


async def secrets_of(spec: ServerSpec, client: Client) -> dict[str, dict[str, str]]:
    """The texts of an entry with the secrets of this client. Raises `HookSDKError` for one that it has no value of."""
    texts = {"env": spec.env, "headers": spec.headers}
    return await client.fill_secrets(spec.name, texts, shared=spec.own_scope == "gateway")
