"""A server that dies when asked to. With a file as argument it refuses to start while that file exists."""

import os
import sys
from pathlib import Path

if len(sys.argv) > 1 and Path(sys.argv[1]).exists():
    sys.exit(f"cannot start: the licence is used up, token {os.environ.get('TOKEN', '-')}")

from mcp.server.mcpserver import MCPServer

server = MCPServer("dying")


@server.tool(structured_output=False)
async def process_id() -> str:
    """The server's process id."""
    return str(os.getpid())


@server.tool(structured_output=False)
async def die() -> str:
    """End the server in the middle of this call."""
    print("fatal: out of cheese", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    server.run()
