"""Who may come in over HTTP: from which pages, by which name, and how often."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hooksdk.errors import ConfigError
from hooksdk.gateway._http_settings import is_loopback
from hooksdk.gateway._metrics import Metrics
from hooksdk.gateway._settings import GatewayConfig
from hooksdk.gateway._tokens import Principal, principal_of

PATH = "/mcp"
MOST_BUCKETS = 1_000
"""Of more clients those are forgotten that have been quiet for long enough: an issuer may have any number of users."""


def check_address(host: str, tokens: Mapping[str, str], *, oidc: bool = False) -> None:
    """Raises `ConfigError` for an address that others can reach where no token is asked for."""
    if not tokens and not oidc and not is_loopback(host):
        cure = "give each client a token under [gateway.tokens.NAME], name an issuer under [gateway.oidc], or listen on 127.0.0.1"
        raise ConfigError("--http", (f"anybody who reaches {host} could use every tool: {cure}",))


def asks_in_the_clear(host: str, config: GatewayConfig) -> bool:
    """True where tokens go over a network as they are: without TLS of its own, or of a proxy in front."""
    return not is_loopback(host) and config.tls is None and not (config.url or "").startswith("https:")


@final
class Door:
    """Lets in what comes from no web page, or from one that may: a page in a browser on this machine could call otherwise. Where
    no token is asked for, requests must also name this machine as their host, or such a page could rename it."""

    def __init__(
        self, app: ASGIApp, origins: frozenset[str], *, by_name: bool, on_leave: Callable[[Request], Any]
    ) -> None:
        self._app = app
        self._origins = origins
        self._by_name = by_name
        self._on_leave = on_leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is not None and origin not in self._origins and not _names_this_machine(origin):
            await PlainTextResponse("this web origin may not call: [gateway] origins", 403)(scope, receive, send)
            return
        if self._by_name and not _names_this_machine(f"//{host}"):
            await PlainTextResponse("without tokens only this machine is answered", 421)(scope, receive, send)
            return
        if request.method != "DELETE":
            await self._app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self._app(scope, receive, watched)
        if 200 <= status < 300:  # its own session, says the protocol's side
            await self._on_leave(request)


def _names_this_machine(address: str) -> bool:
    try:
        host = urlsplit(address).hostname
    except ValueError:  # half a bracket
        return False
    return host is not None and is_loopback(host)


def rate_of(config: GatewayConfig, principal: Principal, default_profile: str | None) -> int | None:
    """The requests that a client may make in a minute; None: any number."""
    token = None if principal.issuer else config.tokens.get(principal.name)
    if token is not None and token.requests_per_minute is not None:
        return token.requests_per_minute
    name = principal.profile or (token.profile if token else None) or default_profile or config.profile
    profile = config.profiles.get(name or "")
    return config.requests_per_minute if profile is None else profile.requests_per_minute or config.requests_per_minute


@final
class RateLimit:
    """An ASGI application that takes so many requests a minute of each client, all of them at once if need be, and tells it
    when it may ask again."""

    def __init__(self, app: ASGIApp, rate: Callable[[Principal], int | None], metrics: Metrics) -> None:
        self._app = app
        self._rate = rate
        self._metrics = metrics
        self._left: dict[str, tuple[float, float]] = {}
        """How many requests each client has left, and when that was so."""

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
        """Take one of a client, and answer 0; where it has none left, the whole seconds until it has."""
        now = time.monotonic()
        left, since = self._left.get(key, (rate, now))
        left = min(left + (now - since) * rate / 60, rate)
        if left < 1:
            return math.ceil((1 - left) * 60 / rate)
        if len(self._left) >= MOST_BUCKETS:
            self._left = {one: bucket for one, bucket in self._left.items() if now - bucket[1] < 60}
        self._left[key] = left - 1, now
        return 0
