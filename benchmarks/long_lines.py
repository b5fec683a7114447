"""How long a result on one long line takes from an MCP server over stdio: through `McpServers`, and through the SDK alone.

    python benchmarks/long_lines.py

Both read from the same server in turns, so that only their ratio counts. The SDK is not asked for the longest.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio
import mcp_types as types
from mcp import StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.stdio import stdio_client

from hooksdk.mcp import McpServers

MILLIONS = (1, 5, 20, 50)
LONGEST_OF_SDK = 20
ROUNDS = 3
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        server = {"name": "long", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [{"name": "long", "inputSchema": {"type": "object"}}]}
    elif asked["method"] == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": "x" * asked["params"]["arguments"]["length"]}]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = Path(folder) / "server.py"
        server.write_text(SERVER)
        command, arguments = sys.executable, [str(server)]
        async with (
            McpServers({"long": {"command": command, "args": arguments}}) as servers,
            stdio_client(StdioServerParameters(command=command, args=arguments)) as (read, write),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            (tool,) = servers.tools()
            assert tool.execute is not None
            print("| million characters | hooksdk | the SDK | ratio |\n|--:|--:|--:|--:|")
            for millions in MILLIONS:
                asked, ours, theirs = {"length": millions * 1_000_000}, list[float](), list[float]()
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    await tool.execute(asked)
                    ours.append(time.perf_counter() - began)
                    if millions <= LONGEST_OF_SDK:
                        began = time.perf_counter()
                        await session.send_request(
                            types.CallToolRequest(params=types.CallToolRequestParams(name="long", arguments=asked)),
                            types.CallToolResult,
                        )
                        theirs.append(time.perf_counter() - began)
                own, other = statistics.median(ours), statistics.median(theirs) if theirs else None
                compared = f"{other:.2f} s | {own / other:.2f}x" if other is not None else "not asked |"
                print(f"| {millions} | {own:.2f} s | {compared} |", flush=True)


if __name__ == "__main__":
    anyio.run(main)
