"""pydantic-ai's messages as `ModelMessagesTypeAdapter` writes them."""

from __future__ import annotations

from typing import Any

from hooksdk.histories._draft import Draft, call_block, json_text, media_block, text_block
from hooksdk.histories._source import Source
from hooksdk.values import JsonObject, as_list, as_object, is_list

_KINDS = ("request", "response")
_ANTHROPIC = "anthropic"


def recognise(source: Source) -> str:
    """Why this looks like one."""
    for index, item in enumerate(source.items):
        if item.get("kind") in _KINDS and isinstance(item.get("parts"), list):
            return f"{source.place(index)} is of kind '{item['kind']}' with 'parts'"
    return ""


def is_by_anthropic(source: Source) -> bool:
    """True if a model of Anthropic's wrote the replies."""
    return any(item.get("provider_name") == _ANTHROPIC for item in source.items)


def convert(source: Source, draft: Draft) -> None:
    """Part by part; the newest instructions become the system message that they are sent as."""
    instructions = [item["instructions"] for item in source.items if isinstance(item.get("instructions"), str)]
    if instructions:
        draft.system(instructions[-1])
        draft.lose("earlier instructions, which newer ones replaced", len(set(instructions[:-1]) - {instructions[-1]}))
    for index, item in enumerate(source.items):
        parts = [as_object(part) for part in source.need(index, "parts", list, "a message with 'kind' and 'parts'")]
        if item.get("kind") == "response":
            draft.reply([block for part in parts for block in _response(part, draft)])
        elif item.get("kind") == "request":
            for part in parts:
                _request(part, source.place(index), draft)
        else:
            raise source.wrong(index, "a message of kind 'request' or 'response'")


def _response(part: JsonObject, draft: Draft) -> list[JsonObject]:
    part_kind = part.get("part_kind")
    if part_kind == "text":
        return [text_block(json_text(part.get("content")))]
    if part_kind == "tool-call":
        return [call_block(part.get("tool_call_id"), part.get("tool_name"), part.get("args"))]
    if part_kind == "thinking" and part.get("signature") and part.get("provider_name") == _ANTHROPIC:
        return [{"type": "thinking", "thinking": part.get("content"), "signature": part["signature"]}]
    draft.lose(f"parts of kind '{part_kind}'")
    return []


def _request(part: JsonObject, place: str, draft: Draft) -> None:
    part_kind, content = part.get("part_kind"), part.get("content")
    call_id, name = str(part.get("tool_call_id") or ""), str(part.get("tool_name") or "")
    if part_kind == "system-prompt":
        draft.system(json_text(content))
    elif part_kind == "user-prompt":
        draft.user(content if isinstance(content, str) else _blocks(content))
    elif part_kind == "tool-return":
        is_error = part.get("outcome", "success") != "success"
        draft.result(call_id, _returned(content), is_error=is_error, name=name, place=place)
    elif part_kind == "retry-prompt" and name:
        draft.result(call_id, json_text(content), is_error=True, name=name, place=place)
    elif part_kind in ("retry-prompt", "retry-feedback"):
        draft.user(json_text(content))
    else:
        draft.lose(f"parts of kind '{part_kind}'")


def _returned(content: object) -> Any:
    """What a tool returned: JSON, but for images and files."""
    parts: list[Any] = as_list(content) if is_list(content) else [content]
    return _blocks(parts) if any(_media(part) for part in parts) else json_text(content)


def _blocks(content: object) -> list[JsonObject]:
    return [_media(part) or text_block(_text_of(part)) for part in as_list(content)]


def _text_of(part: object) -> str:
    text = as_object(part).get("content")
    return text if isinstance(text, str) and "kind" in as_object(part) else json_text(part)


def _media(part: object) -> JsonObject | None:
    block = as_object(part)
    media_type, data, url = str(block.get("media_type") or ""), block.get("data"), block.get("url")
    if block.get("kind") == "binary" and isinstance(data, str):
        return media_block(media_type, data=data)
    is_address = str(block.get("kind")).endswith("-url") and isinstance(url, str)
    return media_block(media_type, url=str(url)) if is_address else None
