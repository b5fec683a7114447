"""OpenAI's chat messages, on their way into another format."""

from __future__ import annotations

from hooksdk.calls import ToolCall
from hooksdk.formats import Message
from hooksdk.formats.content import prose
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.histories._draft import Draft, call_block, openai_block, text_block
from hooksdk.histories._source import Source, checked
from hooksdk.values import JsonObject, as_list, as_object

_FORM = OpenAIChat()
# What replies of some servers have besides.
_LEFT_OUT = {"reasoning_content": "reasoning", "reasoning": "reasoning", "audio": "audio that OpenAI keeps under an id"}


def recognise(source: Source) -> str:
    """Why this looks like OpenAI's chat messages, which is what remains for plain text too."""
    for index, item in enumerate(source.items):
        if isinstance(item.get("role"), str):
            return f"{source.place(index)} is a message with a 'role', and nothing speaks for another format"
    return ""


def convert(source: Source, draft: Draft) -> None:
    """Message by message."""
    for index, message in enumerate(checked(source, _FORM)):
        role, content = message["role"], message.get("content")
        draft.lose("names of speakers", isinstance(message.get("name"), str) and role not in ("tool", "function"))
        if role in ("system", "developer"):
            draft.system(prose(content))
        elif role == "user":
            draft.user(_blocks(content, draft))
        elif role == "assistant":
            _reply(message, draft)
        for result in _FORM.results(message):
            text = content if isinstance(content, str) else _blocks(content, draft)
            name = str(message.get("name") or "")
            draft.result(result.call_id, text, is_error=result.is_error, name=name, place=source.place(index))


def _reply(message: Message, draft: Draft) -> None:
    blocks = _blocks(message.get("content"), draft)
    if isinstance(message.get("refusal"), str):
        blocks.append(text_block(message["refusal"]))
    for key, what in _LEFT_OUT.items():
        draft.lose(f"{what} of a reply", bool(message.get(key)))
    if any("custom" in as_object(call) for call in as_list(message.get("tool_calls"))):
        draft.note("a custom tool's call is a function's here, with its text under 'input'")
    calls: list[ToolCall] = _FORM.calls(message)
    draft.reply([*blocks, *(call_block(call.id, call.name, call.arguments) for call in calls)])


def _blocks(content: object, draft: Draft) -> list[JsonObject]:
    if isinstance(content, str):
        return [text_block(content)]
    blocks: list[JsonObject] = []
    for part in map(as_object, as_list(content)):
        file = as_object(part.get("file"))
        if (block := openai_block(part)) is not None:
            blocks.append(block)
        elif file:
            draft.lose("files that OpenAI keeps under an id, named in the text")
            blocks.append(text_block(f"[file {file.get('filename') or file.get('file_id') or ''}]"))
        else:
            draft.lose(f"parts of type '{part.get('type')}'")
    return blocks
