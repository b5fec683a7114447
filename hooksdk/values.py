"""JSON values: copy, compare, measure, read."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePath
from typing import Any, NoReturn, Protocol, TypeGuard, TypeVar, cast
from uuid import UUID

from hooksdk.errors import HookSDKError

__all__ = [
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_VALUES",
    "UNREADABLE",
    "BadArguments",
    "JsonObject",
    "SdkObject",
    "Uncloneable",
    "as_list",
    "as_object",
    "canonical",
    "clip",
    "clone",
    "compact",
    "estimate_tokens",
    "fill_secrets",
    "fingerprint",
    "is_list",
    "is_mapping",
    "is_object",
    "is_sdk_object",
    "is_sequence",
    "json_in",
    "kind_of",
    "map_strings",
    "parse_arguments",
    "place_of",
    "plain",
    "plain_json",
    "read_json",
    "readable",
    "secret_names",
]

JsonObject = dict[str, Any]
"""What a JSON object becomes in Python."""
T = TypeVar("T")
MAX_DEPTH = 200
"""How deep a value may be nested."""
MAX_VALUES = 250_000
"""How many values one value may hold in all."""
MAX_DIGITS = 308
"""Of a number. No float has more, so larger numbers cannot be calculated with."""
_SECRET = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.\-]+)\s*\}\}")
_JOINTS = re.compile(r"[.\[\]/]+")
# What JSONPath and its like put around a name.
_AROUND = " !\"#$'*-?@\\^`"
_OPENS_JSON = re.compile(r'[\s"\\\ufeff\0]*(?:[{\[]|/[/*])')
_KINDS: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    tuple: "array",
    dict: "object",
}
_ATOMS = frozenset((str, int, float, bool, type(None)))
_IMMUTABLE = (bytes, complex, date, time, timedelta, Decimal, Enum, Fraction, PurePath, UUID)


class Uncloneable(HookSDKError, ValueError):
    """No JSON-like value: too deep, in a circle, keys that are not strings, or parts that cannot be copied."""


UNREADABLE = "arguments that cannot be read"
"""Begins what stands in a call for arguments that cannot be copied, which are never taken for others."""


class BadArguments(ValueError):
    """A model's arguments are not one JSON object. The text tells the model what came and what to send."""


def clone(value: T) -> T:
    """A copy that shares nothing which could be changed. Raises `Uncloneable`.

    Subclasses of the JSON types and other mappings come out as the plain types.
    """
    if type(value) in _ATOMS:
        return value
    try:
        return cast("T", _copy(value, 0, [MAX_VALUES]))
    except Uncloneable:
        raise
    except Exception as error:
        raise Uncloneable(f"the value cannot be copied: {type(error).__name__} while reading it") from None


def _copy(value: Any, depth: int, room: list[int]) -> Any:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the class of anything
    if depth >= MAX_DEPTH:
        raise Uncloneable(f"the value is nested deeper than {MAX_DEPTH} levels, or holds itself")
    if kind is dict:
        room[0] -= len(value)
        if room[0] < 0:
            raise Uncloneable(f"the value holds more than {MAX_VALUES:,} values")
        below = depth + 1
        copied: JsonObject = {}
        for key, each in value.items():
            if type(key) is not str:
                key = _plain_key(key)  # noqa: PLW2901
            copied[key] = each if type(each) in _ATOMS else _copy(each, below, room)
        return copied
    if kind is list or kind is tuple:
        room[0] -= len(value)
        if room[0] < 0:
            raise Uncloneable(f"the value holds more than {MAX_VALUES:,} values")
        below = depth + 1
        parts = [each if type(each) in _ATOMS else _copy(each, below, room) for each in value]
        return parts if kind is list else tuple(parts)
    return _copy_unusual(value, depth, room)


