"""Locks on files, and the lease by which one holder at a time has a session."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import final

from hooksdk.errors import SessionBusy, StoreError
from hooksdk.stores.files import BINARY, sync, sync_directory, with_advice, write_all

logger = logging.getLogger("hooksdk")

__all__ = ["Lease", "held_locks", "is_held", "lock", "unlock"]


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


@final
class Lease:
    """The right to write one session, with a token that rises with every holder.

    A session is held while its lock file is locked, whoever looks. The lock files of all sessions that one process
    holds in a folder are one file under many names (hard links), so one descriptor locks them all. Where a system has
    no hard links, each has its own.
    """

    def __init__(self, path: Path, holder: _Holder) -> None:
        self.path = path
        self.token = holder.token
        self._holder = holder
        self._pid = os.getpid()

    @classmethod
    def take(cls, path: Path) -> Lease | None:
        """The lease, or None while somebody else holds it. Raises `StoreError`."""
        try:
            lease = _take(path)
            for pause in _PAUSES:
                if lease is not None or not _is_locked_in_passing(path):
                    break
                time.sleep(pause)
                lease = _take(path)
            if lease is not None:
                _make_durable(lease)
            return lease
        except (OSError, ValueError) as error:
            raise StoreError(str(path), f"the session cannot be taken hold of: {with_advice(error)}") from error

    @staticmethod
    def holder(path: Path) -> str:
        """Who took the lease last, for a message: `process 4711`, or nothing where that is not known."""
        process = _process(path)
        return f"process {process}" if process else ""

    def check(self, session_id: str) -> None:
        """Raise `SessionBusy` when this is no longer the holder: somebody took over, or the process was forked."""
        if os.getpid() != self._pid or not self._holder.has(self):
            raise SessionBusy(session_id, 0)

    def release(self) -> None:
        """Give the session up, so that another holder can take it. In a forked child the parent keeps it."""
        if os.getpid() == self._pid:
            with _alone:
                self._holder.let_go(self)


@final
class _Holder:
    """A lock file that this process has open and locked, under the names of those sessions that it holds."""

    def __init__(self, folder: _Folder, fd: int, token: int) -> None:
        self.token = token
        self._fd = fd
        self._inode = os.fstat(fd).st_ino
        self._leases: dict[str, Lease] = {}
        # Sessions that were given up, and whose lock file is still this one, since no other could be written.
        self._over: list[Path] = []
        self._folder = folder
        _holders.setdefault(folder, []).append(self)

    def lease(self, path: Path) -> Lease:
        """The lease of a session whose lock file this is now."""
        lease = self._leases[path.name] = Lease(path, self)
        return lease

    def add(self, path: Path, token: int) -> Lease | None:
        """Replace a session's own lock file, which is locked as well, by this one; None if the system cannot."""
        source = next((lease.path for lease in self._leases.values() if self.has(lease)), None)
        if source is None:
            return None
        if token > self.token:
            _write(self._fd, token)
            sync(self._fd)
            self.token = token
        try:
            beside = _place_beside(path)
            beside.hardlink_to(source)
            beside.replace(path)
        except OSError:  # no hard links here, or no more for this file
            return None
        return self.lease(path)

    def has(self, lease: Lease) -> bool:
        """True while this lease holds its session."""
        return self._leases.get(lease.path.name) is lease and self._is_at(lease.path)

    def _is_at(self, path: Path) -> bool:
        try:
            return path.stat().st_ino == self._inode
        except OSError:
            return False

    def let_go(self, lease: Lease) -> None:
        """Free the session, and with the last session the lock."""
        if self._leases.get(lease.path.name) is lease:
            del self._leases[lease.path.name]
            self._over.append(lease.path)
        if self._leases:
            self.sweep()
        elif self in _holders.get(self._folder, ()):
            others = [holder for holder in _holders.pop(self._folder) if holder is not self]
            if others:
                _holders[self._folder] = others
            self.close()

    def sweep(self) -> None:
        """Give each session that was given up a lock file of its own again."""
        over, self._over = self._over, []
        for path in over:
            try:
                if self._is_at(path):
                    os.close(_put(path, self.token))
            except OSError as error:
                logger.warning("%s is free only when this process opens or closes another session: %s", path, error)
                self._over.append(path)

    def close(self) -> None:
        """Unlock the file for everybody: a child that was forked unnoticed would hold the lock on."""
        try:
            unlock(self._fd)
        finally:
            os.close(self._fd)

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, and shall go with it."""
        with contextlib.suppress(OSError):  # somebody closed all that was open
            os.close(self._fd)


# The process, which a fork changes, and a folder's device and inode.
_Folder = tuple[int, int, int]
_holders: dict[_Folder, list[_Holder]] = {}
_alone = threading.RLock()
# Seconds before the next attempts at a lock that is held for a moment only.
_PAUSES = (0.001, 0.004, 0.016, 0.064)


def _after_fork_in_child() -> None:
    for holder in itertools.chain(*_holders.values()):
        holder.forget()
    _holders.clear()
    _alone.release()


if sys.platform != "win32":
    os.register_at_fork(before=_alone.acquire, after_in_parent=_alone.release, after_in_child=_after_fork_in_child)


def _take(path: Path) -> Lease | None:
    stat = path.parent.stat()
    with _alone:
        return _take_in((os.getpid(), stat.st_dev, stat.st_ino), path)


def _take_in(folder: _Folder, path: Path) -> Lease | None:
    for holder in _holders.get(folder, ()):
        holder.sweep()
    opened = _open_locked(path)
    if opened is None:
        return None
    fd, token = opened
    try:
        newest = _holders.get(folder, ())[-1:] if sys.platform != "win32" else ()
        for holder in newest:
            if lease := holder.add(path, token):
                os.close(fd)
                return lease
        if os.fstat(fd).st_nlink > 1:  # it is also the lock file of other sessions of a killed process
            own = _put(path, token, locked=True)
            os.close(fd)  # before the disk is waited for: the other sessions are busy until then
            fd = own
        else:
            _write(fd, token)
        sync(fd)
        return _Holder(folder, fd, token).lease(path)
    except BaseException:
        os.close(fd)
        raise


def _open_locked(path: Path) -> tuple[int, int] | None:
    """The lock file of this name, open and locked, and the next token; None while somebody else has locked it."""
    while True:
        try:
            fd, is_new = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600), True
        except FileExistsError:
            try:
                fd, is_new = os.open(path, os.O_RDWR | BINARY), False
            except FileNotFoundError:
                continue
        try:
            if not lock(fd):
                os.close(fd)
                return None
            if _is_same(fd, path):
                return fd, 1 if is_new else _token(os.read(fd, 64)) + 1
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)  # the name has got another file meanwhile


def _is_same(fd: int, path: Path) -> bool:
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _place_beside(path: Path) -> Path:
    """A free name for the file that will replace a lock file. The holder of that lock alone uses this name."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.unlink(missing_ok=True)  # left by a killed process, and maybe one more name of its lock file
    return beside


