"""Results of calls in MCP's form: content, structured content, `_meta` and whether it is an error."""

from __future__ import annotations

from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, TypeAdapter, ValidationError

from hooksdk.calls import ToolResult
from hooksdk.mcp import ERROR, ROLE
from hooksdk.values import as_object

_block: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)


def as_mcp(result: ToolResult, protocol_version: str) -> types.CallToolResult:
    """The result for a client of this protocol version."""
    structured = result.structured
    if protocol_version not in MODERN_PROTOCOL_VERSIONS and not isinstance(structured, dict):
        structured = None  # that version knows objects alone; the text has the content
    answer = types.CallToolResult(
        content=[_content(block) for block in result.blocks],
        structured_content=structured,
        is_error=result.is_error,
        _meta=result.meta,
    )
    if _can_be_sent(answer):
        return answer
    text = "\n".join(whole(block.text) for block in answer.content if isinstance(block, types.TextContent))
    plain = types.CallToolResult(content=[types.TextContent(text=text)], is_error=result.is_error)
    return plain if text and _can_be_sent(plain) else error("The tool ran, and its result cannot be sent as JSON.")


def without_answers(params: types.CallToolRequestParams) -> types.CallToolRequestParams:
    """The same call, made anew: without the state and the answers that belong to an earlier result."""
    return params.model_copy(update={"request_state": None, "input_responses": None})


def as_prompt(answer: types.CallToolResult) -> types.GetPromptResult:
    """The prompt that a call has got. A text that a plugin has put in its place is a message of the user."""
    messages: list[types.PromptMessage] = []
    for block in answer.content:
        meta = dict(block.meta or {})
        role = meta.pop(ROLE, "user")
        content = block.model_copy(update={"meta": meta or None})
        messages.append(types.PromptMessage(role="assistant" if role == "assistant" else "user", content=content))
    description = as_object(answer.structured_content).get("description")
    return types.GetPromptResult(
        messages=messages, description=description if isinstance(description, str) else None, _meta=answer.meta
    )


def as_contents(answer: types.CallToolResult, uri: str) -> types.ReadResourceResult:
    """The resource that a call has read. A text that a plugin has put in its place stands for all of its texts."""
    kept = [block.resource for block in answer.content if isinstance(block, types.EmbeddedResource)]
    texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
    if texts:
        kind = next((one.mime_type for one in kept if isinstance(one, types.TextResourceContents)), "text/plain")
        text = types.TextResourceContents(uri=uri, mime_type=kind, text="\n".join(texts))
        kept = [text, *(one for one in kept if not isinstance(one, types.TextResourceContents))]
    return types.ReadResourceResult(contents=kept, _meta=answer.meta)


def error_code(result: ToolResult) -> int | None:
    """The code of the error that a server answered; None for a result."""
    code = as_object((result.meta or {}).get(ERROR)).get("code")
    return code if isinstance(code, int) else None


def pages_in(error: MCPError) -> set[str]:
    """The ids of the web pages that an error asks a person to open."""
    pages = as_object(error.error.data).get("elicitations")
    ids = [as_object(page).get("elicitationId") for page in cast("list[Any]", pages)] if isinstance(pages, list) else []
    return {one for one in ids if isinstance(one, str)}


def as_error(answer: types.CallToolResult) -> MCPError:
    """The protocol's error for a failed call, with the code and the data of the server's own error."""
    text = "\n".join(block.text for block in answer.content if isinstance(block, types.TextContent))
    said = as_object((answer.meta or {}).get(ERROR))
    code = said.get("code")
    return MCPError(code if isinstance(code, int) else types.INVALID_REQUEST, text, said.get("data"))


def error(text: str) -> types.CallToolResult:
    """An error that the model reads."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=whole(text))], is_error=True)


def whole(text: str) -> str:
    """The text with a sign in the place of each half of a character, which cannot be sent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _can_be_sent(answer: BaseModel) -> bool:
    """False for a result that would break the connection while it is written, since it has half of a character, for
    example."""
    try:
        answer.model_dump_json(by_alias=True, exclude_none=True)
    except ValueError:
        return False
    return True


def _content(block: dict[str, Any]) -> types.ContentBlock:
    try:
        return _block.validate_python(block)
    except ValidationError:  # a plugin's own kind of block, or one of a newer protocol
        text = block.get("text")
        kind = block.get("type", "unknown")
        return types.TextContent(type="text", text=text if isinstance(text, str) else f"[content of type {kind}]")
