"""Calls, results and messages as the JSON that is stored."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

from hooksdk import schema
from hooksdk._schema.fresh import peek
from hooksdk._schema.work import survey
from hooksdk._tasks.background import logger
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import StoreError
from hooksdk.formats import FoundResult, Message
from hooksdk.formats.kit import arguments_of
from hooksdk.values import clip, is_list, is_object

# One line of the journal.
Entry = dict[str, Any]
# The beginning of the text in the place of a host's message, or result, that cannot be matched.
UNKNOWN = "(of an unknown author)\n"


def is_reason(text: str, reasons: Mapping[str, Any]) -> bool:
    """True for what stands where a user's message would, and no user has written it."""
    return text.startswith(UNKNOWN) or (bool(reasons) and schema.fingerprint(text) in reasons)


class MessageParts(NamedTuple):
    """The parts that a format finds in one message.

    Attributes:
        is_loose: True for a reply, or a part of one, that the provider refuses if nothing follows it.
    """

    calls: Sequence[ToolCall]
    results: Sequence[FoundResult]
    is_reply: bool
    is_loose: bool


@final
class EncodedMessage(dict[str, Any]):
    """A message on its way into the store, with its line of JSON, so that it is encoded once. A store that writes with
    `encode` or `encode_for` takes the line; to any other store it is a dict. Never change one.

    Attributes:
        plain: The message itself, as it would come back from the store.
        parts: The parts that its format finds in it; None until somebody asks for them.
    """

    __slots__ = ("line", "parts", "plain")

    def __init__(self, plain: Message, line: bytes) -> None:
        super().__init__(plain)
        self.plain = plain
        self.line = line
        self.parts: MessageParts | None = None


def as_stored(message: Message) -> EncodedMessage:
    """The message as it comes back from a store. Its JSON is parsed only if the message may come back as another one:
    with NaN, with tuples, and with halves of surrogate pairs, of which two become one character."""
    line = encode(message)
    is_same = _is_json(message) and b"\\ud" not in line
    return EncodedMessage(message if is_same else json.loads(line), line)


def _is_json(value: object) -> bool:
    """True for a value of JSON's own types alone, without encoding it. False also for a value that is too large to look
    through."""
    size = survey(value)
    return size.plain and not size.fault


def encode(value: object) -> bytes:
    """A value as compact JSON. NaN and infinity, which JSON lacks, become null. The JSON is ASCII if the text holds
    half of a surrogate pair, which UTF-8 cannot write."""
    if type(value) is EncodedMessage:
        return value.line
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        value = _finite(value)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_object(value):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value  # pyright: ignore[reportUnknownVariableType]


def encode_for(place: str, value: object) -> bytes:
    """As `encode`. Raises a `StoreError` that names the place for a value that is not JSON."""
    try:
        return encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(place, f"this is not JSON: {error}") from error


def is_same(place: str, stored: object, value: object) -> bool:
    """True if `value`, once stored, equals `stored`; the order of an object's members does not count. Raises a
    `StoreError` that names the place for a value that is not JSON."""
    return schema.canonical(stored) == schema.canonical(json.loads(encode_for(place, value)))


def save_result(result: ToolResult) -> dict[str, Any]:
    """A result as JSON."""
    fields: dict[str, Any] = {"text": result.text, "is_error": result.is_error, "structured": result.structured}
    if result.references:
        fields["references"] = [*result.references]
    return fields if result.plain else {**fields, "blocks": result.blocks}


def load_result(fields: dict[str, Any]) -> ToolResult:
    """The result that was saved."""
    others = {name: fields[name] for name in ("blocks", "structured", "references") if name in fields}
    return ToolResult(fields["text"], is_error=fields["is_error"], **others)


def plain_result(result: ToolResult) -> ToolResult:
    """The result, or its text alone if the rest is not JSON: a result must never be lost."""
    if (result.plain and peek(result, "structured") is None) or _is_json(save_result(result)):
        return result
    try:
        encode(save_result(result))
        return result
    except (ValueError, TypeError, RecursionError) as error:
        logger.warning("a result holds content that is not JSON; only its text is kept (%s)", error)
        return ToolResult(result.text, is_error=result.is_error, labels=result.labels)


def plain_call(call: ToolCall) -> list[Any]:
    """Id, name and arguments of a call; arguments that are not JSON are left out."""
    try:
        encode(call.arguments)
        return [call.id, call.name, call.arguments]
    except (ValueError, TypeError, RecursionError):
        return [call.id, call.name, None]


def request_of(call: ToolCall) -> str:
    """A call's name and arguments as one text, the same for arguments as JSON text and as an object."""
    try:
        return schema.canonical([call.name, schema.parse_arguments(call.arguments)])
    except ValueError:
        return repr((call.name, call.arguments))


# Characters of the longest argument that is kept whole: no note in an argument's place is longer.
LONG_ARGUMENT = 200


def long_arguments(call: ToolCall) -> Iterator[tuple[str, str]]:
    """The arguments of a call in whose place a note may stand, each with its text, or with its JSON if it is no
    text."""
    arguments = peek(call, "arguments")
    if isinstance(arguments, str) and len(arguments) <= LONG_ARGUMENT:
        return
    for name, value in (arguments_of(arguments) or {}).items():
        text = value if isinstance(value, str) else encode(value).decode() if is_list(value) or is_object(value) else ""
        if name and len(text) > LONG_ARGUMENT:  # a handle has a name
            yield name, text


def summary_of(call: ToolCall | None) -> str:
    """The arguments of a call in one short line."""
    arguments = None if call is None else peek(call, "arguments")
    if arguments is None:
        return ""
    try:
        text = arguments if isinstance(arguments, str) else schema.canonical(arguments)
    except ValueError:
        return ""
    return clip(" ".join(text[:400].split()), 80)
