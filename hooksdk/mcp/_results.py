"""Results of servers' calls, in the form of hooksdk's results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types

from hooksdk.calls import ToolResult
from hooksdk.mcp._relay import OWN_META
from hooksdk.mcp._status import CallFailed

# The key in a result's `meta` for the code and the data of an error that a server answered instead of a result.
ERROR = "hooksdk/error"
# The key in a block's `_meta` for the role of a prompt's message.
ROLE = "hooksdk/role"
# Seconds by which a tool's own time limit is longer than the call's, so that the call's error text wins.
ERROR_MARGIN = 1.0


def failed(failure: CallFailed) -> ToolResult:
    """The result of a failed call. It keeps the code and the data of the server's error, for clients that can act on
    them."""
    error = failure.error
    if error is None:
        return ToolResult.error(str(failure))
    about: dict[str, Any] = {"code": error.code}
    if error.data is not None:
        about["data"] = error.data
    return ToolResult(str(failure), is_error=True, meta={ERROR: about})


def own_meta_left_out(meta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The `_meta` of a result without the protocol's own entries, which are about one connection."""
    return {key: value for key, value in (meta or {}).items() if not key.startswith(OWN_META)} or None


def to_result(answer: types.CallToolResult) -> ToolResult:
    """The result with the content of an answer. Its text describes blocks that are no text, for models that only read
    text."""
    blocks = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in answer.content]
    texts = [plain_text(block) for block in blocks]
    if not blocks and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
    if not blocks and not texts and answer.is_error:
        texts = ["The tool reported an error, without a text."]
    plain = all(block.keys() == {"type", "text"} for block in blocks) and len(blocks) < 2
    return ToolResult(
        "\n".join(texts),
        is_error=answer.is_error,
        blocks=() if plain else blocks,
        structured=answer.structured_content,
        meta=own_meta_left_out(answer.meta),
    )


def plain_text(block: dict[str, Any]) -> str:
    """The text for a block where only text can be read."""
    kind = block["type"]
    if kind == "text":
        return block["text"]
    if kind == "resource_link":
        return f"[resource {block['uri']}: {block.get('title') or block['name']}]"
    inner: dict[str, Any] = block.get("resource", block)
    if "text" in inner:
        return inner["text"]
    size = len(inner.get("data", inner.get("blob", ""))) * 3 // 4
    uri = f" {inner['uri']}" if "uri" in inner else ""
    return f"[{kind}{uri}, {inner.get('mimeType', 'unknown type')}, {size:,} bytes]"
