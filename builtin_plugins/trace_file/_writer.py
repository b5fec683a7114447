"""Appending whole lines to one file from several sessions, threads and processes."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from hooksdk.config import state_folder

logger = logging.getLogger("hooksdk")

FILE_NAME = "trace.jsonl"
LOOKS, BETWEEN_LOOKS = 10, 0.01
"""How often a last line without an end is read before it counts as torn, and the seconds in between."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def locate(path: str | None) -> Path:
    """The file of the setting `path`, which is a folder if it exists as one, or ends with a slash."""
    if path is None:
        return state_folder() / FILE_NAME
    place = Path(path).expanduser()
    return place / FILE_NAME if path.endswith(("/", os.sep)) or place.is_dir() else place


def encode(record: Mapping[str, Any]) -> bytes:
    """A record as a line of ASCII, in which no character of the content looks like the end of a line. Values that are
    no JSON become text."""
    try:
        text = json.dumps(record, separators=(",", ":"), default=str, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        plain = {key: value if _is_plain(value) else repr(value)[:1000] for key, value in record.items()}
        text = json.dumps(plain, separators=(",", ":"))
    return text.encode() + b"\n"


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int)) or value is None or (isinstance(value, float) and math.isfinite(value))


@final
class LineFile:
    """An append-only file of lines. Each line is one write, so that lines of several processes do not mix. The first
    failure is logged; when writing works again, the log says how many lines were lost."""

    def __init__(self, path: Path, max_bytes: int | None, keep: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._regular = False
        self._torn = False
        self._lost = 0

    def open(self) -> None:
        """Open the file. Raises `OSError` for a path that cannot be written, but not for a full disk."""
        try:
            self._open()
        except OSError as error:
            if error.errno not in _FULL:
                raise
            self._lose(error)
            self._lost = 0  # no record is lost yet

    def append(self, line: bytes) -> None:
        """Write a whole line, or lose it and log that."""
        with self._lock:
            try:
                self._follow()
                if self._lost:
                    now = {"schema": 1, "time": round(time.time(), 6), "kind": "records_lost", "records": self._lost}
                    self._write(encode(now))
                    logger.info("%s can be written again; %d records are lost", self.path, self._lost)
                    self._lost = 0
                self._write(line)
            except OSError as error:
                self._lose(error)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _lose(self, error: OSError) -> None:
        self._lost += 1
        if self._lost == 1:
            text, extra = "%s cannot be written, so trace records are lost until it can: %s", {"plugin": "trace_file"}
            logger.warning(text, self.path, error.strerror or error, extra={**extra, "hook": "trace"})

    def _open(self) -> int:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._fd = fd = os.open(self.path, flags, 0o600)
        self._regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._torn = self._regular and _is_torn(fd)
        return fd

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _follow(self) -> None:
        """Open the file that is at the path now: this or another process, or log rotation, may have moved the old
        one."""
        if self._fd is not None and not _is_at(self._fd, self.path):
            self._close()
        fd = self._open() if self._fd is None else self._fd
        if self._max_bytes is not None and self._regular and os.fstat(fd).st_size >= self._max_bytes:
            self._put_aside(fd)
            self._close()
            self._open()

    def _put_aside(self, fd: int) -> None:
        """Rename the file. Only the holder of its lock may do so, which keeps other processes from renaming a new
        one."""
        try:
            import fcntl
        except ImportError:  # without such locks an open file cannot be moved, either: it grows
            return
        fcntl.flock(fd, fcntl.LOCK_EX)
        if _is_at(fd, self.path):
            for number in range(self._keep, 0, -1):
                older = self._aside(number - 1) if number > 1 else self.path
                with contextlib.suppress(FileNotFoundError):
                    older.replace(self._aside(number))

    def _aside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _write(self, line: bytes) -> None:
        assert self._fd is not None
        data = b"\n" + line if self._torn else line
        size = os.write(self._fd, data)
        if size == len(data):
            self._torn = False
        else:
            self._torn = size > len(data) - len(line) or (self._torn and size == 0)
            raise OSError(errno.ENOSPC, "only a part of a record could be written")


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


def _is_torn(fd: int) -> bool:
    """True if the last line has no end, since a writer died or the disk was full.

    It is read several times: a line that another process writes across a page is seen in parts for a moment.
    """
    size_before = -1
    for _ in range(LOOKS):
        size = os.fstat(fd).st_size
        if size == 0 or os.pread(fd, 1, size - 1) == b"\n":
            return False
        if size == size_before:
            time.sleep(BETWEEN_LOOKS)
        size_before = size
    return True
