"""Checks that requests over HTTP pass: the web page that they come from, the host that they name, their rate, and
whether the gateway is stopping."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final
from urllib.parse import urlsplit

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hooksdk.errors import ConfigError
from hooksdk.gateway._metrics import Metrics
from hooksdk.gateway._settings import GatewayConfig, is_loopback
from hooksdk.gateway._tokens import Principal, principal_of

PATH = "/mcp"
# Seconds after which a refused client may try again: another gateway may have taken the place of this one.
RETRY_AFTER = 5
# Clients whose rates are remembered; of more, those are forgotten that were quiet for a minute: an issuer may have any
# number of users.
MOST_BUCKETS = 1_000


def check_address(host: str, tokens: Mapping[str, str], *, oidc: bool = False) -> None:
    """Raises `ConfigError` for an address that others can reach where clients need no token."""
    if not tokens and not oidc and not is_loopback(host):
        cure = (
            "give each client a token under [gateway.tokens.NAME], name an issuer under [gateway.oidc], or listen on "
            "127.0.0.1"
        )
        raise ConfigError("--http", (f"anybody who reaches {host} could use every tool: {cure}",))


def sends_tokens_unencrypted(host: str, config: GatewayConfig) -> bool:
    """True where tokens go over a network without TLS, be it the gateway's own or that of a proxy in front."""
    return not is_loopback(host) and config.tls is None and not (config.url or "").startswith("https:")


@final
@dataclass(eq=False)
class OriginCheck:
    """Refuses requests of web pages, but for those of `origins`: a page in a browser on this machine could call the
    gateway otherwise. Where clients need no token, requests must also name this machine as their host, or such a page
    could rename it.

    Attributes:
        on_leave: Is called when a client has said that it leaves.
    """

    app: ASGIApp
    origins: frozenset[str]
    local_only: bool
    on_leave: Callable[[Request], Any]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is not None and origin not in self.origins and not _names_this_machine(origin):
            await PlainTextResponse("this web origin may not call: [gateway] origins", 403)(scope, receive, send)
            return
        if self.local_only and not _names_this_machine(f"//{host}"):
            await PlainTextResponse("without tokens only this machine is answered", 421)(scope, receive, send)
            return
        if request.method != "DELETE":
            await self.app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, watched)
        if 200 <= status < 300:  # the MCP server found that it is the client's own session
            await self.on_leave(request)


def _names_this_machine(address: str) -> bool:
    try:
        host = urlsplit(address).hostname
    except ValueError:  # half of a bracket, for example
        return False
    return host is not None and is_loopback(host)


def rate_of(config: GatewayConfig, principal: Principal, default_profile: str | None) -> int | None:
    """The requests that a client may make in a minute; None: any number. The token's own rate counts before its
    profile's."""
    token = None if principal.issuer else config.tokens.get(principal.name)
    if token is not None and token.requests_per_minute is not None:
        return token.requests_per_minute
    name = principal.profile or (token.profile if token else None) or default_profile or config.profile
    profile = config.profiles.get(name or "")
    return config.requests_per_minute if profile is None else profile.requests_per_minute or config.requests_per_minute


@final
@dataclass(eq=False)
class RateLimit:
    """An ASGI application that limits the requests of each client in a minute, and tells it when it may ask again. A
    client may make all requests of a minute at once."""

    _app: ASGIApp
    # The requests that a client may make in a minute; None: any number.
    _rate: Callable[[Principal], int | None]
    _metrics: Metrics
    # The requests that each client has left, and when that was so.
    _left: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]], init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal = principal_of(Request(scope))
        rate = self._rate(principal)
        if rate is not None and scope["method"] != "DELETE" and (seconds := self.take(principal.key, rate)):
            self._metrics.refuse("rate")
            text = f"too many requests: {rate} a minute are taken of '{principal.name}', the next in {seconds} s"
            await PlainTextResponse(text, 429, {"Retry-After": str(seconds)})(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def take(self, key: str, rate: int) -> int:
        """Count a request of a client, and answer 0; where it has none left, answer the whole seconds until it has
        one."""
        now = time.monotonic()
        left, since = self._left.get(key, (rate, now))
        left = min(left + (now - since) * rate / 60, rate)
        if left < 1:
            return math.ceil((1 - left) * 60 / rate)
        if len(self._left) >= MOST_BUCKETS:
            self._left = {one: bucket for one, bucket in self._left.items() if now - bucket[1] < 60}
        self._left[key] = left - 1, now
        return 0


@final
@dataclass(eq=False)
class OpenRequests:
    """An ASGI application that knows which requests wait for their answers, and which only listen, so that a gateway
    that stops answers each. While `closing` it refuses new requests, but for those by which a client leaves.

    Attributes:
        open: The number of requests that wait for their answers.
        closing: True while the gateway stops.
    """

    _app: ASGIApp
    _metrics: Metrics
    open: int = field(default=0, init=False)
    closing: bool = field(default=False, init=False)
    _listeners: int = field(default=0, init=False)
    # The listeners' waits for a word of their clients.
    _waits: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope], init=False)
    _stopped: bool = field(default=False, init=False)
    _fewer: anyio.Event = field(default_factory=anyio.Event, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "DELETE":
            await self._app(scope, receive, send)
        elif self.closing:
            self._metrics.refuse("stopping")
            refusal = PlainTextResponse(
                "the gateway is stopping", 503, {"Retry-After": str(RETRY_AFTER), "Connection": "close"}
            )
            await refusal(scope, receive, send)
        elif method == "GET" or dict(scope["headers"]).get(b"mcp-method") == b"subscriptions/listen":
            self._listeners += 1
            try:
                await self._listen(scope, receive, send)
            finally:
                self._listeners -= 1
                self._fewer.set()
        else:
            self.open += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self.open -= 1
                self._fewer.set()

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream for as long as the client listens. When the gateway stops, the application hears that the
        client left, and the client that the stream is over."""
        body = False

        async def next_message() -> Message:
            with anyio.CancelScope() as wait:
                self._waits.add(wait)
                try:
                    if not self._stopped:
                        return await receive()
                finally:
                    self._waits.discard(wait)
            return {"type": "http.disconnect"}

        async def watched(message: Message) -> None:
            nonlocal body
            body = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, next_message, watched)
        if body and self._stopped:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def wait_for_answers(self) -> None:
        """Wait until no request waits for an answer."""
        while self.open:
            self._fewer = anyio.Event()
            await self._fewer.wait()

    async def end_listeners(self) -> None:
        """End the streams of requests that only listen, within a second."""
        self._stopped = True
        for wait in self._waits:
            wait.cancel()
        with anyio.move_on_after(1):
            while self._listeners:
                self._fewer = anyio.Event()
                await self._fewer.wait()
