"""The client of one session, over all of its requests, and the client of one call, as servers reach it while they serve
the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol, final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.approvals import Approver
from hooksdk.desk import ApprovalDesk
from hooksdk.errors import HookSDKError
from hooksdk.gateway._approvals import ClientApprovals
from hooksdk.gateway._left_sessions import LeftCalls
from hooksdk.gateway._metrics import Counts
from hooksdk.gateway._session_ids import SessionIds
from hooksdk.gateway._settings import GatewayConfig, Profile, is_loopback
from hooksdk.gateway._sources import Sources
from hooksdk.host import Host
from hooksdk.mcp import LEVELS, SignInPage, current_client
from hooksdk.run import Run
from hooksdk.tools import Tool

Request = ServerRequestContext[Any, Any]
AskByResult = Callable[[types.InputRequest, str, int], Awaitable[types.InputResponse | types.ErrorData]]
ListChanged = ToolsListChanged | PromptsListChanged | ResourcesListChanged
# The notification that tells a client of protocol 2025-11-25 of a changed list, by the event of the later protocol.
CHANGES: dict[type[ListChanged], Callable[[], types.ServerNotification]] = {
    ToolsListChanged: types.ToolListChangedNotification,
    PromptsListChanged: types.PromptListChangedNotification,
    ResourcesListChanged: types.ResourceListChangedNotification,
}
# The tool for which a server's secrets are filled in. No server has it, so that a pattern for one tool does not give
# them.
START = "start of the server"


class FillSecrets(Protocol):
    """Fills in the secrets of a client's server; the type of `hooksdk.mcp.Client.fill_secrets`."""

    def __call__(self, server: str, texts: Mapping[str, Any], *, shared: bool) -> Awaitable[dict[str, Any]]: ...


