"""The lines of a session's files, read without holding the session and whatever state they are in."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hooksdk.transcript import encode


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a file.

    Attributes:
        number: From 1.
        data: With its line feed.
        values: The one object that it holds; more where lines are glued together, none where it is empty or damaged.
        problem: Why it is no line of the store's; empty where nothing is wrong.
    """

    number: int
    data: bytes
    values: tuple[dict[str, Any], ...]
    problem: str = ""

    @property
    def is_glued(self) -> bool:
        """Several whole objects: the line feeds between them are lost."""
        return len(self.values) > 1


@dataclass(kw_only=True)
class Lines:
    """A file of JSON objects, a line each, as `JsonlStore` writes it.

    Attributes:
        lines: Those of the whole steps.
        whole: How many bytes the whole steps are.
    """

    data: bytes
    lines: list[Line] = field(default_factory=list[Line])
    whole: int = 0

    @property
    def torn(self) -> int:
        """How many bytes at the end belong to no whole step, as after a crash."""
        return len(self.data) - self.whole

    @property
    def problem(self) -> str:
        """What is wrong with the first damaged line; empty where there is none."""
        damaged = next((line for line in self.lines if line.problem), None)
        return f"line {damaged.number} {damaged.problem}" if damaged else ""

    @property
    def values(self) -> list[dict[str, Any]]:
        """Every object that can be read."""
        return [value for line in self.lines for value in line.values]


def read_lines(path: Path) -> Lines:
    """All lines of a file; none of one that does not exist. Raises `OSError`."""
    try:
        return split_lines(path.read_bytes())
    except FileNotFoundError:
        return Lines(data=b"")


def split_lines(data: bytes) -> Lines:
    """The lines of a file's content. Every line of a step but the last begins with a blank."""
    result = Lines(data=data)
    step: list[Line] = []
    end = 0
    for number, text in enumerate(re.findall(rb"[^\n]*\n|[^\n]+", data), 1):
        values, problem = _parse(text)
        line = Line(number=number, data=text, values=tuple(values), problem=problem)
        end += len(text)
        is_complete = text.endswith(b"\n") or (not line.problem and bool(line.values))
        step.append(line)
        if not text.startswith(b" ") and is_complete:
            result.lines += step
            step, result.whole = [], end
    return result


def _parse(data: bytes) -> tuple[list[dict[str, Any]], str]:
    if not data.strip():
        return [], ""
    if b"\0" in data:
        return [], "holds a block of zeros, as after a power cut"
    values: list[object] = []
    try:
        text = data.decode().strip()
        while text:
            value, end = json.JSONDecoder().raw_decode(text)
            values.append(value)
            text = text[end:].lstrip()
    except (ValueError, RecursionError):
        return [], "is not JSON"
    if not all(isinstance(value, dict) for value in values):
        return [], "is no JSON object"
    objects = cast("list[dict[str, Any]]", values)
    return objects, "is several lines glued together" if len(objects) > 1 else ""


def unglued(line: Line) -> bytes:
    """The objects of a glued line, a line each."""
    return b"".join(encode(value) + b"\n" for value in line.values)
