"""What comes back from a call, as MCP says it: content, structured content, `_meta` and whether it is an error."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from hooksdk.calls import ToolResult

_block: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def as_mcp(result: ToolResult, protocol_version: str) -> types.CallToolResult:
    """The result for a client of this version."""
    structured = result.structured
    if protocol_version not in MODERN_PROTOCOL_VERSIONS and not isinstance(structured, dict):
        structured = None  # an object or nothing there; the text has it
    return types.CallToolResult(
        content=[_content(block) for block in result.blocks], structured_content=structured, is_error=result.is_error,
        _meta=result.meta,
    )  # fmt: skip


def error(text: str) -> types.CallToolResult:
    """An error that the model reads."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _content(block: dict[str, Any]) -> types.ContentBlock:
    try:
        return _block.validate_python(block)
    except ValidationError:  # a plugin's own, or of a newer protocol
        text = block.get("text")
        kind = block.get("type", "unknown")
        return types.TextContent(type="text", text=text if isinstance(text, str) else f"[content of type {kind}]")
