"""OpenAI's Chat Completions messages, which most other providers and local servers speak too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats._base import FoundResult, Message, ProviderJson
from hooksdk.formats.content import cache_marks, content_text, kind_in_words, prose
from hooksdk.formats.kit import (
    SAYS_ERROR,
    clean_text,
    fitting_id,
    for_call,
    make_call,
    named,
    parameters_for,
    text_with_error,
    to_json,
    with_arguments,
    with_context,
)
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["OpenAIChat"]

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ANSWERS = ("tool", "function")
_INSTEAD = {"tool_calls", "function_call", "refusal", "audio"}
"""What a reply may have instead of content."""
_PARTS = ("text", "refusal", "image_url", "input_audio", "file")
"""Types of parts inside a result that a trim may replace."""
_FOREIGN = ("tool_use", "tool_result")
_THINKING = ("thinking", "redacted_thinking", "reasoning")
_MOST_IN_ID = 40
"""Characters of a call's id: https://github.com/agno-agi/agno/issues/5382. OpenAI itself was seen to take more since
(https://github.com/vercel/ai/pull/17233); others that speak this format do not."""
_LEGACY = "function_call:"
"""Starts the id of a call in the deprecated `function_call` form, which has none: the function's name follows."""


class OpenAIChat:
    """Each result is a message of role `tool`; its content is text, so other content becomes a short description.

    The API has no error flag: an error begins with "Error:". A call in the deprecated `function_call` form goes by the
    id `function_call:NAME` and is answered by a message of role `function`. A custom call's text stands in
    `{"input": text}`.
    """

    name: str = "openai-chat"
    grouped: bool = False
    joined: bool = False
    wants_unique_ids: bool = False
    """OpenAI's models were seen to use an id again; servers that hand the messages to another provider refuse it."""

    def check(self, message: object) -> str | None:
        """Why this is not a message of the format, or None. A tool message may have no content: servers differ."""
        if not is_object(message):
            return f"a message must be an object with a 'role', not {kind_in_words(message)}"
        role = message.get("role")
        if role not in _ROLES:
            what = f"'{role}'" if isinstance(role, str) else "missing" if role is None else kind_in_words(role)
            return f"a message needs a 'role' of {', '.join(_ROLES)}; it is {what}"
        if role == "tool" and not isinstance(message.get("tool_call_id"), str):
            return "a message of role 'tool' needs a 'tool_call_id': the id of the call that it answers"
        if role == "function" and not isinstance(message.get("name"), str):
            return "a message of role 'function' needs a 'name': the function that it answers"
        return _check_content(role, message.get("content")) or (_check_calls(message) if role == "assistant" else None)

    def is_reply(self, message: Message) -> bool:
        return message.get("role") == "assistant"

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        return None if call_id.startswith(_LEGACY) else fitting_id(call_id, suffix, most=_MOST_IN_ID)

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        if not self.is_reply(message):
            return {**message, "tool_call_id": ids[0]} if message.get("role") == "tool" else message
        tool_calls = named(
            as_list(message.get("tool_calls")),
            ids,
            lambda call, call_id: {**call, "id": call_id} if as_object(call) else None,
        )
        return {**message, "tool_calls": tool_calls} if tool_calls else message

    def mend(self, message: Message) -> tuple[Message, str]:
        """No list may be empty (https://github.com/openai/openai-node/pull/1341), a reply needs content or calls, a result
        content, and thinking has no place: the API names the types of parts that it takes."""
        mended, why = dict(message), ""
        if is_list(message.get("tool_calls")) and not message["tool_calls"]:
            del mended["tool_calls"]
            why = "its 'tool_calls' are an empty list"
        content = message.get("content")
        if is_list(content):
            parts = [part for part in as_list(content) if as_object(part).get("type") not in _THINKING]
            if len(parts) < len(content):
                mended["content"], why = parts, "it has thinking, which this format has no part for"
            if not parts:
                content, why = None, why or "its content is an empty list"
        if content is None and not any(mended.get(key) for key in _INSTEAD):
            mended["content"], why = "", why or "it has no content"
        elif content is None and is_list(mended.get("content")):
            mended["content"] = None
        return (mended, why) if why else (message, "")

    def opening(self, first: Message) -> Message | None:
        """None: any may come first."""
        del first

    def calls(self, message: Message) -> list[ToolCall]:
        if not self.is_reply(message):
            return []
        calls: list[ToolCall] = []
        for each in as_list(message.get("tool_calls")):
            call = as_object(each)
            if is_object(call.get("custom")):
                custom = as_object(call["custom"])
                calls.append(make_call(call.get("id"), custom.get("name"), {"input": custom.get("input")}))
            elif call:
                function = as_object(call.get("function"))
                calls.append(make_call(call.get("id"), function.get("name"), function.get("arguments")))
        legacy = as_object(message.get("function_call"))
        if legacy:
            calls.append(make_call(f"{_LEGACY}{legacy.get('name')}", legacy.get("name"), legacy.get("arguments")))
        return calls

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        def changed(each: Any, texts: Mapping[str, str]) -> Any | None:
            call = as_object(each)
            if not call or not texts:
                return each if call else None
            if is_object(call.get("custom")):
                return {**call, "custom": {**call["custom"], **texts}}
            return {**call, "function": _with_arguments(as_object(call.get("function")), texts)}

        calls = as_list(message.get("tool_calls"))
        if index < sum(bool(as_object(each)) for each in calls):
            return {**message, "tool_calls": named(calls, for_call(index, arguments), changed)}
        return {**message, "function_call": _with_arguments(as_object(message.get("function_call")), arguments)}

    def results(self, message: Message) -> list[FoundResult]:
        role = message.get("role")
        if role not in _ANSWERS:
            return []
        call_id = message.get("tool_call_id") if role == "tool" else f"{_LEGACY}{message.get('name')}"
        content = message.get("content")
        text = content_text(content)
        return [
            FoundResult(
                call_id=call_id if isinstance(call_id, str) else "",
                index=0,
                text=text,
                content=content,
                is_error=SAYS_ERROR.match(text) is not None,
                why_not=_why_not(content),
            )
        ]

    def replace(self, message: Message, index: int, text: str) -> Message:
        """A copy of the message in which its result reads `text`; content that is null becomes text, too."""
        if index != 0 or message.get("role") not in _ANSWERS:
            raise IndexError(f"this message of role {message.get('role')!r} has no result number {index}")
        content = message.get("content")
        text = clean_text(text)
        as_part = is_list(content)
        return {
            **message,
            "content": [{"type": "text", "text": text, **cache_marks(content)}] if as_part else text,
        }

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        return [_answer(call, text_with_error(result)) for call, result in answered]

    def add_context(self, messages: Sequence[Message], text: str) -> list[Message]:
        return with_context(self, messages, text, _with_context)

    def user(self, text: str) -> Message:
        return {"role": "user", "content": clean_text(text)}

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A message of the model, as the API returns it: content is null where there are only calls."""
        if not calls:
            return {"role": "assistant", "content": clean_text(text)}
        tool_calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _as_text(call.arguments)}}
            for call in calls
        ]
        return {"role": "assistant", "content": clean_text(text) or None, "tool_calls": tool_calls}

    def reply_messages(self, text: str, calls: Sequence[ToolCall] = ()) -> list[Message]:
        return [self.reply(text, calls)]

    def text(self, message: Message) -> str:
        if message.get("role") in _ANSWERS:
            return ""
        text = prose(message.get("content"))
        return text or next((each for each in _refusals(message) if isinstance(each, str)), "")

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        return [
            {
                "type": "function",
                "function": {
                    "name": clean_text(tool.name),
                    "description": clean_text(tool.description),
                    "parameters": parameters_for(tool),
                },
            }
            for tool in tools
        ]


def _with_arguments(function: dict[str, Any], arguments: Mapping[str, str]) -> dict[str, Any]:
    return {**function, "arguments": with_arguments(function.get("arguments"), arguments)}


def _check_content(role: str, content: object) -> str | None:
    if content is None:
        return f"a message of role '{role}' needs 'content'" if role in ("system", "developer", "user") else None
    if isinstance(content, str):
        return None
    if not is_list(content):
        return f"'content' must be text or a list of parts, not {kind_in_words(content)}"
    for number, part in enumerate(as_list(content)):
        part_type = as_object(part).get("type")
        if not isinstance(part_type, str):
            return f"content[{number}] must be an object with a 'type', like {{'type': 'text', 'text': ...}}"
        if part_type == "text" and not isinstance(part.get("text"), str):
            return f"content[{number}].text must be text, not {kind_in_words(part.get('text'))}"
        if part_type in _FOREIGN:
            return f"content[{number}] is a {part_type} block: this is a message of the format 'anthropic'"
    return None


def _check_calls(message: Message) -> str | None:
    tool_calls = message.get("tool_calls")
    if tool_calls is not None and not is_list(tool_calls):
        return f"'tool_calls' must be a list, not {kind_in_words(tool_calls)}"
    for number, each in enumerate(as_list(tool_calls)):
        place, call = f"tool_calls[{number}]", as_object(each)
        if not isinstance(call.get("id"), str):
            return f"{place} needs an 'id' of text"
        word = "custom" if call.get("type") == "custom" or "custom" in call else "function"
        if not isinstance(as_object(call.get(word)).get("name"), str):
            return f"{place} needs a '{word}' object with a 'name'"
        arguments = call[word].get("arguments", call[word].get("input"))
        if not isinstance(arguments, (str, dict, type(None))):
            return f"{place}.{word}: the arguments must be JSON text, not {kind_in_words(arguments)}"
    legacy = message.get("function_call")
    if legacy is not None and not isinstance(as_object(legacy).get("name"), str):
        return "'function_call' must be an object with a 'name'"
    return None


def _why_not(content: object) -> str | None:
    if content is None or isinstance(content, str):
        return None
    if not is_list(content):
        return f"its content is {kind_in_words(content)}, which is no content of this format"
    types = [as_object(part).get("type") for part in as_list(content)]
    return next(
        (f"it holds a part of a type that is not known: {each!r}" for each in types if each not in _PARTS), None
    )


def _answer(call: ToolCall, content: str) -> Message:
    if call.id.startswith(_LEGACY):
        return {"role": "function", "name": call.id.removeprefix(_LEGACY), "content": content}
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def _with_context(message: Message, text: str) -> Message | None:
    return {**message, "content": _longer(message.get("content"), text)} if message.get("role") == "user" else None


def _longer(content: object, text: str) -> Any:
    if is_list(content):
        return [*as_list(content), {"type": "text", "text": text}]
    return f"{content}\n\n{text}" if isinstance(content, str) and content else text


def _as_text(arguments: object) -> str:
    return clean_text(arguments) if isinstance(arguments, str) else to_json({} if arguments is None else arguments)


def _refusals(message: Message) -> list[Any]:
    parts = [as_object(part).get("refusal") for part in as_list(message.get("content"))]
    return [message.get("refusal"), *parts]
