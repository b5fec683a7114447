"""A server with 40 tools: one for each chore in each room."""

from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

ROOMS = ("kitchen", "cellar", "attic", "garden", "garage", "library", "nursery", "stable")
CHORES = {
    "sweep": "Sweep the floor of the",
    "paint": "Paint the walls of the",
    "heat": "Heat the",
    "light": "Switch on the lamps of the",
    "lock": "Lock the doors of the",
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "minutes": {"type": "integer", "description": "How long it may take."},
        "quietly": {"type": "boolean", "description": "Whether somebody sleeps nearby."},
    },
    "required": ["minutes"],
}


async def list_tools(_context: object, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    tools = [
        types.Tool(name=f"{chore}_{room}", description=f"{text} {room}. Answers when done.", input_schema=PARAMETERS)
        for chore, text in CHORES.items()
        for room in ROOMS
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=f"{params.name} is done")])


async def main() -> None:
    server = Server("many", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
