"""Streamable HTTP: who may come in, which session a request belongs to, and the server that listens."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, final
from urllib.parse import urlsplit

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hooksdk.errors import ConfigError
from hooksdk.gateway._answers import HttpAnswers
from hooksdk.gateway._resuming import ResumableSessions
from hooksdk.gateway._settings import GatewayConfig

logger = logging.getLogger("hooksdk")

PATH = "/mcp"
SHORTEST_TOKEN = 16
"""Characters that a token has at least: a shorter one can be guessed."""


def read_tokens(config: GatewayConfig, environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The tokens of the configuration, by name. Raises `ConfigError` for one that is not there, too short, or another's."""
    tokens: dict[str, str] = {}
    for name in config.tokens:
        tokens[name] = _read_token(name, config, environment, folder, tokens)
    return tokens


def reread_tokens(config: GatewayConfig, environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Those tokens that can be had now: one whose file is gone or broken lets nobody in, and the log says why."""
    tokens: dict[str, str] = {}
    for name in config.tokens:
        try:
            tokens[name] = _read_token(name, config, environment, folder, tokens)
        except ConfigError as problem:
            logger.warning("the token lets nobody in any more: %s", problem)
    return tokens


def token_files(config: GatewayConfig, folder: Path) -> list[Path]:
    """The files that the tokens are in."""
    return [folder / Path(token.file).expanduser() for token in config.tokens.values() if token.file]


def _read_token(
    name: str, config: GatewayConfig, environment: Mapping[str, str], folder: Path, others: Mapping[str, str]
) -> str:
    place = config.tokens[name]
    where = f"the variable {place.env}" if place.env else f"the file {place.file}"
    try:
        text = environment.get(place.env or "", "") if place.env else _read(config, folder, place.file or "")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gateway.tokens.{name}", (f"{where} cannot be read: {error}",)) from None
    token = text.strip()
    if not token:
        raise ConfigError(f"gateway.tokens.{name}", (f"{where} holds no token",))
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        cure = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        problem = f"{where} must hold {SHORTEST_TOKEN} or more letters, digits and signs in one line; {cure}"
        raise ConfigError(f"gateway.tokens.{name}", (problem,))
    if token in others.values():
        raise ConfigError(f"gateway.tokens.{name}", ("another name has the same token; give each its own",))
    return token


def _read(config: GatewayConfig, folder: Path, name: str) -> str:
    return config.read_file(folder / Path(name).expanduser()).decode("utf-8")


def check_address(host: str, tokens: Mapping[str, str]) -> None:
    """Raises `ConfigError` for an address that others can reach where no token is asked for."""
    if not tokens and not is_loopback(host):
        cure = "give each client a token under [gateway.tokens.NAME], or listen on 127.0.0.1"
        raise ConfigError("--http", (f"anybody who reaches {host} could use every tool: {cure}",))


def is_loopback(host: str) -> bool:
    """True for this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@final
class _Verifier:
    """Knows the tokens. `catch_up` brings them up to date before each request: what is gone lets nobody in."""

    def __init__(self, tokens: Mapping[str, str], catch_up: Callable[[], Awaitable[Any]]) -> None:
        self._tokens = tokens
        self._catch_up = catch_up

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; the time that this takes says nothing of the tokens."""
        await self._catch_up()
        found = [
            name for name, known in self._tokens.items() if hmac.compare_digest(known.encode(), token.encode("utf-8"))
        ]
        return AccessToken(token="", client_id=found[0], scopes=[]) if found else None


@final
class _Door:
    """Lets in what comes from no web page, or from one that may: a page in a browser on this machine could call otherwise. Where
    no token is asked for, requests must also name this machine as their host, or such a page could rename it."""

    def __init__(self, app: ASGIApp, origins: frozenset[str], *, by_name: bool, on_leave: Callable[[str], Any]) -> None:
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
        if origin is not None and origin not in self._origins and not _names_this_machine(urlsplit(origin).hostname):
            await PlainTextResponse("this web origin may not call: [gateway] origins", 403)(scope, receive, send)
            return
        if self._by_name and not _names_this_machine(urlsplit(f"//{host}").hostname):
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
            await self._on_leave(legacy_key(request))


def _names_this_machine(host: str | None) -> bool:
    return host is not None and is_loopback(host)


def principal_of(request: Request) -> str:
    """The name of the token that a request came with; `local` where none is asked for."""
    user = request.scope.get("user")
    return user.access_token.client_id if isinstance(user, AuthenticatedUser) else "local"


def legacy_key(request: Request) -> str:
    """The session of a connection; nobody else's token leads there."""
    return f"http {principal_of(request)} {request.headers.get(MCP_SESSION_ID_HEADER)}"


def session_key(request: Request, protocol_version: str) -> str:
    """Which session a request belongs to: its connection's, and where the protocol has none, its token's."""
    if protocol_version in MODERN_PROTOCOL_VERSIONS:
        return f"token {principal_of(request)}"
    return legacy_key(request)


def http_app(
    server: Server[Any], config: GatewayConfig, tokens: Mapping[str, str], on_leave: Callable[[str], Any],
    catch_up: Callable[[], Awaitable[Any]],
) -> Starlette:  # fmt: skip
    """The ASGI application."""
    manager = ResumableSessions(server, session_idle_timeout=config.idle)

    handle = HttpAnswers(manager.handle_request)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    inner: ASGIApp = RequireAuthMiddleware(handle, []) if tokens else handle
    middleware = [Middleware(_Door, frozenset(config.origins), by_name=not tokens, on_leave=on_leave)]
    if tokens:
        middleware.append(Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_Verifier(tokens, catch_up))))
    return Starlette(routes=[Route(PATH, _Endpoint(inner))], middleware=middleware, lifespan=lifespan)


@final
class _Endpoint:
    """An ASGI application as a route's endpoint: starlette takes functions for handlers of requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


async def listen(
    app: Starlette, host: str, port: int, on_listening: Callable[[str], Any], on_stop: Callable[[], Awaitable[None]]
) -> None:
    """Serve it until the program is told to stop, or the caller is cancelled. `on_listening` is told the address; `on_stop` is
    awaited before connections are closed, to end what is under way there. Raises `ConfigError` for an address that cannot be
    had."""
    import uvicorn

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await on_stop()
            await super().shutdown(sockets)

    def is_news(_record: logging.LogRecord) -> bool:  # of streams that are cut off at the end everybody knows
        return not server.should_exit

    with _bound(host, port) as listener:
        address = listener.getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        on_listening(f"http://{shown}:{address[1]}{PATH}")
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
        server = Server(config)
        over = anyio.Event()
        log = logging.getLogger("uvicorn.error")
        log.addFilter(is_news)

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
                    server.should_exit = True
        finally:
            log.removeFilter(is_news)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigError("--http", (f"cannot listen on {host}:{port}: {error.strerror or error}",)) from None
