"""Files that are written so that a crash leaves the old content or the new, never half of one."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from hooksdk.errors import StoreError

__all__ = [
    "BINARY",
    "advice_for",
    "network_file_system",
    "replace_file",
    "sync",
    "sync_directory",
    "with_advice",
    "write_all",
]

BINARY: int = getattr(os, "O_BINARY", 0)
"""A flag of `os.open` that keeps bytes as they are on Windows; 0 elsewhere."""
NETWORK = {
    "afs", "beegfs", "ceph", "cifs", "gcsfuse", "glusterfs", "lustre", "nfs", "nfs4", "rclone", "s3fs", "smb3", "smbfs", "sshfs",
}  # fmt: skip
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file whole or not at all: a new file beside it takes its place. Raises `StoreError`."""
    try:
        for old in path.parent.glob(f".{path.name}.*.tmp"):
            old.unlink(missing_ok=True)
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        try:
            try:
                write_all(fd, data)
                os.fsync(fd)
            finally:
                os.close(fd)
            Path(name).chmod(mode)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError(str(path), f"cannot be written: {with_advice(error)}") from error


def sync(fd: int) -> None:
    """Wait until the content of an open file is on the disk."""
    _sync(fd)


def with_advice(error: Exception) -> str:
    """The words for a failed write: its cause, the state of the stored content, and what to do, if that is known."""
    return f"{error}. What was stored before is whole{advice_for(error)}"


def advice_for(error: Exception) -> str:
    """What to do about an error, as one more sentence; empty if that is not known."""
    too_many = ". Close files or connections that this process has open, or allow it more (`ulimit -n`), then try again"
    advice = {
        errno.EMFILE: too_many,
        errno.ENFILE: too_many,
        errno.ENOSPC: ". Free some space on this disk, then try again",
        errno.EDQUOT: ". Free some space within the quota, then try again",
        errno.EROFS: ". Make the disk writable, or copy the folder to one that is: an open session is written to",
    }
    number = error.errno if isinstance(error, OSError) else None
    return advice.get(number or 0, "")


def network_file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str:
    """The kind of the network file system on which a file is, such as `nfs4`; empty for a local one, and where the
    system does not tell."""
    try:
        lines = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    place = path.resolve()
    # A blank in a folder's name is written in octal (fstab(5)). What is mounted later covers what was before.
    points = [(Path(line[1].replace("\\040", " ")), line[2]) for line in lines if len(line) > 2]
    depth, kind = 0, ""
    for point, its_kind in points:
        if len(point.parts) >= depth and place.is_relative_to(point):
            depth, kind = len(point.parts), its_kind
    return kind if kind.removeprefix("fuse.") in NETWORK else ""


def sync_directory(path: Path) -> None:
    """Wait until the names in a folder are on the disk; Windows has no such wait."""
    if sys.platform != "win32":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all the data to an open file, in as many steps as the system needs."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