@final
@dataclass(eq=False)
class CallingClient:
    """The client of one call.

    Attributes:
        id: Its session's id.
        holder: The name of its token.
        fill_secrets: Fills in the secrets of its servers.
        protocol_version: The version of MCP that it speaks.
        allowed: The questions that servers may ask of it: `elicitation`, `sampling`, `roots`.
        context: Its request; None while it has none open, which happens with a call that stays open.
        level: The level from which on it hears what servers log, where it has said so once for all.
        ask_by_result: Asks the client where its protocol has no requests from servers.
        page: The page that it is to open before it calls again.
    """

    id: str
    holder: str
    fill_secrets: FillSecrets
    protocol_version: str
    allowed: Collection[str]
    context: Request | None = None
    level: types.LoggingLevel | None = None
    ask_by_result: AskByResult | None = field(default=None, init=False)
    page: SignInPage | None = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)
    _turn: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    def __post_init__(self) -> None:
        self.shows_pages = self.can_show_pages(self.context)
        self.capabilities = self.context.session.client_capabilities if self.context is not None else None

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of its request."""
        return {} if self.context is None else dict(self.context.meta or {})

    @property
    def log_level(self) -> types.LoggingLevel | None:
        """The level from which on it hears what servers log; in the stateless protocol each request says so."""
        level = self.meta.get(types.LOG_LEVEL_META_KEY)
        return level if level in LEVELS else self.level

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Send it a server's log message with its request, if it wants to hear this level."""
        level, context = self.log_level, self.context
        if context is not None and is_heard(message.level, level):
            notification = types.LoggingMessageNotification(params=message)
            await context.session.send_notification(notification, context.request_id)

    @staticmethod
    def can_show_pages(context: Request | None) -> bool:
        """True for a client that opens pages for its person on this machine, to which the browser comes back."""
        if context is None:
            return False
        said = context.session.client_capabilities
        if said is None or said.elicitation is None or said.elicitation.url is None:
            return False
        peer = context.request.client if context.request is not None else None
        return context.request is None or (peer is not None and is_loopback(peer.host))

    async def show_page(self, page: SignInPage) -> None:
        """Give it a page to open, with the result of its call."""
        self.page = page

    @property
    def may_be_asked_by_result(self) -> bool:
        """True where servers may ask it something, and its protocol lets them do so by the result of its call alone."""
        assert self.context is not None
        said = self.capabilities or types.ClientCapabilities()
        declared = {"elicitation": said.elicitation, "sampling": said.sampling, "roots": said.roots}
        able = any(declared[kind] is not None for kind in self.allowed)
        return able and self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    def end(self) -> None:
        """Note that its request is answered: later questions belong to no request."""
        self._is_over = True

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell it how far its call is, if its request asked for that."""
        if self.context is not None and not self._is_over:
            await self.context.session.report_progress(progress, total, message)

    def _has_connection(self, context: Request) -> bool:
        """True where it can be asked while it has no request open."""
        return self._is_over and context.protocol_version not in MODERN_PROTOCOL_VERSIONS

    async def ask(
        self, request: types.InputRequest, name: str = "", together: int = 1
    ) -> types.InputResponse | types.ErrorData:
        """Ask it, if the operator allows it and it has said that it can answer."""
        kind, able = _needed(request, self.capabilities)
        if kind not in self.allowed:
            return _refused(f"{kind} is not allowed here")
        if not able:
            return _refused(f"the client has not declared that it can answer this {kind}")
        if self.ask_by_result is not None:
            return await self.ask_by_result(request, name, together)
        context = self.context
        if context is None or not (context.session.can_send_request or self._has_connection(context)):
            return _refused("the client cannot be asked while it waits")
        metadata = None if self._is_over else ServerMessageMetadata(related_request_id=context.request_id)
        try:
            async with self._turn:  # its person is shown one question after the other
                return await _send(context.session, request, metadata)
        except MCPError as problem:
            return problem.error


def is_heard(level: types.LoggingLevel, wanted: types.LoggingLevel | None) -> bool:
    """True where a client that wants to hear from level `wanted` on is told of this level."""
    return wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted)


async def _send(
    session: ServerSession, request: types.InputRequest, metadata: ServerMessageMetadata | None
) -> types.InputResponse:
    if isinstance(request, types.ElicitRequest):
        return await session.send_request(request, types.ElicitResult, metadata=metadata)
    if isinstance(request, types.ListRootsRequest):
        return await session.send_request(request, types.ListRootsResult, metadata=metadata)
    if request.params.tools or request.params.tool_choice:
        return await session.send_request(request, types.CreateMessageResultWithTools, metadata=metadata)
    return await session.send_request(request, types.CreateMessageResult, metadata=metadata)


def _needed(request: types.InputRequest, declared: types.ClientCapabilities | None) -> tuple[str, bool]:
    """The kind of a question, and whether the client can answer it."""
    has = declared or types.ClientCapabilities()
    if isinstance(request, types.ElicitRequest):
        if isinstance(request.params, types.ElicitRequestURLParams):
            return "elicitation", has.elicitation is not None and has.elicitation.url is not None
        return "elicitation", has.elicitation is not None and (
            has.elicitation.form is not None or has.elicitation.url is None
        )
    if isinstance(request, types.ListRootsRequest):
        return "roots", has.roots is not None
    with_tools = bool(request.params.tools or request.params.tool_choice)
    return "sampling", has.sampling is not None and not (with_tools and has.sampling.tools is None)


def _refused(reason: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"Not relayed: {reason}")


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The name and the profile of a client, by the command line or by its token.

    Attributes:
        name: The token's name, or `local`.
        key: A text that no other client has.
    """

    name: str
    profile_name: str | None
    profile: Profile
    transport: str
    key: str = "local"

    @property
    def requester(self) -> Mapping[str, Any]:
        """The requester that policies are told of."""
        roles = [self.profile_name] if self.profile_name else []
        return {"id": self.name, "roles": roles, **self.profile.requester}

    def may_use(self, server: str) -> bool:
        """True where the client's profile has this server."""
        return self.profile.servers is None or server in self.profile.servers


@dataclass(frozen=True, kw_only=True)
class SharedParts:
    """The parts of a gateway that all of its sessions use.

    Attributes:
        start_soon: Starts a task that may outlive a request.
        publish: Tells the clients that listen in the stateless protocol of a changed list.
        log_level_changed: Is called when a client wants to hear more of what is logged, or less.
    """

    host: Host
    sources: Sources
    counts: Counts
    config: GatewayConfig
    approver: Approver | None
    ids: SessionIds
    left_calls: LeftCalls
    start_soon: Callable[..., Any]
    publish: Callable[[ServerEvent], Any]
    log_level_changed: Callable[[], Any]


