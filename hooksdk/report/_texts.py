"""Texts and numbers by others: read with care, and cut to what a page can hold."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hooksdk.report._model import Text
from hooksdk.values import as_list

SHOWN_CHARS, SHOWN_LINES = 1_200, 16
"""Of each text at most, before it is opened."""
WHOLE_CHARS = 100_000
"""Characters of the longest text that a page has whole."""
PAGE_CHARS = 6_000_000
"""Characters that all whole texts of a page have together."""


@dataclass
class Room:
    """How much of others' texts a page can still hold."""

    left: int = PAGE_CHARS

    def text(self, value: str, *, chars: int = SHOWN_CHARS, lines: int = SHOWN_LINES) -> Text:
        """The text's beginning; and the whole, while there is room."""
        shown = "\n".join(value[: chars + 1].split("\n", lines)[:lines])[:chars]
        if len(shown) == len(value):
            return Text(shown=value, whole=None, characters=len(value))
        whole = value if len(value) <= min(WHOLE_CHARS, self.left) else None
        self.left -= len(whole or "")
        return Text(shown=shown, whole=whole, characters=len(value))


def as_text(value: object) -> str:
    """A JSON value's text where it is one, else nothing."""
    return value if isinstance(value, str) else ""


def as_number(value: object) -> float:
    """A JSON value's number where it is a finite one that a page can show, else 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if abs(number) < 1e15 else 0.0


def as_count(value: object) -> int:
    """The same as a whole number."""
    return int(as_number(value))


def as_texts(value: object) -> list[str]:
    """The texts in a JSON list."""
    return [item for item in as_list(value) if isinstance(item, str)]


def arguments_text(value: object) -> str:
    """A call's arguments, readable: JSON with an indent where they are not short."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    try:
        short = json.dumps(value, ensure_ascii=False)
        return short if len(short) <= 100 else json.dumps(value, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError):
        return str(value)
