"""Over HTTP of 2026-07-28 headers say what the body says, so that whoever stands in between may go by them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp_types import HEADER_MISMATCH

from hooksdk import Tool
from tests.hooksdk.gateways import Source, http_client, text_of
from tests.hooksdk.test_gateway_transports import listening

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call",
    "mcp-name": "by_region", "mcp-param-region": "north",
}  # fmt: skip


def by_region() -> Source:
    made = Source()

    async def execute(arguments: dict[str, Any]) -> str:
        made.executed.append(("by_region", arguments))
        return str(arguments)

    made.listed = [Tool(name="by_region", source="mcp", owner="maps", parameters=SCHEMA, execute=execute)]
    return made


async def call(url: str, arguments: dict[str, Any], name: str = "by_region", **headers: str) -> tuple[int, int | None]:
    """The HTTP status and the error's code."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = {**message, "params": {"name": name, "arguments": arguments, "_meta": META}}
    sent = {**HEADERS, **{key.replace("_", "-"): value for key, value in headers.items()}}
    async with httpx2.AsyncClient(timeout=60) as http:
        response = await http.post(url, json=body, headers={key: value for key, value in sent.items() if value})
    return response.status_code, response.json().get("error", {}).get("code")


async def test_a_call_whose_headers_say_something_else_is_refused_and_not_run() -> None:
    refused = (400, HEADER_MISMATCH)
    tools = by_region()
    async with listening(tools=tools) as (_, url):
        assert await call(url, {"region": "north"}) == (200, None)
        assert await call(url, {"region": "north"}, mcp_param_region="=?base64?bm9ydGg=?=") == (200, None)
        assert await call(url, {"region": "south"}) == refused
        assert await call(url, {"region": "north"}, mcp_param_region="") == refused
        assert await call(url, {}) == refused
        assert await call(url, {"region": "north"}, mcp_name="another") == refused
        assert await call(url, {"region": "north"}, mcp_method="tools/list") == refused
        assert len(tools.executed) == 2
        async with http_client(url, "auto") as client:
            await client.list_tools()
            assert text_of(await client.call_tool("by_region", {"region": "west"})) == "{'region': 'west'}"


async def test_a_tool_that_the_client_was_not_told_of_has_no_headers() -> None:
    async with listening({"expose": "bridge"}, tools=by_region()) as (_, url):
        assert await call(url, {"region": "north"}, mcp_param_region="") == (200, None)
