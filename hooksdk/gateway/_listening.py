"""The HTTP server: it listens, and when it is told to stop it has open requests answered and closes then."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, cast, final

import anyio
import uvicorn
from starlette.applications import Starlette
from uvicorn.server import HANDLED_SIGNALS

from hooksdk.errors import ConfigError
from hooksdk.gateway._connections import Connection, Connections, Tls, few_lines, most_connections
from hooksdk.gateway._http import PATH, OpenRequests, sends_tokens_unencrypted
from hooksdk.gateway._metrics import Metrics
from hooksdk.gateway._settings import GatewayConfig

logger = logging.getLogger("hooksdk")

# Seconds that clients have to take the last answers.
LAST_WORDS = 3.0
# Connections that are accepted at once, and so the most by which the highest number is passed for a moment.
BACKLOG = 100


@dataclass(frozen=True)
class Listening:
    """The address and the settings of a server that listens.

    Attributes:
        folder: The folder of relative paths to certificates.
        on_listening: Is called with the URL.
        on_stopping: Is called with the number of requests that are waited for.
    """

    host: str
    port: int
    config: GatewayConfig
    folder: Path
    metrics: Metrics
    on_listening: Callable[[str], Any]
    on_stopping: Callable[[int], Any]


async def listen(app: Starlette, how: Listening, on_stop: Callable[[], Awaitable[None]]) -> None:
    """Serve a gateway's application until the program is told to stop, or the caller is cancelled. `on_stop` is
    awaited before connections are closed, to end what still runs. Raises `ConfigError` for an address on which it
    cannot listen, and for a certificate that cannot be used."""
    tls = Tls(how.config, how.folder) if how.config.tls else None
    connections = Connections(most_connections(how.config.max_connections), tls, how.metrics)
    if sends_tokens_unencrypted(how.host, how.config):
        logger.warning(
            "tokens and results go over the network in the clear: set [gateway.tls], or [gateway] url to the https "
            "address of a proxy in front"
        )
    with _bound(how.host, how.port) as listener, few_lines():
        address = listener.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        how.on_listening(f"{'https' if tls else 'http'}://{shown}:{address[1]}{PATH}")
        config = uvicorn.Config(
            app,
            http=cast("Any", functools.partial(Connection, connections)),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=2,
        )
        server = _Server(config, app.state.requests, connections, how, on_stop)
        over = anyio.Event()
        log = logging.getLogger("uvicorn.error")
        log.addFilter(server.is_news)

        async def serve() -> None:
            with anyio.CancelScope(shield=True):  # it ends by itself when it is told to
                await server.serve(sockets=[listener])
            over.set()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(serve)
                try:
                    await over.wait()
                finally:
                    server.stop()
        finally:
            log.removeFilter(server.is_news)


@final
class _Server(uvicorn.Server):
    """Refuses new requests once it is told to stop, and closes when the open ones have their answers.

    Until then `should_exit` stays unset, and no signal is handled by a method of this server: at either mark
    sse-starlette cuts off every stream of the process."""

    def __init__(
        self,
        config: uvicorn.Config,
        requests: OpenRequests,
        connections: Connections,
        how: Listening,
        on_stop: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(config)
        self._requests = requests
        self._connections = connections
        self._how = how
        self._on_stop = on_stop
        self._stopping = False
        self._patience = anyio.CancelScope()

    def stop(self) -> None:
        """Begin to stop. A second call ends the wait for open requests."""
        if self._stopping:
            self._patience.cancel()
        self._stopping = self._requests.closing = True

    def is_news(self, _record: logging.LogRecord) -> bool:
        """False for log records during the stop: it is no news that streams are cut off then."""
        return not self._stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on the system's signals, which have their usual effect afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals: list[int] = []
        loop = asyncio.get_running_loop()

        def take(number: int, _frame: FrameType | None) -> None:
            signals.append(number)
            loop.call_soon_threadsafe(self.stop)

        before = {number: signal.signal(number, take) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for number in dict.fromkeys(signals):
                signal.raise_signal(number)

    async def on_tick(self, counter: int) -> bool:
        """Close late connections; true once the server is to end. uvicorn calls it ten times a second."""
        if counter % 10 == 0:
            self._connections.close_late()
        return await super().on_tick(counter) or self._stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Have open requests answered, then close."""
        self._stopping = self._requests.closing = True
        if self._requests.open and self._how.config.stop_wait:
            self._how.on_stopping(self._requests.open)
            with self._patience, anyio.move_on_after(self._how.config.stop_wait):
                await self._requests.wait_for_answers()
        await self._on_stop()
        with anyio.move_on_after(LAST_WORDS):
            await self._requests.wait_for_answers()
        await self._requests.end_listeners()
        self._connections.close_waiting()
        self.should_exit = True
        await super().shutdown(sockets)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError("--http", (f"cannot listen on {host}:{port}: {error.strerror or error}",)) from None
