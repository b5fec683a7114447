"""The part of `hooksdk doctor` about the store: whether sessions can be kept."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hooksdk.cli._doctor.examination import Symptom
from hooksdk.cli._sessions.waiting import standing_runs
from hooksdk.errors import HookSDKError
from hooksdk.stores import JsonlStore, Store
from hooksdk.stores.locks import held_locks, is_held

PROC_LOCKS = Path("/proc/locks")


def examine_store(store: Store) -> Iterator[Symptom]:
    """The problems of a `JsonlStore`'s folder, in which nothing is changed."""
    if not isinstance(store, JsonlStore):
        return
    directory = store.directory
    if problem := why_not_writable(directory):
        advice = 'Write store = "jsonl:FOLDER" with a folder that you may write, or correct this one\'s permissions'
        yield Symptom(severity="problem", who="store", what=f"{directory} cannot be written: {problem}", advice=advice)
        return
    holders = _holders()
    try:
        for path in held_locks(directory):
            yield _held(path, holders.get(path.stat().st_ino))
    except OSError as error:
        advice = f"Give the files in {directory} to the user that runs hooksdk"
        yield Symptom(severity="problem", who="store", what=f"a lock cannot be taken: {error}", advice=advice)


async def examine_runs(store: Store, url: str) -> list[Symptom]:
    """The runs on DBOS of which no worker lives."""
    try:
        runs = await standing_runs(store, url)
    except HookSDKError as error:
        return [Symptom(severity="notice", who="store", what=f"runs on DBOS are not looked at: {error}")]
    what = "stand still: no worker of it lives"
    advice = "Start a worker of that version, or move them: hooksdk sessions waiting --json has their ids"
    return [Symptom(severity="problem", who="store", what=f"{one}, {what}", advice=advice) for one in runs]


def why_not_writable(directory: Path) -> str:
    """The reason why no file can be made in this folder, or in the nearest existing one above; empty when one can."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    try:
        if existing == directory:
            with tempfile.TemporaryFile(dir=existing) as file:
                file.write(b"?")
        elif not existing.is_dir():
            return f"{existing} is no folder"
        elif not os.access(existing, os.W_OK | os.X_OK):
            return f"it does not exist, and {existing} cannot be written"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _held(path: Path, holder: int | None) -> Symptom:
    session = path.name.removesuffix(".lock")
    if holder is None or _is_alive(holder):
        who = f"process {holder}" if holder else "another process"
        return Symptom(severity="notice", who="store", what=f"session file {session} is open in {who}")
    what = f"session file {session} is held although process {holder}, which locked it, is gone: a child of it lives on"
    return Symptom(
        severity="problem", who="store", what=what, advice="hooksdk sessions doctor --mend takes the lock away"
    )


def outlived_lock(path: Path) -> int | None:
    """The ended process that took this lock, if a child that it forked still holds it; else None."""
    holder = _holders().get(path.stat().st_ino) if is_held(path) else None
    return holder if holder and not _is_alive(holder) else None


def _holders() -> dict[int, int]:
    """The process that took the lock on each inode, on systems that tell."""
    holders: dict[int, int] = {}
    if PROC_LOCKS.is_file():
        for line in PROC_LOCKS.read_text().splitlines():
            # 1: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF
            words = line.split()
            if len(words) == 8 and words[1] == "FLOCK":
                holders[int(words[5].rpartition(":")[2])] = int(words[4])
    return holders


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True
