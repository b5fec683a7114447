"""A server that lists the tools of a JSON file and does nothing: `catalog_server.py FILE`."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def main(definitions: list[dict[str, Any]]) -> None:
    tools = [
        types.Tool(name=one["name"], description=one["description"], input_schema=one["parameters"])
        for one in definitions
    ]

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text=f"{params.name} is done")])

    server = Server("catalog", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, json.loads(Path(sys.argv[1]).read_text("utf-8")))
