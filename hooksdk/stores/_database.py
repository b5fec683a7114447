"""One database over SQLAlchemy: connections, the tables and their versions, and transactions that are tried again."""

from __future__ import annotations

import asyncio
import functools
import os
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

from sqlalchemy import Connection, CursorResult, TextClause, event, inspect, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from hooksdk.errors import StoreError
from hooksdk.tasks import in_thread, run_shielded

T = TypeVar("T")
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]

# Seconds before each further try of a transaction that met a conflict, a busy file or a lost connection.
PAUSES = (0.02, 0.1, 0.3, 1.0)
# How many more tries there are, one each second, while a server of databases restarts.
RESTART = 30
# How long one try waits for another transaction, of one session or of the file.
LOCK_SECONDS = 2
# Two workers that start at the same time make the tables one after the other.
MIGRATION_LOCK = 0x686F6F6B73646B

# The statements that lead from each version of the tables to the next. What was released is never changed: add one.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE hooksdk_sessions (
            key TEXT PRIMARY KEY, name TEXT NOT NULL, token BIGINT NOT NULL, holder TEXT, expires DOUBLE PRECISION)""",
        "CREATE INDEX hooksdk_sessions_expires ON hooksdk_sessions (expires) WHERE expires IS NOT NULL",
        """CREATE TABLE hooksdk_messages (
            key TEXT NOT NULL, position BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (key, position))""",
        """CREATE TABLE hooksdk_journal (
            key TEXT NOT NULL, position BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (key, position))""",
        """CREATE TABLE hooksdk_values (
            space TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (space, key))""",
    ),
    ("ALTER TABLE hooksdk_sessions ADD COLUMN changed DOUBLE PRECISION",),
    ("CREATE TABLE hooksdk_indexes (key TEXT PRIMARY KEY, body BYTEA NOT NULL)",),
)


@final
class Transaction:
    """A transaction that is open now."""

    def __init__(self, connection: AsyncConnection, texts: Callable[[str], TextClause]) -> None:
        self._connection = connection
        self._texts = texts

    async def execute(self, statement: str, parameters: Parameters | None = None) -> CursorResult[Any]:
        """One statement. `{now}` in it is the database's clock in seconds, `{skip_locked}` takes rows that nobody else
        takes, `{alone}` those that nobody else changes until the transaction ends."""
        return await self._connection.execute(self._texts(statement), parameters)


@final
class Database:
    """One database, on the event loop that made it."""

    def __init__(self, url: URL, *, stall: float) -> None:
        """`stall` is after how many seconds the server ends a transaction whose worker was suspended in the middle."""
        self.where = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)
        self.loop = asyncio.get_running_loop()
        self._file = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
        self._ready = False
        self._texts: dict[str, TextClause] = {}
        # SQLite takes one writer at a time: who waits in this process waits in line instead of asking the file again
        # and again.
        size: dict[str, Any] = {"pool_size": 1, "max_overflow": 0, "pool_timeout": 600}
        # A pooler gives each transaction another of the server's connections, where a prepared statement may be
        # unknown.
        unprepared: dict[str, Any] = {"connect_args": {"prepare_threshold": None}}
        self.engine = create_async_engine(url, **(size if self._file else unprepared))
        engine = self.engine.sync_engine
        if self._file:
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        else:
            event.listen(engine, "begin", _begin_postgres(stall))

    def _text(self, statement: str) -> TextClause:
        if statement not in self._texts:
            if self._file:
                words = {"{now}": "((julianday('now') - 2440587.5) * 86400.0)", "{skip_locked}": "", "{alone}": ""}
            else:
                words = {
                    "{now}": "extract(epoch FROM clock_timestamp())",
                    "{skip_locked}": "FOR UPDATE SKIP LOCKED",
                    "{alone}": "FOR UPDATE",
                }
            complete = functools.reduce(lambda whole, word: whole.replace(*word), words.items(), statement)
            self._texts[statement] = text(complete)
        return self._texts[statement]

    async def is_absent(self) -> bool:
        """True for an SQLite file that nobody has written yet; looking does not make it."""
        return self._file is not None and not self._ready and not await in_thread(self._file.exists)

    async def transaction(
        self, step: Callable[[Transaction], Awaitable[T]], *, writes: bool = True, patient: bool = True
    ) -> T:
        """Run `step` in one transaction, to its end whoever cancels the caller: durable when this returns. It runs
        again after a conflict, a busy file or a lost connection, a few times at most, and while the server restarts
        half a minute long, if it is `patient`. Raises `StoreError`.
        """
        return await run_shielded(self._persist, step, writes, RESTART if patient else 0)

    async def _persist(self, step: Callable[[Transaction], Awaitable[T]], writes: bool, restart: int) -> T:
        for number in range(len(PAUSES) + restart + 1):
            try:
                if not self._ready:
                    await self._prepare()
                return await self._once(step, writes)
            except (SQLAlchemyError, sqlite3.Error, OSError) as error:
                tries = len(PAUSES) + (restart if self._is_away(error) else 0)
                if number >= tries or not self._passes(error):
                    raise StoreError(self.where, _in_one_line(error)) from error
            await asyncio.sleep(PAUSES[number] if number < len(PAUSES) else 1)
        raise AssertionError  # the last try answers or raises

    async def _once(self, step: Callable[[Transaction], Awaitable[T]], writes: bool) -> T:
        async with self.engine.connect() as connection:
            await connection.execution_options(hooksdk_writes=writes)
            async with connection.begin():
                return await step(Transaction(connection, self._text))

    def _passes(self, error: Exception) -> bool:
        """True for what another try may not meet again."""
        original = error.orig if isinstance(error, DBAPIError) else error
        if name := getattr(original, "sqlite_errorname", None):
            return str(name).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
        state = getattr(original, "sqlstate", None)
        # Conflicts, deadlocks and waits for a lock; a server that has no connection to spare; one that ended the
        # transaction.
        return self._is_away(error) or str(state).startswith(("40", "55P03", "53300", "25P03"))

    def _is_away(self, error: Exception) -> bool:
        """True for a server that goes down or starts, and for a connection that was lost."""
        original = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(original, "sqlstate", None)
        if state is not None:
            return str(state).startswith(("57P0", "08"))
        is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
        return is_lost or (not self._file and self._ready and type(original).__name__ == "OperationalError")

    async def _prepare(self) -> None:
        """Make what is missing: the file, the tables, and what newer versions added to them."""
        if self._file:
            await in_thread(_make_file, self._file)
        async with self.engine.connect() as connection:
            version = await connection.run_sync(_version)
        if version < len(MIGRATIONS):
            version = await self._once(self._migrate, writes=True)
        if version > len(MIGRATIONS):
            problem = f"its tables were made by a newer hooksdk (version {version}, known up to {len(MIGRATIONS)})"
            raise StoreError(self.where, f"{problem}. Nothing was changed; update hooksdk")
        self._ready = True

    async def _migrate(self, transaction: Transaction) -> int:
        if not self._file:
            await transaction.execute("SELECT pg_advisory_xact_lock(:lock)", {"lock": MIGRATION_LOCK})
        await transaction.execute("CREATE TABLE IF NOT EXISTS hooksdk_schema (version INTEGER NOT NULL)")
        version = (await transaction.execute("SELECT max(version) FROM hooksdk_schema")).scalar() or 0
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements:
                await transaction.execute(statement)
            await transaction.execute("INSERT INTO hooksdk_schema (version) VALUES (:number)", {"number": number})
        return max(version, len(MIGRATIONS))

    async def aclose(self) -> None:
        """Close all connections."""
        await run_shielded(self.engine.dispose)


def _version(connection: Connection) -> int:
    if not inspect(connection).has_table("hooksdk_schema"):
        return 0
    return connection.execute(text("SELECT max(version) FROM hooksdk_schema")).scalar() or 0


def _make_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` begins them
    cursor = connection.cursor()
    for pragma in (f"busy_timeout = {LOCK_SECONDS * 1000}", "journal_mode = WAL", "synchronous = FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes its place at once: one that read first could not write after somebody else did.
    writes = connection.get_execution_options().get("hooksdk_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgres(stall: float) -> Callable[[Connection], None]:
    # For this transaction alone: behind a pooler the connection is somebody else's in the next moment.
    limits = {"lock_timeout": LOCK_SECONDS * 1000, "idle_in_transaction_session_timeout": max(int(stall * 1000), 1)}
    statements = "; ".join(f"SET LOCAL {name} = {value}" for name, value in limits.items())

    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statements)

    return begin


def _in_one_line(error: Exception) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    if getattr(original, "sqlite_errorname", "") == "SQLITE_NOTADB":
        return "this file is no SQLite database. Nothing was changed"
    return f"the database says: {' '.join(str(original).split())}. What was stored before is whole"
