"""OpenAI's Chat Completions messages, which most other providers and local servers speak too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, ProviderJson, kit
from hooksdk.formats import _provider as provider
from hooksdk.formats._provider import ProviderFormat
from hooksdk.formats.content import kind_in_words, prose
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["OpenAIChat"]

# The roles of results.
_ANSWERS = ("tool", "function")
# What a reply may have instead of content.
_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")
# Types of parts inside a result that a trim may replace.
_PARTS = ("text", "refusal", "image_url", "input_audio", "file")
_FOREIGN = {"tool_use": "anthropic", "tool_result": "anthropic"}
# Characters of a call's id: https://github.com/agno-agi/agno/issues/5382. OpenAI itself was seen to take more since
# (https://github.com/vercel/ai/pull/17233); others that speak this format do not.
_MOST_IN_ID = 40
# Starts the id of a call in the deprecated `function_call` form, which has none: the function's name follows.
_LEGACY = "function_call:"


class OpenAIChat(ProviderFormat):
    """Each result is a message of role `tool`; its content is text, so other content becomes a short description.

    The API has no error flag: an error begins with "Error:". A call in the deprecated `function_call` form goes by the
    id `function_call:NAME` and is answered by a message of role `function`. A custom call's text is in `{"input":
    text}`.
    """

    name: str = "openai-chat"
    _roles = ("system", "developer", "user", "assistant", *_ANSWERS)
    # OpenAI's models were seen to use an id again; servers that hand the messages to another provider refuse it.
    wants_unique_ids: bool = False

    def check(self, message: object) -> str | None:
        """Why this is not a message of the format, or None. A tool message may have no content: servers differ."""
        if not is_object(message):
            return provider.no_object(message)
        role, content = message.get("role"), message.get("content")
        if wrong := self._wrong_role(role):
            return wrong
        if role == "tool" and not isinstance(message.get("tool_call_id"), str):
            return "a message of role 'tool' needs a 'tool_call_id': the id of the call that it answers"
        if role == "function" and not isinstance(message.get("name"), str):
            return "a message of role 'function' needs a 'name': the function that it answers"
        if content is None and role in ("system", "developer", "user"):
            return f"a message of role '{role}' needs 'content'"
        wrong = None if content is None else provider.wrong_parts(content, ("text",), _FOREIGN)
        return wrong or (_check_calls(message) if role == "assistant" else None)

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        return None if call_id.startswith(_LEGACY) else kit.fitting_id(call_id, suffix, most=_MOST_IN_ID)

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        def with_id(call: Any, call_id: str) -> Any | None:
            return {**call, "id": call_id} if as_object(call) else None

        if not self.is_reply(message):
            return {**message, "tool_call_id": ids[0]} if message.get("role") == "tool" else message
        tool_calls = kit.named(as_list(message.get("tool_calls")), ids, with_id)
        return {**message, "tool_calls": tool_calls} if tool_calls else message

    def mend(self, message: Message) -> tuple[Message, str]:
        """No list may be empty (https://github.com/openai/openai-node/pull/1341), a reply needs content or calls, a
        result needs content, and no part may be thinking: the API names the types of parts that it takes."""
        mended, why = dict(message), ""
        if is_list(message.get("tool_calls")) and not message["tool_calls"]:
            del mended["tool_calls"]
            why = "its 'tool_calls' are an empty list"
        content = message.get("content")
        if is_list(content):
            parts = [part for part in as_list(content) if as_object(part).get("type") not in provider.THINKING]
            if len(parts) < len(content):
                mended["content"], why = parts, "it has thinking, which this format has no part for"
            if not parts:
                content, why = None, why or "its content is an empty list"
        if content is None and not any(mended.get(key) for key in _INSTEAD):
            mended["content"], why = "", why or "it has no content"
        elif content is None and is_list(mended.get("content")):
            mended["content"] = None
        return (mended, why) if why else (message, "")

    def calls(self, message: Message) -> list[ToolCall]:
        if not self.is_reply(message):
            return []
        calls: list[ToolCall] = []
        for call in filter(None, map(as_object, as_list(message.get("tool_calls")))):
            if is_object(call.get("custom")):
                custom = as_object(call["custom"])
                calls.append(kit.make_call(call.get("id"), custom.get("name"), {"input": custom.get("input")}))
            else:
                function = as_object(call.get("function"))
                calls.append(kit.make_call(call.get("id"), function.get("name"), function.get("arguments")))
        if legacy := as_object(message.get("function_call")):
            calls.append(kit.make_call(f"{_LEGACY}{legacy.get('name')}", legacy.get("name"), legacy.get("arguments")))
        return calls

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        def changed(each: Any, texts: Mapping[str, str]) -> Any | None:
            call = as_object(each)
            if not call or not texts:
                return each if call else None
            if is_object(call.get("custom")):
                return {**call, "custom": {**call["custom"], **texts}}
            return {**call, "function": _with_arguments(call.get("function"), texts)}

        calls = as_list(message.get("tool_calls"))
        if index < sum(bool(as_object(each)) for each in calls):
            return {**message, "tool_calls": kit.named(calls, kit.for_call(index, arguments), changed)}
        return {**message, "function_call": _with_arguments(message.get("function_call"), arguments)}

    def results(self, message: Message) -> list[FoundResult]:
        role, content = message.get("role"), message.get("content")
        if role not in _ANSWERS:
            return []
        call_id = message.get("tool_call_id") if role == "tool" else f"{_LEGACY}{message.get('name')}"
        return [provider.found(call_id, content, provider.why_untrimmable(content, _PARTS))]

    def replace(self, message: Message, index: int, text: str) -> Message:
        """A copy of the message in which its result reads `text`; content that is null becomes text, too."""
        if index != 0 or message.get("role") not in _ANSWERS:
            raise IndexError(f"this message of role {message.get('role')!r} has no result number {index}")
        return {**message, "content": self._shortened(message.get("content"), text)}

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        return [_answer(call, kit.text_with_error(result)) for call, result in answered]

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A message of the model, as the API returns it: content is null where there are only calls."""
        if not calls:
            return {"role": "assistant", "content": kit.clean_text(text)}
        tool_calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": provider.written(call.arguments)},
            }
            for call in calls
        ]
        return {"role": "assistant", "content": kit.clean_text(text) or None, "tool_calls": tool_calls}

    def text(self, message: Message) -> str:
        if message.get("role") in _ANSWERS:
            return ""
        return prose(message.get("content")) or provider.refusal_in(message)

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        return [{"type": "function", "function": kit.definition_of(tool)} for tool in tools]


def _with_arguments(function: object, arguments: Mapping[str, str]) -> dict[str, Any]:
    body = as_object(function)
    return {**body, "arguments": kit.with_arguments(body.get("arguments"), arguments)}


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


def _answer(call: ToolCall, content: str) -> Message:
    if call.id.startswith(_LEGACY):
        return {"role": "function", "name": call.id.removeprefix(_LEGACY), "content": content}
    return {"role": "tool", "tool_call_id": call.id, "content": content}
