"""JSON Schema, and the JSON values that tools take: copy, compare, read, check, explain, repair.

Whatever comes in was written by somebody else: a schema by a foreign server, arguments by a model. So nothing here fetches,
and nothing hangs or raises for what it is given; a check that would cost too much ends in a `Problem`.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import math
import os
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast
from uuid import UUID

from hooksdk._schema.explain import Problem, clip, explain, kind_of, render
from hooksdk._schema.limits import TooMuchWork, survey
from hooksdk._schema.repair import mend

if TYPE_CHECKING:
    from hooksdk._schema.engine import Compiled

__all__ = [
    "BadArguments",
    "JsonObject",
    "Problem",
    "Uncloneable",
    "canonical",
    "check",
    "check_schema",
    "clone",
    "estimate_tokens",
    "fingerprint",
    "parse_arguments",
    "render",
    "repair",
]

JsonObject = dict[str, Any]
"""What a JSON object becomes in Python."""

use_fast = os.environ.get("HOOKSDK_SCHEMA_ENGINE", "auto") != "python"
"""Whether jsonschema-rs may answer where it is installed. The answers are the same; only the time differs."""

T = TypeVar("T")
MAX_DEPTH = 200
MAX_VALUES = 250_000
MAX_SCHEMA_BYTES = 2_000_000
_ATOMS = frozenset((str, int, float, bool, type(None)))
_IMMUTABLE = (bytes, complex, date, time, timedelta, Decimal, Enum, Fraction, PurePath, UUID)


class Uncloneable(ValueError):
    """No JSON-like value: too deep, in a circle, keys that are not strings, or parts that cannot be copied."""


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


def _copy(value: Any, depth: int, left: list[int]) -> Any:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the class of anything
    if depth >= MAX_DEPTH:
        raise Uncloneable(f"the value is nested deeper than {MAX_DEPTH} levels, or holds itself")
    if kind is dict:
        left[0] -= len(value)
        if left[0] < 0:
            raise Uncloneable(f"the value holds more than {MAX_VALUES:,} values")
        below = depth + 1
        copied: JsonObject = {}
        for key, each in value.items():
            if type(key) is not str:
                key = _plain_key(key)  # noqa: PLW2901
            copied[key] = each if type(each) in _ATOMS else _copy(each, below, left)
        return copied
    if kind is list or kind is tuple:
        left[0] -= len(value)
        if left[0] < 0:
            raise Uncloneable(f"the value holds more than {MAX_VALUES:,} values")
        below = depth + 1
        parts = [each if type(each) in _ATOMS else _copy(each, below, left) for each in value]
        return parts if kind is list else tuple(parts)
    return _copy_unusual(value, depth, left)


def _copy_unusual(value: Any, depth: int, left: list[int]) -> Any:
    """Subclasses are read with their base's methods, so that nobody's override runs."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, dict):
        return _copy(dict(dict[str, Any].items(cast("JsonObject", value))), depth, left)
    if isinstance(value, list):
        return _copy(list(list[Any].__iter__(cast("list[Any]", value))), depth, left)
    if isinstance(value, tuple):
        return _copy(tuple(tuple[Any, ...].__iter__(cast("tuple[Any, ...]", value))), depth, left)
    if isinstance(value, Mapping):
        return _copy(dict(cast("Mapping[str, Any]", value)), depth, left)
    if value is None or isinstance(value, _IMMUTABLE):
        return value
    raise Uncloneable(f"the value holds a {type(value).__name__}, which is not JSON")


def _plain_key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise Uncloneable(f"the value has a key of type {type(key).__name__}; keys must be strings")


def _compact(value: object, *, sort_keys: bool) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    except (TypeError, ValueError, RecursionError) as error:
        raise Uncloneable(f"the value cannot be written as JSON: {str(error)[:200]}") from None


def canonical(value: object) -> str:
    """The one compact JSON text of a value: the same for the same content, in whatever order its keys are. Raises `Uncloneable`.

    Encode it with `errors="surrogatepass"`: text may hold half of a surrogate pair.
    """
    return _compact(value, sort_keys=True)


