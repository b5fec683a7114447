"""A restart that waits until nobody is at work, and that never happens twice at once."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from hooksdk import PluginHost, Storage

KEY = "last_restart"
"""Where the report lies in the plugin's storage."""
WATCHED = 5.0
"""Seconds that a restart command is watched: less than a host that closes waits for us. One that takes longer goes on."""
MAX_OUTPUT = 2000
logger = logging.getLogger(__name__)
_running: list[subprocess.Popen[bytes]] = []
"""Commands that go on after they were watched. Kept, since Python warns of a process that nobody holds any more."""


class Busy(Exception):
    """Another restart is under way; the text says whose."""


class RestartLock:
    """One restart at a time for each user of the machine: over sessions, hosts and processes. The system lets it go when
    the process dies."""

    def __init__(self, note: Mapping[str, Any]) -> None:
        """Take the lock, and leave the note for whoever is refused. Raises `Busy`, or `OSError` without the file."""
        path = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"padded-cell-{os.getuid()}.lock"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.pread(self._file, 4096, 0).decode("utf-8", "replace")
            os.close(self._file)
            raise Busy(other or "it has just begun") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(note).encode(), 0)

    @classmethod
    def is_free(cls) -> bool:
        """True when no restart is under way."""
        try:
            cls({}).release()
        except (Busy, OSError):
            return False
        return True

    def release(self) -> None:
        """Let the next one restart."""
        os.ftruncate(self._file, 0)
        os.close(self._file)


@dataclass(frozen=True, kw_only=True)
class Order:
    """A restart that was asked for."""

    command: Sequence[str] | None
    """None: the program around the host restarts it."""
    env: Mapping[str, str]
    reason: str
    wait: float
    """Seconds until the sessions must be idle."""
    session_id: str
    storage: Storage


class Restarter:
    """Carries out restarts for all sessions of one host, in a task of its own: whoever asks is inside a run, and would
    wait for itself."""

    def __init__(self, host: PluginHost, group: TaskGroup) -> None:
        self._host = host
        self._group = group
        self._done: anyio.Event | None = None
        self.restarting = False
        """True from the moment when nobody was at work: no run may begin now."""

    def schedule(self, order: Order) -> list[str]:
        """Begin to wait; answers the sessions that are waited for. Raises `Busy` or `OSError`."""
        lock = RestartLock({"pid": os.getpid(), "session": order.session_id, "since": _now(), "reason": order.reason})
        self._done = anyio.Event()
        running = list(self._host.running)
        self._group.start_soon(self._carry_out, order, lock, running, self._done)
        return running

    async def settle(self) -> None:
        """Wait for a restart that is under way."""
        if self._done is not None:
            await self._done.wait()

    async def _carry_out(self, order: Order, lock: RestartLock, waited_for: list[str], done: anyio.Event) -> None:
        report: dict[str, Any] = {
            "status": "waiting", "since": _now(), "asked_by": order.session_id, "reason": order.reason,
            "command": None if order.command is None else list(order.command), "waited_for": waited_for,
        }  # fmt: skip
        began = time.monotonic()
        try:
            await order.storage.set(KEY, dict(report))
            idle = await self._host.wait_idle(order.wait)
            report["waited_seconds"] = round(time.monotonic() - began, 3)
            if idle:
                self.restarting = True
                await self._host.save()
                # Stored before: the command may end this process at any moment.
                await order.storage.set(KEY, {**report, "status": "restarting"})
                report |= await self._restart(order)
            else:
                report |= {"status": "not restarted", "problem": f"still at work: {', '.join(self._host.running)}"}
        except Exception as error:
            report |= {"status": "failed", "problem": f"{type(error).__name__}: {error}"}
        finally:
            self.restarting = False
            try:
                await _keep(order.storage, report)
            finally:
                lock.release()
                done.set()

    async def _restart(self, order: Order) -> dict[str, Any]:
        if order.command is None:
            await self._host.restart(order.reason)
            return {"status": "the host was told"}
        return await anyio.to_thread.run_sync(_start, order.command, order.env, abandon_on_cancel=True)


async def last_report(storage: Storage) -> dict[str, Any]:
    """What is known of the last restart, whichever process carried it out."""
    report: dict[str, Any] = await storage.get(KEY, {"status": "nothing was restarted yet"})
    if report["status"] == "restarting" and RestartLock.is_free():
        return {**report, "status": "restarted", "note": "the process that restarted it has ended, as it was to"}
    if report["status"] == "waiting" and RestartLock.is_free():
        return {**report, "status": "not restarted", "problem": "the process that waited has ended"}
    return report


async def _keep(storage: Storage, report: Mapping[str, Any]) -> None:
    logger.info("restart: %s", report["status"], extra={"report": report})
    try:
        await storage.set(KEY, dict(report))
    except Exception:
        logger.exception("the report of a restart could not be stored")


def _start(command: Sequence[str], env: Mapping[str, str]) -> dict[str, Any]:
    """Start the command so that it outlives this process, and watch how it begins."""
    with tempfile.TemporaryFile() as output:  # not a pipe: that would break when this process ends
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
        )
        try:
            exit_code = process.wait(WATCHED)
        except subprocess.TimeoutExpired:
            _running.append(process)
            return {"status": "started", "pid": process.pid, "problem": f"it still runs after {WATCHED:g} s"}
        size = output.seek(0, os.SEEK_END)
        output.seek(max(size - MAX_OUTPUT, 0))
        text = output.read().decode("utf-8", "replace")
    return {"status": "restarted" if exit_code == 0 else "failed", "exit_code": exit_code, "output": text}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
