"""Markup that cannot be broken by what stands in it: every text is escaped where it meets a tag, and shown as it is."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

# Characters that are not seen, or turn the words around them: they are shown by their numbers.
_HIDDEN = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# Control characters but tab and line feed, and halves of characters: no page may hold them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Html(str):
    """Markup. Any other text is escaped before it gets between tags."""

    __slots__ = ()


Child: TypeAlias = "str | Html | Iterable[Child] | None"


def visible(text: str) -> str:
    """The text without what no page may hold, and with a mark for what a reader would not see."""
    text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


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
