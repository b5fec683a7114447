"""Append-only files, leases and value files: the part of `JsonlStore` that runs in worker threads.

A step is one or more lines that are stored whole or not at all: every line of it but the last begins with a blank, which JSON
ignores. What a crash can leave is a torn last step; it is left out on reading and cut off before the next append. Any other
damage is reported and nothing is touched.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast, final

from hooksdk._tasks.background import logger
from hooksdk._transcript.encoding import encode, encode_for
from hooksdk.errors import SessionBusy, StoreError, TranscriptChanged
from hooksdk.stores._lines import is_whole, line_marks, parse_line

_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_BINARY = getattr(os, "O_BINARY", 0)


def _lock(fd: int) -> bool:
    """Lock an open file for this holder alone, if nobody else has it. The system lets it go when the process dies."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(fd, 1 << 30, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _unlock(fd: int) -> None:
    """Let the lock go for everybody: a forked child has the same open file, and would hold it on."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, 1 << 30, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


def with_advice(error: Exception) -> str:
    """What went wrong, what became of the stored content, and what to do where that is known."""
    advice = {
        errno.ENOSPC: ". Free some space on this disk, then try again",
        errno.EDQUOT: ". Free some space within the quota, then try again",
        errno.EROFS: ". Make the disk writable, or copy the folder to one that is: an open session is written to",
    }
    number = error.errno if isinstance(error, OSError) else None
    return f"{error}. What was stored before is whole{advice.get(number or 0, '')}"


def _sync_directory(path: Path) -> None:
    if sys.platform != "win32":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    data = os.read(fd, os.fstat(fd).st_size + 1)
    while more := os.read(fd, 1 << 24):
        data += more
    return data


def held_locks(directory: Path) -> list[Path]:
    """The lock files of a folder that somebody holds now; none is changed. Raises `OSError` for one that cannot be opened.
    A lock goes with its process, so a file that nobody holds means nothing."""
    return [path for path in sorted(directory.glob("*.lock")) if is_held(path)]


def is_held(path: Path) -> bool:
    """True while somebody holds this lock file. Raises `OSError` for one that cannot be opened."""
    fd = os.open(path, os.O_RDWR | _BINARY)
    try:
        return not _lock(fd)
    finally:
        os.close(fd)


@final
class Lease:
    """The right to write one session, with a token that rises with every holder."""

    def __init__(self, path: Path, fd: int, token: int) -> None:
        self.path = path
        self.token = token
        self._fd = fd
        self._pid = os.getpid()
        self._inode = os.fstat(fd).st_ino

    @classmethod
    def take(cls, path: Path) -> Lease | None:
        """The lease, or None while somebody else holds it. Raises `StoreError`."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
            try:
                if not _lock(fd) or os.fstat(fd).st_ino != path.stat().st_ino:
                    os.close(fd)
                    return None
                os.lseek(fd, 0, os.SEEK_SET)
                token = _token(os.read(fd, 64)) + 1
                os.lseek(fd, 0, os.SEEK_SET)
                _write(fd, b"%020d %-12d\n" % (token, os.getpid()))  # of one length, so that no longer one shows behind
                _sync(fd)
            except BaseException:
                os.close(fd)
                raise
            return cls(path, fd, token)
        except (OSError, ValueError) as error:
            raise StoreError(str(path), f"the session cannot be taken hold of: {with_advice(error)}") from error

    @staticmethod
    def holder(path: Path) -> str:
        """Who took the lease last, for a message: `process 4711`, or nothing where that is not known."""
        try:
            return f"process {int(path.read_bytes().split()[1])}"
        except (OSError, ValueError, IndexError):
            return ""

    def check(self, session_id: str) -> None:
        """Raise `SessionBusy` when this is no longer the holder: somebody took over, or the process was forked."""
        try:
            is_holder = self.path.stat().st_ino == self._inode and os.getpid() == self._pid
        except OSError:
            is_holder = False
        if not is_holder:
            raise SessionBusy(session_id, 0)

    def release(self) -> None:
        """Give the session up, so that another holder can take it. In a forked child the parent keeps it."""
        try:
            if os.getpid() == self._pid:
                _unlock(self._fd)
        finally:
            os.close(self._fd)


