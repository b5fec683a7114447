"""Keeping a database of sessions: who has which session open, whether everything in it is what was stored, and copies.

Nothing here but `mend` takes a session: the rest works beside those that are open.
"""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, final

from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores import _digests, _holders
from hooksdk.stores._chains import JOURNAL, MESSAGES, check_ends, ends_in, hash_before, read_chain
from hooksdk.stores._hashes import digest, session_key
from hooksdk.stores._kept_rows import DROP_ROWS, DROP_STATE, STATE
from hooksdk.stores._names import file_name
from hooksdk.stores._old_files import (
    VERSION,
    OldSession,
    insert_session,
    insert_value,
    journal_of,
    named_in,
    read_old_session,
)
from hooksdk.stores._sealing import SEALED
from hooksdk.stores._tables import kind_of
from hooksdk.stores.files import replace_file, sync_directory
from hooksdk.stores.sql import SqlStore
from hooksdk.tasks import in_thread

if TYPE_CHECKING:
    from hooksdk.stores._sealing import Seal
    from hooksdk.stores._transaction import Transaction

__all__ = [
    "VERSION",
    "Flaw",
    "OldSession",
    "Rescued",
    "backup",
    "examine",
    "export_session",
    "file_name",
    "import_session",
    "list_ends",
    "list_holders",
    "mend",
    "named_in",
    "read_old_session",
    "rescue",
]

T = TypeVar("T")

