"""Streamable HTTP: the ASGI application, and the session that a request belongs to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

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

from hooksdk.gateway._admission import PATH, OpenRequests, OriginCheck, RateLimit, rate_of
from hooksdk.gateway._answers import HttpAnswers
from hooksdk.gateway._metrics import Metrics, prometheus_page, read_into_prometheus
from hooksdk.gateway._oidc import refusal_of
from hooksdk.gateway._resuming import ResumableSessions
from hooksdk.gateway._settings import GatewayConfig, OidcSettings
from hooksdk.gateway._tokens import Verifier, principal_of


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
