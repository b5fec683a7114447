"""What comes back from a call, as MCP says it: content, structured content, `_meta` and whether it is an error."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from hooksdk.calls import ToolResult

_block: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def as_mcp(result: ToolResult, protocol_version: str) -> types.CallToolResult:
    """The result for a client of this version."""
    structured = result.structured
    if protocol_version not in MODERN_PROTOCOL_VERSIONS and not isinstance(structured, dict):
        structured = None  # an object or nothing there; the text has it
    answer = types.CallToolResult(
        content=[_content(block) for block in result.blocks], structured_content=structured, is_error=result.is_error,
        _meta=result.meta,
    )  # fmt: skip
    if _can_be_sent(answer):
        return answer
    text = "\n".join(whole(block.text) for block in answer.content if isinstance(block, types.TextContent))
    plain = types.CallToolResult(content=[types.TextContent(text=text)], is_error=result.is_error)
    return plain if text and _can_be_sent(plain) else error("The tool ran, and its result cannot be sent as JSON.")


def error(text: str) -> types.CallToolResult:
    """An error that the model reads."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=whole(text))], is_error=True)


def whole(text: str) -> str:
    """The text without halves of characters, which cannot be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _can_be_sent(answer: BaseModel) -> bool:
    """False for what would break the client's connection while it is written, such as half a character."""
    try:
        answer.model_dump_json(by_alias=True, exclude_none=True)
    except ValueError:
        return False
    return True


def _content(block: dict[str, Any]) -> types.ContentBlock:
    try:
        return _block.validate_python(block)
    except ValidationError:  # a plugin's own, or of a newer protocol
        text = block.get("text")
        kind = block.get("type", "unknown")
        return types.TextContent(type="text", text=text if isinstance(text, str) else f"[content of type {kind}]")
