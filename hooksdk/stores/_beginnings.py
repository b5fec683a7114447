"""Read the beginning of a session, for its summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from hooksdk.transcript import SessionBeginning

# The number of messages among which instructions and the user's first words stand.
FIRST_MESSAGES = 4
# The number of entries among which the one with format, model and folder stands.
FIRST_ENTRIES = 4
# Bytes that are read of one file: instructions and pasted text may be long.
MOST_BYTES = 256 * 1024


def read_beginning(base: Path) -> SessionBeginning | None:
    """The beginning of a session's two files; None if the journal does not name its session."""
    journal, messages = (base.with_name(f"{base.name}.{kind}.jsonl") for kind in ("journal", "messages"))
    session_id = session_of(journal)
    if session_id is None:
        return None
    path = journal
    try:
        entries = _first_lines(path, 1 + FIRST_ENTRIES)[1:]
        path = messages
        first = _first_lines(path, FIRST_MESSAGES)
        changed = max(each.stat().st_mtime for each in (journal, messages))
    except (OSError, ValueError) as error:
        return SessionBeginning(session_id=session_id, problem=f"{path}, among the first lines: {error}")
    return SessionBeginning(session_id=session_id, messages=first, journal=entries, changed=changed)


def session_of(journal: Path) -> str | None:
    """The id of the session whose journal this file is; None if its first line does not name it."""
    try:
        with journal.open("rb") as file:
            header = parse_line(file.readline())
        return str(header["session"]) if header["hooksdk"] == "journal" else None
    except (OSError, ValueError, KeyError):
        return None


def parse_line(line: str | bytes) -> dict[str, Any]:
    """The object in a line. Raises `ValueError`."""
    value: object = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"a line is a {type(value).__name__}, not an object")  # noqa: TRY004 - as json says of what it cannot read
    return cast("dict[str, Any]", value)


def _first_lines(path: Path, count: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    with path.open("rb") as file:
        while len(lines) < count and file.tell() < MOST_BYTES:
            line = file.readline()
            if not line.endswith(b"\n"):  # the end, or a line that is torn or being written
                break
            if line.strip():
                lines.append(parse_line(line))
    return lines