def _copy_unusual(value: Any, depth: int, room: list[int]) -> Any:
    """Copy an instance of a subclass with the methods of its base class, so that no overriding code runs."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, dict):
        return _copy(dict(dict[str, Any].items(cast("JsonObject", value))), depth, room)
    if isinstance(value, list):
        return _copy(list(list[Any].__iter__(cast("list[Any]", value))), depth, room)
    if isinstance(value, tuple):
        return _copy(tuple(tuple[Any, ...].__iter__(cast("tuple[Any, ...]", value))), depth, room)
    if isinstance(value, Mapping):
        return _copy(dict(cast("Mapping[str, Any]", value)), depth, room)
    if value is None or isinstance(value, _IMMUTABLE):
        return value
    raise Uncloneable(f"the value holds a {type(value).__name__}, which is not JSON")


def _plain_key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise Uncloneable(f"the value has a key of type {type(key).__name__}; keys must be strings")


def place_of(name: str) -> tuple[str, ...]:
    """The place in arguments that a name may mean for a tool: `Message.To`, `message[to]`, `/message/to` and
    `message.0.to` are one. A tool may be lenient, and a policy that compared letters would miss another spelling."""
    seen = "".join(char if char.isprintable() else " " * char.isspace() for char in unicodedata.normalize("NFKC", name))
    parts = [part.strip(_AROUND) for part in _JOINTS.split(seen.casefold())]
    return tuple(part for part in parts if part and not part.isdecimal())


def json_in(text: str) -> Any:
    """What a tool may read out of a text that looks like JSON, or like a string that holds some; None where it does
    not. Raises `BadArguments` where only some parsers would read it."""
    return read_json(text.strip("\ufeff\0 \t\r\n")) if _OPENS_JSON.match(text) else None


def compact(value: object, *, sort_keys: bool = False) -> str:
    """The compact JSON text of a value. Raises `Uncloneable`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError) as error:
        raise Uncloneable(f"the value cannot be written as JSON: {str(error)[:200]}") from None


def canonical(value: object) -> str:
    """The one compact JSON text of a value: the same for the same content, in whatever order its keys are. Raises
    `Uncloneable`.

    Encode it with `errors="surrogatepass"`: text may hold half of a surrogate pair.
    """
    return compact(value, sort_keys=True)


def fingerprint(value: object) -> str:
    """Sixteen hex digits that stand for the content of a value."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def estimate_tokens(value: object) -> int:
    """About how many tokens a value costs in a prompt: its characters as compact JSON, or as text, by four."""
    text = value if isinstance(value, str) else compact(value)
    return (len(text) + 3) // 4


def _unique_pairs(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) < len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))
        raise BadArguments(f"the key {clip(twice, 80)!r} is given twice in one object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadArguments(f"{name} is not JSON; send a finite number or null")


def _read_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise BadArguments(f"a number of {len(digits):,} digits is too large")
    return int(digits)


def _read_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise BadArguments(f"the number {clip(digits, 40)} is too large")
    return number


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique_pairs, parse_constant=_refuse_constant, parse_int=_read_int, parse_float=_read_float
)


def read_json(text: str) -> Any:
    """Read strict JSON. Raises `BadArguments`."""
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise BadArguments(
            f"this is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise BadArguments(f"the JSON is nested deeper than {MAX_DEPTH} levels") from None


# One that does not end goes to the end: to look for its end once more from each quote in it would take hours.
_TEXT = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])", re.DOTALL)


def plain_json(text: str) -> str:
    """JSON that people write: the text with blanks in place of its comments and trailing commas, so that every other
    character keeps its line and column. A library for JSON5 accepts more, and tells no places."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _TRAILING_COMMA.sub(blank, _COMMENT.sub(blank, text))


