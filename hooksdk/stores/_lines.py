"""The lines of an append-only file: what each holds, and what is damage."""

from __future__ import annotations

import json
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, final

from hooksdk.errors import StoreError

# Without the steps around it that make `json.loads` twice as slow for a short line.
_DECODER = json.JSONDecoder()


def parse_line(path: Path, line: bytes, number: int) -> dict[str, Any]:
    """The object of a whole line. Raises `StoreError` with its place."""
    try:
        text = line.decode()
        bare = text.strip(" \t\r\n")
        value, end = _DECODER.raw_decode(bare)
        if end != len(bare):
            value = json.loads(text)
    except (ValueError, RecursionError) as error:
        glued = " (two lines glued together?)" if b"}{" in line else ""
        glued = " (a block of zeros)" if b"\0" in line else glued
        raise _damage(path, number, f"this line is not JSON{glued}: {error}") from error
    if not isinstance(value, dict):
        raise _damage(path, number, f"this line is a {type(value).__name__}, not an object")
    return cast("dict[str, Any]", value)


def is_whole(path: Path, tail: bytes, number: int) -> bool:
    """False for what a torn write leaves: the beginning of an object, or of a step that goes on. Raises `StoreError`
    for what no write leaves.
    """
    if b"\0" in tail or not tail.startswith((b"{", b" ")):
        raise _damage(path, number, "this is no line that was begun here (a block of zeros, or foreign text)")
    try:
        text = tail.decode()
        _, end = json.JSONDecoder().raw_decode(text.lstrip(" "))
    except (ValueError, RecursionError):
        return False
    if text.lstrip(" ")[end:].strip():
        raise _damage(path, number, "this line is not JSON (two lines glued together?)")
    return not tail.startswith(b" ")


def _damage(path: Path, number: int, problem: str) -> StoreError:
    return StoreError(f"{path}, line {number}", f"{problem}. Nothing was changed; repair or move the file")


@final
@dataclass(slots=True)
class LineTable:
    """The ends of a file's lines, and a number that tells its content from another. A line between two ends includes
    the blank lines before it."""

    ends: array[int] = field(default_factory=lambda: array("Q"))
    marks: array[int] = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        return len(self.ends)

    def start(self, number: int) -> int:
        """Where a line begins."""
        return self.ends[number - 1] if number else 0

    def add(self, line: bytes, end: int) -> None:
        """One more line, which ends there."""
        self.marks.append(zlib.crc32(line.strip()))
        self.ends.append(end)

    def fits(self, number: int, data: bytes) -> bool:
        """True for what this line holds."""
        return zlib.crc32(data.strip()) == self.marks[number]

    def first_change(self, data: bytes) -> int:
        """The number of the first line that a file with this content has otherwise."""
        changed = (n for n in range(len(self)) if not self.fits(n, data[self.start(n) : self.ends[n]]))
        number = next(changed, len(self))
        return data.count(b"\n", 0, self.start(number))
