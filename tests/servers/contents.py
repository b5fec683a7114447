"""A server that answers with every kind of content, and once with what its own output schema forbids."""

import base64

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

PIXEL = base64.b64encode(b"\x89PNG not really").decode()
COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}

answers = {
    "picture": types.CallToolResult(
        content=[types.TextContent(text="a pixel:"), types.ImageContent(data=PIXEL, mime_type="image/png")]
    ),
    "sound": types.CallToolResult(content=[types.AudioContent(data=PIXEL, mime_type="audio/wav")]),
    "files": types.CallToolResult(
        content=[
            types.EmbeddedResource(
                resource=types.TextResourceContents(uri="file:///notes.txt", text="the notes", mime_type="text/plain")
            ),
            types.ResourceLink(uri="file:///big.bin", name="big.bin", title="The big one"),
        ]
    ),
    "refuse": types.CallToolResult(content=[types.TextContent(text="no such ticket: 7")], is_error=True),
    "count": types.CallToolResult(content=[types.TextContent(text='{"count": 3}')], structured_content={"count": 3}),
    "count_only": types.CallToolResult(content=[], structured_content={"count": 4}),
    "miscount": types.CallToolResult(content=[types.TextContent(text="many")], structured_content={"count": "many"}),
}


async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
    return types.ListToolsResult(
        tools=[
            types.Tool(name=name, input_schema={"type": "object"}, output_schema=COUNT if "count" in name else None)
            for name in [*answers, "unknown_to_itself"]
        ]
    )


async def call_tool(_context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in answers:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return answers[params.name]


async def main() -> None:
    server = Server("contents", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
