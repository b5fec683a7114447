"""Anthropic's messages, on their way into another format."""

from __future__ import annotations

from hooksdk.formats.anthropic import Anthropic
from hooksdk.formats.content import prose
from hooksdk.histories._draft import Draft, text_block
from hooksdk.histories._source import Source, checked
from hooksdk.values import JsonObject, as_list, as_object

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document")


def recognise(source: Source) -> str:
    """Why this looks like Anthropic's messages."""
    for index, item in enumerate(source.items):
        for block in map(as_object, as_list(item.get("content"))):
            if block.get("type") in _BLOCKS or (block.get("type") == "image" and "source" in block):
                return f"{source.place(index)} has a '{block['type']}' block"
    if "system" in source.head and "role" in source.items[0]:
        return "it has a 'system' beside the messages"
    return ""


def convert(source: Source, draft: Draft) -> None:
    """Message by message, what stands beside them first."""
    system = source.head.get("system")
    draft.system(system if isinstance(system, str) else prose(system))
    for index, message in enumerate(checked(source, Anthropic())):
        put(draft, message, place=source.place(index))


def put(draft: Draft, message: JsonObject, key: str = "", place: str = "") -> None:
    """Take one of Anthropic's messages into a draft."""
    content, role = message.get("content"), message.get("role")
    blocks = [text_block(content)] if isinstance(content, str) else [as_object(block) for block in as_list(content)]
    if role == "assistant":
        draft.reply(blocks, key)
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            is_error = block.get("is_error") is True
            draft.result(str(block.get("tool_use_id")), block.get("content"), is_error=is_error, place=place)
    others = [block for block in blocks if block.get("type") != "tool_result"]
    if role == "system":
        if any(block.get("type") in ("tool_addition", "tool_removal") for block in others):
            draft.lose("tools that a message adds or removes")
        draft.system(prose(others))
    else:
        draft.user(others)
