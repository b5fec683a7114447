"""Keeping a database of sessions: who has which session open, whether everything in it is what was stored, and copies.

Nothing here but `mend` takes a session: the rest works beside those that are open.
"""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, final

from hooksdk.errors import StoreError
from hooksdk.stores import _digests, _holders
from hooksdk.stores._chains import JOURNAL, MESSAGES, check_ends, ends_in, hash_before, read_chain
from hooksdk.stores._hashes import digest, session_key
from hooksdk.stores._kept_rows import DROP_ROWS, DROP_STATE, STATE
from hooksdk.stores._names import file_name, name_in
from hooksdk.stores._row_sums import is_whole
from hooksdk.stores._sealing import SEALED
from hooksdk.stores.sql import SqlStore

if TYPE_CHECKING:
    from pathlib import Path

    from hooksdk.stores._sealing import Seal
    from hooksdk.stores._transaction import Transaction

__all__ = ["Flaw", "examine", "flaw_of", "list_all", "list_ends", "list_holders", "look_at", "mend", "name_in"]

T = TypeVar("T")

HELD = "SELECT name, holder FROM hooksdk_sessions WHERE holder IS NOT NULL AND expires > {now}"
SESSION = """
SELECT id, name, token, changed, messages, messages_hash, journal, journal_hash FROM hooksdk_sessions WHERE id = :id"""
ROWS = """
SELECT kind, number, tag, body, hash FROM hooksdk_rows
WHERE session = :id AND (kind, number) > (:kind, :number) ORDER BY kind, number LIMIT :limit"""
CHANGED_VALUE = "space {}, key {}: this row was changed by somebody else"
# The tables in which a session has rows.
PARTS = ("messages", "journal", "rows", "states")
# Rows that are read at a time.
PAGE = 2_000
# Bytes at the beginning of SQLite's log, and before each page in it.
HEADER, FRAME = 32, 24
# How often a log is read anew that somebody writes to.
LOOKS = 20
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


async def list_holders(store: SqlStore) -> dict[str, str]:
    """By session that somebody has open: who, such as `process 4711 on HOST`."""
    rows = await store.fetch(HELD)
    return {name_in(name): _holders.readable(holder) for name, holder in rows if not _holders.is_gone(holder)}


async def list_ends(store: SqlStore) -> dict[str, bytes]:
    """By session what changes with each of its messages and entries."""
    rows = await store.fetch("SELECT name, messages_hash, journal_hash FROM hooksdk_sessions")
    return {name_in(name): bytes(messages) + bytes(journal) for name, messages, journal in rows}


# Damage


async def examine(store: SqlStore, session_ids: Sequence[str] = ()) -> list[Flaw]:
    """What is not as it was stored: in these sessions, or in the whole database."""
    flaws: list[Flaw] = []
    keys = [(session_key(session_id), json.dumps(session_id)) for session_id in session_ids]
    if not session_ids:
        parts = (functools.partial(_without_session, part) for part in PARTS)
        steps = [_pages, functools.partial(_log_beside, store.file)] if store.file and store.file.exists() else []
        for step in (*steps, _sums, *parts):
            flaws += await look_at(store, "database", step)
        keys, _ = await list_all(store, flaws)
    seal = store.seal if store.seal.key_id else None
    for key, name in keys:
        flaws += await look_at(store, name_in(name), functools.partial(_session, key=key, seal=seal))
    return flaws


async def look_at(store: SqlStore, who: str, step: Callable[[Transaction], list[Flaw]]) -> list[Flaw]:
    """The flaws that a step finds in one transaction; why it cannot go on is one of them."""
    try:
        return await store.look(step, list[Flaw]())
    except StoreError as error:
        return [flaw_of(who, error)]
    except (TypeError, ValueError, AttributeError) as error:  # SQLite stores anything in any column
        return [Flaw(who=who, what=f"a row has something else than was stored ({type(error).__name__}: {error})")]


def flaw_of(who: str, error: StoreError) -> Flaw:
    """A refusal as one line, without the advice to ask for what is asked here."""
    where = error.where.removeprefix(f"session '{who}', ")
    return Flaw(who=who, what=f"{where}: {error.problem.partition('. ')[0]}")


async def list_all(store: SqlStore, flaws: list[Flaw]) -> tuple[list[tuple[int, str]], list[Any]]:
    """The keys and names of all sessions, and the rows of all values that are as they were stored."""
    keys: list[tuple[int, str]] = []
    values: list[Any] = []

    def read(transaction: Transaction) -> list[Flaw]:
        keys[:], problems = _every(transaction, "id, name", "sessions", in_file=store.file is not None)
        rows, more = _every(transaction, "space, key, name, body, hash", "values", in_file=store.file is not None)
        wrong = {row[:2]: Flaw(who="values", what=CHANGED_VALUE.format(*row)) for row in rows if not _is_whole(*row)}
        values[:] = [row for row in rows if row[:2] not in wrong]
        return [*problems, *more, *wrong.values()]

    flaws += await look_at(store, "database", read)
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


def _pages(transaction: Transaction) -> list[Flaw]:
    """What SQLite itself finds."""
    found = [str(row[0]) for row in transaction.execute("PRAGMA integrity_check(20)").fetchall()]
    return [Flaw(who="database", what=" ".join(each.split())) for each in found if each != "ok"]


