"""Locks on files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hooksdk.stores.files import BINARY

__all__ = ["held_locks", "is_held", "lock", "unlock"]


def lock(fd: int) -> bool:
    """Lock an open file, if nobody else has locked it. The system unlocks it when the process dies."""
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
    """Unlock an open file, also for forked children, which have the same open file."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, 1 << 30, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


def held_locks(directory: Path) -> list[Path]:
    """The lock files of a folder that somebody holds now; none is changed. Raises `OSError` for one that cannot be
    opened. A lock goes with its process, so a file that nobody holds means nothing."""
    return [path for path in sorted(directory.glob("*.lock")) if is_held(path)]


def is_held(path: Path) -> bool:
    """True while somebody holds this lock file. Raises `OSError` for one that cannot be opened."""
    fd = os.open(path, os.O_RDWR | BINARY)
    try:
        return not lock(fd)
    finally:
        os.close(fd)
