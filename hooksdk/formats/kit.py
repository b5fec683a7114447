"""Tools for writing a message format: text that can be sent, calls and results in pairs, schemas that providers accept.

The formats of hooksdk are written with them, and a format of your own can be.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from hooksdk import schema
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.content import describe_part
from hooksdk.tools import Tool
from hooksdk.values import UNREADABLE, JsonObject, as_object, is_list, is_object

__all__ = [
    "BEGINNING",
    "NO_CONTENT",
    "NO_MESSAGE",
    "SAYS_ERROR",
    "AnyCall",
    "answered_ids",
    "arguments_of",
    "as_text",
    "clean_text",
    "definition_of",
    "encodable",
    "fitting_id",
    "for_call",
    "input_of",
    "joined_text",
    "make_call",
    "media_of",
    "named",
    "parameters_for",
    "parts_of",
    "replies_in",
    "text_with_error",
    "to_json",
    "with_arguments",
    "with_call_ids",
    "with_context",
    "with_readable_arguments",
]

T = TypeVar("T")
NO_MESSAGE = "The tool failed without a message."
"""The text of an error result without one: Anthropic refuses an empty error, and it tells a model nothing."""
NO_CONTENT = "(no content)"
"""The content of an empty message, which providers refuse. It is not left out: as many messages are sent as are
stored."""
BEGINNING = "(The conversation begins with the model's words.)"
"""The user's message before a reply that begins a conversation, for a provider that wants a user first."""

