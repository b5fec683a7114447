"""The two sequences of a session, its messages and its journal, as rows that hold the hash of themselves and of all
before them."""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast, final

from hooksdk.errors import StoreError
from hooksdk.formats import Message
from hooksdk.stores._hashes import NO_ROWS, chain, session_key
from hooksdk.stores._sealing import PLAIN, Seal
from hooksdk.transcript import Entry

if TYPE_CHECKING:
    from hooksdk.stores._transaction import Transaction

SESSION = """
SELECT token, holder, messages, messages_hash, journal, journal_hash FROM hooksdk_sessions WHERE id = :id"""
# Rows that are read at a time: as objects of the database's driver they take twice what they hold.
PAGE = 5_000


class End(NamedTuple):
    """The end of a sequence: how many rows it has, and the hash of the newest."""

    length: int = 0
    hash: bytes = NO_ROWS


@final
class Table:
    """The statements over the messages, or over the journal."""

    def __init__(self, name: str, columns: str, kind: str) -> None:
        self.name = name
        self.select = f"""
            SELECT position, body, hash, {kind} FROM hooksdk_{name} WHERE session = :id AND position >= :start
            AND position < :stop ORDER BY position LIMIT :limit"""
        self.end = f"SELECT coalesce(max(position) + 1, 0) FROM hooksdk_{name} WHERE session = :id"
        self.cut = f"DELETE FROM hooksdk_{name} WHERE session = :id AND position >= :length"
        self.insert = f"INSERT INTO hooksdk_{name} VALUES ({columns})"


MESSAGES = Table("messages", ":id, :position, :body, :hash", "''")
JOURNAL = Table("journal", ":id, :position, :kind, :body, :hash", "kind")
Ends = dict[Table, End]
# Rows, and the end of the sequence after them.
Chained = tuple[list[dict[str, Any]], End]


def chained(
    key: int, table: Table, end: End, lines: Sequence[bytes], kinds: Sequence[str] = (), seal: Seal = PLAIN
) -> Chained:
    """The rows of these lines of a session, with their hashes, and the end of the sequence after them. `kinds` are those
    of entries; messages have none."""
    rows: list[dict[str, Any]] = []
    for line, kind in zip(lines, kinds or [""] * len(lines), strict=True):
        body = seal.close(line.decode(), key, table.name, end.length)
        row = {"id": key, "position": end.length, "kind": kind, "body": body}
        end = End(end.length + 1, chain(end.hash, body, kind))
        rows.append({**row, "hash": end.hash})
    return rows, end


def kind_of(entry: Entry) -> str:
    """The kind of a journal entry as its row has it; empty where it names none."""
    return str(entry.get("kind", ""))[:80]


def named_ends(ends: Ends, prefix: str = "") -> dict[str, Any]:
    """The ends as parameters of a statement."""
    return {
        f"{prefix}{table.name}{ending}": value
        for table, end in ends.items()
        for ending, value in (("", end.length), ("_hash", end.hash))
    }


def ends_of(transaction: Transaction, row: dict[str, Any]) -> Ends | None:
    stored: Any = transaction.execute(SESSION, row).fetchone()
    return stored and ends_in(stored[2:])


def ends_in(columns: Sequence[Any]) -> Ends:
    """The ends by the columns of a session's row."""
    messages, messages_hash, journal, journal_hash = columns
    return {MESSAGES: End(messages, messages_hash), JOURNAL: End(journal, journal_hash)}


def read_session(
    transaction: Transaction, session_id: str, seal: Seal = PLAIN
) -> tuple[list[Message], list[Entry]] | None:
    """The messages and the journal of a session, whoever holds it; None where there is none."""
    ends = ends_of(transaction, {"id": session_key(session_id)})
    if ends is None:
        return None
    lines, journal = read_encoded(transaction, session_id, ends, seal)
    return [*parse(lines, MESSAGES, session_id)], journal


def read_encoded(
    transaction: Transaction, session_id: str, ends: Ends, seal: Seal = PLAIN
) -> tuple[list[bytes], list[Entry]]:
    """Both sequences, the messages as their JSON. Raises `StoreError` for a row that is missing or was changed."""
    journal = read_chain(transaction, JOURNAL, session_id, 0, ends[JOURNAL].length, seal)
    lines = read_chain(transaction, MESSAGES, session_id, 0, ends[MESSAGES].length, seal)
    check_ends(transaction, session_id, ends)
    return lines, [*parse(journal, JOURNAL, session_id)]


def read_chain(
    transaction: Transaction, table: Table, session_id: str, start: int, stop: int, seal: Seal | None = PLAIN
) -> list[bytes]:
    """The bodies from `start` to before `stop`, each of which fits its hash; as they are stored with no seal at all.
    Raises `StoreError`."""
    lines: list[bytes] = []
    row: dict[str, Any] = {"id": session_key(session_id), "stop": stop, "limit": PAGE}
    before = hash_before(transaction, table, row, start)
    while (expected := start + len(lines)) < stop:
        rows = transaction.execute(table.select, {**row, "start": expected}).fetchall()
        if before is None or not rows:
            raise damage(table, session_id, expected - (before is None), "this row is missing")
        for number, (position, body, stored_hash, kind) in enumerate(rows, expected):
            if position != number:
                raise damage(table, session_id, number, f"this row is missing; the next is {position}")
            before = chain(before, body, kind)
            if before != stored_hash:
                raise damage(table, session_id, position, "this row was changed by somebody else, or the one before it")
            try:
                lines.append((seal.open(body, row["id"], table.name, position) if seal else body).encode())
            except StoreError as error:
                raise damage(table, session_id, position, error.problem) from error
    return lines


def hash_before(transaction: Transaction, table: Table, row: dict[str, Any], position: int) -> bytes | None:
    """The hash of the row before a position; None where there is none."""
    if position == 0:
        return NO_ROWS
    one = {"id": row["id"], "start": position - 1, "stop": position, "limit": 1}
    rows = transaction.execute(table.select, one).fetchall()
    return rows[0][2] if rows else None


def check_ends(transaction: Transaction, session_id: str, ends: Ends) -> None:
    """The sequences end as the session's row says. Raises `StoreError`."""
    row = {"id": session_key(session_id)}
    for table, end in ends.items():
        if hash_before(transaction, table, row, end.length) != end.hash:
            raise damage(table, session_id, end.length - 1, "the newest row is not the one that was stored last")
        stored = transaction.execute(table.end, row).fetchone()[0]
        if stored > end.length:
            raise damage(table, session_id, end.length, "this row was added by somebody else")


def parse(lines: Sequence[bytes], table: Table, session_id: str, start: int = 0) -> Iterator[dict[str, Any]]:
    for position, line in enumerate(lines, start):
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError) as error:
            raise damage(table, session_id, position, f"this row is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise damage(table, session_id, position, f"this row is a {type(value).__name__}, not an object")
        yield cast("dict[str, Any]", value)


def damage(table: Table, session_id: str, position: int, problem: str) -> StoreError:
    where = f"session '{session_id}', hooksdk_{table.name}, position {position}"
    return StoreError(where, f"{problem}. Nothing was changed; `hooksdk sessions doctor` tells what can be done")
