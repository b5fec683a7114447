"""Texts made comparable, and a value found whole in one."""

from __future__ import annotations

import json
import re
import unicodedata

_ESCAPE = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\[nrt\"/\\]")
# Characters by which what stands before a value may be a part of one with it.
_LEFT = frozenset("./@%+-")
_RIGHT = frozenset("./@%+-?&=#~")
# Numbers of fewer digits stand everywhere by accident: in dates, prices, lists.
_SHORT_NUMBER = 4


def fold(text: str) -> str:
    """The text in one case and one width (NFKC), without characters that nobody sees, and with one blank for each
    gap."""
    text = text.lower() if text.isascii() else without_invisible(unicodedata.normalize("NFKC", text).lower())
    return " ".join(text.split())


def fold_result(text: str) -> str:
    """The same of a result, with the escapes of JSON undone: many tools answer JSON."""
    return fold(undo_escapes(text))


def undo_escapes(text: str) -> str:
    """The text with the escapes of JSON undone once."""
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def fold_value(value: str) -> str | None:
    """A value to look for. None for one that nothing clears: with characters that nobody sees, of one character, and
    numbers of fewer than four digits."""
    folded = " ".join(unicodedata.normalize("NFKC", value).lower().split())
    is_plain = folded.isascii() and folded.isprintable()
    if not is_plain and any(unicodedata.category(char) in {"Cf", "Cc", "Co", "Cn", "Cs"} for char in folded):
        return None
    has_letters = any(char.isalpha() for char in folded)
    if len(folded) < 2 or (not has_letters and sum(char.isdigit() for char in folded) < _SHORT_NUMBER):
        return None
    return folded


def without_invisible(text: str) -> str:
    """The text without characters that have no look of their own (Unicode's category Cf)."""
    return text.translate({ord(char): None for char in set(text) if unicodedata.category(char) == "Cf"})


def find_whole(text: str, value: str, start: int = 0) -> int:
    """Where the value stands in the text as a whole, both folded: not as a part of a longer word, number, address or
    path. -1 where it does not."""
    is_address = "@" in value or "." in value or "/" in value
    place = text.find(value, start)
    while place >= 0:
        end = place + len(value)
        if not _goes_on(text, place, -1, value[0], is_address) and not _goes_on(
            text, end - 1, 1, value[-1], is_address
        ):
            return place
        place = text.find(value, place + 1)
    return -1


def _goes_on(text: str, place: int, step: int, edge: str, is_address: bool) -> bool:
    """True where what stands beside the value, before (-1) or after (1) this place, is a part of one with it."""
    joints = _LEFT if step < 0 else _RIGHT | {":"} if is_address else _RIGHT
    at = place + step
    if not 0 <= at < len(text) or not (_is_part(edge, True) or edge in joints):
        return False
    while 0 <= at < len(text) and text[at] in joints:
        at += step
    return 0 <= at < len(text) and _is_part(text[at], is_address)


def _is_part(char: str, is_address: bool) -> bool:
    """True for letters, digits and what is set on them. Scripts that put no blanks between words have no such ends,
    except at an address."""
    if char.isascii():
        return char.isalnum() or char == "_"
    if not is_address and "\u2e80" <= char <= "\U0003ffff" and not "\uac00" <= char <= "\ud7af":
        return False
    return char.isalnum() or unicodedata.category(char).startswith("M")


def _unescaped(match: re.Match[str]) -> str:
    text = match[0]
    if text.startswith("\\u"):
        return str(json.loads(f'"{text}"'))
    return " " if text[1] in "nrt" else text[1]
