"""The tables, and the steps that lead from each of their versions to the next.

A new database gets the newest tables. What was released is never changed: add a step, and change `TABLES` with it.
"""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hooksdk.stores import _digests
from hooksdk.stores._chains import kind_of
from hooksdk.stores._hashes import NO_ROWS, chain, digest, session_key
from hooksdk.stores._transaction import VERSION, Transaction

TABLES = (
    """CREATE TABLE hooksdk_sessions (
        id BIGINT PRIMARY KEY, name TEXT NOT NULL, token BIGINT NOT NULL, holder TEXT, expires DOUBLE PRECISION,
        changed DOUBLE PRECISION, messages BIGINT NOT NULL, messages_hash BYTEA NOT NULL,
        journal BIGINT NOT NULL, journal_hash BYTEA NOT NULL)""",
    "CREATE INDEX hooksdk_sessions_lease ON hooksdk_sessions (expires) WHERE expires IS NOT NULL",
    """CREATE TABLE hooksdk_messages (
        session BIGINT NOT NULL, position BIGINT NOT NULL, body TEXT NOT NULL, hash BYTEA NOT NULL,
        PRIMARY KEY (session, position))""",
    """CREATE TABLE hooksdk_journal (
        session BIGINT NOT NULL, position BIGINT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, hash BYTEA NOT NULL,
        PRIMARY KEY (session, position))""",
    "CREATE INDEX hooksdk_journal_kind ON hooksdk_journal (kind, session) WHERE kind = 'used'",
    """CREATE TABLE hooksdk_rows (
        session BIGINT NOT NULL, kind TEXT NOT NULL, number BIGINT NOT NULL, tag BYTEA NOT NULL, body TEXT NOT NULL,
        hash BYTEA NOT NULL, PRIMARY KEY (session, kind, number))""",
    "CREATE INDEX hooksdk_rows_tag ON hooksdk_rows (session, kind, tag)",
    """CREATE TABLE hooksdk_states (
        session BIGINT PRIMARY KEY, messages BIGINT NOT NULL, journal BIGINT NOT NULL, upto BIGINT NOT NULL,
        body TEXT NOT NULL, hash BYTEA NOT NULL, sums TEXT NOT NULL)""",
    """CREATE TABLE hooksdk_values (
        space TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, hash BYTEA NOT NULL,
        PRIMARY KEY (space, key))""",
    _digests.TABLE,
)
# Rows that are copied at a time.
PAGE = 5_000


def migrate(transaction: Transaction) -> int:
    """Make the tables, or lead them to this version. Answers their version, which may be a newer one."""
    transaction.execute("{migration_lock}")
    transaction.execute("CREATE TABLE IF NOT EXISTS hooksdk_schema (version INTEGER NOT NULL)")
    version = transaction.execute("SELECT max(version) FROM hooksdk_schema").fetchone()[0] or 0
    if version >= VERSION:
        return version
    if version == 0:
        for statement in TABLES:
            transaction.execute(statement)
    elif version == 1:
        transaction.execute("ALTER TABLE hooksdk_sessions ADD COLUMN changed DOUBLE PRECISION")
    if 0 < version < 4:
        _add_hashes(transaction)
    elif version == 4:  # whose states had no sums; states and rows are made anew from messages and journal
        transaction.execute("ALTER TABLE hooksdk_states ADD COLUMN sums TEXT NOT NULL DEFAULT ''")
        transaction.execute("DELETE FROM hooksdk_states")
        transaction.execute("DELETE FROM hooksdk_rows")
    transaction.execute("INSERT INTO hooksdk_schema (version) VALUES (:version)", {"version": VERSION})
    return VERSION


def _add_hashes(transaction: Transaction) -> None:
    """Copy everything of version 3 into tables with hashes. The old tables stay beside them, under other names, until a
    person drops them."""
    transaction.execute("DROP INDEX hooksdk_sessions_expires")
    transaction.execute("DROP TABLE IF EXISTS hooksdk_indexes")
    for name in ("sessions", "messages", "journal", "values"):
        transaction.execute(f"ALTER TABLE hooksdk_{name} RENAME TO hooksdk_old_{name}")
    for statement in TABLES:
        transaction.execute(statement)
    sessions = transaction.execute(
        "SELECT key, name, token, holder, expires, changed FROM hooksdk_old_sessions"
    ).fetchall()
    for key, name, token, holder, expires, changed in sessions:
        row: dict[str, Any] = {"id": session_key(json.loads(name)), "name": name, "token": token, "holder": holder}
        row |= {"expires": expires, "changed": changed}
        for table in ("messages", "journal"):
            row[table], row[f"{table}_hash"] = _copy(transaction, table, key, row)
        transaction.execute(
            """INSERT INTO hooksdk_sessions VALUES (
            :id, :name, :token, :holder, :expires, :changed, :messages, :messages_hash, :journal, :journal_hash)""",
            row,
        )
        _digests.note_session(transaction, name, 1)
    values = transaction.execute("SELECT space, key, name, body FROM hooksdk_old_values").fetchall()
    rows = [
        {"space": space, "key": key, "name": name, "body": body, "hash": digest(space, key, body)}
        for space, key, name, body in values
    ]
    if rows:
        transaction.execute("INSERT INTO hooksdk_values VALUES (:space, :key, :name, :body, :hash)", rows)
    for row in rows:
        _digests.note_value(transaction, row["space"], row["key"], None, row["hash"])


def _copy(transaction: Transaction, table: str, key: str, session: dict[str, Any]) -> tuple[int, bytes]:
    count, end = 0, NO_ROWS
    columns = ":session, :position, :body, :hash" if table == "messages" else ":session, :position, :kind, :body, :hash"
    for page in _pages(transaction, table, key):
        rows: list[dict[str, Any]] = []
        for position, body in page:  # a missing row stays one, and is told of when the session is opened
            kind = {} if table == "messages" else {"kind": _kind_in(body)}
            end = chain(end, body, **kind)
            count = position + 1
            rows.append({"session": session["id"], "position": position, "body": body, "hash": end, **kind})
        if rows:
            transaction.execute(f"INSERT INTO hooksdk_{table} VALUES ({columns})", rows)
            if table == "journal" and session["changed"] is None:  # version 1 had no time of the newest write
                session["changed"] = _time_in(rows[-1]["body"])
    return count, end


def _time_in(body: str) -> float | None:
    try:
        return float(json.loads(body)["time"])
    except (ValueError, KeyError, TypeError):
        return None


def _pages(transaction: Transaction, table: str, key: str) -> Iterator[list[Any]]:
    statement = f"""SELECT position, body FROM hooksdk_old_{table} WHERE key = :key AND position >= :start
        ORDER BY position LIMIT :limit"""
    row = {"key": key, "start": 0, "limit": PAGE}
    while page := transaction.execute(statement, row).fetchall():
        row["start"] = page[-1][0] + 1
        yield page


def _kind_in(body: str) -> str:
    try:
        return kind_of(json.loads(body))
    except (ValueError, AttributeError):
        return ""
