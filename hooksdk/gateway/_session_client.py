"""The client of one session, over all of its requests: who it is, how it is reached, and the run that its calls
belong to."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, final

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged

from hooksdk.approvals import Approver
from hooksdk.desk import ApprovalDesk
from hooksdk.errors import HookSDKError
from hooksdk.gateway._approvals import ClientApprovals
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._left_sessions import LeftCalls
from hooksdk.gateway._metrics import Counts
from hooksdk.gateway._session_ids import SessionIds
from hooksdk.gateway._settings import GatewayConfig, Profile
from hooksdk.gateway._sources import Sources
from hooksdk.host import Host
from hooksdk.mcp import current_client
from hooksdk.run import Run
from hooksdk.tools import Tool

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
        watch: Begins or ends to watch a resource for changes.
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
    watch: Callable[..., Any]
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