@final
class SessionClient:
    """The client of one session.

    Attributes:
        id: The session's id, as plugins and people are told it.
        stored_id: The id under which this gateway stores the session, or its part of one that several gateways share.
        identity: Who the client is.
        shared: The parts of the gateway that all sessions use.
        approver: Who is asked about calls: with an approval desk also the person at this client.
        request: The newest request; it says what the client can do.
        log_level: The level from which on the client hears what servers log, where it has said so once for all.
        _run: The run of the client's calls, while the session is open.
        _connection: The client's connection, where it has one on which it can be told of changes at any time.

    """

    def __init__(self, shared: SharedParts, identity: Identity, request: Request, shared_id: str | None) -> None:
        """`shared_id` is the id of the session that several gateways have."""
        self.stored_id = shared.ids.new(identity.key, identity.requester, shared_id)
        self.id = shared_id or self.stored_id
        self.identity = identity
        self.shared = shared
        self.approver = shared.approver
        if isinstance(shared.approver, ApprovalDesk):
            self.approver = ClientApprovals(
                desk=shared.approver,
                store=shared.host.store,
                session_id=self.id,
                requester=identity.requester,
                by=f"{identity.name}, at the client",
                ask_client=shared.config.approvals.client,
                is_over=shared.ids.is_over,
                clock=monotonic,
            )
        self.request = request
        self.log_level: types.LoggingLevel | None = None
        self._run: Run | None = None
        self._connection: ServerSession | None = None

    @property
    def name(self) -> str:
        """The name that the client gives itself: a hint, and no identity."""
        return self.described.get("name", "")

    @property
    def described(self) -> dict[str, str]:
        """The name and the version that the client gives itself."""
        said = self.request.session.client_params
        return {"name": said.client_info.name, "version": said.client_info.version} if said else {}

    @property
    def is_shared(self) -> bool:
        """True where several gateways have the session, and this one stores its part of it."""
        return self.id != self.stored_id

    @property
    def run(self) -> Run:
        """The run that the client's calls belong to. Raises `HookSDKError` once it has ended."""
        if self._run is None:
            raise HookSDKError("the session has ended; connect again")
        return self._run

    @property
    def is_open(self) -> bool:
        """True while it has a run."""
        return self._run is not None

    def open(self, run: Run) -> None:
        """Make this run the client's."""
        self._run = run
        self.shared.counts.opened(run, self.name)

    def close(self) -> None:
        """The run has ended."""
        if self._run is not None:
            self.shared.counts.closed(self._run)
        self._run = None

    @contextmanager
    def serving(self, request: Request) -> Generator[CallingClient]:
        """Serve a request: within the block servers see the client that makes it."""
        if request.session.can_send_request:  # a connection that lasts
            self._connection = request.session
        self.request = request
        with self.calling(request) as client:
            yield client

    @contextmanager
    def calling(self, request: Request | None = None) -> Generator[CallingClient]:
        """Call servers for this client within the block, also where it has no request open."""
        client = CallingClient(
            self.id,
            self.identity.name,
            self._fill_secrets,
            self.request.protocol_version,
            self.shared.config.relay,
            request,
            self.log_level,
        )
        token = current_client.set(client)
        try:
            yield client
        finally:
            client.end()
            current_client.reset(token)

    async def _fill_secrets(self, server: str, texts: Mapping[str, Any], *, shared: bool) -> dict[str, Any]:
        return await self.run.fill_secrets(Tool(name=START, source="mcp", owner=server), texts, shared=shared)

    async def notify(self, message: types.ServerNotification) -> None:
        """Send the client a notification, if it has a connection on which that can be done at any time."""
        if self._connection is not None:
            await self._connection.send_notification(message)

    async def notify_change(self, change: ListChanged) -> None:
        """Tell the client, in either protocol, that a list has changed."""
        await self.shared.publish(change)
        await self.notify(CHANGES[type(change)]())
