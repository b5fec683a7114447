"""Sessions in a database: SQLite for the workers of one machine, PostgreSQL for workers on many.

Who opens a session gets a lease with a token that rises. The lease is renewed in the background and lapses when its
worker dies or hangs; then any other worker may take the session over. Each write looks at the lease in its own
transaction, so a worker that was suspended past its lease cannot write any more.
"""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import functools
import importlib.util
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

import anyio

from hooksdk.config import split_store, without_password
from hooksdk.errors import ConfigError, SessionBusy, StoreError
from hooksdk.formats import Message
from hooksdk.stores import _holders
from hooksdk.stores._beginnings import FIRST_ENTRIES, FIRST_MESSAGES, MOST_BYTES, parse_line
from hooksdk.stores._database import Cursor, Database, Driver, Transaction
from hooksdk.stores._sql_log import JOURNAL, MESSAGES, RENEW, SqlLog, read_rows
from hooksdk.stores.jsonl import file_name
from hooksdk.tasks import in_thread, keep_trying, run_shielded, start_task
from hooksdk.transcript import Entry, SessionBeginning, encode_for, is_same, unknown_session

logger = logging.getLogger("hooksdk")

__all__ = ["SqlLog", "SqlStore"]

T = TypeVar("T")

TAKE = """
INSERT INTO hooksdk_sessions (key, name, token, holder, expires) VALUES (:key, :name, 1, :holder, {now} + :lease)
ON CONFLICT (key) DO UPDATE SET token = hooksdk_sessions.token + 1, holder = excluded.holder, expires = excluded.expires
WHERE hooksdk_sessions.expires IS NULL OR hooksdk_sessions.expires <= {now} OR hooksdk_sessions.holder = :claim
RETURNING token"""
HOLDER = "SELECT holder, expires - {now} FROM hooksdk_sessions WHERE key = :key"
CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT key FROM hooksdk_sessions WHERE expires <= {now} ORDER BY expires LIMIT :limit {skip_locked})
UPDATE hooksdk_sessions SET token = token + 1, holder = :holder, expires = {now} + :lease
FROM picked WHERE hooksdk_sessions.key = picked.key RETURNING hooksdk_sessions.name"""
HELD = """
SELECT name, holder, expires > {now} FROM hooksdk_sessions WHERE expires IS NOT NULL AND substr(name, 1, :length) = :beginning"""
DELETE = [f"DELETE FROM hooksdk_{name} WHERE key = :key" for name in ("messages", "journal", "indexes", "sessions")]
BEGINNINGS = (
    "SELECT name, changed, (SELECT body FROM hooksdk_journal AS last WHERE last.key = hooksdk_sessions.key ORDER BY position DESC LIMIT 1)"
    + "".join(
        f", (SELECT body FROM hooksdk_{table} AS line WHERE line.key = hooksdk_sessions.key AND position = {position}"
        f" AND length(body) <= {MOST_BYTES})"
        for table, count in (("messages", FIRST_MESSAGES), ("journal", FIRST_ENTRIES))
        for position in range(count)
    )
    + " FROM hooksdk_sessions"
)
"""Each body is looked up by its key: a condition on the position alone would go through all rows."""
SET_VALUE = """
INSERT INTO hooksdk_values (space, key, name, body) VALUES (:space, :key, :name, :body)
ON CONFLICT (space, key) DO UPDATE SET body = excluded.body"""
ADD_VALUE = SET_VALUE.partition("DO UPDATE")[0] + "DO NOTHING"
LOOK_AT_VALUE = "SELECT body FROM hooksdk_values WHERE space = :space AND key = :key {alone}"
REPLACE_VALUE = "UPDATE hooksdk_values SET body = :body WHERE space = :space AND key = :key"
DELETE_VALUE = "DELETE FROM hooksdk_values WHERE space = :space AND key = :key"


@final
class SqlStore:
    """Sessions in a database: `sqlite:///FILE` for the workers of one machine, `postgresql://...` for workers on many.

    `lease` is after how many seconds a session whose worker died or hangs is free for others; it is renewed three times
    in that time. PostgreSQL needs the extra `postgres`. Raises `ConfigError` for another URL, or where the extra is not
    installed.

    ```python
    import asyncio

    from hooksdk import Host
    from hooksdk.stores import SqlStore

    async def main() -> None:
        store = SqlStore("sqlite:///sessions.db")
        for resumed in (False, True):
            async with Host(store=store) as host, host.session("ann") as session:
                assert session.resumed is resumed
        await store.aclose()

    asyncio.run(main())
    ```
    """

    def __init__(self, url: str, *, lease: float = 15.0) -> None:
        try:
            kind, place = split_store(url)
        except ValueError as error:
            raise ConfigError("store", (str(error),)) from None
        if kind not in {"sqlite", "postgresql"}:
            raise ConfigError("store", (f"'{kind}' is no database: sqlite:///FILE or postgresql://USER@HOST/DATABASE",))
        if not lease > 0:
            raise ConfigError("store", (f"the lease must be above 0 s, not {lease:g}",))
        needed = ("sqlite3",) if kind == "sqlite" else ("psycopg", "psycopg_pool")
        for module in needed:
            if importlib.util.find_spec(module) is None:
                way = "this Python was built without it" if kind == "sqlite" else "pip install 'hooksdk[postgres]'"
                raise ConfigError("store", (f"'{kind}' needs {module}: {way}",))
        self.lease = lease
        self._url = url
        self._file = Path(place) if kind == "sqlite" else None
        self._database: Database | None = None
        self._logs: list[SqlLog] = []
        # By session: the holder under which it was claimed here.
        self._claims: dict[str, str] = {}
        self._heartbeat: anyio.CancelScope | None = None
        self._beaten = anyio.Event()

    def __str__(self) -> str:
        """The URL, without a password."""
        return f"sqlite:///{self._file}" if self._file else without_password(self._url)

    def _open(self) -> Database:
        if self._database is None:
            driver: Driver
            if self._file:
                from hooksdk.stores._sqlite import SqliteDriver

                driver = SqliteDriver(self._file)
            else:
                from hooksdk.stores._postgres import PostgresDriver

                driver = PostgresDriver(self._url, stall=self.lease)
            self._database = Database(driver, str(self))
        return self._database

    # Sessions

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> SqlLog:
        """Take hold of a session, new or old. Raises `SessionBusy` when another holder does not let go, and its lease
        does not lapse, in time."""
        database, holder = self._open(), _holders.new_holder()
        row = {"key": file_name(session_id), "name": json.dumps(session_id), "holder": holder, "lease": self.lease}
        row["claim"] = self._claims.pop(session_id, "")
        logs: list[SqlLog] = []
        rival = ""

        def take(transaction: Transaction) -> SqlLog | None:
            nonlocal rival
            token, name, rest = _value(transaction.execute(TAKE, row)), "", 0.0
            if token is None:
                rival_row: Any = transaction.execute(HOLDER, row).fetchone()
                name, rest = rival_row or ("", 0)
                if name and _holders.is_gone(name):  # its lease need not lapse
                    token = _value(transaction.execute(TAKE, {**row, "claim": name}))
            if token is None:
                lapse = f"whose lease lapses in {max(rest, 0):.0f} s unless it is renewed"
                rival = f"{_holders.readable(name)}, {lapse}" if name else ""
                return None
            lengths = {table: _value(transaction.execute(table.end, row)) for table in (MESSAGES, JOURNAL)}
            return SqlLog(database, session_id, holder=holder, token=token, lease=self.lease, lengths=lengths)

        async def take_once() -> None:
            logs.extend(filter(None, [await database.transaction(take)]))

        async def try_once() -> bool:
            await run_shielded(take_once)
            return bool(logs)

        try:
            await keep_trying(try_once, session_id, wait)
        except BaseException as error:
            if isinstance(error, SessionBusy):
                error.holder = rival
            for log in logs:
                await log.close()
            raise
        self._logs = [*(log for log in self._logs if log.is_open), logs[0]]
        if self._heartbeat is None or self._heartbeat.cancel_called:
            self._heartbeat, self._beaten = anyio.CancelScope(), anyio.Event()
            start_task(self._beat, self._heartbeat, self._beaten, name="hooksdk: leases")
        return logs[0]

    async def _beat(self, scope: anyio.CancelScope, ended: anyio.Event) -> None:
        """Renew the leases of all open sessions, until there is none."""
        try:
            with scope:
                while rows := sorted((log.row for log in self._logs if log.is_open), key=lambda row: row["key"]):
                    await anyio.sleep(self.lease / 3)
                    try:
                        await self._open().transaction(functools.partial(_renew, rows=rows), patient=False)
                    except StoreError as error:
                        logger.warning("the leases of %d sessions were not renewed: %s", len(rows), error)
        finally:
            scope.cancel()
            ended.set()

    async def claim_abandoned(self, limit: int = 1) -> list[str]:
        """Take over sessions whose worker died or hangs, those first that were left first; nobody else gets the same
        ones.

        Open each with this store (or its host) before the lease lapses again. At most `limit`; none where none was
        left.
        """
        database, holder = self._open(), _holders.new_holder()
        row = {"holder": holder, "lease": self.lease, "limit": limit}
        if await database.is_absent():
            return []

        def claim(transaction: Transaction) -> list[str]:
            return [json.loads(name) for (name,) in transaction.execute(CLAIM, row).fetchall()]

        sessions = await database.transaction(claim)
        _holders.live_with(holder, self)
        self._claims.update(dict.fromkeys(sessions, holder))
        return sessions

    async def list_held(self, prefix: str = "") -> dict[str, bool]:
        """The sessions that somebody has opened and not closed, by id, those whose ids begin so: True while their
        holder is alive, False where its lease has lapsed, or its process, of this machine, has ended."""
        beginning = json.dumps(prefix)[:-1]
        row = {"beginning": beginning, "length": len(beginning)}

        def rows(transaction: Transaction) -> Sequence[Any]:
            return transaction.execute(HELD, row).fetchall()

        held = await self._look(rows, ())
        return {json.loads(name): bool(alive) and not _holders.is_gone(holder) for name, holder, alive in held}

    async def _look(self, step: Callable[[Transaction], T], absent: T) -> T:
        """Read in one transaction; `absent` where there is no database yet."""
        database = self._open()
        return absent if await database.is_absent() else await database.transaction(step, writes=False)

    async def _rows(self, statement: str, **parameters: object) -> Sequence[Any]:
        def rows(transaction: Transaction) -> Sequence[Any]:
            return [row[0] for row in transaction.execute(statement, parameters).fetchall()]

        return await self._look(rows, ())

    async def read_session(self, session_id: str) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal of a session as they are now, whoever holds it. Raises `StoreError`."""
        if not await self.session_exists(session_id):
            raise unknown_session(session_id)
        return await self._look(functools.partial(read_rows, session_id=session_id), ([], []))

    async def session_exists(self, session_id: str) -> bool:
        """True when the session has been opened before."""
        return bool(await self._rows("SELECT 1 FROM hooksdk_sessions WHERE key = :key", key=file_name(session_id)))

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted."""
        return sorted(json.loads(name) for name in await self._rows("SELECT name FROM hooksdk_sessions"))

    async def list_beginnings(self) -> list[SessionBeginning]:
        """The first rows of every session, and when it was last written."""

        def rows(transaction: Transaction) -> Sequence[Any]:
            return transaction.execute(BEGINNINGS).fetchall()

        found = await self._look(rows, ())
        return await in_thread(lambda: [_beginning(*row) for row in found])

    async def delete_session(self, session_id: str, *, wait: float = 5.0) -> bool:
        """Remove a session for good; False where there is none. Raises `SessionBusy` when a holder does not let go in
        time."""
        if not await self.session_exists(session_id):
            return False
        log = await self.open_session(session_id, wait=wait)

        def delete(transaction: Transaction) -> None:
            for statement in DELETE:
                transaction.execute(statement, log.row)

        try:
            await self._open().transaction(delete)
        finally:
            await log.close()
        return True

    # Values

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value, a fresh copy."""
        statement = "SELECT body FROM hooksdk_values WHERE space = :space AND key = :key"
        bodies = await self._rows(statement, space=file_name(space), key=file_name(key))
        return json.loads(bodies[0]) if bodies else default

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Store a JSON value; durable when this returns."""
        row = {"space": file_name(space), "key": file_name(key), "name": json.dumps(key)}
        row["body"] = encode_for(f"storage '{space}'", value).decode()
        await self._open().transaction(lambda transaction: transaction.execute(SET_VALUE, row))

    async def change_value(self, space: str, key: str, old: Any, new: Any) -> bool:
        """Put `new` in the place of `old`, if that is what is stored now; None stands for no value. Durable when this
        returns. Raises `StoreError`, also where the connection was lost in between, and it is not known whether it was
        stored."""
        place = f"storage '{space}'"
        row = {"space": file_name(space), "key": file_name(key), "name": json.dumps(key)}
        row["body"] = encode_for(place, new).decode()
        begun = False

        def change(transaction: Transaction) -> bool:
            nonlocal begun
            stored: str | None = _value(transaction.execute(LOOK_AT_VALUE, row))
            if not is_same(place, None if stored is None else json.loads(stored), old):
                if begun:  # by this, and its answer was lost, or by somebody else
                    raise StoreError(
                        str(self), f"the connection was lost while a value of {place} changed: read it anew"
                    )
                return False
            if stored is None and new is None:
                return True
            begun = True
            statement = ADD_VALUE if stored is None else DELETE_VALUE if new is None else REPLACE_VALUE
            return transaction.execute(statement, row).rowcount > 0

        return await self._open().transaction(change)

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""
        database, row = self._open(), {"space": file_name(space), "key": file_name(key)}
        if not await database.is_absent():
            await database.transaction(lambda transaction: transaction.execute(DELETE_VALUE, row))

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        names = await self._rows("SELECT name FROM hooksdk_values WHERE space = :space", space=file_name(space))
        return sorted(json.loads(name) for name in names)

    async def aclose(self) -> None:
        """Let every session go, and close the connections."""
        for log in self._logs:
            await log.close()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await self._beaten.wait()  # it may be renewing, over a connection that must be back before the end
        database, self._database, self._heartbeat = self._database, None, None
        if database is not None:
            await database.aclose()


def _value(cursor: Cursor) -> Any:
    """The one value that a statement has found; None where it found nothing."""
    row = cursor.fetchone()
    return None if row is None else row[0]


def _renew(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    transaction.execute(RENEW, rows)


def _beginning(name: str, changed: float | None, newest: str | None, *bodies: str | None) -> SessionBeginning:
    session_id: str = json.loads(name)
    try:
        if changed is None and newest is not None:  # not written since tables have a time
            changed = parse_line(newest).get("time")
        messages, journal = (
            [parse_line(body) for body in part if body is not None]
            for part in (bodies[:FIRST_MESSAGES], bodies[FIRST_MESSAGES:])
        )
    except ValueError as error:
        return SessionBeginning(session_id=session_id, problem=f"a row of it is not JSON: {error}")
    return SessionBeginning(session_id=session_id, messages=messages, journal=journal, changed=changed)
