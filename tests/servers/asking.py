"""A server that tells of its progress, notes what is cancelled, and asks its client for things while it serves a call.

It knows the protocol of 2025-11-25 alone, or with `both` as its second argument that of 2026-07-28 as well."""

import base64
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

NOTES = Path(sys.argv[1])
BOTH = "both" in sys.argv
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
QUESTION = [types.SamplingMessage(role="user", content=types.TextContent(text="Which day is it?"))]


async def count(context: Any) -> str:
    for number in (1, 2, 3):
        await context.session.report_progress(number, 3, f"step {number}")
    return "counted"


async def hang(_context: Any) -> str:
    note("began")
    try:
        await anyio.sleep_forever()
    finally:
        note("cancelled")
    return "never"


async def echo(_context: Any) -> str:
    return "here"


async def elicit(context: Any) -> str:
    answer = await context.session.elicit_form("Who are you?", FORM, context.request_id)
    return f"{answer.action} {answer.content}"


async def ask(context: Any) -> str | types.InputRequiredResult:
    """As each protocol has it."""
    if context.protocol_version == "2025-11-25":
        return await elicit(context)
    parameters = types.ElicitRequestFormParams(message="Who are you?", requested_schema=FORM)
    return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=parameters)}, request_state="s")


async def later(context: Any) -> str:
    """Asks when the call is over and `go` lies beside the notes."""
    background.start_soon(ask_later, context.session)
    return "soon"


async def ask_later(session: Any) -> None:
    while not NOTES.with_name("go").exists():
        await anyio.sleep(0.01)
    try:
        answer = await session.elicit_form("Who are you?", FORM)
        note(f"{answer.action} {answer.content}")
    except MCPError as problem:
        note(problem.error.message)


async def sample(context: Any) -> str:
    parameters = types.CreateMessageRequestParams(messages=QUESTION, max_tokens=10)
    answer = await context.session.send_request(
        types.CreateMessageRequest(params=parameters), types.CreateMessageResult
    )
    return answer.content.text


async def roots(context: Any) -> str:
    answer = await context.session.send_request(types.ListRootsRequest(), types.ListRootsResult)
    return str(answer.roots[0].uri)


async def report(_context: Any) -> list[types.ContentBlock]:
    picture = types.ImageContent(data=base64.b64encode(b"png" * 30_000).decode(), mime_type="image/png")
    return [picture, types.TextContent(text="a line of a long report\n" * 12_500)]


background: anyio.abc.TaskGroup
TOOLS = {
    "ask": ask,
    "count": count,
    "hang": hang,
    "echo": echo,
    "elicit": elicit,
    "later": later,
    "sample": sample,
    "roots": roots,
    "report": report,
}


def note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{text}\n")


async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in TOOLS])


async def call_tool(
    context: Any, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    if params.input_responses:
        note(f"answered {list(params.input_responses)} {params.request_state}")
        (given,) = params.input_responses.values()
        assert isinstance(given, types.ElicitResult)
        return types.CallToolResult(content=[types.TextContent(text=f"{given.action} {given.content}")])
    try:
        answer = await TOOLS[params.name](context)
    except MCPError as problem:
        return types.CallToolResult(content=[types.TextContent(text=problem.error.message)], is_error=True)
    if isinstance(answer, types.InputRequiredResult):
        return answer
    content: list[types.ContentBlock] = [types.TextContent(text=answer)] if isinstance(answer, str) else answer
    structured = {"lines": 12_500} if params.name == "report" else None
    return types.CallToolResult(content=content, structured_content=structured)


async def main() -> None:
    global background
    background = anyio.create_task_group()
    server = Server("asking", on_list_tools=list_tools, on_call_tool=call_tool)
    send, receive = anyio.create_memory_object_stream[Any]()
    async with background, stdio_server() as (read, write):

        async def pass_on() -> None:
            async with send:
                async for item in read:
                    request = item.message if isinstance(item, SessionMessage) else None
                    if isinstance(request, types.JSONRPCRequest) and request.method == "server/discover" and not BOTH:
                        error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="Method not found")
                        await write.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)))
                    else:
                        await send.send(item)

        background.start_soon(pass_on)
        await server.run(receive, write, server.create_initialization_options())
        background.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
