"""A server with every fault of servers: it dies in a call, stalls, answers errors. With a file as argument it does not start
while that file is there."""

import base64
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SAYS = {
    "die": "End the server in the middle of this call.",
    "stall": "Take 15 seconds.",
    "delete_everything": "Delete everything there is.",
    "picture": "Answer a text, an image and structured content.",
    "refuse": "Answer an error.",
}


def text(said: str) -> list[types.ContentBlock]:
    return [types.TextContent(text=said)]


async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {}}
    return types.ListToolsResult(
        tools=[types.Tool(name=name, description=said, input_schema=schema) for name, said in SAYS.items()]
    )


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in SAYS:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    if params.name == "die":
        os._exit(3)
    if params.name == "stall":
        await anyio.sleep(15)
    if params.name == "picture":
        image = types.ImageContent(data=PIXEL, mime_type="image/png")
        return types.CallToolResult(content=[*text("a pixel"), image], structured_content={"width": 1})
    if params.name == "refuse":
        return types.CallToolResult(content=text("no such ticket: 7"), is_error=True)
    return types.CallToolResult(content=text("DELETED" if params.name == "delete_everything" else "awake again"))


async def main() -> None:
    server = Server("faulty", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if len(sys.argv) > 1 and Path(sys.argv[1]).exists():
        sys.exit("cannot start: the licence is used up")
    anyio.run(main)
