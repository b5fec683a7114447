"""Copies of a database of sessions, and of single sessions in files of JSON lines. All works beside open sessions."""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from contextlib import aclosing, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores import _digests
from hooksdk.stores._chains import check_ends, ends_in, read_chain
from hooksdk.stores._hashes import session_key
from hooksdk.stores._names import file_name, journal_of, name_in
from hooksdk.stores._old_files import VERSION, OldSession, insert_session, named_in, read_old_session
from hooksdk.stores._values import write_value
from hooksdk.stores.files import replace_file, sync_directory
from hooksdk.stores.sql import SqlStore
from hooksdk.stores.upkeep import SESSION, Flaw, examine, list_all, list_ends, look_at
from hooksdk.tasks import in_thread

if TYPE_CHECKING:
    from hooksdk.stores._sealing import Seal
    from hooksdk.stores._transaction import Transaction

__all__ = [
    "VERSION",
    "OldSession",
    "Rescued",
    "backup",
    "export_session",
    "file_name",
    "import_session",
    "named_in",
    "read_old_session",
    "rescue",
]


VALUE = ("space", "key", "name", "body", "hash")


@final
class Rescued(NamedTuple):
    """How many were copied, and why others were not."""

    sessions: int
    values: int
    left: list[Flaw]


async def export_session(store: SqlStore, session_id: str, folder: Path) -> list[Path]:
    """Write a session into two files of JSON lines, `NAME.messages.jsonl` and `NAME.journal.jsonl`, byte for byte as it
    is stored. Raises `StoreError`."""
    session = await store.look(functools.partial(_read, key=session_key(session_id), seal=store.seal), None)
    if session is None:
        raise StoreError(f"session '{session_id}'", "there is none of this id")
    header = {"hooksdk": "journal", "version": VERSION, "session": session_id, "token": session.token}
    lines = [json.dumps({**header, "changed": session.changed}).encode(), *session.journal]
    journal = journal_of(folder, session_id)
    messages = folder / f"{file_name(session_id)}.messages.jsonl"

    def write() -> None:
        if store.old_files is not None and folder.resolve() == store.old_files.resolve():
            problem = "from this folder the store takes over files of earlier versions. Name another"
            raise StoreError(str(folder), problem)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, each in ((messages, session.messages), (journal, lines)):
            replace_file(path, b"".join(line + b"\n" for line in each))

    await in_thread(write)
    return [messages, journal]


async def import_session(store: SqlStore, session: OldSession) -> None:
    """Store a session that was exported. Raises `StoreError` where there is one of its id."""
    step = functools.partial(insert_session, session=session, seal=store.seal)
    if not await store.work(lambda run: run(step)):
        problem = "there is one of this id already. Nothing was changed; import it under another id"
        raise StoreError(f"session '{session.session_id}'", problem)


def _read(transaction: Transaction, key: int, seal: Seal | None) -> OldSession | None:
    """A session whose chains hold; None where there is none. Raises `StoreError`."""
    row: Any = transaction.execute(SESSION, {"id": key}).fetchone()
    if row is None:
        return None
    session_id: str = json.loads(row[1])
    ends = ends_in(row[4:])
    messages, journal = (read_chain(transaction, table, session_id, 0, end.length, seal) for table, end in ends.items())
    check_ends(transaction, session_id, ends)
    return OldSession(session_id, messages, journal, row[2], row[3], "")


async def rescue(store: SqlStore, target: SqlStore) -> Rescued:
    """Copy every session whose chains hold, and every value whose hash fits. The target has nothing yet."""
    left: list[Flaw] = []
    sessions = 0
    keys, values = await list_all(store, left)

    def insert_values(transaction: Transaction) -> None:
        for row in values:
            write_value(transaction, dict(zip(VALUE, row, strict=True)), None)

    for key, name in keys:
        rows: dict[str, list[Any]] = {}

        def read(transaction: Transaction, key: int = key, rows: dict[str, list[Any]] = rows) -> list[Flaw]:
            rows.update(_whole(transaction, key))
            return []

        left += await look_at(store, name_in(name), read)
        if rows:
            await target.work(lambda run, rows=rows: run(functools.partial(_insert_rows, rows=rows)))
            sessions += 1
    await target.work(lambda run: run(insert_values))
    return Rescued(sessions, len(values), left)


def _whole(transaction: Transaction, key: int) -> dict[str, list[Any]]:
    """The rows of a session whose chains hold, as they are stored: a copy of them needs no key."""
    if _read(transaction, key, None) is None:
        return {}
    (session,) = transaction.execute("SELECT * FROM hooksdk_sessions WHERE id = :id", {"id": key}).fetchall()
    rows = {"sessions": [(*session[:3], None, None, *session[5:])]}  # nobody has the copy open
    for table in ("messages", "journal"):
        rows[table] = transaction.execute(f"SELECT * FROM hooksdk_{table} WHERE session = :id", {"id": key}).fetchall()
    return rows


def _insert_rows(transaction: Transaction, rows: Mapping[str, list[Any]]) -> None:
    for table, found in rows.items():
        if found:
            names = [f"c{number}" for number in range(len(found[0]))]
            statement = f"INSERT INTO hooksdk_{table} VALUES ({', '.join(f':{name}' for name in names)})"
            transaction.execute(statement, [dict(zip(names, row, strict=True)) for row in found])
    for session in rows.get("sessions", ()):
        _digests.note_session(transaction, session[1], 1)


async def backup(store: SqlStore, path: Path) -> list[Flaw]:
    """Copy the database into a new file, beside whoever writes it, and examine the copy. Raises `StoreError`, and
    `ConfigError` for a server."""
    if store.file is None:
        advice = "pg_dump --table='hooksdk_*' writes these tables into a file"
        raise ConfigError("store", (f"a server's database is copied by its own programs: {advice}",))
    await list_ends(store)  # which brings the tables to this version
    part = path.with_name(f".{path.name}.part")
    try:
        await in_thread(_copy, store.file, part, path)
        copied = SqlStore(f"sqlite:///{part}")
        async with aclosing(copied):
            flaws = await examine(copied)
        await in_thread(part.replace, path)
        await in_thread(sync_directory, path.parent)
    except OSError as error:
        raise StoreError(str(path), f"cannot be written: {error}") from error
    finally:
        await in_thread(functools.partial(part.unlink, missing_ok=True))
    return flaws


def _copy(source: Path, target: Path, path: Path) -> None:
    import sqlite3

    if path.exists() or not source.exists():
        where, what = (path, "is there already") if path.exists() else (source, "there is no database")
        raise StoreError(str(where), f"{what}. Nothing was changed")
    target.unlink(missing_ok=True)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(source)) as whole, closing(sqlite3.connect(target)) as copy:
            whole.backup(copy)  # in one step, so that writers do not make it begin again
    except sqlite3.Error as error:
        raise StoreError(str(source), f"cannot be copied: {error}") from error
