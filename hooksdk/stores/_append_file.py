"""Files of JSON lines that only grow: the part of `JsonlStore` that runs in worker threads.

A step is one or more lines that are stored whole or not at all: each of its lines but the last begins with a blank,
which JSON ignores. A crash can leave a torn last step, which is left out on reading and cut off before the next append.
Any other damage is reported, and the file stays as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from hooksdk.errors import StoreError, TranscriptChanged
from hooksdk.stores._lines import LineTable, is_whole, parse_line
from hooksdk.stores.files import BINARY, advice_for, sync, sync_directory, with_advice, write_all
from hooksdk.transcript import encode_for

logger = logging.getLogger("hooksdk")
_BLANK = ord(" ")
# The number of bytes that are read at a time if not all are needed at once.
CHUNK = 1 << 20


def read_at(fd: int, size: int, offset: int) -> bytes:
    """The `size` bytes of an open file from `offset` on; fewer at its end."""
    data = b""
    while more := _read_once(fd, size - len(data), offset + len(data)):
        data = data + more if data else more
    return data


def _read_once(fd: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


def read_from(fd: int, offset: int) -> bytes:
    """All bytes of an open file from `offset` on."""
    data = read_at(fd, os.fstat(fd).st_size + 1 - offset, offset)
    while more := read_at(fd, CHUNK, offset + len(data)):
        data += more
    return data


def _lines_in(data: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int]]:
    """Each line of a part of a file, with the place at which the next line begins."""
    while start < stop:
        end = data.find(b"\n", start, stop)
        end, start, before = (stop, stop, start) if end < 0 else (end, end + 1, start)
        yield data[before:end], start


@final
@dataclass(frozen=True, slots=True)
class Covered:
    """The beginning of a file: its size, its SHA-256, and its lines."""

    size: int
    digest: str
    lines: LineTable


@final
@dataclass(frozen=True, slots=True)
class StoredLines:
    """The lines of a file, to be read by number."""

    _file: AppendFile
    _table: LineTable

    def scan(self, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """The objects of some lines, each read anew. Raises `TranscriptChanged` and `StoreError`."""
        return self._file.lines(self._table, start, stop)


@final
class AppendFile:
    """One file of JSON objects, a line each, that only grows. It is open only while it is read or written: with a
    descriptor for each session that waits for its user, a process would soon have all that it may have."""

    def __init__(self, path: Path, session_id: str, *, read_only: bool = False) -> None:
        self.path = path
        self.session_id = session_id
        self._renamed = False
        self._read_only = read_only
        self._lines = self._earlier = LineTable()
        try:
            fresh = not read_only and not path.exists()
            with self._open(os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT) as fd:
                self._inode = os.fstat(fd).st_ino
                if fresh:
                    sync_directory(path.parent)
        except OSError as error:
            raise StoreError(str(path), f"cannot be opened: {with_advice(error)}") from error
        self._forget()

    def _forget(self) -> None:
        self._size = 0
        self._torn = 0
        self._join = b""
        self._hash = hashlib.sha256()
        self._lines = LineTable()
        self._stamp: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes in whole steps."""
        return self._size

    @contextlib.contextmanager
    def _open(self, flags: int = os.O_RDONLY) -> Generator[int]:
        fd = os.open(self.path, flags | BINARY, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    def _look(self, fd: int | None = None) -> tuple[int, ...]:
        stat = self.path.stat() if fd is None else os.fstat(fd)
        return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino

    # Reading

    def read(self) -> list[dict[str, Any]]:
        """The objects of all complete steps. Raises `StoreError` for damage other than a torn end."""
        objects: list[dict[str, Any]] = []
        self.begin(None)
        self.scan(lambda value, _: objects.append(value))
        return objects

    def begin(self, covered: Covered | None) -> bool:
        """Begin to read anew, before `scan`. True if the file begins with the `covered` part, which `scan` then leaves
        out. Raises `StoreError`."""
        self._earlier = self._lines if self._lines.ends else self._earlier
        self._forget()
        try:
            self._stamp = self._look()
            if covered is None or covered.size > self._stamp[0]:
                return False
            digest = hashlib.sha256()
            with self._open() as fd:
                for offset in range(0, covered.size, CHUNK):
                    digest.update(read_at(fd, min(CHUNK, covered.size - offset), offset))
        except OSError as error:
            raise self._unreadable(error) from error
        if digest.hexdigest() != covered.digest:
            return False
        self._size, self._lines, self._hash = covered.size, covered.lines, digest
        return True

    def scan(self, take: Callable[[dict[str, Any], int], None]) -> None:
        """Give `take` each object of the complete steps that follow, with its size in bytes. Raises `StoreError` for
        damage other than a torn end."""
        try:
            with self._open() as fd:
                data = read_from(fd, self._size)
        except OSError as error:
            raise self._unreadable(error) from error
        start = begun = 0
        number, before = len(self._lines), self._size
        while (end := data.find(b"\n", start)) >= 0:
            is_last, start = data[start] != _BLANK, end + 1
            if is_last:
                number = self._take(data, begun, start, number, take)
                begun, self._size = start, before + start
        self._judge(data, begun, start, number)
        tail = data[start:]
        if tail and is_whole(self.path, tail, number + data.count(b"\n", begun) + 1):
            self._take(data, begun, len(data), number, take)
            self._size, self._join = before + len(data), b"\n"
        self._torn = before + len(data) - self._size
        if self._torn and not self._read_only:  # the holder may be writing the line that a reader meets
            logger.warning("%s ends in a torn line (%d bytes): left out, as after a crash", self.path, self._torn)
        self._hash.update(memoryview(data)[: self._size - before])
        if self._lines == self._earlier:  # readers have this table
            self._lines = self._earlier

    def _take(
        self, data: bytes, start: int, stop: int, number: int, take: Callable[[dict[str, Any], int], None]
    ) -> int:
        """Give `take` the lines of one step, which begins at `_size`, one by one: a step may be as long as the file.
        Answers the number of the last line."""
        before = self._size - start
        for line, end in _lines_in(data, start, stop):
            number += 1
            if line.strip():
                value = parse_line(self.path, line, number)
                self._lines.add(line, before + end)
                take(value, len(line))
        return number

    def _judge(self, data: bytes, start: int, stop: int, number: int) -> None:
        for each, (line, _) in enumerate(_lines_in(data, start, stop), number + 1):
            if line.strip():
                parse_line(self.path, line, each)

    def covered(self) -> Covered | None:
        """The part that was read and appended so far, for a later `begin`; None while its end is not whole."""
        is_whole = not (self._torn or self._join)
        return Covered(self._size, self._hash.hexdigest(), self._lines) if is_whole else None

    def stored(self) -> StoredLines:
        """The lines that were read, and those that are appended later, to be read again by number."""
        return StoredLines(self, self._lines)

    # Writing

    def append(self, values: Sequence[object]) -> None:
        """Store one step: durable when this returns; after a failure nothing of it is stored. Raises `StoreError`."""
        if not values:
            return
        lines = [encode_for(str(self.path), value) + b"\n" for value in values]
        step = b"".join([b" " + line for line in lines[:-1]] + lines[-1:])
        try:
            with self._open(os.O_RDWR | os.O_APPEND) as fd:
                self._compare(fd)
                stamp = self._write(fd, self._join + step)
        except FileNotFoundError as error:
            raise self._gone(error) from error
        except OSError as error:
            raise StoreError(str(self.path), f"cannot be written: {with_advice(error)}") from error
        self._hash.update(self._join + step)
        self._size += len(self._join)
        self._add_lines(step)
        self._join = b""
        if sys.platform == "win32":  # closing a file may change its time once more
            stamp = self._now()
        self._stamp = stamp if stamp[:1] == (self._size,) else ()

    def _write(self, fd: int, data: bytes) -> tuple[int, ...]:
        try:
            if self._torn:
                self._cut(fd)
            if self._renamed:  # else a power cut may bring the old file back, without these lines
                sync_directory(self.path.parent)
                self._renamed = False
            write_all(fd, data)
            stamp = self._now()  # before the disk is waited for, so that another's edit meanwhile shows
            sync(fd)
        except OSError:
            with contextlib.suppress(OSError):
                self._torn = max(os.fstat(fd).st_size - self._size, 0)
                self._stamp = self._now()
                self._cut(fd)
            raise
        return stamp

    def _add_lines(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:
            self._size += len(line) + 1
            self._lines.add(line, self._size)

    def rewrite(self, values: Sequence[object]) -> None:
        """Replace the file by a new one with these values, one step each. Raises `StoreError`; then the old file
        stays."""
        data = b"".join(encode_for(str(self.path), value) + b"\n" for value in values)
        beside = self.path.with_name(f".{self.path.name}.tmp")
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o600)
            try:
                write_all(fd, data)
                os.fsync(fd)
                _rename(beside, self.path, fd)
                self._inode = os.fstat(fd).st_ino
            except OSError:
                beside.unlink(missing_ok=True)
                raise
            finally:
                os.close(fd)
        except OSError as error:
            raise StoreError(str(self.path), f"cannot be written anew: {with_advice(error)}") from error
        self._renamed = True
        self._forget()
        self._add_lines(data)
        self._hash.update(data)
        self._stamp = self._now()

    def _cut(self, fd: int) -> None:
        os.ftruncate(fd, self._size)
        sync(fd)
        self._torn = 0
        self._stamp = self._now()

    def _now(self) -> tuple[int, ...]:
        try:
            return self._look()
        except OSError:
            return ()

    def verify(self) -> None:
        """Raise `TranscriptChanged` if the content is not what was read and appended here. The file is read again only
        if inode, size or times differ from those after the last append, so a drain costs the same in a longer
        session."""
        try:
            if self._look() != self._stamp:
                with self._open() as fd:
                    self._compare(fd)
        except FileNotFoundError as error:
            raise self._gone(error) from error
        except OSError as error:
            raise self._unreadable(error) from error

    def _compare(self, fd: int) -> None:
        stamp = self._look(fd)
        if stamp == self._stamp:
            return
        data = read_from(fd, 0)
        same = hashlib.sha256(memoryview(data)[: self._size]).digest() == self._hash.digest()
        if not same or len(data) != self._size + self._torn or stamp[3] != self._inode:
            raise self._changed(self._lines.first_change(data))
        self._stamp = stamp

    def _unreadable(self, error: OSError) -> StoreError:
        return StoreError(str(self.path), f"cannot be read: {error}{advice_for(error)}")

    def _gone(self, error: OSError) -> TranscriptChanged:
        return TranscriptChanged(self.session_id, 0, f"{self.path} cannot be read any more: {error}")

    def _changed(self, line: int) -> TranscriptChanged:
        advice = "Close the session and open it again to go on from what is stored now"
        problem = f"somebody else changed line {line + 1} of {self.path}. {advice}"
        return TranscriptChanged(self.session_id, line, problem)

    def lines(self, table: LineTable, start: int, stop: int) -> Iterator[dict[str, Any]]:
        """The objects of some lines of a table, each read anew. Raises `TranscriptChanged` for a line that was changed,
        and `StoreError` for a file that cannot be read."""
        while start < stop:
            begin = table.start(start)
            until = max(start + 1, bisect_right(table.ends, begin + CHUNK, start, stop))
            try:
                with self._open() as fd:
                    data = read_at(fd, table.start(until) - begin, begin)
            except OSError as error:
                raise self._unreadable(error) from error
            for number in range(start, until):
                line = data[table.start(number) - begin : table.ends[number] - begin]
                if not table.fits(number, line):
                    raise self._changed(number)
                yield json.loads(line.decode())
            start = until


def _rename(old: Path, new: Path, fd: int) -> None:
    """Put a file, open as `fd`, in another one's place. A network file system may do so and still report a failure."""
    try:
        old.replace(new)
    except OSError:
        if not os.path.samestat(os.fstat(fd), new.stat()):
            raise
