"""Headers over HTTP of protocol 2026-07-28 that repeat an argument, as a tool's schema asks for with `x-mcp-header`."""

from __future__ import annotations

from collections.abc import Iterable

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.gateway._client import Request


def check_headers(context: Request, params: types.CallToolRequestParams, listed: Iterable[types.Tool]) -> None:
    """Refuse a call whose headers say something else than its arguments: whoever stands in between goes by them. A tool that the
    client was not told of has no headers. Raises `MCPError`."""
    if context.request is None or context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return
    tool = next((tool for tool in listed if tool.name == params.name), None)
    if tool is None:
        return
    refusal = validate_mcp_param_headers(tool.input_schema, params.arguments or {}, context.request.headers)
    if refusal is not None:
        raise MCPError(refusal.code, refusal.message, refusal.data)
