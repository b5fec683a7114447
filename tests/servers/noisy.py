"""A server that prints to its stdout what is no MCP, as many real ones do."""

import os
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("noisy")


def shout() -> None:
    sys.stdout.write("[dotenv] injecting env from .env\n\n{not json}\n")
    sys.stdout.flush()
    os.write(1, b"\xff\xfe raw bytes\n")


@server.tool(structured_output=False)
async def greet(name: str) -> str:
    """Greet somebody, noisily."""
    shout()
    return f"hello {name}"


if __name__ == "__main__":
    shout()
    server.run()
