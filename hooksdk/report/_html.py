"""Markup that cannot be broken by what stands in it: every text is escaped where it meets a tag, and shown as it is."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TypeAlias

# Characters that are not seen, or turn the words around them: they are shown by their numbers.
HIDDEN = [
    0x00AD, 0x061C, 0x180E, *range(0x200B, 0x200C), *range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070),
    0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),
]  # fmt: skip
_TABLE: dict[int, str] = {
    **dict.fromkeys([*range(32), *range(127, 160), *range(55296, 57344)], "�"),
    **{number: f"[U+{number:04X}]" for number in HIDDEN},
}
del _TABLE[0x09], _TABLE[0x0A]


class Html(str):
    """Markup. Any other text is escaped before it gets between tags."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[Child] | None"


def visible(text: str) -> str:
    """The text without what no page may hold, and with a mark for what a reader would not see."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_TABLE)


def escaped(text: str) -> str:
    """The text as it stands between tags and in attributes."""
    return html.escape(visible(text))


def join(*children: Child) -> Html:
    """Children after each other."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            parts.append(child if isinstance(child, Html) else escaped(child))
        else:
            parts.append(join(*child))
    return Html("".join(parts))


def tag(name: str, /, *children: Child, **attributes: str | bool | None) -> Html:
    """An element. Attributes that are None or False are left out; `class_` is `class`, and an underscore a hyphen."""
    told = ""
    for key, value in attributes.items():
        if value is not None and value is not False:
            word = key.rstrip("_").replace("_", "-")
            told += f" {word}" if value is True else f' {word}="{escaped(value)}"'
    return Html(f"<{name}{told}>{join(*children)}</{name}>")
