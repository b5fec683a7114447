"""One start of a server, until its end; and what all connections share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio
from mcp.client.session import ClientSession

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._listings import Listings
from hooksdk.mcp._status import ServerStatus
from hooksdk.mcp._transport import Transport


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the connections of one `McpServers` share."""

    start_timeout: float
    report: Callable[[ServerStatus], None]
    changed: Callable[[str], None]
    """Told the name of a server whose tools are others now."""
    listings: Listings | None = None
    """Where servers are started only when they are needed."""
    relay: frozenset[str] = frozenset()
    """What servers may ask of the client whose call they serve."""
    idle: float | None = None
    """Seconds without a call after which such a server is ended."""


class Life:
    """What is known of one start."""

    def __init__(self, spec: ServerSpec) -> None:
        self.session: ClientSession | None = None
        self.ready = False
        self.starting: anyio.CancelScope | None = None
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
        self.called = False
        """It has answered a call, and may keep something from one call to the next."""
        self.frightened = False
        """It ended because it was asked something before the handshake."""
        self.resting = False
        """It was ended because nobody had used it for long."""

    @property
    def forgotten(self) -> bool:
        """True when an HTTP server answered that it does not know the session (it was restarted, say)."""
        return self.transport.http_status.startswith("HTTP 404")

    @property
    def usable(self) -> bool:
        return self.ready and not self.ended.is_set()
