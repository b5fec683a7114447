"""Values on their way out of a script: as JSON for a tool, or as what the model can read."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast, final

from builtin_plugins.tool_search._answers import compact
from builtin_plugins.tool_search._signatures import clip

__all__ = ["as_arguments", "as_returned", "as_told", "clean", "fitting"]

MAX_DEPTH = 100
MAX_VALUES = 100_000
MAX_ARGUMENTS = 1_000_000
"""Characters of one call's arguments as JSON."""
MAX_BITS = 10_000
"""A longer whole number costs too much to write out."""
_LEFT_AS_TEXT = {
    "a call that was not awaited: write await before it": re.compile(r"<coroutine external_future\(\d+\)>"),
    "a function": re.compile(r"<function '[^']*' at 0x[0-9a-f]+>"),
    "a view of a dict: make it a list": re.compile(r"dict_(?:keys|values|items)\(\[.*\]\)", re.DOTALL),
}
"""What leaves the sandbox as text though it was none."""


def as_arguments(value: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as JSON for a tool. Raises `TypeError` that names what is none."""
    given = cast("dict[str, Any]", _Reader(strict=True).read(value, "arguments", 0))
    if (size := len(compact(given))) > MAX_ARGUMENTS:
        raise TypeError(f"the arguments have {size:,} characters; {MAX_ARGUMENTS:,} are the most")
    return given


def as_told(value: object) -> Any:
    """The value as JSON for the model: what has no form in JSON is told in words."""
    return _Reader(strict=False).read(value, "value", 0)


def as_returned(structured: object, text: str) -> Any:
    """What a tool answered: its structured result, else the object or list that its text is JSON of, else the text."""
    for read in (lambda: structured, lambda: json.loads(text) if text.lstrip()[:1] in {"{", "["} else None):
        try:
            if (value := read()) is not None:
                return _Reader(strict=True).read(value, "result", 0)
        except (ValueError, TypeError, RecursionError):
            continue
    return clean(text)


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be sent to a worker."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fitting(text: str, room: int) -> str:
    """The beginning of a text that takes at most so many characters as JSON."""
    while (size := len(compact(text))) > max(room, 2):
        text = text[: min(len(text) - 1, len(text) * room // size)]
    return text


@final
class _Reader:
    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._left = MAX_VALUES

    def read(self, value: object, path: str, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            return self._refuse(path, f"more than {MAX_VALUES:,} values", "(too many values)")
        if depth > MAX_DEPTH:
            return self._refuse(path[:80], f"nested more than {MAX_DEPTH} deep", "(nested too deep)")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            for what, pattern in _LEFT_AS_TEXT.items() if self._strict else ():
                if pattern.fullmatch(value):
                    self._refuse(path, what, value)
            return clean(value)
        if isinstance(value, int):
            bits = value.bit_length()
            return value if bits <= MAX_BITS else self._refuse(path, f"a number of {bits:,} bits", f"({bits:,} bits)")
        if isinstance(value, float):
            return value if math.isfinite(value) else self._refuse(path, f"{value}, which JSON has not", str(value))
        if isinstance(value, (list, tuple)):
            items = cast("list[object]", value)
            return [self.read(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(items)]
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[object, object]", value), path, depth)
        if isinstance(value, (dt.date, dt.time)):
            return value.isoformat()
        return self._other(value, path, depth)

    def _object(self, value: Mapping[object, object], path: str, depth: int) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for key, item in value.items():
            if self._strict and not isinstance(key, (str, int)):
                self._refuse(path, f"an object with a key of type {type(key).__name__}", "")
            name = clip(clean(str(key)), 10_000)
            read[name] = self.read(item, f"{path}.{name}", depth + 1)
        return read

    def _other(self, value: object, path: str, depth: int) -> Any:
        if isinstance(value, BaseException):
            return self._refuse(path, "an exception", f"{type(value).__name__}: {clip(str(value), 2000)}")
        if isinstance(value, (set, frozenset)):
            items = cast("set[object]", value)
            return self._refuse(path, "a set: make it a list", sorted(clip(str(item), 200) for item in items))
        if isinstance(value, bytes):
            return self._refuse(path, "bytes: decode them", f"({len(value)} bytes)")
        # An instance of a class of the script comes as a stand-in with the class's name and its attributes.
        attributes: object = getattr(value, "attributes", None)
        kind = getattr(value, "name", None) or type(value).__name__
        if isinstance(attributes, Mapping) and not self._strict:
            return {kind: self._object(cast("Mapping[object, object]", attributes), path, depth + 1)}
        return self._refuse(path, f"a {clip(str(kind), 100)}", clip(str(value), 200))

    def _refuse(self, path: str, what: str, told: Any) -> Any:
        if self._strict:
            raise TypeError(f"{clip(path, 200)} is no JSON: it is {what}")
        return told
