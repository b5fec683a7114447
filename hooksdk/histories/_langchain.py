"""LangChain's messages as `messages_to_dict`, `dumpd` or `model_dump` write them."""

from __future__ import annotations

from typing import Any

from hooksdk.formats.content import prose
from hooksdk.histories._draft import Draft, call_block, media_block, text_block
from hooksdk.histories._source import Source
from hooksdk.values import JsonObject, as_list, as_object, is_object

# Who speaks, by the type of a message; the type of a chunk is such as `AIMessageChunk`.
_TYPES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "function",
    "chat": "chat",
    "remove": "remove",
}
# Blocks that say again what `tool_calls` says.
_CALLS = ("tool_use", "tool_call", "function_call", "input_json_delta", "invalid_tool_call")


def recognise(source: Source) -> str:
    """Why this looks like one."""
    for index, item in enumerate(source.items):
        message_type, data = _read(item)
        if _speaker(message_type) and "content" in data and ("role" not in item or message_type == "chat"):
            return f"{source.place(index)} is a message of type '{message_type}' with 'content'"
    return ""


def is_by_anthropic(source: Source) -> bool:
    """True if a model of Anthropic's wrote the replies."""
    for item in source.items:
        _, data = _read(item)
        types = {str(as_object(block).get("type")) for block in as_list(data.get("content"))}
        by_anthropic = as_object(data.get("response_metadata")).get("model_provider") == "anthropic"
        if by_anthropic or not types.isdisjoint({"tool_use", "thinking"}):
            return True
    return False


def _read(item: JsonObject) -> tuple[str, JsonObject]:
    data = as_object(item.get("kwargs")) if item.get("lc") else as_object(item.get("data")) or item
    return str(item.get("type") if is_object(item.get("data")) else data.get("type")), data


def _speaker(message_type: str) -> str | None:
    return _TYPES.get(message_type.removesuffix("MessageChunk").lower())


def convert(source: Source, draft: Draft) -> None:
    """Message by message; what libraries keep for themselves (ids, artifacts, metadata) is left out."""
    for index, item in enumerate(source.items):
        message_type, data = _read(item)
        speaker = str(data.get("role")) if message_type == "chat" else _speaker(message_type)
        if speaker is None or "content" not in data:
            raise source.wrong(index, "a message of messages_to_dict: 'type' (human, ai, system, tool) and 'data'")
        place, content = source.place(index), data.get("content")
        draft.lose("artifacts of results, which the model never saw", data.get("artifact") is not None)
        if speaker in ("tool", "function"):
            call_id, name = str(data.get("tool_call_id") or ""), str(data.get("name") or "")
            result = content if isinstance(content, str) else _blocks(content, draft)
            draft.result(call_id, result, is_error=data.get("status") == "error", name=name, place=place)
        elif speaker in ("assistant", "ai"):
            draft.reply([*_blocks(content, draft, reply=True), *_calls(data)])
            draft.lose("calls that LangChain could not read", len(as_list(data.get("invalid_tool_calls"))))
        elif speaker in ("system", "developer"):
            draft.system(prose(_blocks(content, draft)))
        elif speaker == "remove":
            draft.lose("orders to remove a message, which are not carried out")
        else:
            draft.user(_blocks(content, draft))


def _calls(data: JsonObject) -> list[JsonObject]:
    calls = [as_object(call) for call in as_list(data.get("tool_calls"))]
    blocks = [call_block(call.get("id"), call.get("name"), call.get("args")) for call in calls]
    older = as_object(as_object(data.get("additional_kwargs")).get("function_call"))
    return [call_block(None, older.get("name"), older.get("arguments"))] if older and not blocks else blocks


def _blocks(content: object, draft: Draft, *, reply: bool = False) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    parts: list[Any] = [content] if isinstance(content, str) else as_list(content)
    for part in parts:
        block = as_object(part)
        block_type = block.get("type")
        if isinstance(part, str) or isinstance(block.get("text"), str):
            blocks.append(text_block(part if isinstance(part, str) else block["text"]))
        elif block_type == "thinking" and block.get("signature") and reply:
            blocks.append({key: block[key] for key in ("type", "thinking", "signature") if key in block})
        elif reply and block_type in _CALLS:
            continue
        elif media := _media(block):
            blocks.append(media)
        else:
            draft.lose(f"blocks of type '{block_type}'")
    return blocks


def _media(block: JsonObject) -> JsonObject | None:
    """An image or a file in one of the shapes that LangChain's integrations know."""
    image = block.get("image_url")
    url = as_object(image).get("url") if is_object(image) else image or block.get("url")
    if block.get("type") in ("image", "document") and is_object(block.get("source")):
        return {key: block[key] for key in ("type", "source", "title") if key in block}
    data = block.get("base64") or (block.get("data") if block.get("source_type") == "base64" else None)
    media_type = str(block.get("mime_type") or ("image/png" if block.get("type") in ("image", "image_url") else ""))
    if not isinstance(data, str) and not isinstance(url, str):
        return None
    return media_block(media_type, data=str(data or ""), url=str(url or ""))
