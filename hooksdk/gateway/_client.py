"""The client of one call, as servers reach it while they serve the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.gateway._settings import is_loopback
from hooksdk.mcp import LEVELS, SignInPage

Request = ServerRequestContext[Any, Any]
AskByResult = Callable[[types.InputRequest, str, int], Awaitable[types.InputResponse | types.ErrorData]]


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