HELD = "SELECT name, holder FROM hooksdk_sessions WHERE holder IS NOT NULL AND expires > {now}"
SESSION = """
SELECT id, name, token, changed, messages, messages_hash, journal, journal_hash FROM hooksdk_sessions WHERE id = :id"""
ROWS = """
SELECT kind, number, tag, body, hash FROM hooksdk_rows
WHERE session = :id AND (kind, number) > (:kind, :number) ORDER BY kind, number LIMIT :limit"""
CHANGED_VALUE = "space {}, key {}: this row was changed by somebody else"
KINDS = """
SELECT kind FROM hooksdk_journal WHERE session = :id AND position >= :start AND position < :stop ORDER BY position"""
# The tables in which a session has rows.
PARTS = ("messages", "journal", "rows", "states")
# Rows that are read at a time.
PAGE = 2_000
RECOUNT, ANEW = "count anew what is there", "make these rows anew"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Something that is not as it was stored.

    Attributes:
        who: The session's id; `values`, or `database` for the whole.
        remedy: What `mend` does about it; empty where it can do nothing.
    """

    who: str
    what: str
    remedy: str = ""


@final
class Rescued(NamedTuple):
    """How many were copied, and why others were not."""

    sessions: int
    values: int
    left: list[Flaw]


async def list_holders(store: SqlStore) -> dict[str, str]:
    """By session that somebody has open: who, such as `process 4711 on HOST`."""
    rows = await store.look(functools.partial(_fetch, HELD), list[Any]())
    return {json.loads(name): _holders.readable(holder) for name, holder in rows if not _holders.is_gone(holder)}


async def list_ends(store: SqlStore) -> dict[str, bytes]:
    """By session what changes with each of its messages and entries."""
    statement = "SELECT name, messages_hash, journal_hash FROM hooksdk_sessions"
    rows = await store.look(functools.partial(_fetch, statement), list[Any]())
    return {json.loads(name): bytes(messages) + bytes(journal) for name, messages, journal in rows}


# Files


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


# Damage


async def examine(store: SqlStore, session_ids: Sequence[str] = ()) -> list[Flaw]:
    """What is not as it was stored: in these sessions, or in the whole database."""
    flaws: list[Flaw] = []
    keys = [(session_key(session_id), json.dumps(session_id)) for session_id in session_ids]
    if not session_ids:
        parts = (functools.partial(_without_session, part) for part in PARTS)
        for step in (*([_pages] if store.file else []), _sums, *parts):
            flaws += await _look(store, "database", step)
        keys, _ = await _list_all(store, flaws)
    seal = store.seal if store.seal.key_id else None
    for key, name in keys:
        flaws += await _look(store, _name(name), functools.partial(_session, key=key, seal=seal))
    return flaws


async def _look(store: SqlStore, who: str, step: Callable[[Transaction], list[Flaw]]) -> list[Flaw]:
    try:
        return await store.look(step, list[Flaw]())
    except StoreError as error:
        return [_flaw(who, error)]
    except (TypeError, ValueError, AttributeError) as error:  # SQLite stores anything in any column
        return [Flaw(who=who, what=f"a row has something else than was stored ({type(error).__name__}: {error})")]


def _flaw(who: str, error: StoreError) -> Flaw:
    """A refusal as one line, without the advice to ask for what is asked here."""
    where = error.where.removeprefix(f"session '{who}', ")
    return Flaw(who=who, what=f"{where}: {error.problem.partition('. ')[0]}")


def _name(name: str) -> str:
    try:
        return str(json.loads(name))
    except (ValueError, TypeError):
        return str(name)


async def _list_all(store: SqlStore, flaws: list[Flaw]) -> tuple[list[tuple[int, str]], list[Any]]:
    """The keys and names of all sessions, and the rows of all values that are as they were stored."""
    keys: list[tuple[int, str]] = []
    values: list[Any] = []

    def read(transaction: Transaction) -> list[Flaw]:
        keys[:], problems = _every(transaction, "id, name", "sessions", in_file=store.file is not None)
        rows, more = _every(transaction, "space, key, name, body, hash", "values", in_file=store.file is not None)
        wrong = {row[:2]: Flaw(who="values", what=CHANGED_VALUE.format(*row)) for row in rows if not _is_whole(*row)}
        values[:] = [row for row in rows if row[:2] not in wrong]
        return [*problems, *more, *wrong.values()]

    flaws += await _look(store, "database", read)
    return keys, values


def _every(transaction: Transaction, columns: str, table: str, *, in_file: bool) -> tuple[list[Any], list[Flaw]]:
    """The rows of a table; of a damaged file all but those in a page that cannot be read: it is gone through from both
    ends."""
    found: dict[Any, Any] = {}
    problem = ""
    for order in ("ORDER BY rowid", "ORDER BY rowid DESC") if in_file else ("",):
        try:
            cursor = transaction.execute(f"SELECT {columns} FROM hooksdk_{table} {order}")
            while (row := cursor.fetchone()) is not None:
                found[row[:2]] = row
            break
        except Exception as error:  # each driver has its own
            problem = f"hooksdk_{table} cannot be read whole: {error}"
    return [*found.values()], [Flaw(who="database", what=problem)] if problem else []


def _fetch(statement: str, transaction: Transaction) -> list[Any]:
    return transaction.execute(statement).fetchall()


def _pages(transaction: Transaction) -> list[Flaw]:
    """What SQLite itself finds."""
    found = [str(row[0]) for row in transaction.execute("PRAGMA integrity_check(20)").fetchall()]
    return [Flaw(who="database", what=" ".join(each.split())) for each in found if each != "ok"]


def _without_session(part: str, transaction: Transaction) -> list[Flaw]:
    statement = f"""
        SELECT session, count(*) FROM hooksdk_{part} WHERE session NOT IN (SELECT id FROM hooksdk_sessions) GROUP BY session"""
    found = transaction.execute(statement).fetchall()
    what = "the row of session number {} is gone, and {} of its rows are in hooksdk_{}"
    return [Flaw(who="database", what=what.format(key, number, part)) for key, number in found]


def _sums(transaction: Transaction) -> list[Flaw]:
    """Rows that are gone as a whole, were put in, or have another's hash."""
    names = [row[0] for row in transaction.execute("SELECT name FROM hooksdk_sessions").fetchall()]
    values = transaction.execute("SELECT space, key, hash FROM hooksdk_values").fetchall()
    sums = _digests.sums_of(names, values)
    noted = {(row[0], row[1]): (row[2], row[3]) for row in transaction.execute(_digests.SUMS).fetchall()}
    flaws: list[Flaw] = []
    for kind in sorted({str(kind) for kind, _ in (*sums, *noted)}):
        parts = [part for part in {*sums, *noted} if part[0] == kind and sums.get(part) != noted.get(part)]
        fewer, more = (
            sum(max(0, one.get(part, (0, 0))[0] - other.get(part, (0, 0))[0]) for part in parts)
            for one, other in ((noted, sums), (sums, noted))
        )
        if parts:
            counts = f"at least {fewer} are gone, {more} were added" if fewer or more else "one is not what was stored"
            flaws.append(Flaw(who="database", what=f"the sum over all {kind} does not fit: {counts}", remedy=RECOUNT))
    return flaws


def _is_whole(space: str, key: str, name: str, body: str, stored: bytes) -> bool:
    return digest(space, key, body) == bytes(stored) and file_name(_name(name)) == key


