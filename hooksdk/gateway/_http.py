"""Streamable HTTP: the ASGI application, the session that a request belongs to, and the checks that requests pass: the
web page that they come from, the host that they name, their rate, and whether the gateway is stopping."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, final
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hooksdk.errors import ConfigError
from hooksdk.gateway._answers import HttpAnswers, ResumableSessions
from hooksdk.gateway._metrics import Metrics, prometheus_page, read_into_prometheus
from hooksdk.gateway._settings import GatewayConfig, OidcSettings, is_loopback
from hooksdk.gateway._tokens import Principal, Verifier, principal_of, refusal_of

PATH = "/mcp"
# Seconds after which a refused client may try again: another gateway may have taken the place of this one.
RETRY_AFTER = 5
# Clients whose rates are remembered; of more, those are forgotten that were quiet for a minute: an issuer may have any
# number of users.
MOST_BUCKETS = 1_000


def legacy_key(request: Request) -> str:
    """The key of a connection's session: with another token it is another one."""
    return f"http {principal_of(request).key} {request.headers.get(MCP_SESSION_ID_HEADER)}"


def session_key(request: Request, protocol_version: str) -> tuple[str, bool]:
    """The key of the session that a request belongs to, and whether it is its token's. In a protocol without
    connections a token has one session, which gateways behind one address may share; else each connection has its
    own."""
    if protocol_version in MODERN_PROTOCOL_VERSIONS:
        return f"token {principal_of(request).key}", True
    return legacy_key(request), False


def http_app(
    server: Server[Any],
    current_config: Callable[[], GatewayConfig],
    *,
    profile: str | None,
    verifier: Verifier | None,
    metrics: Metrics,
    on_leave: Callable[[str], Awaitable[Any]],
) -> Starlette:
    """The ASGI application. `current_config` is asked for each request, for settings that may change; `profile` is
    that of clients that get no other. `verifier` checks tokens; None where clients need none. `on_leave` is called
    with the key of a session whose client says that it leaves. Raises `ConfigError` where `/metrics` cannot be
    served."""
    config, asks = current_config(), verifier is not None
    manager = ResumableSessions(server, session_idle_timeout=config.idle)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        answer = send if config.deployment is None else explaining_unknown_sessions(scope, receive, send)
        await manager.handle_request(scope, receive, answer)

    handle = HttpAnswers(serve)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            app.state.serves = True
            yield
            app.state.serves = False

    async def leave(request: Request) -> None:
        await on_leave(legacy_key(request))

    inner: ASGIApp = RateLimit(handle, lambda principal: rate_of(current_config(), principal, profile), metrics)
    routes: list[BaseRoute] = [Route("/health", _health), Route("/ready", _ready)]
    if asks:
        metadata_url = None
        if config.oidc and config.url:
            metadata_url = build_resource_metadata_url(AnyHttpUrl(config.url))
            routes.append(Route(metadata_url.path or "", _resource_page(config.url, config.oidc)))
        inner = _counting_refusals(RequireAuthMiddleware(inner, [], metadata_url), metrics)
    requests = OpenRequests(inner, metrics)
    routes.append(Route(PATH, requests))
    if config.metrics is not None:
        read_into_prometheus()
        routes.append(Route("/metrics", _metrics_page(config, asks=asks)))
    middleware = [Middleware(OriginCheck, frozenset(config.origins), local_only=not asks, on_leave=leave)]
    if verifier is not None:
        backend = BearerAuthBackend(verifier)
        middleware.append(Middleware(AuthenticationMiddleware, backend=backend, on_error=refusal_of(metrics)))
    app = Starlette(routes=routes, middleware=middleware, lifespan=lifespan)
    app.state.requests = requests
    app.state.serves = False
    return app


async def _health(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _ready(request: Request) -> Response:
    state = request.app.state
    ready = state.serves and not state.requests.closing
    return PlainTextResponse("ready") if ready else PlainTextResponse("not ready", 503)


def _resource_page(url: str, oidc: OidcSettings) -> Callable[[Request], Awaitable[Response]]:
    """A page that tells clients where to sign in (RFC 9728). It has the issuer to the letter, since clients compare
    it with the issuer's own metadata."""
    about: dict[str, Any] = {
        "resource": url,
        "authorization_servers": [oidc.issuer],
        "bearer_methods_supported": ["header"],
    }
    if oidc.scopes:
        about["scopes_supported"] = oidc.scopes

    async def page(_request: Request) -> Response:
        return JSONResponse(about)

    return page


def _metrics_page(config: GatewayConfig, *, asks: bool) -> Callable[[Request], Awaitable[Response]]:
    settings = config.metrics
    assert settings is not None

    async def page(request: Request) -> Response:
        principal = principal_of(request)
        known = not principal.issuer and principal.name in settings.tokens
        if settings.open or not asks or known:
            return prometheus_page(request.headers.get("accept", ""))
        if not request.user.is_authenticated:
            return PlainTextResponse("a token is needed", 401, {"WWW-Authenticate": "Bearer"})
        return PlainTextResponse("not with this token: [gateway.metrics] tokens", 403)

    return page


def _counting_refusals(app: ASGIApp, metrics: Metrics) -> ASGIApp:
    """The application; requests without a known token are counted."""

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            if message.get("status") == 401:
                metrics.refuse("token")
            await send(message)

        await app(scope, receive, watched)

    return count


WRONG_GATEWAY = (
    "Session not found: it is over, or it was opened at another gateway of this deployment. A client of protocol "
    "2025-11-25 has to come to the same gateway with all its requests (a sticky route, such as by the Authorization "
    "header); one of 2026-07-28 need not. Connect anew"
)


def explaining_unknown_sessions(scope: Scope, receive: Receive, send: Send) -> Send:
    """The same `send`, which says why a session is not known here: the protocol answers with status 404, upon which
    clients begin a new session."""
    header = MCP_SESSION_ID_HEADER.encode("ascii")
    if all(name != header for name, _ in scope["headers"]):
        return send
    is_unknown = False

    async def explain(message: Message) -> None:
        nonlocal is_unknown
        if message["type"] == "http.response.start" and message["status"] == 404:
            is_unknown = True
            error = types.ErrorData(code=types.INVALID_REQUEST, message=WRONG_GATEWAY)
            body = types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
            text = body.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(text, 404, media_type="application/json")(scope, receive, send)
        elif not is_unknown:
            await send(message)

    return explain


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
