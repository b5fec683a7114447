"""Edits of a text of TOML that take tables out and put them back, and leave every other byte as it is.

tomlkit keeps what stays, and takes along the comments behind a table that is taken out, which are about the next one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import tomlkit

_PIECE = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'|#[^\n]*|[\[\]{}]|\n|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)
# A key above the first head; a key right below the head of the edited table; a table with its keys.
Kind = Literal["above", "inside", "table"]


@dataclass(frozen=True)
class Statement:
    """A table's head, or a key with its value: its text from `start` to `end`, the end of its line included.

    Attributes:
        keys: The keys that it sets, from the outermost table on.
    """

    start: int
    end: int
    keys: tuple[str, ...]
    kind: Kind


@dataclass
class Taken:
    """The rest of a text, and the pieces that were taken out of it.

    Attributes:
        place: The place of the first table in the rest; None when no table with a head of its own was taken.
    """

    rest: str
    place: int | None = None
    pieces: dict[Kind, str] = field(default_factory=dict[Kind, str])


def statements(text: str, table: str) -> list[Statement]:
    """The statements of a valid text, in their order; `table` is the edited one."""
    found: list[Statement] = []
    head: tuple[str, ...] | None = None
    place = 1 if text.startswith("\ufeff") else 0
    while place < len(text):
        end = _end(text, place)
        line = text[place:end].strip()
        if line.startswith("["):
            head = _keys(line.replace("[[", "[", 1).replace("]]", "]", 1) if line.startswith("[[") else line)
            found.append(Statement(place, end, head, "table"))
        elif line and not line.startswith("#"):
            kind: Kind = "above" if head is None else "inside" if head == (table,) else "table"
            found.append(Statement(place, end, (*(head or ()), *_keys(line)), kind))
        place = end
    return found


def take_out(text: str, table: str, names: Collection[str]) -> Taken:
    """Take these tables out of a table. Comments and blank lines between two of them go along; all others stay. Raises
    `ValueError` when one of them shares a statement with others that stay."""
    taken = Taken("")
    place, last = 0, -2
    for number, one in enumerate(statements(text, table)):
        if one.keys[:1] != (table,) or not _goes(text, one, names):
            continue
        between = text[place : one.start]
        if last == number - 1 and taken.pieces.get(one.kind):
            taken.pieces[one.kind] += between
        else:
            taken.rest += between
        if one.kind == "table" and taken.place is None:
            taken.place = len(taken.rest)
        taken.pieces[one.kind] = taken.pieces.get(one.kind, "") + text[one.start : one.end]
        place, last = one.end, number
    taken.rest += text[place:]
    return taken


def put_in(text: str, table: str, pieces: Mapping[Kind, str], *, at: int | None = None) -> str:
    """Put pieces back: tables at a place in the text or at its end, other keys where they mean the same."""
    text = _insert(text, pieces.get("table", ""), len(text) if at is None else at)
    if inside := pieces.get("inside"):
        head = next((one.end for one in statements(text, table) if one.keys == (table,) and one.kind == "table"), None)
        text = _insert(text, inside if head is not None else f"[{table}]\n{inside}", head or len(text))
    if above := pieces.get("above"):
        first = next(
            (one.start for one in statements(text, table) if text[one.start : one.end].lstrip()[0] == "["), None
        )
        text = _insert(text, above, len(text) if first is None else first)
    return text


def add_table(text: str, keys: Sequence[str], values: Mapping[str, Any], *, at: int | None = None) -> str:
    """The text with one more table, at a place or at its end."""
    document = tomlkit.document()
    inner: Any = document
    for key in keys:
        inner[key] = tomlkit.table(is_super_table=key != keys[-1])
        inner = inner[key]
    inner.update(values)
    blank = "\n" if at is None and text.strip("\ufeff\r\n") else ""
    return _insert(text, f"{blank}{tomlkit.dumps(document)}", len(text) if at is None else at)


def _goes(text: str, one: Statement, names: Collection[str]) -> bool:
    table, *inner = one.keys
    if inner:
        return inner[0] in names
    if one.kind != "above":  # the head of the table itself
        return False
    servers: object = tomllib.loads(text[one.start : one.end])[table]
    if isinstance(servers, dict) and not set(cast("dict[str, object]", servers)) <= set(names):
        raise ValueError(f"'{table}' is written as one value; write a table [{table}.NAME] for each")
    return True


def _insert(text: str, new: str, at: int) -> str:
    """The text with more whole lines."""
    if not new:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    before, after = text[:at], text[at:]
    if before.strip("\ufeff") and not before.endswith("\n"):
        before += newline
    new = new.replace("\r\n", "\n").replace("\n", newline)
    return f"{before}{new}{'' if new.endswith(newline) or not after else newline}{after}"


def _end(text: str, place: int) -> int:
    """The end of the statement, comment or blank line that begins here."""
    depth = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        if piece is None:  # not in a valid text
            return len(text)
        place = piece.end()
        if piece[0] in "[{":
            depth += 1
        elif piece[0] in "]}":
            depth -= 1
        elif piece[0] == "\n" and depth <= 0:
            return place
    return len(text)


def _keys(line: str) -> tuple[str, ...]:
    """The keys that a head or a key with its value names."""
    inner: object = tomllib.loads(line)
    keys: list[str] = []
    while isinstance(inner, dict) and len(names := [*cast("dict[str, object]", inner)]) == 1:
        keys.append(names[0])
        inner = cast("dict[str, object]", inner)[names[0]]
    return tuple(keys)