def _token(content: bytes) -> int:
    try:
        return int((content.split() or [b"0"])[0])
    except ValueError:
        return int(time.time())  # A power cut can leave zeros; the time still rises.


@final
class AppendFile:
    """One file of JSON objects, a line each, that only grows."""

    def __init__(self, path: Path, session_id: str, *, read_only: bool = False) -> None:
        self.path = path
        self.session_id = session_id
        self._renamed = False
        self._read_only = read_only
        try:
            fresh = not read_only and not path.exists()
            flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND | os.O_CREAT
            self._fd = os.open(path, flags | _BINARY, 0o600)
            if fresh:
                _sync_directory(path.parent)
        except OSError as error:
            raise StoreError(str(path), f"cannot be opened: {with_advice(error)}") from error
        self._forget()

    def _forget(self) -> None:
        self._size = 0
        self._torn = 0
        self._join = b""
        self._hash = hashlib.sha256()
        self._marks: list[int] = []
        self._stamp: tuple[int, ...] = ()

    def _look(self) -> tuple[int, ...]:
        stat = self.path.stat()
        return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino

    # Reading

    def read(self) -> list[dict[str, Any]]:
        """All complete steps. Raises `StoreError` for damage other than a torn end."""
        self._forget()
        try:
            self._stamp = self._look()
            data = read_all(self._fd)
        except OSError as error:
            raise StoreError(str(self.path), f"cannot be read: {error}") from error
        objects: list[dict[str, Any]] = []
        step: list[dict[str, Any]] = []
        start = number = 0
        while (end := data.find(b"\n", start)) >= 0:
            line, start, number = data[start:end], end + 1, number + 1
            if line.strip():
                step.append(parse_line(self.path, line, number))
            if not line.startswith(b" "):
                objects += step
                step = []
                self._size = start
        tail = data[start:]
        if tail and is_whole(self.path, tail, number + 1):
            objects += [*step, parse_line(self.path, tail, number + 1)]
            self._size, self._join = len(data), b"\n"
        self._torn = len(data) - self._size
        if self._torn and not self._read_only:  # a reader may meet a line that its holder is writing now
            logger.warning("%s ends in a torn line (%d bytes): left out, as after a crash", self.path, self._torn)
        self._hash.update(memoryview(data)[: self._size])
        self._marks = line_marks(data[: self._size] + self._join)
        return objects

    # Writing

    def append(self, values: Sequence[object]) -> None:
        """Store one step: durable when it returns, and nothing of it after a failure. Raises `StoreError`."""
        if not values:
            return
        lines = [encode_for(str(self.path), value) + b"\n" for value in values]
        step = b"".join([b" " + line for line in lines[:-1]] + lines[-1:])
        self.verify()
        try:
            if self._torn:
                self._cut()
            if self._renamed:  # until then a power cut may bring the old file back, without what is appended here
                _sync_directory(self.path.parent)
                self._renamed = False
            _write(self._fd, self._join + step)
            stamp = self._now()  # at once: an edit by somebody else while the disk is waited for shall show
            _sync(self._fd)
        except OSError as error:
            self._take_back()
            raise StoreError(str(self.path), f"cannot be written: {with_advice(error)}") from error
        self._size += len(self._join + step)
        self._hash.update(self._join + step)
        self._marks += line_marks(step)
        self._join = b""
        self._stamp = stamp if stamp[:1] == (self._size,) else ()

    def rewrite(self, values: Sequence[object]) -> None:
        """Put a new file with these values, one step each, in the place of this one, which stays where that is a `StoreError`."""
        data = b"".join(encode_for(str(self.path), value) + b"\n" for value in values)
        beside = self.path.with_name(f".{self.path.name}.tmp")
        try:
            fd = os.open(beside, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)
            try:
                _write(fd, data)
                os.fsync(fd)
                _rename(beside, self.path, fd)
            except OSError:
                os.close(fd)
                beside.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StoreError(str(self.path), f"cannot be written anew: {with_advice(error)}") from error
        os.close(self._fd)
        self._fd, self._renamed = fd, True
        self._forget()
        self._size, self._marks = len(data), line_marks(data)
        self._hash.update(data)
        self._stamp = self._now()

    def _take_back(self) -> None:
        with contextlib.suppress(OSError):
            self._torn = max(os.fstat(self._fd).st_size - self._size, 0)
            self._stamp = self._now()
            self._cut()

    def _cut(self) -> None:
        os.ftruncate(self._fd, self._size)
        _sync(self._fd)
        self._torn = 0
        self._stamp = self._now()

    def _now(self) -> tuple[int, ...]:
        try:
            return self._look()
        except OSError:
            return ()

    def verify(self) -> None:
        """Raise `TranscriptChanged` when the content is not what was read and appended here. It is read again only where
        inode, size or times are not those after the last append: a drain shall not cost more in a longer session.
        """
        try:
            stamp = self._look()
            if stamp == self._stamp:
                return
            data = read_all(self._fd)
        except OSError as error:
            raise TranscriptChanged(self.session_id, 0, f"{self.path} cannot be read any more: {error}") from error
        same = hashlib.sha256(memoryview(data)[: self._size]).digest() == self._hash.digest()
        if not same or len(data) != self._size + self._torn or os.fstat(self._fd).st_ino != stamp[3]:
            marks = line_marks(data)
            pairs = enumerate(zip(marks, self._marks, strict=False))
            line = next((n for n, (now, then) in pairs if now != then), min(len(marks), len(self._marks)))
            advice = "Close the session and open it again to go on from what is stored now"
            raise TranscriptChanged(
                self.session_id, line, f"somebody else changed line {line + 1} of {self.path}. {advice}"
            )
        self._stamp = stamp

    def close(self) -> None:
        """No more appends."""
        os.close(self._fd)


