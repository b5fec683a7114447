"""The gateway's client as servers reach it, while they serve its call."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata


@final
class CallingClient:
    """The client of one request."""

    def __init__(self, session_id: str, context: ServerRequestContext[Any, Any], allowed: Collection[str]) -> None:
        """`allowed` is what servers may ask: `elicitation`, `sampling`, `roots`."""
        self.id = session_id
        self._context = context
        self._allowed = allowed

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell it with the token of its request; nothing where it gave none."""
        await self._context.session.report_progress(progress, total, message)

    async def ask(self, request: types.InputRequest) -> types.InputResponse | types.ErrorData:
        """Ask it, if the operator allows it and it has said that it can answer."""
        session = self._context.session
        kind, able = _needed(request, session.client_capabilities)
        if kind not in self._allowed:
            return _refused(f"{kind} is not allowed here")
        if not session.can_send_request:
            return _refused("the client's protocol has no requests from servers")
        if not able:
            return _refused(f"the client has not declared that it can answer this {kind}")
        metadata = ServerMessageMetadata(related_request_id=self._context.request_id)
        try:
            return await _send(session, request, metadata)
        except MCPError as problem:
            return problem.error


async def _send(
    session: ServerSession, request: types.InputRequest, metadata: ServerMessageMetadata
) -> types.InputResponse:
    if isinstance(request, types.ElicitRequest):
        return await session.send_request(request, types.ElicitResult, metadata=metadata)
    if isinstance(request, types.ListRootsRequest):
        return await session.send_request(request, types.ListRootsResult, metadata=metadata)
    if request.params.tools or request.params.tool_choice:
        return await session.send_request(request, types.CreateMessageResultWithTools, metadata=metadata)
    return await session.send_request(request, types.CreateMessageResult, metadata=metadata)


def _needed(request: types.InputRequest, declared: types.ClientCapabilities | None) -> tuple[str, bool]:
    """What a request is, and whether the client can answer it."""
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
