"""The part of `hooksdk doctor` about the store: whether sessions can be kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hooksdk.cli._doctor.examination import Symptom
from hooksdk.cli._sessions.waiting import standing_runs
from hooksdk.errors import HookSDKError, StoreError
from hooksdk.stores import SqlStore, Store
from hooksdk.stores.files import network_file_system
from hooksdk.stores.upkeep import list_holders


async def examine_store(store: Store) -> list[Symptom]:
    """The problems of a database, and the sessions in it that somebody has open."""
    if not isinstance(store, SqlStore):
        return []
    if store.file is not None and (problem := why_not_usable(store.file)):
        advice = (
            'Write store = "jsonl:FOLDER" with a local folder that you may write, or correct this one\'s permissions'
        )
        return [Symptom(severity="problem", who="store", what=problem, advice=advice)]
    try:
        holders = await list_holders(store)
    except StoreError as error:
        advice = "hooksdk sessions doctor looks at all of it" if store.file else "Correct the URL, or start the server"
        return [Symptom(severity="problem", who="store", what=f"it cannot be read: {error}", advice=advice)]
    return [
        Symptom(severity="notice", who="store", what=f"session {session_id} is open in {holder}")
        for session_id, holder in sorted(holders.items())
    ]


async def examine_runs(store: Store, url: str) -> list[Symptom]:
    """The runs on DBOS of which no worker lives."""
    try:
        runs = await standing_runs(store, url)
    except HookSDKError as error:
        return [Symptom(severity="notice", who="store", what=f"runs on DBOS are not looked at: {error}")]
    what = "stand still: no worker of it lives"
    advice = "Start a worker of that version, or move them: hooksdk sessions waiting --json has their ids"
    return [Symptom(severity="problem", who="store", what=f"{one}, {what}", advice=advice) for one in runs]


def why_not_usable(file: Path) -> str:
    """Why no database can be kept in this file; empty where one can."""
    if problem := why_not_writable(file.parent):
        return f"{file.parent} cannot be written: {problem}"
    if file.exists() and not (file.is_file() and os.access(file, os.R_OK | os.W_OK)):
        return f"{file} cannot be read and written" if file.is_file() else f"{file} is no file"
    if kind := network_file_system(file):
        return f"{file} is on a network file system ({kind}), where SQLite's locks and shared memory do not hold"
    return ""


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
