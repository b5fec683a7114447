"""The connections of clients over HTTP: their number, the time that one has to send a request, and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from hooksdk.config import FileWatch
from hooksdk.errors import ConfigError
from hooksdk.gateway._metrics import Metrics
from hooksdk.gateway._settings import GatewayConfig

logger = logging.getLogger("hooksdk")

# Seconds that a client has to send a whole request, from the connection or from the last answer on.
REQUEST_TIME = 10.0
# Bytes of a body that lengthen that time by a second: megabytes of arguments come over slow lines, too.
SLOWEST_BODY = 10_000
# Seconds before the same line is logged again.
PAUSE = 60.0


@final
class Repeats(logging.Filter):
    """Lets equal lines through once a minute, so that a thousand connections do not write a thousand lines. Lines
    that do not begin with `about` all pass."""

    def __init__(self, about: str = "") -> None:
        super().__init__()
        self._about = about
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True for a line that was not logged within the last minute."""
        if not record.getMessage().startswith(self._about):
            return True
        now = time.monotonic()
        self._last = {text: when for text, when in self._last.items() if now - when < PAUSE}
        error = record.exc_info[1] if record.exc_info else None
        text = f"{record.getMessage()} {error!r}"
        if text in self._last:
            return False
        self._last[text] = now
        return True


@final
class Tls:
    """The certificate that clients see. Once its files are renewed, the next connection uses the new one."""

    def __init__(self, config: GatewayConfig, folder: Path) -> None:
        """Raises `ConfigError` for files that hold no certificate with its key."""
        settings, self._config = config.tls, config
        assert settings is not None
        self._files = folder / Path(settings.cert).expanduser(), folder / Path(settings.key).expanduser()
        self._watch = FileWatch(self._files)
        self._context = self._load()

    def _load(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            for path in self._files:
                self._config.read_file(path)  # raises where it is not the file that was trusted
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            cure = "expected PEM files, the certificate with those above it, and its key without a passphrase"
            problem = f"{certificate} and {key} cannot be used: {error}; {cure}"
            raise ConfigError("gateway.tls", (problem,)) from None
        return context

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection. Files that are broken now change nothing."""
        if self._watch.changed():
            try:
                self._context = self._load()
            except ConfigError as problem:
                logger.warning("the certificate stays as it was: %s", problem)
        return self._context


def most_connections(wanted: int) -> int:
    """The number of connections that may be open: at most `wanted`, and half of the files that this process may open,
    since servers, stores and TLS need some, too."""
    if sys.platform == "win32":
        return wanted
    import resource

    files, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else max(min(wanted, files // 2), 1)


@final
@dataclass(eq=False)
class Connections:
    """All connections of a listener. Of more than `most`, those are closed first that have waited longest to send a
    request."""

    most: int
    tls: Tls | None
    _metrics: Metrics
    _open: dict[Connection, asyncio.Transport] = field(
        default_factory=dict["Connection", asyncio.Transport], init=False
    )
    # The times at which connections without a whole request are closed; the one that has waited longest is first.
    _deadlines: dict[Connection, float] = field(default_factory=dict["Connection", float], init=False)
    _repeats: Repeats = field(default_factory=Repeats, init=False)

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Connection, transport: asyncio.Transport) -> bool:
        """Accept a connection; False where all others are being served."""
        if len(self._open) >= self.most:
            self._metrics.refuse("connections")
            self._warn()
            if not self._deadlines:
                return False
            self._close(next(iter(self._deadlines)))
        self._open[connection] = transport
        self._deadlines[connection] = time.monotonic() + REQUEST_TIME
        return True

    def await_request(self, connection: Connection, received: int) -> None:
        """Note that a connection has sent no whole request yet, but `received` bytes of its body."""
        if connection in self._open:
            self._deadlines[connection] = connection.since + REQUEST_TIME + received / SLOWEST_BODY

    def serve(self, connection: Connection) -> None:
        """Note that a connection's request is being answered."""
        self._deadlines.pop(connection, None)

    def leave(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self._deadlines.pop(connection, None)
        self._open.pop(connection, None)

    def close_late(self) -> None:
        """Close the connections whose time to send a request is up."""
        now = time.monotonic()
        for connection in [one for one, deadline in self._deadlines.items() if deadline < now]:
            self._metrics.refuse("request_time")
            self._close(connection)

    def close_waiting(self) -> None:
        """Close all connections without a request."""
        for connection in list(self._deadlines):
            self._close(connection)

    def _close(self, connection: Connection) -> None:
        self._open[connection].abort()
        self.leave(connection)

    def _warn(self) -> None:
        text = (
            "clients have opened %d connections, as many as [gateway] max_connections and this process's limit of open "
            "files let them: those that have sent no request are closed for new ones"
        )
        record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, text, (self.most,), None)
        if logger.isEnabledFor(logging.WARNING) and self._repeats.filter(record):
            logger.handle(record)


@final
class Connection(H11Protocol):
    """A connection of uvicorn's that is closed where no request comes. It begins TLS by itself, so that connections
    count which never end their handshake.

    Attributes:
        since: The time at which it began to wait for a request.
    """

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self.since = time.monotonic()
        self._waits = True
        self._connections = connections
        self._received = 0
        # Bytes that came before `start_tls` returned.
        self._early = b""
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a client that has connected."""
        plain = cast("asyncio.Transport", transport)
        if not self._connections.admit(self, plain):
            plain.abort()
        elif self._connections.tls is None:
            super().connection_made(plain)
        else:
            plain.pause_reading()  # until TLS reads
            self._handshake = self.loop.create_task(self._secure(plain, self._connections.tls.context))

    async def _secure(self, plain: asyncio.Transport, context: ssl.SSLContext) -> None:
        secure = None
        try:
            if not plain.is_closing():
                secure = await self.loop.start_tls(
                    plain, self, context, server_side=True, ssl_handshake_timeout=REQUEST_TIME
                )
        except (OSError, TimeoutError):  # the client speaks no TLS
            pass
        if secure is None or plain.is_closing():
            self._connections.leave(self)
            plain.abort()
            return
        super().connection_made(secure)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        if self._has_no_transport:
            self._early += data
            return
        self._received += len(data)
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that either side has closed it."""
        self._connections.leave(self)
        if not self._has_no_transport:
            super().connection_lost(exc)

    @property
    def _has_no_transport(self) -> bool:
        """True until uvicorn has been told of the connection."""
        return cast("object", self.transport) is None

    def _look(self) -> None:
        state = self.conn.their_state
        if state not in {h11.IDLE, h11.SEND_BODY}:
            self._received, self._waits = 0, False
            self._connections.serve(self)
            return
        if not self._waits:
            self._waits, self.since = True, time.monotonic()
        # Neither the lines before a body nor what comes after the answer is worth more time.
        wanted = state is h11.SEND_BODY and self.conn.our_state is not h11.DONE
        self._connections.await_request(self, self._received if wanted else 0)


@contextlib.contextmanager
def few_lines() -> Generator[None]:
    """Limit equal log lines within the block: uvicorn's, and asyncio's about too many open files."""
    filters = {"uvicorn.error": Repeats(), "asyncio": Repeats("socket.accept()")}
    for name, repeats in filters.items():
        logging.getLogger(name).addFilter(repeats)
    try:
        yield
    finally:
        for name, repeats in filters.items():
            logging.getLogger(name).removeFilter(repeats)
