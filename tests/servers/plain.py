"""An ordinary MCP server: arithmetic, its process id, its environment, and work that tells how far it is."""

import os
from typing import Annotated

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

server = MCPServer("plain", version="1.2.3")
cancelled = 0


@server.tool(title="Add two numbers", annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False))
async def add(a: Annotated[int, Field(description="the first")], b: int) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(structured_output=False)
async def process_id() -> str:
    """The server's process id."""
    return str(os.getpid())


@server.tool(structured_output=False)
async def environment(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "(not set)")


@server.tool(structured_output=False)
async def folder() -> str:
    """The server's working folder."""
    return os.getcwd()


@server.tool(structured_output=False)
async def work(seconds: float, context: Context) -> str:
    """Work for some time, telling about it four times."""
    global cancelled
    try:
        for step in range(4):
            await context.report_progress(step + 1, 4, f"step {step + 1}")
            await anyio.sleep(seconds / 4)
    except BaseException:
        cancelled += 1
        raise
    return "done"


@server.tool(structured_output=False)
async def cancelled_so_far() -> str:
    """How many times `work` was cancelled."""
    return str(cancelled)


if __name__ == "__main__":
    server.run()
