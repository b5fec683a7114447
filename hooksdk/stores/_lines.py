"""The lines of an append-only file: their content, what is damage, and when they are worth an index."""

from __future__ import annotations

import json
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, final

from hooksdk.errors import StoreError

# Less is read faster than an index is written and checked.
MIN_INDEX_BYTES = 1_000_000
# The decoder itself: `json.loads` takes twice as long for a short line.
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
    """False for the rest of a torn write: the beginning of an object, or of a step with more lines. Raises `StoreError`
    for a rest that no write leaves."""
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


def is_index_due(size: int, covered: int) -> bool:
    """True when so many bytes were stored since the index was written that reading them takes longer than reading
    it."""
    return size - covered >= max(MIN_INDEX_BYTES, covered // 8)


@final
@dataclass(slots=True)
class LineTable:
    """The ends of a file's lines, and a checksum of each. A line includes the blank lines before it."""

    ends: array[int] = field(default_factory=lambda: array("Q"))
    marks: array[int] = field(default_factory=lambda: array("I"))

    def __len__(self) -> int:
        return len(self.ends)

    def start(self, number: int) -> int:
        """The place at which a line begins."""
        return self.ends[number - 1] if number else 0

    def add(self, line: bytes, end: int) -> None:
        """Add a line that ends at this place."""
        self.marks.append(zlib.crc32(line.strip()))
        self.ends.append(end)

    def fits(self, number: int, data: bytes) -> bool:
        """True for the content of this line."""
        return zlib.crc32(data.strip()) == self.marks[number]

    def first_change(self, data: bytes) -> int:
        """The number of the first line in which this content of the file differs."""
        changed = (n for n in range(len(self)) if not self.fits(n, data[self.start(n) : self.ends[n]]))
        number = next(changed, len(self))
        return data.count(b"\n", 0, self.start(number))
