"""A chain in files, with one writer at a time among all processes."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from hooksdk import audit
from hooksdk.audit import ChainRecord, Head
from hooksdk.stores.files import BINARY, sync, sync_directory
from hooksdk.stores.locks import lock, unlock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

logger = logging.getLogger("hooksdk")

# Seconds to wait for another process that writes.
LOCK_WAIT = 10.0
_PAUSE = 0.001
_CHUNK = 1 << 16
DAY = 86_400.0


@dataclass
class _Open:
    """The current file, as this writer left it.

    Attributes:
        began: When the first record was written.
    """

    fd: int
    inode: tuple[int, int]
    size: int
    began: float


@final
class FileChain:
    """Appends records to `path`. Several threads and processes may write one chain: each locks `NAME.lock` while it
    writes."""

    def __init__(
        self, path: Path, key: Ed25519PrivateKey, *, max_bytes: int | None = None, keep_days: float | None = None
    ) -> None:
        self.path = path
        self._key = key
        self._max_bytes = max_bytes
        self._keep = keep_days
        self._alone = threading.Lock()
        self._open: _Open | None = None
        # The last record that was written or seen, after which the chain continues, even in another file.
        self._head: Head | None = None
        # The process and its open lock file: a forked child must open its own.
        self._lock: tuple[int, int] | None = None

    @property
    def head(self) -> Head | None:
        """The last record that this writer knows of."""
        return self._head

    def start(self) -> None:
        """Begin the chain, or find its end. Raises `OSError` for a path that cannot be written."""
        with self._held():
            self._follow()
            self._forget_old()
        self.sync()

    def append(self, fields: Mapping[str, Any], *, durable: bool = False) -> Head:
        """Write one record; with `durable` it is on the disk when this returns. Raises `OSError`, `TypeError` and
        `ValueError` if it is not written."""
        with self._held():
            self._follow()
            if self._is_over():
                self._rotate()
            head = self._write(fields)
            assert self._open is not None
            fd = os.dup(self._open.fd) if durable else None
        if fd is not None:  # without the lock: others may write meanwhile
            try:
                sync(fd)
            finally:
                os.close(fd)
        return head

    def sync(self) -> None:
        """Wait until all records are on the disk. Raises `OSError`."""
        with self._alone:
            if self._open is not None:
                sync(self._open.fd)

    def close(self) -> None:
        """Make all records durable, and close the files. A failure is logged."""
        try:
            self.sync()
        except OSError as error:
            logger.warning("%s may have lost its last records: %s", self.path, error)
        with self._alone:
            self._leave()
            if self._lock is not None and self._lock[0] == os.getpid():
                os.close(self._lock[1])
            self._lock = None

    # The lock

    @contextmanager
    def _held(self) -> Generator[None]:
        with self._alone:
            fd = self._lock_file()
            deadline = time.monotonic() + LOCK_WAIT
            while not lock(fd):
                if time.monotonic() > deadline:
                    raise OSError(errno.EBUSY, f"another process has written for {LOCK_WAIT:g} s", str(self.path))
                time.sleep(_PAUSE)
            try:
                yield
            finally:
                unlock(fd)

    def _lock_file(self) -> int:
        process = os.getpid()
        if self._lock is None or self._lock[0] != process:
            self._open = None if self._lock is not None else self._open  # the parent's, in a forked child
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            self._lock = (process, fd)
        return self._lock[1]

    # The end of the chain

    def _follow(self) -> None:
        """Open the file that is at the path now, and read its last record."""
        now = self._open
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        if now and there and (*now.inode, now.size) == (there.st_dev, there.st_ino, there.st_size):
            return
        self._leave()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        stat = os.fstat(fd)
        self._open = _Open(fd, (stat.st_dev, stat.st_ino), stat.st_size, time.time())
        if stat.st_size == 0:
            sync_directory(self.path.parent)
            self._catch_up(self._last_aside())
            self._begin_file()
            return
        if (first := next(audit.read_records(self.path), None)) is not None:
            self._check_key(first)
            self._open.began = first.written
        self._read_end(self._open)

    def _check_key(self, first: ChainRecord) -> None:
        own = audit.public_text(self._key.public_key())
        if first.fields.get("key", own) != own:
            self._leave()
            problem = "the chain was begun with another key: name that one, or move the files away"
            raise OSError(errno.EINVAL, problem, str(self.path))

    def _read_end(self, file: _Open) -> None:
        last, tail = _end_of(file.fd, file.size)
        if last is None and len(tail) < file.size:
            raise OSError(errno.EINVAL, "the file holds no chain: name another one, or move it away", str(self.path))
        self._catch_up(last or self._last_aside())
        if last is None:  # its first line was not finished
            os.ftruncate(file.fd, 0)
            file.size = 0
            self._begin_file()
            return
        if not tail:
            return
        whole = audit.parse_line(tail)
        if whole is not None and self._is_ours(whole) and self._head == Head(whole.number - 1, whole.previous):
            self._put(b"\n")  # only the end of the line is missing
            self._head = whole.head
        else:
            self._put(b"\n")
            self._write({"kind": audit.LINE_TORN, "bytes": len(tail), "sha256": audit.hash_of(tail)})

    def _catch_up(self, last: ChainRecord | None) -> None:
        """Continue after the last record, or after a later one that this writer knows of: then verifying shows that
        records were removed."""
        known = self._head
        if last is not None and not self._is_ours(last):
            logger.warning(
                "%s: its last record is not signed with this key; verifying the chain will say so", self.path
            )
        if known is None or (last is not None and last.number > known.number):
            self._head = last.head if last is not None else None
        elif last is None or last.head != known:
            logger.warning("%s does not end with record %d any more, which was written to it", self.path, known.number)

    def _is_ours(self, record: ChainRecord) -> bool:
        return audit.is_genuine(self._key.public_key(), record)

    def _last_aside(self) -> ChainRecord | None:
        aside = audit.numbered_files(self.path)
        if not aside:
            return None
        if (first := next(audit.read_records(aside[-1]), None)) is not None:
            self._check_key(first)
        return _last_of(aside[-1])

    def _begin_file(self) -> None:
        key = audit.public_text(self._key.public_key())
        kind = audit.CHAIN_BEGUN if self._head is None else audit.FILE_BEGUN
        self._write({"kind": kind, "schema": audit.SCHEMA, "key": key})

    # Writing

    def _write(self, fields: Mapping[str, Any]) -> Head:
        before = self._head or Head(0, audit.NO_HASH)
        record = {"n": before.number + 1, "prev": before.hash, "time": round(time.time(), 6), **fields}
        line = audit.seal(record, self._key)
        self._put(line + b"\n")
        self._head = Head(before.number + 1, audit.hash_of(line))
        return self._head

    def _put(self, data: bytes) -> None:
        file = self._open
        assert file is not None
        os.lseek(file.fd, file.size, os.SEEK_SET)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file.fd, rest) :]
        except OSError:
            with contextlib.suppress(OSError):  # a part that stays is marked by the next writer
                os.ftruncate(file.fd, file.size)
            self._leave()
            raise
        file.size += len(data)

    def _leave(self) -> None:
        file, self._open = self._open, None
        if file is not None:
            os.close(file.fd)

    # Older files

    def _is_over(self) -> bool:
        file = self._open
        assert file is not None
        is_full = self._max_bytes is not None and file.size >= self._max_bytes
        return is_full or (self._keep is not None and time.time() - file.began >= DAY)

    def _rotate(self) -> None:
        """Put the file aside under the next number, and continue the chain in a new one."""
        assert self._open is not None
        sync(self._open.fd)
        aside = audit.numbered_files(self.path)
        number = int(aside[-1].stem.rpartition(".")[2]) + 1 if aside else 1
        self._leave()
        self.path.replace(self.path.with_name(f"{self.path.stem}.{number:05d}{self.path.suffix}"))
        sync_directory(self.path.parent)
        self._follow()
        self._forget_old()

    def _forget_old(self) -> None:
        """Remove files whose last record is older than `keep`, once a record says so."""
        if self._keep is None:
            return
        limit = time.time() - self._keep * DAY
        over: list[tuple[Path, ChainRecord]] = []
        for path in audit.numbered_files(self.path):
            last = _last_of(path)
            if last is None or last.written >= limit:
                break
            over.append((path, last))
        if not over:
            return
        last, files = over[-1][1], [path.name for path, _ in over]
        removed = {"files": files, "through": last.number, "hash": last.hash}
        self._write({"kind": audit.FILES_REMOVED, **removed, "days": self._keep})
        assert self._open is not None
        sync(self._open.fd)
        for path, _ in over:
            path.unlink(missing_ok=True)
        sync_directory(self.path.parent)


def _last_of(path: Path) -> ChainRecord | None:
    with path.open("rb") as file:
        last, tail = _end_of(file.fileno(), os.fstat(file.fileno()).st_size)
    return audit.parse_line(tail) or last


def _end_of(fd: int, size: int) -> tuple[ChainRecord | None, bytes]:
    """The last whole record of an open file, and the bytes after its last line's end."""
    start, data = size, b""
    tail: bytes | None = None
    while True:
        lines = data.split(b"\n")
        if len(lines) > 1 and tail is None:
            tail = lines[-1]
        # The first line may be cut: it may begin before this part.
        for line in reversed(lines[1:-1] if start else lines[:-1]):
            if (record := audit.parse_line(line)) is not None:
                return record, tail or b""
        if start == 0:
            return None, data if tail is None else tail
        start = max(start - max(_CHUNK, len(data)), 0)
        os.lseek(fd, start, os.SEEK_SET)
        data = _read(fd, size - start)


def _read(fd: int, size: int) -> bytes:
    data = b""
    while size > len(data) and (more := os.read(fd, size - len(data))):
        data += more
    return data
