"""OpenAI's Responses items, which openai-agents' sessions hold too."""

from __future__ import annotations

from typing import Any

from hooksdk.formats.content import prose
from hooksdk.formats.kit import SAYS_ERROR
from hooksdk.formats.openai_responses import OpenAIResponses
from hooksdk.histories._draft import Draft, call_block, json_text, openai_block, text_block
from hooksdk.histories._source import Source
from hooksdk.values import JsonObject, as_list, as_object, is_list

_PARTS = ("input_text", "output_text", "input_image", "input_file")
# Where the types of calls have what the model asked for.
_IN_CALLS = ("arguments", "input", "action", "operation")


def recognise(source: Source) -> str:
    """Why this looks like one."""
    for index, item in enumerate(source.items):
        item_type = str(item.get("type", ""))
        if "call_id" in item or item_type in ("reasoning", "item_reference"):
            return f"{source.place(index)} is a Responses item of type '{item_type}'"
        part = next((each for each in as_list(item.get("content")) if as_object(each).get("type") in _PARTS), None)
        if part is not None:
            return f"{source.place(index)} has a part of type '{part['type']}'"
    return ""


def convert(source: Source, draft: Draft) -> None:
    """Items that follow each other without a result or a user between them are one reply."""
    if isinstance(source.head.get("instructions"), str):
        draft.system(source.head["instructions"])
    if source.head.get("previous_response_id"):
        draft.note("it goes on from a response that OpenAI keeps (previous_response_id), which is not in it")
    reply = 0
    for index, item in enumerate(source.items):
        item_type, role = str(item.get("type") or "message"), item.get("role")
        key = f"reply {reply}"
        if item_type == "message" and role == "assistant":
            draft.reply(_blocks(item.get("content"), draft), key)
        elif item_type == "message" and role in ("system", "developer"):
            draft.system(prose(_blocks(item.get("content"), draft)))
        elif item_type == "message" and role == "user":
            draft.user(_blocks(item.get("content"), draft))
        elif item_type == "mcp_call":
            _mcp_call(item, key, draft)
        elif item_type.endswith("_call") and "call_id" in item:
            arguments: Any = next((item[word] for word in _IN_CALLS if word in item), None)
            arguments = {"input": arguments} if item_type == "custom_tool_call" else arguments
            if item_type == "custom_tool_call":
                draft.note("a custom tool's call is a function's here, with its text under 'input'")
            name = item.get("name") or item_type.removesuffix("_call")
            draft.reply([call_block(item["call_id"], name, arguments)], key)
        elif item_type == "tool_search_output" and "call_id" in item:
            names = OpenAIResponses().references([item])
            text = f"Found: {', '.join(names)}." if names else "No tool was found."
            draft.result(str(item["call_id"]), text, place=source.place(index))
        elif item_type.endswith("_call_output") and "call_id" in item:
            output = item.get("output")
            content = _blocks(output, draft) if is_list(output) else json_text(output)
            is_error = isinstance(content, str) and SAYS_ERROR.match(content) is not None
            draft.result(str(item["call_id"]), content, is_error=is_error, place=source.place(index))
        elif "type" in item and item_type != "message":
            draft.lose(f"items of type '{item_type}'")
        else:
            raise source.wrong(index, "a Responses item: a 'type', or a 'role' of user, assistant, system or developer")
        if item_type.endswith(("_call_output", "_search_output")) or role in ("user", "system", "developer"):
            reply += 1


def _mcp_call(item: JsonObject, key: str, draft: Draft) -> None:
    """OpenAI ran it, so call and result are one item."""
    call_id = str(item.get("id") or key)
    draft.reply([call_block(call_id, item.get("name"), item.get("arguments"))], key)
    error = item.get("error")
    draft.result(call_id, json_text(error or item.get("output")), is_error=error is not None)


def _blocks(content: object, draft: Draft) -> list[JsonObject]:
    if isinstance(content, str):
        return [text_block(content)]
    blocks: list[JsonObject] = []
    for part in map(as_object, as_list(content)):
        if (block := openai_block(part)) is None:
            draft.lose(f"parts of type '{part.get('type')}', which OpenAI keeps under an id")
            block = text_block(f"[{part.get('type')} {part.get('filename') or part.get('file_id') or ''}]")
        blocks.append(block)
    return blocks
