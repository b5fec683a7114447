"""An index of a long session, kept beside its file or rows, by which the next reader is faster. It is never needed: if
it does not fit them to the byte, all is read instead."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hooksdk.stores._append_file import Covered
from hooksdk.stores._lines import LineTable
from hooksdk.stores.files import BINARY, write_all

logger = logging.getLogger("hooksdk")

VERSION = 1
# Bytes of the SHA-256 at its end, over everything before.
_DIGEST = 32


class Index(NamedTuple):
    """The covered beginning of the file, and the reader's note about it."""

    covered: Covered
    note: bytes


def _header(session_id: str) -> dict[str, Any]:
    machine = [sys.byteorder, LineTable().ends.itemsize, LineTable().marks.itemsize]
    return {"hooksdk": "index", "version": VERSION, "session": session_id, "machine": machine}


def write_index(path: Path, session_id: str, index: Index) -> None:
    """Replace the index, without waiting for the disk: a half of one, as after a power cut, does not fit. An index that
    cannot be written is no problem."""
    size, digest, lines = index.covered.size, index.covered.digest, index.covered.lines
    header = {**_header(session_id), "size": size, "sha256": digest, "lines": len(lines)}
    data = _seal(header, lines.ends.tobytes() + lines.marks.tobytes() + index.note)
    beside = path.with_name(f".{path.name}.tmp")
    try:
        no_link = getattr(os, "O_NOFOLLOW", 0)  # a link that somebody put there would lead to another file
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY | no_link, 0o600)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        beside.replace(path)
    except OSError as error:
        logger.debug("%s cannot be written: %s", path, error)


def read_index(path: Path, session_id: str) -> Index | None:
    """The index of a session; None if it is missing, damaged, or of another kind of machine."""
    try:
        header, body = _unseal(path.read_bytes(), _header(session_id))
        lines, count, start = LineTable(), int(header["lines"]), 0
        for column in (lines.ends, lines.marks):
            column.frombytes(body[start : start + count * column.itemsize])
            start += count * column.itemsize
        if len(lines.marks) != count or lines.start(count) > header["size"]:
            return None
        return Index(Covered(int(header["size"]), str(header["sha256"]), lines), bytes(body[start:]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def index_of_rows(session_id: str, rows: Sequence[bytes], note: bytes) -> bytes:
    """The index of a session whose messages are these rows."""
    return _seal({**_row_header(session_id), "rows": len(rows), "sha256": _digest_of(rows)}, note)


def note_on_rows(index: bytes, session_id: str, rows: Sequence[bytes]) -> tuple[int, bytes] | None:
    """The number of rows that an index covers, and its note about them; None for an index that does not fit."""
    try:
        header, note = _unseal(index, _row_header(session_id))
        count = int(header["rows"])
        fits = 0 < count <= len(rows) and header["sha256"] == _digest_of(rows[:count])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return (count, bytes(note)) if fits else None


def _row_header(session_id: str) -> dict[str, Any]:
    return {"hooksdk": "index of rows", "version": VERSION, "session": session_id}


def _digest_of(rows: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(b"%d\n%b" % (len(row), row))
    return digest.hexdigest()


def _seal(header: dict[str, Any], body: bytes) -> bytes:
    data = json.dumps(header).encode() + b"\n" + body
    return data + hashlib.sha256(data).digest()


def _unseal(data: bytes, expected: dict[str, Any]) -> tuple[dict[str, Any], memoryview]:
    """Header and body of a sealed index. Raises `ValueError` for one that is not whole or not the expected one."""
    whole = memoryview(data)[:-_DIGEST]
    start = data.index(b"\n") + 1
    if hashlib.sha256(whole).digest() != data[-_DIGEST:]:
        raise ValueError("an index that is not whole")
    header: dict[str, Any] = json.loads(data[:start])
    if any(header.get(key) != value for key, value in expected.items()):
        raise ValueError("an index of something else")
    return header, whole[start:]
