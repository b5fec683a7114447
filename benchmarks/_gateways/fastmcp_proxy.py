"""fastmcp's proxy with its search, in front of the servers of a file: `fastmcp_proxy.py MCP_JSON
DENIED`.

A connected client is handed to it. As its page has it, with the mapping itself, every request starts all servers again.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fastmcp import Client
from fastmcp.server import create_proxy
from fastmcp.server.transforms.search import BM25SearchTransform


async def main(servers: dict[str, Any], denied: str) -> None:
    async with Client(servers) as client:
        proxy = create_proxy(client)
        names = [tool.name for tool in await client.list_tools() if tool.name.endswith(denied)]
        proxy.disable(names=set(names))
        proxy.add_transform(BM25SearchTransform())
        await proxy.run_stdio_async(show_banner=False)


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text("utf-8")), sys.argv[2]))