def _put(path: Path, token: int, *, locked: bool = False) -> int:
    """Replace a lock file by a new one. Answers the new one, open."""
    beside = _place_beside(path)
    fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
    try:
        if locked and not lock(fd):
            raise BlockingIOError(errno.EAGAIN, "somebody locked a new file", str(beside))
        _write(fd, token)
        beside.replace(path)
    except BaseException:
        os.close(fd)
        beside.unlink(missing_ok=True)
        raise
    return fd


def _write(fd: int, token: int) -> None:
    os.lseek(fd, 0, os.SEEK_SET)
    write_all(
        fd, b"%020d %-12d\n" % (token, os.getpid())
    )  # always of one length, so that nothing of an earlier text is left


def _make_durable(lease: Lease) -> None:
    """Keep a power cut from bringing back the file before, whose token is lower."""
    try:
        sync_directory(lease.path.parent)
    except BaseException:
        lease.release()
        raise


def _is_locked_in_passing(path: Path) -> bool:
    """True for a lock that is held for a moment only: the file that several sessions of a killed process share is
    locked while one of them is taken over."""
    try:
        process = _process(path) if path.stat().st_nlink > 1 else None
        if process:
            os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def _process(path: Path) -> int | None:
    try:
        return int(path.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _token(content: bytes) -> int:
    try:
        return int(content.split()[0])
    except (ValueError, IndexError):
        return int(time.time())  # A power cut can leave zeros, or nothing; the time still rises.