def parse_arguments(raw: object) -> JsonObject:
    """Read the arguments of a call as a model or its client wrote them. Raises `BadArguments`.

    A dict is copied, nothing is no arguments, text must be strict JSON for one object; such text written as a JSON
    string once more is unwrapped. An object under `UNREADABLE` stands for what could not be read, and says why.
    """
    try:
        if isinstance(raw, (bytes, bytearray)):
            raw = bytes(raw).decode()
        if isinstance(raw, str) and raw.startswith(UNREADABLE):
            raise BadArguments(raw.removeprefix(UNREADABLE).lstrip(": "))
        if raw is None or (isinstance(raw, str) and not raw.strip(" \t\r\n")):
            return {}
        value: Any = read_json(raw) if isinstance(raw, str) else raw
        if isinstance(raw, str) and isinstance(value, str):
            value = read_json(value) if value.strip(" \t\r\n") else {}
        if isinstance(value, Mapping):
            arguments = dict(clone(cast("JsonObject", value)))
            if list(arguments) == [UNREADABLE]:
                raise BadArguments(str(arguments[UNREADABLE]))
            return arguments
        reason = f"this is a JSON {kind_of(value)}"
    except (BadArguments, Uncloneable, UnicodeDecodeError) as error:
        reason = str(error)
    raise BadArguments(f'The arguments could not be read: {reason}. Send one JSON object, such as {{"name": "value"}}.')


def readable(arguments: object) -> Any:
    """A copy of a call's arguments, or a text that no tool takes for any: models write what cannot be copied, too."""
    try:
        return clone(arguments)
    except Uncloneable as error:
        return f"{UNREADABLE}: {error}"


def clip(text: str, limit: int) -> str:
    """Text of at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def kind_of(value: object) -> str:
    """The JSON type of a value."""
    return "null" if value is None else _KINDS.get(cast("type", type(value)), "value")


def is_object(value: object) -> TypeGuard[JsonObject]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """True for any mapping."""
    return isinstance(value, Mapping)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """True for a list and the like, and not for text."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def as_object(value: object) -> JsonObject:
    """The value if it is a JSON object, else an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a JSON array, else an empty one."""
    return value if is_list(value) else []


# How deep an SDK's object may stand in a message of plain dicts and lists.
_SDK_LEVELS = 6


class SdkObject(Protocol):
    """An object of a provider's SDK: a message, a block, a call, a whole answer. All of them are pydantic's."""

    def model_dump(self) -> dict[str, Any]:
        """Its fields."""
        ...


def is_sdk_object(value: object) -> bool:
    """True for an instance that pydantic can write, as all objects of the providers' SDKs are."""
    return not isinstance(value, type) and callable(getattr(value, "model_dump", None))


def plain(value: Any, levels: int = _SDK_LEVELS) -> Any:
    """The value with every SDK object in it written as JSON, under the API's names and without what is None: a request
    may not say null where an answer does. What is plain already is the same object."""
    if is_sdk_object(value):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)
    if not levels:
        return value
    if is_object(value):
        written = {key: plain(part, levels - 1) for key, part in value.items()}
        return written if any(written[key] is not part for key, part in value.items()) else value
    if is_list(value):
        parts = [plain(part, levels - 1) for part in value]
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    return value


def map_strings(
    value: Any, change: Callable[[str], str], change_number: Callable[[float], object] | None = None
) -> Any:
    """A copy of a JSON value with its texts changed, keys included, and its numbers."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): map_strings(item, change, change_number) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [map_strings(item, change, change_number) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if change_number and isinstance(value, (int, float)) and not isinstance(value, bool):
        return change_number(value)
    return value


def secret_names(value: object) -> list[str]:
    """The names of all secrets that a JSON value asks for with `{{secret:NAME}}`, each once, in order."""
    names: dict[str, None] = {}

    def note(text: str) -> str:
        names.update(dict.fromkeys(_SECRET.findall(text)))
        return text

    map_strings(value, note)
    return list(names)


def fill_secrets(value: Any, secrets: Mapping[str, str]) -> Any:
    """A copy of a JSON value with each `{{secret:NAME}}` filled in. Raises `KeyError` for a name without a value."""
    return map_strings(value, lambda text: _SECRET.sub(lambda match: secrets[match[1]], text))