def _rename(old: Path, new: Path, fd: int) -> None:
    """Put a file, open as `fd`, in another one's place. A network's answer may be lost although it was done."""
    try:
        old.replace(new)
    except OSError:
        if not os.path.samestat(os.fstat(fd), new.stat()):
            raise


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file whole or not at all: beside it first, then in its place. Raises `StoreError`."""
    try:
        for old in path.parent.glob(f".{path.name}.*.tmp"):
            old.unlink(missing_ok=True)
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            try:
                _write(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
            Path(name).chmod(mode)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise StoreError(str(path), f"cannot be written: {with_advice(error)}") from error


@final
class ValueFile:
    """One space of key-value storage: a JSON file, changed under a lock that other processes honour."""

    def __init__(self, path: Path, space: str) -> None:
        self.path = path
        self.space = space

    def read(self) -> dict[str, Any]:
        """All values."""
        try:
            return cast("dict[str, Any]", json.loads(self.path.read_bytes())["values"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(str(self.path), f"cannot be read: {error}. Nothing was changed") from error

    def change(self, change: Callable[[dict[str, Any]], None], wait: float = 5.0) -> None:
        """Read, change and write the values, alone."""
        deadline = time.monotonic() + wait
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        except OSError as error:
            raise StoreError(str(self.path), f"cannot be opened: {error}") from error
        try:
            while not _lock(fd):
                if time.monotonic() > deadline:
                    raise StoreError(str(self.path), f"another process has held it for {wait:g} s")
                time.sleep(0.005)
            values = self.read()
            change(values)
            replace_file(self.path, encode({"space": self.space, "values": values}))
            _unlock(fd)
        finally:
            os.close(fd)