def _log_beside(file: Path, _transaction: Transaction) -> list[Flaw]:
    """What was committed to SQLite's log, and is left out since something before it in the log is not what was
    written. The log's checksums tell, as https://sqlite.org/fileformat2.html#walformat has them."""
    path = file.with_name(f"{file.name}-wal")
    for _ in range(LOOKS):
        log, again = (path.read_bytes() if path.exists() else b"" for _ in range(2))
        if log == again:  # nobody was writing it
            break
    else:
        return []
    if len(log) < HEADER:
        return []
    order, size = ">" if log[3] & 1 else "<", FRAME + int.from_bytes(log[8:12], "big")
    sums = _checksum(order, log[:24], (0, 0))
    is_whole = struct.pack(">2I", *sums) == log[24:HEADER]
    # A frame that an older log has left behind has other salts.
    salts, last = log[16:24] if is_whole else log[40:48], 0
    for number, at in enumerate(range(HEADER, len(log) - size + 1, size), 1):
        head = log[at : at + FRAME]
        if is_whole:
            sums = _checksum(order, head[:8] + log[at + FRAME : at + size], sums)
            is_whole = head[8:] == salts + struct.pack(">2I", *sums)
        if not is_whole and head[8:16] == salts and any(head[4:8]):  # the end of a transaction
            last = number
    if not last:
        return []
    what = f"{path.name}: commits up to page {last} of it are left out, since one before them was changed"
    return [Flaw(who="database", what=f"{what}, or a crash tore it")]


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two


def _without_session(part: str, transaction: Transaction) -> list[Flaw]:
    statement = f"""
        SELECT session, count(*) FROM hooksdk_{part} WHERE session NOT IN (
        SELECT id FROM hooksdk_sessions WHERE id IS NOT NULL) GROUP BY session"""
    found = transaction.execute(statement).fetchall()
    what = "the row of session number {} is gone, and {} of its rows are in hooksdk_{}"
    return [Flaw(who="database", what=what.format(key, number, part)) for key, number in found]


def _sums(transaction: Transaction) -> list[Flaw]:
    """Rows that are gone as a whole, were put in, or have another's hash."""
    sums = _sums_now(transaction)
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


def _sums_now(transaction: Transaction) -> dict[tuple[str, int], tuple[int, int]]:
    names = [row[0] for row in transaction.execute("SELECT name FROM hooksdk_sessions").fetchall()]
    values = transaction.execute("SELECT space, key, hash FROM hooksdk_values").fetchall()
    return _digests.sums_of(names, values)


def _is_whole(space: str, key: str, name: str, body: str, stored: bytes) -> bool:
    return digest(space, key, body) == stored and file_name(name_in(name)) == key


def _session(transaction: Transaction, key: int, seal: Seal | None) -> list[Flaw]:
    """What is wrong with a session, as it is at one moment."""
    row: Any = transaction.execute(SESSION, {"id": key}).fetchone()
    if row is None:
        is_null = key is None  # pyright: ignore[reportUnnecessaryComparison] - SQLite stores it in a key, too
        return [Flaw(who="database", what="a row in hooksdk_sessions was changed: it has no id")] if is_null else []
    who, ends, flaws = name_in(row[1]), ends_in(row[4:]), list[Flaw]()
    if session_key(who) != key:
        return [Flaw(who=who, what="its row in hooksdk_sessions was changed by somebody else: it has another's id")]
    for table, end in ends.items():
        try:
            for start in range(0, end.length, PAGE):
                stop = min(start + PAGE, end.length)
                read_chain(transaction, table, who, start, stop, seal)
            check_ends(transaction, who, {table: end})
        except StoreError as error:
            flaws.append(flaw_of(who, error))
    return [*flaws, *_known_flaws(transaction, who, key, seal)]


def _known_flaws(transaction: Transaction, who: str, key: int, seal: Seal | None) -> list[Flaw]:
    """What is wrong with the rows of what is known of a session's messages, and with the state that counts them."""
    row: dict[str, Any] = {"id": key, "kind": "", "number": -1, "limit": PAGE}
    state: Any = transaction.execute(STATE, row).fetchone()
    if state is None:
        return []
    count, entries, upto, body, stored, sums = state
    ends = (hash_before(transaction, MESSAGES, row, count), hash_before(transaction, JOURNAL, row, entries))
    sealed = SEALED.match(body)
    if stored != digest(count, entries, upto, *ends, body, sealed[1] if sealed else "", sums):
        return [Flaw(who=who, what="hooksdk_states: this row was changed by somebody else", remedy=ANEW)]
    known: dict[str, Any] = json.loads(seal.open(body, key, "state") if seal else "{}" if sealed else body)
    missing = {"message": count, "result": known.get("results", 0), "shown": known.get("shown_count", 0)}
    while found := transaction.execute(ROWS, row).fetchall():
        for kind, number, tag, text, own in found:
            if digest(key, kind, number, tag, text) != own:
                what = f"hooksdk_rows, {kind} {number}: this row was changed by somebody else"
                return [Flaw(who=who, what=what, remedy=ANEW)]
            missing[kind] = missing.get(kind, 0) - 1
        row |= {"kind": found[-1][0], "number": found[-1][1]}
    wrong = [f"{number} of {kind}s" for kind, number in missing.items() if number > 0]
    if wrong:
        return [Flaw(who=who, what=f"hooksdk_rows: rows are missing: {', '.join(wrong)}", remedy=ANEW)]
    others = sorted(kind for kind in {*missing, *json.loads(sums)} if not is_whole(transaction, row, kind))
    what = f"hooksdk_rows, {', '.join(others)}: a row is missing, was added, or is an older one"
    return [Flaw(who=who, what=what, remedy=ANEW)] if others else []


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
    sums = _sums_now(transaction)
    transaction.execute("DELETE FROM hooksdk_digests")
    for (kind, part), (number, total) in sums.items():
        transaction.execute(_digests.ADD, {"kind": kind, "part": part, "number": number, "total": total})
