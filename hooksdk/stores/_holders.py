"""Who holds a lease in a database, and whether that worker is known to be gone, so that its lease need not lapse
first."""

from __future__ import annotations

import functools
import os
import re
import socket
import uuid
from pathlib import Path
from weakref import WeakValueDictionary

PROC = Path("/proc")
MARKS = re.compile(r"process (\d+) on .* \([0-9a-f]{8}, boot (\S+), namespace (\d+), start (\d+)\)")
# By holder, in this process: the object that it lives with.
_alive: WeakValueDictionary[str, object] = WeakValueDictionary()


def new_holder() -> str:
    """A name for one lease. Where the system tells it, with what tells processes of this machine apart: the machine's
    boot, the namespace of process ids, and when the process started."""
    name = f"process {os.getpid()} on {socket.gethostname()} ({uuid.uuid4().hex[:8]}"
    place, start = _place(), _start(os.getpid())
    marks = f", boot {place[0]}, namespace {place[1]}, start {start}" if place and start else ""
    return f"{name}{marks})"


def live_with(holder: str, owner: object) -> None:
    """The lease is in use as long as this object is, or until it is `let_go`."""
    _alive[holder] = owner


def let_go(holder: str) -> None:
    """The lease is in use no longer, whatever the database says."""
    _alive.pop(holder, None)


def readable(holder: str) -> str:
    """The name for a message."""
    return holder.partition(" (")[0]


def is_gone(holder: str) -> bool:
    """True where nobody can write under this lease any more: its process, of this machine, has ended, or this process
    has let it go. False where that is not known."""
    marks = MARKS.fullmatch(holder)
    if marks is None or (marks[2], marks[3]) != _place():
        return False
    pid = int(marks[1])
    if pid == os.getpid() and marks[4] == _start(pid):
        return holder not in _alive
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # another user's
        pass
    start = _start(pid)
    return start is not None and start != marks[4]


@functools.cache
def _place() -> tuple[str, str] | None:
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return boot, str((PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return None


def _start(pid: int) -> str | None:
    """When a process started, in ticks since the boot (proc(5), `stat`)."""
    try:
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