def fingerprint(value: object) -> str:
    """Sixteen hex digits that stand for the content of a value."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def estimate_tokens(value: object) -> int:
    """About how many tokens a value costs in a prompt: its characters as compact JSON, or as text, by four."""
    text = value if isinstance(value, str) else _compact(value, sort_keys=False)
    return (len(text) + 3) // 4


def _unique_pairs(pairs: list[tuple[str, Any]]) -> JsonObject:
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in read if names.count(name) > 1)
        raise BadArguments(f"the key {clip(twice, 80)!r} is given twice in one object")
    return read


def _refuse_constant(name: str) -> NoReturn:
    raise BadArguments(f"{name} is not JSON; send a finite number or null")


def _read_int(digits: str) -> int:
    if len(digits) > 4_000:
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


def _read(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise BadArguments(
            f"this is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise BadArguments(f"the JSON is nested deeper than {MAX_DEPTH} levels") from None


def parse_arguments(raw: object) -> JsonObject:
    """Read the arguments of a call as a model or its client wrote them. Raises `BadArguments`.

    A dict is copied, nothing is no arguments, text must be strict JSON for one object; such text written as a JSON string once
    more is unwrapped.
    """
    try:
        if isinstance(raw, (bytes, bytearray)):
            raw = bytes(raw).decode()
        if raw is None or (isinstance(raw, str) and not raw.strip(" \t\r\n")):
            return {}
        value: Any = _read(raw) if isinstance(raw, str) else raw
        if isinstance(raw, str) and isinstance(value, str):
            value = _read(value) if value.strip(" \t\r\n") else {}
        if isinstance(value, Mapping):
            return dict(clone(cast("JsonObject", value)))
        reason = f"this is a JSON {kind_of(value)}"
    except (BadArguments, Uncloneable, UnicodeDecodeError) as error:
        reason = str(error)
    raise BadArguments(f'The arguments could not be read: {reason}. Send one JSON object, such as {{"name": "value"}}.')


@lru_cache(maxsize=512)
def _by_content(text: str) -> Compiled:
    from hooksdk._schema.engine import compile_schema

    return compile_schema(json.loads(text))


@lru_cache(maxsize=512)
def _by_bytes(content: bytes) -> Compiled:
    return _by_content(_compact(clone(marshal.loads(content)), sort_keys=False))  # noqa: S302 - these bytes are our own


def _compiled(schema: Any) -> Compiled:
    """The validator kept for a schema of this content. marshal is the cheapest way to tell that a schema has not changed."""
    try:
        content = marshal.dumps(schema)
    except ValueError:  # a subclass somewhere, or nested too deep
        return _by_content(_compact(clone(schema), sort_keys=False))
    if len(content) > MAX_SCHEMA_BYTES:
        raise Uncloneable(f"it is larger than {MAX_SCHEMA_BYTES:,} bytes")
    return _by_bytes(content)


def _usable(schema: Any) -> Compiled | str:
    try:
        compiled = _compiled(schema)
    except (ValueError, TypeError, RecursionError) as error:
        return clip(str(error), 300)
    return compiled if compiled.fault is None else compiled.fault


def check_schema(schema: object) -> str | None:
    """Why this is no usable JSON Schema, or None. References are followed when a value is checked, never to another document."""
    usable = _usable(schema)
    return usable if isinstance(usable, str) else None


def check(
    schema: Mapping[str, Any] | None, instance: object, *, root: str = "arguments", quote_values: bool = True
) -> list[Problem]:
    """What is wrong with a value, best first, at most ten; empty where it fits. Never raises.

    The draft is the one that `$schema` names, else 2020-12. Without `quote_values` no text repeats the value's own values.
    """
    if schema is None:
        return []
    compiled = _usable(schema)
    if isinstance(compiled, str):
        return [Problem(root, "schema", clip(f"nothing can be checked, because the schema is broken: {compiled}", 300))]
    size = survey(instance)
    if not size.plain:
        try:
            instance = json.loads(_compact(clone(instance), sort_keys=False))
        except (Uncloneable, RecursionError) as error:
            return [Problem(root, "json", clip(str(error), 300))]
        size = survey(instance)
    if size.fault:
        return [Problem(root, "limit", f"this cannot be checked: {size.fault}")]
    if use_fast and compiled.is_fine(instance, size):
        return []
    try:
        return explain(compiled.errors(instance, size), root, quote_values=quote_values)
    except TooMuchWork:
        return [
            Problem(
                root, "limit", "checking this against the schema would take too long; send smaller or simpler values"
            )
        ]
    except Exception as error:
        reason = clip(str(error) if isinstance(error, LookupError) else type(error).__name__, 200)
        return [Problem(root, "schema", f"the schema cannot be followed: {reason}")]


def repair(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> JsonObject:
    """Arguments as a weak model meant them, where the schema leaves no doubt; else a copy of what came. Raises `Uncloneable`.

    Text becomes the number, boolean, object or array that is asked for; an empty optional value goes; a wrapper such as
    `{"arguments": {...}}` is taken off; `"options.count"` becomes `options: {count}`. What fits is never changed, unless
    it fits only because the schema does not say what else there may be: most do not, and an argument under a key that
    the tool does not know would be lost.
    """
    given = clone(dict(arguments))
    before = check(schema, given)
    if not isinstance(schema, Mapping) or (before and before[0].constraint in {"schema", "limit", "json"}):
        return given
    if not before and not _has_unforeseen(schema, given):
        return given
    mended = mend(clone(dict(schema)), clone(given), _read)
    return mended if len(check(schema, mended)) <= len(before) else given


def _has_unforeseen(schema: Mapping[str, Any], arguments: JsonObject) -> bool:
    """Whether there are arguments of which the schema says nothing, not even that there may be others."""
    known = schema.get("properties")
    silent = "additionalProperties" not in schema and "patternProperties" not in schema
    return silent and isinstance(known, Mapping) and not arguments.keys() <= cast("Mapping[str, Any]", known).keys()
