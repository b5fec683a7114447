"""Histories in a format of ours: nothing is changed in them that a provider takes."""

from __future__ import annotations

from itertools import pairwise

from hooksdk.formats import Message, MessageFormat, get_format
from hooksdk.formats.content import prose
from hooksdk.formats.kit import encodable
from hooksdk.formats.sending import refusals, sendable
from hooksdk.histories._draft import Draft
from hooksdk.histories._source import HistoryError, Source
from hooksdk.histories._turns import text_block
from hooksdk.transcript import MismatchError, check_message, pair_results, without_loose_ends
from hooksdk.values import JsonObject, as_list, as_object

_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document")


def recognise_anthropic(source: Source) -> str:
    """Why this looks like Anthropic's messages."""
    for index, item in enumerate(source.items):
        for block in map(as_object, as_list(item.get("content"))):
            if block.get("type") in _BLOCKS or (block.get("type") == "image" and "source" in block):
                return f"{source.place(index)} has a '{block['type']}' block"
    if "system" in source.head and "role" in source.items[0]:
        return "it has a 'system' beside the messages"
    return ""


def recognise_openai(source: Source) -> str:
    """Why this looks like OpenAI's chat messages, which is what remains for plain text too."""
    for index, item in enumerate(source.items):
        if isinstance(item.get("role"), str):
            return f"{source.place(index)} is a message with a 'role', and nothing speaks for another format"
    return ""


def as_they_are(source: Source, target: str, notes: list[str]) -> list[Message]:
    """The messages themselves, with a result for each call. Raises `HistoryError` with the place of one that is wrong."""
    form = get_format(target)
    messages = checked(source, form)
    try:
        tied = without_loose_ends(messages, form)
        whole = pair_results(tied, form)
    except MismatchError as error:
        raise _wrong(source, error) from None
    if len(tied) < len(messages):
        notes.append(f"left out: reasoning of replies that were cut off ({len(messages) - len(tied)})")
    if missing := len(whole) - len(tied):
        notes.append(f"put in: an error result for each call that had none ({missing} messages)")
    if target == "anthropic" and _apart(whole, form):
        draft = Draft(target)
        for message in whole:
            put(draft, message)
        notes += ["the results of each reply are put into one message", *draft.notes]
        whole = draft.messages()
    if refused := [f"message {at}: {why}" for at, why in refusals(whole, form)]:
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        notes.append(f"mended what the provider would refuse ({refused[0]}{more})")
        whole = sendable(whole, form)
    for key in ("system", "instructions", "systemInstruction", "system_instruction"):
        if not source.head.get(key):
            continue
        if key == "system" and target == "anthropic":
            notes.append("the 'system' beside the messages is the first message here")
            whole.insert(0, {"role": "system", "content": source.head[key]})
        else:
            notes.append(f"left out: '{key}' beside the messages, which belongs into the request")
    return whole


def checked(source: Source, form: MessageFormat) -> list[Message]:
    """The items as messages of the format. Raises `HistoryError` with the place of one that is none."""
    try:
        return [check_message(encodable(message), form, index) for index, message in enumerate(source.items)]
    except MismatchError as error:
        raise _wrong(source, error) from None


def _wrong(source: Source, error: MismatchError) -> HistoryError:
    return HistoryError(source.place(error.position), str(error), "Correct this item, or name another format")


def convert_anthropic(source: Source, draft: Draft) -> None:
    """Message by message, what stands beside them first."""
    system = source.head.get("system")
    draft.system(system if isinstance(system, str) else prose(system))
    for index, message in enumerate(checked(source, get_format("anthropic"))):
        put(draft, message, place=source.place(index))


def _apart(messages: list[Message], form: MessageFormat) -> bool:
    """Whether results of one reply stand in several messages."""
    return any(form.results(one) and form.results(other) for one, other in pairwise(messages))


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
        draft.system("\n".join(str(block.get("text", "")) for block in others))
    else:
        draft.user(others)
