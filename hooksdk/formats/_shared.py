"""What both message formats need: parts of content in words, text that can be sent, and schemas that providers accept."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hooksdk import schema
from hooksdk._schema.provider import provider_schema
from hooksdk._schema.values import JsonObject, as_list, as_object, is_list, is_object
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.tools import Tool

NO_MESSAGE = "The tool failed without a message."
"""Stands where an error result has no text; an empty error is refused by Anthropic and tells a model nothing."""


def kind(value: object) -> str:
    """The JSON type of a value in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if is_object(value) else "a list" if is_list(value) else type(value).__name__


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be encoded: each becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json(value: object) -> str:
    """A value as JSON text that can be sent."""
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def make_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call from whatever a message says. What cannot be copied becomes text that no tool takes for arguments."""
    id_text = call_id if isinstance(call_id, str) else ""
    name_text = name if isinstance(name, str) else ""
    try:
        return ToolCall(id_text, name_text, arguments)
    except schema.Uncloneable as error:
        return ToolCall(id_text, name_text, f"<arguments that cannot be read: {error}>")


def describe(part: object) -> str:
    """A part of content that is not text, named: `[image image/png, 12,345 characters]`."""
    block = as_object(part)
    if not block:
        return f"[{kind(part)} where a part was expected]"
    name = block.get("type")
    inner = as_object(block.get("resource")) or as_object(block.get("source")) or as_object(block.get("input_audio"))
    url = _first_text(as_object(block.get("image_url")), keys=("url",))
    is_data = url.startswith("data:")
    title = _first_text(block, inner, keys=("uri", "title", "tool_name", "filename"))
    if not title and not is_data:
        title = url
    media = _first_text(block, inner, keys=("mimeType", "media_type", "format"))
    if is_data and not media:
        media = url[5:].split(";", 1)[0].split(",", 1)[0]
    size = len(_first_text(block, inner, keys=("data", "blob"))) or (len(url) if is_data else 0)
    size = size or sum(len(_text_of(each)) for each in as_list(block.get("content")))
    words = " ".join(word for word in (name if isinstance(name, str) else "part", title, media) if word)
    return f"[{words}, {size:,} characters]" if size else f"[{words}]"


def _first_text(*blocks: JsonObject, keys: Iterable[str]) -> str:
    found = (block.get(key) for key in keys for block in blocks)
    return next((value for value in found if isinstance(value, str) and value), "")


def reading(content: object) -> str:
    """What a model reads of a result's content: text as it is, the parts of a list by line, other parts named."""
    if isinstance(content, str):
        return content
    if is_list(content):
        return "\n".join(_text_of(part) if _is_text(part) else describe(part) for part in content)
    return "" if content is None else describe(content)


def prose(content: object) -> str:
    """The text of a message's content, without everything else."""
    if isinstance(content, str):
        return content
    return "\n".join(text for part in as_list(content) if _is_text(part) and (text := _text_of(part)))


def _is_text(part: object) -> bool:
    return isinstance(part, str) or as_object(part).get("type") == "text"


def _text_of(part: object) -> str:
    text = part if isinstance(part, str) else as_object(part).get("text")
    return text if isinstance(text, str) else ""


def marks(content: object) -> JsonObject:
    """The cache mark inside a list of content, for the one part that takes the list's place."""
    found = [as_object(part)["cache_control"] for part in as_list(content) if "cache_control" in as_object(part)]
    return {"cache_control": found[-1]} if found else {}


def pieces(result: ToolResult) -> list[str | JsonObject]:
    """A result as text and MCP blocks, in their order. `structured` comes as JSON text when there is no text."""
    found: list[str | JsonObject] = []
    texts: list[str] = []
    for block in result.blocks:
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
            found.append(texts[-1])
        else:
            found.append(block)
    if "\n".join(texts) != result.text:
        found = [result.text, *(piece for piece in found if not isinstance(piece, str))]
    if not result.text and result.structured is not None:
        found = [*(piece for piece in found if piece), to_json(result.structured)]
    return found


def shown(piece: str | JsonObject) -> str:
    """A piece of a result as text: other content is named, and the text of an embedded resource follows its name."""
    if isinstance(piece, str):
        return clean(piece)
    text = as_object(piece.get("resource")).get("text")
    return clean(f"{describe(piece)}\n{text}" if isinstance(text, str) else describe(piece))


def sound(value: Any) -> Any:
    """A JSON value whose text can be encoded; the value itself where it can be already."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _sound(value)
    return value


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if is_list(value):
        return [_sound(each) for each in value]
    return {clean(key): _sound(each) for key, each in value.items()} if is_object(value) else value


def parameters_for(tool: Tool) -> JsonObject:
    """A tool's schema in a shape that both providers accept."""
    return sound(provider_schema(tool.parameters or {}))
