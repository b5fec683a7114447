"""The lines of an append-only file: what each holds, and what is damage."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, cast

from hooksdk.errors import StoreError


def parse_line(path: Path, line: bytes, number: int) -> dict[str, Any]:
    """The object of a whole line. Raises `StoreError` with its place."""
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        glued = " (two lines glued together?)" if b"}{" in line else ""
        glued = " (a block of zeros)" if b"\0" in line else glued
        raise _damage(path, number, f"this line is not JSON{glued}: {error}") from error
    if not isinstance(value, dict):
        raise _damage(path, number, f"this line is a {type(value).__name__}, not an object")
    return cast("dict[str, Any]", value)


def is_whole(path: Path, tail: bytes, number: int) -> bool:
    """False for what a torn write leaves: the beginning of an object, or of a step that goes on. Raises `StoreError` for what
    no write leaves.
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


def line_marks(data: bytes) -> list[int]:
    """One number for each whole line, to say later which one was changed."""
    return [zlib.crc32(line) for line in data.split(b"\n")[:-1]]
