"""A server whose calls take a minute; each first touches a file of its name in the folder that is the server's argument."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("working")


@server.tool(structured_output=False)
async def process_id() -> str:
    """The server's process id."""
    return str(os.getpid())


@server.tool(structured_output=False)
async def work(name: str) -> str:
    """Begin, and take a minute."""
    Path(sys.argv[1], name).touch()
    await anyio.sleep(60)
    return "done"


if __name__ == "__main__":
    server.run()
