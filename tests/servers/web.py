"""A server behind streamable HTTP on loopback, which wants a token: `web.py PORT`."""

import os
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("web", version="9")


@server.tool(structured_output=False)
async def process_id() -> str:
    """The server's process id."""
    return str(os.getpid())


@server.tool(structured_output=False)
async def steps(context: Context) -> str:
    """Tell about three steps."""
    for step in range(3):
        await context.report_progress(step + 1, 3, f"step {step + 1}")
    return "done"


@server.tool(structured_output=False)
async def die() -> str:
    """End the server in the middle of this call."""
    os._exit(3)


inner = server.streamable_http_app()


async def app(scope: Any, receive: Any, send: Any) -> None:
    headers: dict[bytes, bytes] = dict(scope.get("headers") or ())
    if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer s3cret-token":
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"s3cret-token wanted"})
        return
    await inner(scope, receive, send)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
