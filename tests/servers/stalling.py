"""A server with one slow tool, and one that stalls the whole server and its shutdown; it first touches the file that is
the server's argument."""

import os
import sys
import time
from pathlib import Path

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("stalling")


@server.tool(structured_output=False)
async def process_id() -> str:
    """The server's process id."""
    return str(os.getpid())


@server.tool(structured_output=False)
async def slow() -> str:
    """Take a minute; other calls go on."""
    await anyio.sleep(60)
    return "at last"


@server.tool(structured_output=False)
async def stall() -> str:
    """Take a minute, and answer nothing else meanwhile."""
    if len(sys.argv) > 1:
        Path(sys.argv[1]).touch()
    time.sleep(60)
    return "at last"


if __name__ == "__main__":
    server.run()
