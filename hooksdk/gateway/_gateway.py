"""The gateway: an MCP server that lets every call pass a host's hooks, over streams or over HTTP."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette

from hooksdk.approvals import Approver
from hooksdk.desk import ApprovalDesk
from hooksdk.errors import HookSDKError
from hooksdk.gateway._answers import Connection, connection_of
from hooksdk.gateway._approvals import current_request, desk_of
from hooksdk.gateway._client import CHANGES, Identity, Request, SharedParts
from hooksdk.gateway._http import check_address, http_app, session_key
from hooksdk.gateway._left_sessions import LeftCalls
from hooksdk.gateway._long_results import joined_instructions
from hooksdk.gateway._metrics import Counts
from hooksdk.gateway._server import ChangeStreams, GatewayServer, Hear, Lifespan, own_streams, serve_streams
from hooksdk.gateway._session import GatewaySession, SessionOf
from hooksdk.gateway._session_ids import Deployment, SessionIds
from hooksdk.gateway._settings import ApprovalSettings, GatewayConfig, profile_of
from hooksdk.gateway._sources import Sources, ToolSource
from hooksdk.gateway._tokens import EitherTokens, IssuerTokens, OwnTokens, TokenTable, principal_of, read_tokens
from hooksdk.host import Host
from hooksdk.mcp import Feature, ScopeKey, most_of
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

# The extensions that servers are told of: some clients show the apps of tools, and servers offer apps to such clients
# alone.
EXTENSIONS: dict[str, dict[str, Any]] = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}

__all__ = ["Gateway", "ToolSource", "current_request", "own_streams"]


@final
class Gateway:
    """An MCP server that stands in front of tools, and lets every call pass all hooks of a host.

    `sources` are where the tools come from, such as an `McpServers`. `config` is the host's `[gateway]` unless
    another is given. `approver` answers in the place of the host's; where there is neither, an `ApprovalDesk` by the
    configuration's `[gateway.approvals]`. With an `ApprovalDesk` the person at the client is asked as well. `folder`
    is the folder of relative paths to token files, by default the current one.

    Each client has a session of its own, which lasts as its connection does; over HTTP, where none lasts, until it
    was idle for `config.idle` seconds. Enter and leave the gateway in the same task; leaving ends all sessions.
    """

    def __init__(
        self,
        host: Host,
        *sources: ToolSource,
        config: GatewayConfig | None = None,
        approver: Approver | None = None,
        folder: Path | None = None,
    ) -> None:
        self.counts = Counts()
        self._own_config = config
        self._approver = approver
        self._folder = folder or Path.cwd()
        self._sources = Sources(sources)
        self._bus = InMemorySubscriptionBus()
        self._resource_listeners = set[Hear]()
        self._desk: tuple[ApprovalSettings, ApprovalDesk] | None = None
        self._parts = self._parts_of(host)
        # The tokens of clients; None where the gateway has read none.
        self._tokens: TokenTable | None = None
        # The profiles that it was asked to serve.
        self._profiles: set[str | None] = set()
        self._group: TaskGroup | None = None
        self._sessions: dict[str, GatewaySession] = {}
        # Sessions of an earlier host that still have calls, with their keys.
        self._retiring: dict[GatewaySession, str] = {}
        self._opening = anyio.Lock()
        self._stop_listening: list[Callable[[], None]] = []
        for features in self._sources.features:
            features.declare(EXTENSIONS)

    def _parts_of(self, host: Host) -> SharedParts:
        config = GatewayConfig.of(host.config) if self._own_config is None else self._own_config
        deployment = None if config.deployment is None else Deployment(config.deployment, host, config.idle)
        ids = SessionIds(str(self._folder.resolve()), *self._sources.files(), deployment=deployment)
        return SharedParts(
            host=host,
            sources=self._sources,
            counts=self.counts,
            config=config,
            approver=self._approver or host.approver or self._desk_of(config.approvals),
            ids=ids,
            left_calls=LeftCalls(host, ids),
            start_soon=self._start_soon,
            publish=self._bus.publish,
            log_level_changed=self._settle_log_level,
        )

    def _desk_of(self, settings: ApprovalSettings) -> ApprovalDesk:
        """The desk of these settings: the same one as before while they are the same, since questions wait there."""
        if self._desk is None or self._desk[0] != settings:
            self._desk = settings, desk_of(settings)
        return self._desk[1]

    @property
    def config(self) -> GatewayConfig:
        """The configuration: the tools that clients are shown, and the rights of each."""
        return self._parts.config

    @property
    def sessions(self) -> Sequence[GatewaySession]:
        """The clients' open sessions."""
        return tuple(self._sessions.values())

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._stop_listening = [features.listen(self._hear) for features in self._sources.features]
        self._group.start_soon(self._parts.left_calls.remove_old, self.config.approvals.keep)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group, self._group = self._open_group, None
        for stop in self._stop_listening:
            stop()
        try:
            with anyio.CancelScope(shield=True):
                await self._end_all()
        finally:
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)

    @property
    def _open_group(self) -> TaskGroup:
        if self._group is None:
            raise HookSDKError("the gateway is closed")
        return self._group

    def _start_soon(self, *task: Any) -> None:
        self._open_group.start_soon(*task)

    # Sessions

    def identity(self, name: str, profile: str | None, *, transport: str) -> Identity:
        """The identity of a client with this profile. Raises `ConfigError` for a profile that the configuration does
        not have."""
        profile_name, settings = profile_of(self.config, profile)
        return Identity(name=name, profile_name=profile_name, profile=settings, transport=transport)

    async def session(
        self, key: str, identity: Identity, context: Request, *, idle: float | None, shared_id: str | None = None
    ) -> GatewaySession:
        """The open session of this client, or a new one. `shared_id` is the id that it has at all gateways of the
        deployment."""
        key = key if shared_id is None else f"{key} {shared_id}"
        async with self._opening:
            while (session := self._sessions.get(key)) is None or session.closing:
                if session is not None:
                    await session.ended.wait()
                    self._sessions.pop(key, None)
                session = GatewaySession(self._parts, identity, context, idle=idle, shared_id=shared_id)
                await self._open_group.start(self._keep, key, session)
            return session

    async def _keep(self, key: str, session: GatewaySession, *, task_status: Any) -> None:
        self._sessions[key] = session
        try:
            await session.keep(task_status=task_status)
        finally:
            if self._sessions.get(key) is session:
                del self._sessions[key]

    async def _end_all(self) -> None:
        """End all sessions at once: one that takes long does not delay the others."""
        async with anyio.create_task_group() as leaving:
            for session in [*self._sessions.values(), *self._retiring]:
                leaving.start_soon(session.leave)

    async def end(self, key: str) -> None:
        """End the session of a client that is gone, if it has one."""
        retiring = [session for session, its_key in self._retiring.items() if its_key == key]
        for session in [self._sessions.get(key), *retiring]:
            if session is not None:
                await session.leave()

    # Changes

    def check(self, config: GatewayConfig) -> None:
        """Raises `ConfigError` where the gateway, as it runs, could not go on with this configuration."""
        for profile in self._profiles:
            profile_of(config, profile)
        if self._tokens is not None:
            self._tokens.check(config)

    async def use(self, host: Host) -> None:
        """Go by this host, and its configuration, from the next request on: clients get new sessions there, and are
        told that their tools may be others. Requests that are being served end at the host where they began;
        `wait_idle()` of that one waits for them. Raises what `check` raises, and changes nothing then."""
        group, parts = self._open_group, self._parts_of(host)
        self.check(parts.config)
        if self._tokens is not None:
            self._tokens.learn(parts.config)
        self._parts = parts
        sessions, self._sessions = self._sessions, {}
        for key, session in sessions.items():
            self._retiring[session] = key
            session.supersede()
            group.start_soon(self._retire, session)
        for change in CHANGES:
            await self._bus.publish(change())

    async def _retire(self, session: GatewaySession) -> None:
        try:
            await session.retire()
        except Exception as problem:
            logger.warning("a client could not be told of a change: %s", describe(problem))
            await session.leave()
        finally:
            del self._retiring[session]

    def tools_changed(self) -> None:
        """Say that the sources have other tools now: clients are told, and the next call goes by them. From the
        gateway's event loop; a change that every call notices by itself need not be said."""
        if self._group is not None:
            for session in self.sessions:
                self._group.start_soon(session.refresh)

    async def _hear(self, server: str, message: types.ServerNotification, key: ScopeKey) -> None:
        """Tell clients what a server says outside of any call."""
        if isinstance(message, types.ResourceUpdatedNotification):
            for hear in tuple(self._resource_listeners):
                hear(Feature(server, message.params.uri), key)
        for session in self.sessions:
            if not key.is_of(session.identity.name, session.id):
                continue
            try:
                await session.offers.hear(server, message)
            except Exception as problem:  # a client that has just left must not keep the others from hearing it
                logger.info("a client could not be told what '%s' says: %s", server, describe(problem))

    async def _settle_log_level(self) -> None:
        level = most_of([session.client.log_level for session in self._sessions.values()])
        for features in self._sources.features:
            await features.log(level)

    # Transports

    def server(self, profile: str | None = None) -> Server[Any]:
        """A server for one connection after the other, or several at once, such as over streams in memory: each is a
        session of its own, with this profile. Raises `ConfigError` for a profile that the configuration does not
        have."""

        def identity_of(_context: Request) -> Identity:
            return self.identity("local", profile, transport="stdio")

        @asynccontextmanager
        async def connection(_server: Server[Connection]) -> AsyncGenerator[Connection]:
            key = f"connection-{uuid.uuid4().hex}"
            try:
                yield connection_of(key)
            finally:
                with anyio.CancelScope(shield=True):
                    await self.end(key)

        async def session_of(context: Request) -> GatewaySession:
            await self._sources.catch_up()
            return await self.session(context.lifespan_context.key, identity_of(context), context, idle=None)

        return self._serve(profile, session_of, connection, identity_of)

    def http_app(self, *, profile: str | None = None, tokens: Mapping[str, str] | None = None) -> Starlette:
        """Streamable HTTP at `/mcp`, as an ASGI application for a server of your own, with `/health` and `/ready`.
        `tokens` are bearer tokens by the names of the configuration's `[gateway.tokens]`, read as it says unless they
        are given; without any, and without an issuer, only this machine is answered. Raises `ConfigError`."""
        if tokens is None:
            self._tokens = TokenTable(self.config, os.environ, self._folder)
            tokens = self._tokens.by_name
        needs_token = bool(tokens) or self.config.oidc is not None

        def identity_of(context: Request) -> Identity:
            assert context.request is not None
            principal = principal_of(context.request)
            if needs_token and not principal.issuer and principal.name not in tokens:  # it was removed just now
                raise MCPError(types.INVALID_REQUEST, "this token is not let in any more")
            token = None if principal.issuer else self.config.tokens.get(principal.name)
            own = principal.profile or (token.profile if token else None)
            return replace(self.identity(principal.name, own or profile, transport="http"), key=principal.key)

        async def session_of(context: Request) -> GatewaySession:
            await self._sources.catch_up()
            assert context.request is not None
            identity = identity_of(context)
            key, is_per_token = session_key(context.request, context.protocol_version)
            deployment, shared_id = self._parts.ids.deployment, None
            if deployment is not None and is_per_token:
                shared_id = await deployment.shared_session(identity.key, identity.requester)
            return await self.session(key, identity, context, idle=self.config.idle, shared_id=shared_id)

        @asynccontextmanager
        async def no_connection(_server: Server[Connection]) -> AsyncGenerator[Connection]:
            yield connection_of("")

        verifier = EitherTokens(OwnTokens(tokens, self._catch_up_tokens), IssuerTokens(lambda: self.config))
        return http_app(
            self._serve(profile, session_of, no_connection, identity_of),
            lambda: self.config,
            profile=profile,
            verifier=verifier if needs_token else None,
            metrics=self.counts.metrics,
            on_leave=self.end,
        )

    def _serve(
        self,
        profile: str | None,
        session_of: SessionOf,
        lifespan: Lifespan,
        identity_of: Callable[[Request], Identity],
    ) -> GatewayServer:
        profile_of(self.config, profile)
        self._profiles.add(profile)
        streams = ChangeStreams(self._bus, self._resource_listeners, session_of, self._sources)

        def instructions_for(context: Request) -> str:
            identity = identity_of(context)
            return joined_instructions(
                self.config, [one for one in self._sources.offers() if identity.may_use(one.server)]
            )

        return GatewayServer(session_of, lifespan, streams, self.counts, instructions_for)

    async def _catch_up_tokens(self) -> None:
        await self._sources.catch_up()
        if self._tokens is not None:
            self._tokens.catch_up(self.config)

    def read_tokens(self, config: GatewayConfig | None = None) -> dict[str, str]:
        """The bearer tokens of the configuration, by name. Raises `ConfigError` for one that cannot be had."""
        return read_tokens(config or self.config, os.environ, self._folder)

    def check_address(self, host: str) -> None:
        """Raise `ConfigError` for an address that others can reach where the configuration has no tokens and no
        issuer."""
        check_address(host, self.read_tokens(), oidc=self.config.oidc is not None)

    async def serve_http(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        profile: str | None = None,
        on_listening: Callable[[str], Any] = lambda _url: None,
        on_stopping: Callable[[int], Any] = lambda _open: None,
    ) -> None:
        """Serve clients over streamable HTTP until the program is told to stop; `on_listening` is told the URL, and
        `on_stopping` how many calls are waited for at the end. Raises `ConfigError` for an address that others can
        reach where the configuration has no tokens and no issuer. On asyncio alone."""
        from hooksdk.gateway._listening import Listening, listen

        self.check_address(host)
        how = Listening(host, port, self.config, self._folder, self.counts.metrics, on_listening, on_stopping)
        await listen(self.http_app(profile=profile), how, self._end_all)

    async def serve_stdio(self, profile: str | None = None, *, streams: tuple[int, int] | None = None) -> None:
        """Serve the client at this process's stdin and stdout until it leaves; what is printed meanwhile goes to
        stderr. `streams` are two other descriptors, to read from and to write to."""
        with own_streams() if streams is None else nullcontext(streams) as both:
            await serve_streams(self.server(profile), both)
