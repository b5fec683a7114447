"""A server whose list of tools changes, given out one tool a page."""

from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

names = ["grow", "shrink", "vanish"]


async def list_tools(_context: object, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    at = int(params.cursor) if params and params.cursor else 0
    tool = types.Tool(name=names[at], description=f"page {at + 1}", input_schema={"type": "object"})
    return types.ListToolsResult(tools=[tool], next_cursor=str(at + 1) if at + 1 < len(names) else None)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name == "grow":
        names.append(f"grown_{len(names)}")
    elif params.name == "shrink":
        names.remove("vanish")
    else:
        return types.CallToolResult(content=[types.TextContent(text="still here")])
    await context.session.send_tool_list_changed()
    return types.CallToolResult(content=[types.TextContent(text=f"{len(names)} tools")])


async def main() -> None:
    server = Server("changing", on_list_tools=list_tools, on_call_tool=call_tool)
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


if __name__ == "__main__":
    anyio.run(main)
