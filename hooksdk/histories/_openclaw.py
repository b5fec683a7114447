"""OpenClaw's sessions, and those of the pi agent that it is built on: `toolCall` blocks, and `toolResult` messages."""

from __future__ import annotations

from typing import Any

from hooksdk.histories._draft import Draft, call_block, json_text, media_block, text_block
from hooksdk.histories._source import Source
from hooksdk.values import JsonObject, as_list, as_object

# Types of lines that a model reads; others are settings.
_ENTRIES = ("message", "compaction", "branch_summary", "custom_message")
_SUMMARIES = ("compactionSummary", "branchSummary")


def recognise(source: Source) -> str:
    """Why this looks like one."""
    for index, item in enumerate(source.items):
        message = as_object(item.get("message")) if item.get("type") == "message" else item
        if message.get("role") == "toolResult" or (message is not item and "role" in message):
            return f"{source.place(index)} is {'an entry of type message' if message is not item else 'a toolResult'}"
        if any(as_object(block).get("type") == "toolCall" for block in as_list(message.get("content"))):
            return f"{source.place(index)} has a 'toolCall' block"
    return ""


def convert(source: Source, draft: Draft) -> None:
    """The newest branch, with the last compaction in the place of what it stands for."""
    path = _path(source, draft)
    compaction = next((index for index in reversed(path) if source.items[index].get("type") == "compaction"), None)
    if compaction is not None:
        entry = source.items[compaction]
        ids = [source.items[index].get("id") for index in path]
        first = entry.get("firstKeptEntryId")
        start = ids.index(first) if first in ids else path.index(compaction)
        draft.lose("lines that a compaction stands for", start)
        path = [compaction, *(index for index in path[start:] if index != compaction)]
    for index in path:
        item = source.items[index]
        entry_type = item.get("type")
        if "role" in item:
            _message(source, index, item, draft)
        elif entry_type == "message":
            _message(source, index, source.need(index, "message", dict, "a 'message' object"), draft)
        elif entry_type in ("compaction", "branch_summary"):
            draft.user(json_text(item.get("summary")))
        elif entry_type == "custom_message":
            draft.user(_content(item.get("content"), draft))
        elif isinstance(entry_type, str):
            draft.lose(f"lines of type '{entry_type}'")
        else:
            raise source.wrong(index, "a message with a 'role', or an entry with a 'type'")


def _path(source: Source, draft: Draft) -> list[int]:
    """The positions of the newest branch; all where the file is no tree."""
    items = source.items
    position_of = {str(item["id"]): index for index, item in enumerate(items) if "parentId" in item and item.get("id")}
    if not position_of:
        return list(range(len(items)))
    path: dict[int, None] = {}
    position: int | None = max(position_of.values())
    while position is not None and position not in path:
        path[position] = None
        parent = items[position].get("parentId")
        if parent is not None and str(parent) not in position_of:
            draft.note(f"{source.place(position)} names a parent that is not there: what stood before it is left out")
        position = position_of.get(str(parent))
    read = sum(item.get("type") in _ENTRIES for item in items)
    kept = sum(items[index].get("type") in _ENTRIES for index in path)
    draft.lose("lines of branches that were given up", read - kept)
    return [*reversed(path)]


def _message(source: Source, index: int, message: JsonObject, draft: Draft) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        if message.get("stopReason") in ("error", "aborted"):
            draft.lose("replies that were broken off, with the results of their calls")
            return
        draft.reply(_reply(message, draft))
    elif role == "toolResult":
        call_id, name = str(message.get("toolCallId") or ""), str(message.get("toolName") or "")
        is_error, place = message.get("isError") is True, source.place(index)
        draft.result(call_id, _content(content, draft), is_error=is_error, name=name, place=place)
    elif role == "bashExecution":
        draft.user(f"Ran `{message.get('command')}`:\n{message.get('output') or '(no output)'}")
    elif role in _SUMMARIES:
        draft.user(json_text(message.get("summary")))
    elif role == "system":
        draft.system(json_text(content))
    elif role in ("user", "custom", "hookMessage"):
        draft.user(_content(content, draft))
    else:
        raise source.wrong(index, f"a message of role user, assistant or toolResult, not {role!r}")


def _reply(message: JsonObject, draft: Draft) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    is_signed = message.get("api") == "anthropic-messages"
    for block in _content(message.get("content"), draft, keep=("toolCall", "thinking")):
        if block.get("type") == "toolCall":
            blocks.append(call_block(block.get("id"), block.get("name"), block.get("arguments")))
        elif block.get("type") != "thinking":
            blocks.append(block)
        elif is_signed and block.get("thinkingSignature") and not block.get("redacted"):
            signature = block["thinkingSignature"]
            blocks.append({"type": "thinking", "thinking": block.get("thinking"), "signature": signature})
        else:
            draft.lose("thinking that Anthropic's API did not sign")
    return blocks


def _content(content: object, draft: Draft, keep: tuple[str, ...] = ()) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    parts: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else as_list(content)
    for block in map(as_object, parts):
        if block.get("type") in keep:
            blocks.append(block)
        elif block.get("type") == "text":
            blocks.append(text_block(str(block.get("text", ""))))
        elif block.get("type") == "image":
            blocks.append(media_block(str(block.get("mimeType", "")), data=str(block.get("data", ""))))
        else:
            draft.lose(f"{block.get('type')} blocks")
    return blocks
