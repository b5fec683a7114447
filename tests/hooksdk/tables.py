"""Hands that change a database beside hooksdk, with and without fitting hashes, and eyes that look into its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hooksdk.formats import Message
from hooksdk.stores import SqlStore
from hooksdk.stores._chains import JOURNAL, MESSAGES, End, Table, chained, ends_in, kind_of, named_ends, read_chain
from hooksdk.stores._hashes import session_key
from hooksdk.stores._transaction import Transaction
from hooksdk.transcript import Entry

TABLES = ("messages", "journal", "rows", "states", "values", "sessions")


async def run_sql(store: SqlStore, statement: str, parameters: Any = None) -> None:
    """Run one statement, as somebody would who knows nothing of hashes."""

    def step(transaction: Transaction) -> None:
        transaction.execute(statement, parameters)

    await store.database.transaction(step)


async def select(store: SqlStore, statement: str, parameters: Any = None) -> list[Any]:
    """The rows that a statement finds."""

    def step(transaction: Transaction) -> list[Any]:
        return transaction.execute(statement, parameters).fetchall()

    return await store.database.transaction(step, writes=False)


async def rewrite(
    store: SqlStore,
    messages: Callable[[list[Message]], Sequence[Message]] = lambda whole: whole,
    journal: Callable[[list[Entry]], Sequence[Entry]] = lambda whole: whole,
    *,
    session_id: str = "s",
) -> None:
    """Store other messages and another journal of a session, with hashes that fit: what a store of somebody's own, or
    the files of an earlier version, may have come to."""
    key = session_key(session_id)

    def step(transaction: Transaction) -> None:
        row: Any = transaction.execute(
            "SELECT messages, messages_hash, journal, journal_hash FROM hooksdk_sessions WHERE id = :id", {"id": key}
        ).fetchone()
        ends = ends_in(row)
        for name in ("rows", "states"):
            transaction.execute(f"DELETE FROM hooksdk_{name} WHERE session = :id", {"id": key})
        new: dict[Table, End] = {}
        for table, edit in ((MESSAGES, messages), (JOURNAL, journal)):
            lines = read_chain(transaction, table, session_id, 0, ends[table].length)
            edited = [json.dumps(each).encode() for each in edit([json.loads(line) for line in lines])]
            kinds = [] if table is MESSAGES else [kind_of(json.loads(line)) for line in edited]
            rows, new[table] = chained(key, table, End(), edited, kinds)
            transaction.execute(table.cut, {"id": key, "length": 0})
            if rows:
                transaction.execute(table.insert, rows)
        transaction.execute(
            "UPDATE hooksdk_sessions SET messages = :messages, messages_hash = :messages_hash, journal = :journal, "
            "journal_hash = :journal_hash WHERE id = :id",
            {"id": key, **named_ends(new)},
        )

    await store.database.transaction(step)


def text_in(folder: Path) -> str:
    """Everything that the files of a folder hold, pages that are free and logs among it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return "\n".join(path.read_bytes().decode(errors="replace") for path in files)