# Keys of the arguments of a call in the formats.
_ARGUMENTS = {"input", "arguments", "args"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
SAYS_ERROR = re.compile(r"\s*error(:|$)", re.IGNORECASE)
"""The beginning of an error's text in an API without a flag for errors."""


def clean_text(text: str) -> str:
    """The text with U+FFFD for halves of surrogate pairs, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json(value: object) -> str:
    """A value as JSON text that can be sent."""
    return clean_text(json.dumps(value, ensure_ascii=False, default=str))


def make_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call from the values in a message, whatever these are."""
    if is_object(arguments) and list(arguments) == [UNREADABLE]:
        arguments = f"{UNREADABLE}: {arguments[UNREADABLE]}"
    return ToolCall(call_id if isinstance(call_id, str) else "", name if isinstance(name, str) else "", arguments)


def with_readable_arguments(part: Any, levels: int = 6) -> Any:
    """A reply of the model with the reason in the place of arguments that cannot be copied. It is an object, since a
    provider wants its messages back in the same form. Parts that lie deeper than the calls of any format are not
    changed."""
    if is_list(part) and levels:
        return [with_readable_arguments(each, levels - 1) for each in part]
    if not is_object(part) or not levels:
        return part
    return {
        key: _readable_object(value) if key in _ARGUMENTS else with_readable_arguments(value, levels - 1)
        for key, value in part.items()
    }


def _readable_object(arguments: object) -> Any:
    try:
        return schema.clone([[[[[[arguments]]]]]])[0][0][0][0][0][0]  # as deep as arguments are in a message
    except schema.Uncloneable as error:
        return {UNREADABLE: str(error)}


def parts_of(result: ToolResult) -> list[str | JsonObject]:
    """A result as text and MCP blocks, in order. `structured` becomes JSON text if there is no text."""
    parts: list[str | JsonObject] = []
    texts: list[str] = []
    for block in result.blocks:
        if block.get("type") == "text":
            texts.append(str(block.get("text", "")))
            parts.append(texts[-1])
        else:
            parts.append(block)
    if "\n".join(texts) != result.text:
        parts = [result.text, *(part for part in parts if not isinstance(part, str))]
    if not result.text and result.structured is not None:
        parts = [*(part for part in parts if part), to_json(result.structured)]
    return parts


def as_text(part: str | JsonObject) -> str:
    """A part of a result as text: other content by name, the text of an embedded resource after its name."""
    if isinstance(part, str):
        return clean_text(part)
    text = as_object(part.get("resource")).get("text")
    return clean_text(f"{describe_part(part)}\n{text}" if isinstance(text, str) else describe_part(part))


def input_of(arguments: object) -> Any:
    """The arguments of a call as an object that can be sent; any other text stands under `INVALID_JSON`."""
    value = arguments_of(arguments)
    if value is not None:
        return encodable(value)
    return {} if arguments is None else {"INVALID_JSON": clean_text(str(arguments))}


def arguments_of(written: object) -> dict[str, Any] | None:
    """The arguments of a call, an object or the text of one; None for anything else."""
    if isinstance(written, str):
        try:
            written = json.loads(written)
        except (ValueError, RecursionError):
            return None
    return written if is_object(written) else None


def for_call(index: int, arguments: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The values for `named` by which call number `index` of a message gets these arguments."""
    others: list[Mapping[str, str]] = [{}] * index
    return [*others, arguments]


def with_arguments(written: object, arguments: Mapping[str, str]) -> Any:
    """The arguments of a call with these texts in them, as JSON text or as an object like before."""
    changed = {**(arguments_of(written) or {}), **{name: clean_text(text) for name, text in arguments.items()}}
    return to_json(changed) if isinstance(written, str) else changed


def joined_text(parts: Iterable[str | JsonObject]) -> str:
    """The parts of a result as one text, a line for each that has words."""
    return "\n".join(words for part in parts if (words := as_text(part)))


def media_of(part: str | JsonObject, media_types: Collection[str]) -> tuple[str, str] | None:
    """Media type and base64 data of an MCP image or embedded file, if it has one of these types and is readable."""
    block = as_object(part)
    resource = as_object(block.get("resource"))
    source, key = (block, "data") if block.get("type") == "image" else (resource, "blob")
    media, data = source.get("mimeType"), source.get(key)
    if not isinstance(media, str) or media not in media_types or not isinstance(data, str):
        return None
    return (media, data) if len(data) % 4 == 0 and _BASE64.fullmatch(data) else None


def text_with_error(result: ToolResult) -> str:
    """A result as text alone; an error begins with "Error:"."""
    text = clean_text(result.text)
    if not result.plain or (not text and result.structured is not None):
        parts = parts_of(result)
        if not all(isinstance(part, str) for part in parts) or not text:
            text = joined_text(parts)
    if not result.is_error or SAYS_ERROR.match(text):
        return text
    return f"Error: {text if text.strip() else NO_MESSAGE}"


def with_call_ids(results: Sequence[FoundResult], open_calls: Iterable[ToolCall]) -> list[FoundResult]:
    """The results with the ids of the calls that they answer: a result without an id answers the first call of its
    name."""
    if all(result.call_id for result in results):
        return list(results)
    ids = answered_ids([(result.call_id, result.name) for result in results], open_calls)
    return [replace(result, call_id=call_id) for result, call_id in zip(results, ids, strict=True)]


def fitting_id(call_id: str, suffix: str, *, most: int | None = None, others: re.Pattern[str] | None = None) -> str:
    """The id with `suffix`, cut to `most` characters, with an underscore for each match of `others`."""
    stem = clean_text(others.sub("_", call_id) if others else call_id) or "call"
    return f"{stem if most is None else stem[: most - len(suffix)]}{suffix}"


def named(parts: Iterable[Any], ids: Iterable[T], with_id: Callable[[Any, T], Any | None]) -> list[Any]:
    """The parts with changed calls or results in them. `with_id` gets a part and the next of the values (such as ids),
    and answers a changed copy, or None for a part that takes none."""
    names = list(ids)
    whole: list[Any] = []
    for part in parts:
        copy = with_id(part, names[0]) if names else None
        if copy is not None:
            del names[0]
        whole.append(part if copy is None else copy)
    return whole


class AnyCall(Protocol):
    """What identifies a call."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def name(self) -> str:
        """The tool's name."""
        ...


def answered_ids(results: Iterable[tuple[str, str]], open_calls: Iterable[AnyCall]) -> list[str]:
    """For results with these ids and names: the id of the call that each answers; if there is none, its own."""
    open_calls = list(open_calls)
    ids: list[str] = []
    for call_id, name in results:
        call = next((call for call in open_calls if (call.id == call_id if call_id else call.name == name)), None)
        if call is not None:
            open_calls.remove(call)
        ids.append(call.id if call else call_id)
    return ids


def replies_in(messages: Iterable[Message], form: MessageFormat) -> list[list[Message]]:
    """The replies among the messages, each with all of its messages."""
    replies: list[list[Message]] = []
    goes_on = False
    for message in messages:
        is_reply = form.is_reply(message)
        if is_reply and goes_on:
            replies[-1].append(message)
        elif is_reply:
            replies.append([message])
        goes_on = is_reply and form.joined
    return replies


def with_context(
    form: MessageFormat, messages: Sequence[Message], text: str, longer: Callable[[Message, str], Message | None]
) -> list[Message]:
    """The messages with `text` at the end, or before the newest reply while one of its calls has no result: in the
    user's message there if `longer` can add it, else as a message of its own."""
    if not text.strip():
        return list(messages)
    end = _last_complete(form, messages)
    head, tail = list(messages[:end]), list(messages[end:])
    extended = longer(head[-1], clean_text(text)) if head else None
    return [*head[:-1], extended, *tail] if extended else [*head, form.user(text), *tail]


def _last_complete(form: MessageFormat, messages: Sequence[Message]) -> int:
    end = next((at for at in range(len(messages) - 1, -1, -1) if form.is_reply(messages[at])), None)
    if end is None:
        return len(messages)
    start = end
    while form.joined and start and form.is_reply(messages[start - 1]):
        start -= 1
    calls = [call for message in messages[start : end + 1] for call in form.calls(message)]
    results = [result for message in messages[end + 1 :] for result in form.results(message)]
    unanswered = Counter(call.id for call in calls) - Counter(each.call_id for each in with_call_ids(results, calls))
    return start if unanswered else len(messages)


def encodable(value: Any) -> Any:
    """A JSON value whose texts can be encoded; the same object if they all can be."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _encodable(value)
    return value


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if is_list(value):
        return [_encodable(each) for each in value]
    return {clean_text(key): _encodable(each) for key, each in value.items()} if is_object(value) else value


def definition_of(tool: Tool, parameters: str = "parameters") -> JsonObject:
    """A tool's definition, with its schema under the key that the provider has for it."""
    about = {"name": clean_text(tool.name), "description": clean_text(tool.description)}
    return {**about, parameters: parameters_for(tool)}


def parameters_for(tool: Tool) -> JsonObject:
    """A tool's schema in a form that the providers accept."""
    return encodable(schema.provider_schema(tool.parameters or {}))