def _session(transaction: Transaction, key: int, seal: Seal | None) -> list[Flaw]:
    """What is wrong with a session, as it is at one moment."""
    row: Any = transaction.execute(SESSION, {"id": key}).fetchone()
    if row is None:
        return []
    who, ends, flaws = _name(row[1]), ends_in(row[4:]), list[Flaw]()
    if session_key(who) != key:
        return [Flaw(who=who, what="its row in hooksdk_sessions was changed by somebody else: it has another's id")]
    for table, end in ends.items():
        try:
            for start in range(0, end.length, PAGE):
                stop = min(start + PAGE, end.length)
                lines = read_chain(transaction, table, who, start, stop, seal)
                if table is JOURNAL:
                    flaws += _kind_flaws(transaction, who, lines, {"id": key, "start": start, "stop": stop})
            check_ends(transaction, who, {table: end})
        except StoreError as error:
            flaws.append(_flaw(who, error))
    return [*flaws, *_known_flaws(transaction, who, key, seal)]


def _kind_flaws(transaction: Transaction, who: str, lines: Sequence[bytes], row: dict[str, Any]) -> list[Flaw]:
    """Entries of which the column that finds them says another kind than they do. Encrypted ones tell none."""
    for number, (kind,) in enumerate(transaction.execute(KINDS, row).fetchall()):
        if SEALED.match(lines[number].decode()) is None and kind_of(lines[number].decode()) != kind:
            what = f"hooksdk_journal, position {row['start'] + number}: the kind was changed by somebody else"
            return [Flaw(who=who, what=what)]
    return []


def _known_flaws(transaction: Transaction, who: str, key: int, seal: Seal | None) -> list[Flaw]:
    """What is wrong with the rows of what is known of a session's messages, and with the state that counts them."""
    row: dict[str, Any] = {"id": key, "kind": "", "number": -1, "limit": PAGE}
    state: Any = transaction.execute(STATE, row).fetchone()
    if state is None:
        return []
    count, entries, upto, body, stored = state
    ends = (hash_before(transaction, MESSAGES, row, count), hash_before(transaction, JOURNAL, row, entries))
    sealed = SEALED.match(body)
    if bytes(stored) != digest(count, entries, upto, *ends, body, sealed[1] if sealed else ""):
        return [Flaw(who=who, what="hooksdk_states: this row was changed by somebody else", remedy=ANEW)]
    known: dict[str, Any] = json.loads(seal.open(body, key, "state") if seal else "{}" if sealed else body)
    missing = {"message": count, "result": known.get("results", 0), "shown": known.get("shown_count", 0)}
    while found := transaction.execute(ROWS, row).fetchall():
        for kind, number, tag, text, own in found:
            if digest(key, kind, number, bytes(tag), text) != bytes(own):
                what = f"hooksdk_rows, {kind} {number}: this row was changed by somebody else"
                return [Flaw(who=who, what=what, remedy=ANEW)]
            missing[kind] = missing.get(kind, 0) - 1
        row |= {"kind": found[-1][0], "number": found[-1][1]}
    wrong = [f"{number} of {kind}s" for kind, number in missing.items() if number > 0]
    return [Flaw(who=who, what=f"hooksdk_rows: rows are missing: {', '.join(wrong)}", remedy=ANEW)] if wrong else []


async def mend(store: SqlStore, flaw: Flaw) -> None:
    """Do what `remedy` says. Raises `SessionBusy` while somebody has the session open."""
    if flaw.remedy == RECOUNT:
        await store.work(lambda run: run(_recount))
        return
    log = await store.open_session(flaw.who, wait=1.0)
    try:
        await store.work(lambda run: run(functools.partial(_forget, row=log.row)))
    finally:
        await log.close()


def _forget(transaction: Transaction, row: dict[str, Any]) -> None:
    for statement in (DROP_STATE, DROP_ROWS):
        transaction.execute(statement, row)


def _recount(transaction: Transaction) -> None:
    names = [row[0] for row in transaction.execute("SELECT name FROM hooksdk_sessions").fetchall()]
    values = transaction.execute("SELECT space, key, hash FROM hooksdk_values").fetchall()
    transaction.execute("DELETE FROM hooksdk_digests")
    for (kind, part), (number, total) in _digests.sums_of(names, values).items():
        transaction.execute(_digests.ADD, {"kind": kind, "part": part, "number": number, "total": total})


# Copies


async def rescue(store: SqlStore, target: SqlStore) -> Rescued:
    """Copy every session whose chains hold, and every value whose hash fits. The target has nothing yet."""
    left: list[Flaw] = []
    sessions = 0
    keys, values = await _list_all(store, left)

    def insert_values(transaction: Transaction) -> None:
        for row in values:
            insert_value(transaction, *row[:4])

    for key, name in keys:
        rows: dict[str, list[Any]] = {}

        def read(transaction: Transaction, key: int = key, rows: dict[str, list[Any]] = rows) -> list[Flaw]:
            rows.update(_whole(transaction, key))
            return []

        left += await _look(store, _name(name), read)
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
