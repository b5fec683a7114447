"""What a client of the protocol with connections is told by a gateway of a deployment that does not have its connection."""

from __future__ import annotations

import mcp_types as types
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.responses import Response
from starlette.types import Message, Scope, Send

NOT_HERE = (
    "Session not found: it is over, or it was opened at another gateway of this deployment. A client of protocol 2025-11-25 has to "
    "come to the same gateway with all its requests (a sticky route, such as by the Authorization header); one of 2026-07-28 need "
    "not. Connect anew"
)


def explaining(scope: Scope, send: Send) -> Send:
    """The same `send`, whose answer to a session that is not known here says why: the protocol has status 404 for it, upon which
    clients begin a new session."""
    header = MCP_SESSION_ID_HEADER.encode("ascii")
    if all(name != header for name, _ in scope["headers"]):
        return send
    is_unknown = False

    async def explain(message: Message) -> None:
        nonlocal is_unknown
        if message["type"] == "http.response.start" and message["status"] == 404:
            is_unknown = True
            error = types.ErrorData(code=types.INVALID_REQUEST, message=NOT_HERE)
            body = types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
            answer = Response(
                body.model_dump_json(by_alias=True, exclude_unset=True), 404, media_type="application/json"
            )
            await send({"type": "http.response.start", "status": 404, "headers": answer.raw_headers})
            await send({"type": "http.response.body", "body": answer.body})
        elif not is_unknown:
            await send(message)

    return explain
