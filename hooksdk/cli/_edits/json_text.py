"""Edits of one place in a text of JSON, with comments and trailing commas, that leave every other byte as it is.

The libraries for such JSON read it, or write it anew; one that edits in place brings Node.js along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|[{}\[\],:]|[^\s{}\[\],:"/\ufeff]+', re.DOTALL)
_OPENING, _CLOSING = {"{", "["}, {"}", "]"}


@dataclass
class Member:
    """A member of an object: the start of its name, its value, and the comma after it. An item of a list is a member
    whose name is its place, from `"0"` on, and which starts with its value.

    Attributes:
        comma: The place of the comma after it; None without one.
    """

    name: str
    start: int
    value: Span
    comma: int | None = None


@dataclass
class Span:
    """A value in the text from `start` to `end`, with the members of an object or a list."""

    start: int
    end: int
    members: list[Member] = field(default_factory=list[Member])
    is_object: bool = False
    is_list: bool = False


def find(text: str, keys: Sequence[str]) -> Span | None:
    """The value under these keys, if there is one. The text must be valid."""
    span: Span | None = _parse(text)
    for key in keys:
        member = _member(span, key) if span is not None else None
        span = member.value if member else None
    return span


def set_member(text: str, keys: Sequence[str], name: str, value: object) -> str:
    """Give the object under these keys a member: it replaces the one of this name, or becomes the last. A missing
    object is made."""
    span = find(text, keys)
    if span is None or not span.is_object:
        return set_member(text, keys[:-1], keys[-1], {name: value})
    indent = _indent_of(text, span)
    if (known := _member(span, name)) is not None:
        return _replaced(text, known.value.start, known.value.end, _rendered(text, value, indent))
    return _appended(text, span, f"{json.dumps(name, ensure_ascii=False)}: {_rendered(text, value, indent)}", indent)


def add_item(text: str, keys: Sequence[str], item: object) -> str:
    """Append an item to the list under these keys. A missing list is made."""
    span = find(text, keys)
    if span is None or not span.is_list:
        return set_member(text, keys[:-1], keys[-1], [item])
    indent = _indent_of(text, span)
    return _appended(text, span, _rendered(text, item, indent), indent)


def _appended(text: str, span: Span, new: str, indent: str | None) -> str:
    newline, outer = _newline(text), _margin(text, span.start)
    if not span.members:
        inside = text[span.start + 1 : span.end - 1]
        if indent is None:
            return _replaced(text, span.start + 1, span.end - 1, f"{inside.rstrip()}{new}")
        return _replaced(text, span.start + 1, span.end - 1, f"{inside.rstrip()}{newline}{indent}{new}{newline}{outer}")
    last = span.members[-1]
    place = last.comma + 1 if last.comma is not None else last.value.end
    place = _end_of_line(text, place, span.end - 1) if indent is not None else place
    before = f"{newline}{indent}" if indent is not None else " "
    text = _replaced(text, place, place, f"{before}{new}{',' if last.comma is not None else ''}")
    return text if last.comma is not None else _replaced(text, last.value.end, last.value.end, ",")


def remove_member(text: str, keys: Sequence[str], name: str) -> str:
    """Remove a member of the object or the list under these keys, with its line if that has nothing else. Comments
    stay."""
    span = find(text, keys)
    member = _member(span, name) if span is not None else None
    if span is None or member is None:
        return text
    at = span.members.index(member)
    start, end = member.start, member.value.end if member.comma is None else member.comma + 1
    between = "" if member.comma is None else text[member.value.end : member.comma]  # perhaps a comment
    between = between if between.strip() else ""
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and (rest := re.compile(r"[ \t]*\r?\n").match(text, end)) and not between:
        start, end = line, rest.end()
    elif member.comma is not None and not between:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    elif at and not between:
        start -= len(text[:start]) - len(text[:start].rstrip(" \t"))
    text = _replaced(text, start, end, between)
    before = span.members[at - 1] if at else None
    if member.comma is None and before is not None and before.comma is not None:
        text = _replaced(text, before.comma, before.comma + 1, "")
    return text


def with_servers(text: str, entries: Mapping[str, Any]) -> str:
    """The text of a file of servers with these added."""
    text = text if text.strip("\ufeff \t\r\n") else '{\n  "mcpServers": {}\n}\n'
    for name, entry in entries.items():
        text = set_member(text, ["mcpServers"], name, entry)
    return text


def _parse(text: str) -> Span:
    """The outermost value, with all objects in it."""
    root = Span(0, 0)
    open_values: list[Span] = []
    name: tuple[str, int] | None = None
    colon = False
    for match in _TOKEN.finditer(text):
        word, start, end = match[0], match.start(), match.end()
        holder = open_values[-1] if open_values else None
        if word.startswith(("//", "/*")):
            continue
        if word in _CLOSING:
            open_values.pop().end = end
        elif word == ",":
            if holder is not None and holder.members:
                holder.members[-1].comma = start
        elif word == ":":
            colon = True
        elif holder is not None and holder.is_object and not colon:
            name = (json.loads(word, strict=False), start)
        else:
            span = Span(start, end, is_object=word == "{", is_list=word == "[")
            if holder is None:
                root = span
            elif holder.is_object and name is not None:
                holder.members.append(Member(name[0], name[1], span))
                colon = False
            else:
                holder.members.append(Member(f"{len(holder.members)}", start, span))
            if word in _OPENING:
                open_values.append(span)
    return root


def _member(span: Span, name: str) -> Member | None:
    return next((one for one in span.members if one.name == name), None)


def _replaced(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _margin(text: str, place: int) -> str:
    """The blanks at the beginning of the line that holds a place."""
    line = text[text.rfind("\n", 0, place) + 1 : place].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """The indentation of one level in this text."""
    found = re.search(r"\n([ \t]+)[\"/]", text)
    return found[1] if found else "  "


def _indent_of(text: str, span: Span) -> str | None:
    """The blanks before a member of this object; None for an object in one line."""
    if span.members:
        first = span.members[0].start
        line = text[text.rfind("\n", 0, first) + 1 : first]
        return line if "\n" in text[span.start : first] and not line.strip() else None
    return _margin(text, span.start) + _unit(text) if "\n" in text.strip() or len(text.strip()) == 2 else None


def _rendered(text: str, value: object, indent: str | None) -> str:
    """A value in the layout of this text: in one line when the object around it is, else in several."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _end_of_line(text: str, place: int, limit: int) -> int:
    """The end of the blanks and comments in the line of a member that ends at `place`."""
    rest = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\n]*?\*/))+(?=[ \t]*\r?\n)").match(text, place)
    return rest.end() if rest and rest.end() <= limit else place
