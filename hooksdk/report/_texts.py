"""Reading texts and numbers that others wrote, which may be of any type, and cutting texts to the size of a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hooksdk.report._model import Text
from hooksdk.values import as_list

SHOWN_CHARS, SHOWN_LINES = 1_200, 16
"""The part of a text that is shown before it is opened."""
# Characters of the longest text that is on a page whole.
WHOLE_CHARS = 100_000
# Characters of all whole texts of a page.
PAGE_CHARS = 6_000_000


@dataclass
class Room:
    """The characters of whole texts that a page can still hold."""

    left: int = PAGE_CHARS

    def text(self, value: str, *, chars: int = SHOWN_CHARS, lines: int = SHOWN_LINES) -> Text:
        """The beginning of the text, and the whole text while there is room."""
        shown = "\n".join(value[: chars + 1].split("\n", lines)[:lines])[:chars]
        if len(shown) == len(value):
            return Text(shown=value, whole=None, characters=len(value))
        whole = value if len(value) <= min(WHOLE_CHARS, self.left) else None
        self.left -= len(whole or "")
        return Text(shown=shown, whole=whole, characters=len(value))


def as_text(value: object) -> str:
    """The value if it is a text, else an empty text."""
    return value if isinstance(value, str) else ""


def as_number(value: object) -> float:
    """The value if it is a finite number that a page can show, else 0."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0.0
    try:
        number = float(value)
    except OverflowError:
        return 0.0
    return number if abs(number) < 1e15 else 0.0


def as_count(value: object) -> int:
    """The same, as a whole number."""
    return int(as_number(value))


def as_texts(value: object) -> list[str]:
    """The texts in a JSON list."""
    return [item for item in as_list(value) if isinstance(item, str)]


def arguments_text(value: object) -> str:
    """A call's arguments as JSON, with an indent if they are long."""
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


def texts_in(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The texts under these keys of a record."""
    return {key: as_text(record.get(key)) for key in keys}


def counts_in(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """The counts under these keys of a record."""
    return {key: as_count(record.get(key)) for key in keys}
