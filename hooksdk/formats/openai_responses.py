"""OpenAI's Responses API: a message is one item of the `input` list or of a response's `output`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, ProviderJson, kit
from hooksdk.formats import _provider as provider
from hooksdk.formats import _responses_search as searching
from hooksdk.formats._provider import ProviderFormat
from hooksdk.formats.content import kind_in_words, prose
from hooksdk.tools import Deferral, Tool
from hooksdk.values import as_list, as_object, is_list, is_object

__all__ = ["OpenAIResponses", "as_input"]

_ROLES = ("user", "system", "developer", "assistant")
# Types of messages in other stores, such as those of LangChain and Claude Code.
_AUTHORS = (*_ROLES, "tool", "human", "ai")
# Starts the id of a custom tool's call, which an item of another type must answer.
_CUSTOM = "custom_tool_call:"
# Starts the id of a call of the provider's own tool search, which has no name.
_SEARCH = "tool_search:"
# The beginning of a call's id, by the type of the item.
_CALLS = {"function_call": "", "custom_tool_call": _CUSTOM, "tool_search_call": _SEARCH}
_RESULTS = {"function_call_output": "", "custom_tool_call_output": _CUSTOM, "tool_search_output": _SEARCH}
# Types of parts inside a result that a trim may replace.
_PARTS = ("input_text", "input_image", "input_file")
_FOREIGN = {"tool_use": "anthropic", "tool_result": "anthropic", "text": "openai-chat", "image_url": "openai-chat"}
_TEXTS = ("input_text", "output_text")
# Characters of a `call_id`: https://github.com/openai/codex/issues/14355.
_MOST_IN_ID = 64
# The beginning that the `id` of an item must have.
_ITEM_IDS = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc"}
# Fields that only answers have, by the types of OpenAI's SDK.
_OUTPUT_ONLY = ("created_by",)
# Fields of hosted tools' items that a request must have, even as null, by the same types.
_MAY_BE_NULL = ("code", "outputs", "result")


class OpenAIResponses(ProviderFormat):
    """One item is one message, so `run.record(response.to_dict()["output"])` records a response, and `input=messages`
    sends the view. The items of one reply (reasoning, text, parallel calls) follow each other.

    Reasoning, ids and encrypted content stay as they are. The id of a call is its `call_id`; that of a custom tool's
    call is `custom_tool_call:` and its `call_id`, and its arguments are `{"input": text}`. The API has no error flag:
    an error begins with "Error:". Items of other types (hosted tools, shells, computers) are neither calls nor results.

    A search for tools that the client executes is a call of `tool_search` with the id `tool_search:` and its `call_id`.
    Tools that it found, or that were added (`additional_tools`), are stored by name; `with_deferred` writes their
    definitions.
    """

    name: str = "openai-responses"
    joined: bool = True
    _roles = _ROLES
    _text_type = "input_text"

    def check(self, message: object) -> str | None:
        if not is_object(message):
            return provider.no_object(message, "a 'role' or a 'type'")
        if "parts" in message:
            return "this is a message of the format 'gemini' ('parts')"
        item_type, role = message.get("type"), message.get("role")
        if role in ("tool", "function") or "tool_calls" in message:
            return f"this is a message of the format 'openai-chat' (role {role!r}); here calls and results are items"
        if role is None and isinstance(item_type, str) and item_type != "message":
            return _check_item(item_type, message)
        if not isinstance(item_type, (str, type(None))):
            return f"'type' must be text, not {kind_in_words(item_type)}"
        if wrong := self._wrong_role(role, ", or the 'type' of another item"):
            return wrong
        return _wrong_content(message.get("content")) if item_type in (None, "message") else None

    def is_reply(self, message: Message) -> bool:
        """True for what the model wrote, and for items that are neither a message nor the result of a call: the output
        of a hosted tool or a shell may stand between two calls of one reply."""
        if message.get("role") is not None:
            return message["role"] == "assistant"
        return _item_type(message) not in _RESULTS

    def is_loose_end(self, message: Message) -> bool:
        """True for reasoning: the API refuses it without the item that it led to."""
        return _item_type(message) == "reasoning"

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        prefix, own_id = _split(call_id)
        return prefix + kit.fitting_id(own_id, suffix, most=_MOST_IN_ID) if own_id or not prefix else None

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        return {**message, "call_id": _split(ids[0])[1]} if ids and _split(ids[0])[1] else message

    def mend(self, message: Message) -> tuple[Message, str]:
        """A part has the type that belongs to its speaker, thinking is no part, and an item's own `id` begins with its
        kind, or is left out: the API's errors name the values that it takes."""
        mended, why = dict(message), ""
        begins = _ITEM_IDS.get(str(message.get("type") or "message"), "")
        if not str(message.get("id") or begins).startswith(begins):
            del mended["id"]
            why = f"its 'id' does not begin with '{begins}'"
        content = message.get("content")
        if not isinstance(message.get("role"), str) or not is_list(content):
            return (mended, why) if why else (message, "")
        wrong, right = ("input_text", "output_text") if self.is_reply(message) else ("output_text", "input_text")
        parts: list[Any] = [part for part in as_list(content) if as_object(part).get("type") not in provider.THINKING]
        if len(parts) < len(content):
            why = why or "it has thinking, which belongs into an item of reasoning"
        if any(as_object(part).get("type") == wrong for part in parts):
            why = why or f"the text of a message of role '{message['role']}' is '{right}', not '{wrong}'"
            parts = [
                {"type": right, "text": part["text"]} if as_object(part).get("type") == wrong else part
                for part in parts
            ]
        return ({**mended, "content": parts or ""}, why) if why else (message, "")

    def calls(self, message: Message) -> list[ToolCall]:
        item_type = _item_type(message)
        if item_type not in _CALLS:
            return []
        custom, search = item_type == "custom_tool_call", item_type == "tool_search_call"
        call_id = message.get("call_id")
        arguments = {"input": message.get("input")} if custom else message.get("arguments")
        call_id = f"{_CALLS[item_type]}{call_id}" if isinstance(call_id, str) else _SEARCH if search else ""
        return [kit.make_call(call_id, searching.NAME if search else message.get("name"), arguments)]

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        del index  # an item is one call
        if _item_type(message) == "custom_tool_call":
            return {**message, **arguments}
        return {**message, "arguments": kit.with_arguments(message.get("arguments"), arguments)}

    def results(self, message: Message) -> list[FoundResult]:
        item_type, call_id = _item_type(message), message.get("call_id")
        if item_type not in _RESULTS:
            return []
        own_id = f"{_RESULTS[item_type]}{call_id}" if isinstance(call_id, str) else ""
        if item_type != "tool_search_output":
            output = message.get("output")
            return [provider.found(own_id, output, provider.why_untrimmable(output, _PARTS, key="output"))]
        why_not = "it holds the definitions of tools that later calls use"
        result = provider.found(own_id, message.get("tools"), why_not, is_error=False, name=searching.NAME)
        return [replace(result, text=searching.names_text(sorted(searching.names_in(message))))]

    def replace(self, message: Message, index: int, text: str) -> Message:
        if index != 0 or not self.results(message):
            raise IndexError(f"this item of type {message.get('type')!r} has no result number {index}")
        return {**message, "output": self._shortened(message.get("output"), text)}

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        return [_answer(call, result) for call, result in answered]

    def deferred_tools(self, tools: Sequence[Tool], deferred: Sequence[Tool]) -> list[ProviderJson]:
        """The search is the provider's own, executed by the client, whose results declare the deferred tools:
        https://developers.openai.com/api/docs/guides/tools-tool-search."""
        del deferred
        return [searching.search_tool(tool) if tool.search else searching.function_of(tool) for tool in tools]

    def with_deferred(
        self, messages: Sequence[Message], deferred: Mapping[str, Tool], deferral: Deferral | None
    ) -> list[Message]:
        """A call has the `namespace` that an item of the request declares:
        https://github.com/github/copilot-cli/issues/4519."""
        return searching.written_for(messages, deferred, deferral)

    def references(self, messages: Sequence[Message]) -> list[str]:
        items = (item for item in messages if item.get("type") in searching.DECLARING)
        return list(dict.fromkeys(name for item in items for name in searching.names_in(item)))

    def addition(self, names: Sequence[str]) -> Message:
        """An item of the developer's: https://developers.openai.com/api/reference/resources/responses."""
        return {"type": "additional_tools", "role": "developer", "tools": searching.by_name(names)}

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A reply in one item. Raises `ValueError` for text with calls and for several calls: `reply_messages` takes
        them."""
        items = self.reply_messages(text, calls)
        if len(items) > 1:
            raise ValueError(
                f"a reply with {len(calls)} calls{' and text' if text.strip() else ''} is {len(items)} items in "
                "'openai-responses'; reply_messages(text, calls) gives them"
            )
        return items[0]

    def reply_messages(self, text: str, calls: Sequence[ToolCall] = ()) -> list[Message]:
        """The items of a reply, without the ids that the API gives them: they may be sent so."""
        items: list[Message] = []
        if text.strip() or not calls:
            items.append({"type": "message", "role": "assistant", "content": kit.clean_text(text)})
        return [*items, *map(_call_item, calls)]

    def text(self, message: Message) -> str:
        if not isinstance(message.get("role"), str):
            return ""
        return prose(message.get("content")) or provider.refusal_in(message)

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        return [searching.function_of(tool) for tool in tools]


def as_input(item: Message) -> Message:
    """An item of a response's `output` in the form of the next request: without fields of answers, without nulls, and
    reasoning without a `status` ("Unknown parameter: 'input[1].status'",
    https://github.com/BerriAI/litellm/issues/13420).

    ```python
    from hooksdk.formats.openai_responses import as_input

    call = {"type": "function_call", "call_id": "call_1", "name": "now", "arguments": "{}", "namespace": "clock"}
    assert as_input({**call, "caller": None}) == call
    ```
    """
    only_output = (*_OUTPUT_ONLY, "status") if item.get("type") == "reasoning" else _OUTPUT_ONLY
    return {
        key: value
        for key, value in item.items()
        if key not in only_output and (value is not None or key in _MAY_BE_NULL)
    }


def _item_type(message: Message) -> str:
    """The type of an item; empty for a message, and for a search that the provider executes."""
    item_type = message.get("type")
    if item_type in ("tool_search_call", "tool_search_output") and not searching.is_client(message):
        return ""
    return item_type if isinstance(item_type, str) and message.get("role") is None else ""


def _split(call_id: str) -> tuple[str, str]:
    """The beginning of an id, and the item's own `call_id`."""
    prefix = next((prefix for prefix in (_CUSTOM, _SEARCH) if call_id.startswith(prefix)), "")
    return prefix, call_id.removeprefix(prefix)


def _check_item(item_type: str, item: Message) -> str | None:
    if item_type in ("text", "image_url", "tool_use", "tool_result"):
        return f"'{item_type}' is the type of a part of a message, not of an item"
    if item_type in _AUTHORS:
        return f"'{item_type}' is no type of an item: who wrote a message stands in its 'role'"
    if item_type not in _CALLS and item_type not in _RESULTS:
        return None
    if item_type in ("tool_search_call", "tool_search_output"):
        return None  # the provider may extend these items
    if not isinstance(item.get("call_id"), str):
        return f"a {item_type} needs a 'call_id' of text"
    if item_type in _RESULTS:
        return _wrong_content(item.get("output"), "output")
    if not isinstance(item.get("name"), str):
        return f"a {item_type} needs a 'name' of text"
    key = "input" if item_type == "custom_tool_call" else "arguments"
    return None if isinstance(item.get(key), str) else f"'{key}' must be text, not {kind_in_words(item.get(key))}"


def _wrong_content(content: object, key: str = "content") -> str | None:
    return provider.wrong_parts(content, _TEXTS, _FOREIGN, key=key)


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    parts = kit.parts_of(result)
    if result.is_error or not any(kit.media_of(part, (*provider.IMAGES, provider.PDF)) for part in parts):
        return kit.text_with_error(result)
    blocks = [_media(part) or {"type": "input_text", "text": kit.as_text(part)} for part in parts]
    return [block for block in blocks if block["type"] != "input_text" or block["text"].strip()]


def _media(part: str | dict[str, Any]) -> dict[str, Any] | None:
    media = kit.media_of(part, (*provider.IMAGES, provider.PDF))
    if media is None:
        return None
    url = f"data:{media[0]};base64,{media[1]}"
    if media[0] == provider.PDF:
        uri = as_object(as_object(part).get("resource")).get("uri")
        return {"type": "input_file", "filename": kit.clean_text(str(uri or "file.pdf")), "file_data": url}
    return {"type": "input_image", "detail": "auto", "image_url": url}


def _answer(call: ToolCall, result: ToolResult) -> Message:
    prefix, call_id = _split(call.id)
    if prefix == _SEARCH:
        fields = {"execution": "client", "status": "completed", "tools": searching.by_name(result.references)}
        return {"type": "tool_search_output", **({"call_id": call_id} if call_id else {}), **fields}
    kind = "custom_tool_call_output" if prefix else "function_call_output"
    return {"type": kind, "call_id": call_id, "output": _output(result)}


def _call_item(call: ToolCall) -> Message:
    arguments = call.arguments
    prefix, call_id = _split(call.id)
    if prefix == _SEARCH:
        about = {"execution": "client", "status": "completed", "arguments": kit.arguments_of(arguments) or {}}
        return {"type": "tool_search_call", "call_id": call_id, **about}
    if prefix:
        text = as_object(arguments).get("input", "")
        return {"type": "custom_tool_call", "call_id": call_id, "name": call.name, "input": kit.clean_text(str(text))}
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": provider.written(arguments)}
