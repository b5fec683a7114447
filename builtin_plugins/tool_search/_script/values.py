"""Values on their way into a script, and texts on their way to the model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast, final

from hooksdk.values import compact

# Characters from which on a text is parsed in a thread, so that the event loop goes on.
THREAD_FROM = 20_000
MAX_DEPTH = 100
# In one result. More would take the host too long, and a script's memory holds hardly more.
MAX_VALUES = 500_000
# A script's memory holds no more.
MAX_CHARACTERS = 64 * 2**20
# A longer whole number costs too much to write out.
MAX_BITS = 10_000


class TooLarge(Exception):
    """A result is larger than a script can hold."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the result has more than {what}, which is more than a script can hold")


def as_json(value: object) -> Any:
    """A value of the host as JSON that can be sent to a worker."""
    return _Reader().read(value, 0)


def result_value(structured: object, text: str) -> Any:
    """The result of a tool for a script: its structured result, else the object or list that its text is JSON of, else
    the text. Raises `TooLarge`."""
    for get in (lambda: structured, lambda: json.loads(text) if text.lstrip()[:1] in {"{", "["} else None):
        try:
            if (value := get()) is not None:
                return _Reader().read(value, 0)
        except (ValueError, TypeError, RecursionError):
            continue
    return _Reader().read(text, 0)


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be sent to a worker."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def beginning(text: str, room: int) -> str:
    """The beginning of a text that takes at most so many characters as JSON."""
    text = text[: max(room, 2)]
    while (size := len(compact(text))) > max(room, 2):
        text = text[: min(len(text) - 1, len(text) * room // size)]
    return text


@final
class _Reader:
    """Copies JSON, and raises `TypeError` where it is none."""

    def __init__(self) -> None:
        self._values = MAX_VALUES
        self._room = MAX_CHARACTERS

    def read(self, value: object, depth: int) -> Any:
        self._values -= 1
        if self._values < 0:
            raise TooLarge(f"{MAX_VALUES:,} values")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and value.bit_length() <= MAX_BITS:
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        if depth > MAX_DEPTH:
            raise TypeError("nested too deep")
        if isinstance(value, (list, tuple)):
            return [self.read(item, depth + 1) for item in cast("list[object]", value)]
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {self._key(key): self.read(item, depth + 1) for key, item in items}
        raise TypeError("no JSON")

    def _key(self, key: object) -> str:
        if isinstance(key, int) and key.bit_length() <= MAX_BITS:
            return str(key)
        if not isinstance(key, str):
            raise TypeError("a key that is no text")
        return self._text(key)

    def _text(self, text: str) -> str:
        self._room -= len(text)
        if self._room < 0:
            raise TooLarge(f"{MAX_CHARACTERS:,} characters")
        return clean(text)
