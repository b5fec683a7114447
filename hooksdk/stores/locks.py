"""Locks on files, and the lease by which one holder at a time has a session."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import final

from hooksdk.errors import SessionBusy, StoreError
from hooksdk.stores.files import BINARY, sync, with_advice, write_all

__all__ = ["Lease", "held_locks", "is_held", "lock", "unlock"]


def lock(fd: int) -> bool:
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


def unlock(fd: int) -> None:
    """Let the lock go for everybody: a forked child has the same open file, and would hold it on."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, 1 << 30, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


def held_locks(directory: Path) -> list[Path]:
    """The lock files of a folder that somebody holds now; none is changed. Raises `OSError` for one that cannot be opened.
    A lock goes with its process, so a file that nobody holds means nothing."""
    return [path for path in sorted(directory.glob("*.lock")) if is_held(path)]


def is_held(path: Path) -> bool:
    """True while somebody holds this lock file. Raises `OSError` for one that cannot be opened."""
    fd = os.open(path, os.O_RDWR | BINARY)
    try:
        return not lock(fd)
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
            fd = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            try:
                if not lock(fd) or os.fstat(fd).st_ino != path.stat().st_ino:
                    os.close(fd)
                    return None
                os.lseek(fd, 0, os.SEEK_SET)
                token = _token(os.read(fd, 64)) + 1
                os.lseek(fd, 0, os.SEEK_SET)
                write_all(
                    fd, b"%020d %-12d\n" % (token, os.getpid())
                )  # of one length, so that no longer one shows behind
                sync(fd)
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
                unlock(self._fd)
        finally:
            os.close(self._fd)


def _token(content: bytes) -> int:
    try:
        return int((content.split() or [b"0"])[0])
    except ValueError:
        return int(time.time())  # A power cut can leave zeros; the time still rises.
