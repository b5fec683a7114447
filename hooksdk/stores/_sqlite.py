"""SQLite: one file for all workers of a machine, one writer at a time, readers beside it."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar, final

from hooksdk.errors import HookSDKError, StoreError
from hooksdk.stores import _database
from hooksdk.stores._database import in_dialect
from hooksdk.stores._transaction import Cursor, Parameters, Transaction
from hooksdk.stores.files import network_file_system

T = TypeVar("T")

# The version of the file's own: from it on, none of its connections has left what was removed in it.
SCRUBBED = 4
# Steps that share one commit at most.
SHARED = 64


class _Step:
    """A step of one caller that waits for its commit."""

    def __init__(self, step: Callable[[Transaction], Any]) -> None:
        self.step = step
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = False


class _Transaction:
    """An open transaction of one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Parameters | None = None) -> Cursor:
        text = in_dialect(statement, SqliteDriver)
        if isinstance(parameters, Sequence):
            return self._connection.executemany(text, parameters)
        return self._connection.execute(text, parameters or {})


@final
class SqliteDriver:
    """The connections to one file: one that writes, and as many that read as are asked at once.

    Steps of several callers that wait for the file are written with one commit, each in a savepoint of its own, so that
    one which fails takes nothing from the others. A connection is never used, nor closed, in a process that was forked
    from the one which opened it: SQLite's locks would be lost.
    """

    WORDS: ClassVar = {
        "{now}": "((julianday('now') - 2440587.5) * 86400.0)",
        "{skip_locked}": "",
        "{alone}": "",
        "{migration_lock}": "SELECT 1",  # who writes is alone already
    }
    PARAMETER = r":\1"
    is_remote = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._forget()
        _drivers.add(self)

    def _forget(self) -> None:
        self._writing = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._waiting: deque[_Step] = deque()

    def after_fork(self) -> None:
        """Leave the parent's connections alone, in the child."""
        _of_the_parent.extend(filter(None, [self._writer, *self._readers]))
        self._forget()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_database.LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what is removed, or replaced, becomes zeros
        except BaseException:
            connection.close()
            raise
        return connection

    def run(self, step: Callable[[Transaction], T], *, writes: bool, patient: bool) -> T:  # noqa: ARG002 - a file does not restart
        """Run `step` in one transaction; what it wrote is on disk when this returns."""
        if not writes:
            return self._read(step)
        mine = _Step(step)
        self._waiting.append(mine)
        with self._writing:  # who comes first writes for all who wait by then
            while not mine.done:
                self._write([self._waiting.popleft() for _ in range(min(len(self._waiting), SHARED))])
        if mine.error is not None:
            raise mine.error
        return mine.answer

    def _write(self, steps: Sequence[_Step]) -> None:
        connection, self._writer = self._writer, None
        try:
            connection = connection or self._connect()
            with _transaction(connection, "BEGIN IMMEDIATE") as transaction:
                for step in steps:
                    if len(steps) == 1:
                        step.answer = step.step(transaction)
                        continue
                    connection.execute("SAVEPOINT step")
                    try:
                        step.answer = step.step(transaction)
                    except BaseException as error:
                        if not connection.in_transaction:  # a full disk, say: nothing of anybody's is stored
                            raise
                        step.error = error
                        connection.execute("ROLLBACK TO step")
                    connection.execute("RELEASE step")
        except BaseException as error:
            for step in steps:
                step.error = step.error or error
        self._writer = _usable(connection)
        for step in steps:
            step.done = True

    def _read(self, step: Callable[[Transaction], T]) -> T:
        connection = self._readers.pop() if self._readers else self._connect()
        try:
            with _transaction(connection, "BEGIN") as transaction:
                return step(transaction)
        finally:
            self._readers.extend(filter(None, [_usable(connection)]))

    def version(self) -> int:
        """The version of the tables; 0 where there are none. Makes the file, for its owner alone. Raises `StoreError`
        for one on a network file system, where the log beside it would damage it."""
        if kind := network_file_system(self._path):
            problem = f"this is on a network file system ({kind}), where SQLite may damage it"
            raise StoreError(str(self._path), f"{problem}. Keep it on a local disk, in memory, or in PostgreSQL")
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))

        def look(transaction: Transaction) -> int:
            tables = transaction.execute("SELECT name FROM sqlite_master WHERE name = 'hooksdk_schema'").fetchall()
            return (transaction.execute("SELECT max(version) FROM hooksdk_schema").fetchone()[0] or 0) if tables else 0

        return self._read(look)

    def is_absent(self) -> bool:
        """True for a file that nobody has written yet; looking does not make it."""
        return not self._path.exists()

    def problem(self, error: Exception) -> str | None:
        """Why SQLite, or the file system, refuses; None for an error that is not theirs."""
        if isinstance(error, (TypeError, ValueError, AttributeError)) and not isinstance(error, HookSDKError):
            # SQLite stores anything in any column, so a row that somebody has changed may be of other types.
            return f"what it read is of no use here ({type(error).__name__}: {error}). Try `hooksdk sessions doctor`"
        if not isinstance(error, (sqlite3.Error, OSError)):
            return None
        if getattr(error, "sqlite_errorname", "") == "SQLITE_NOTADB":
            return "this file is no SQLite database. Nothing was changed"
        return f"the database says: {' '.join(str(error).split())}. What was stored before is whole"

    def passes(self, error: Exception) -> bool:
        """True for a file that another process writes."""
        return str(getattr(error, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))

    def is_away(self, error: Exception) -> bool:  # noqa: ARG002
        """Never: a file is there, or is made."""
        return False

    def scrub(self) -> str:
        """Move all that is committed from the log beside the file into the file, and empty the log. Before the first
        time the file is written anew: an earlier version may have left in it what it removed."""
        try:
            with closing(self._connect()) as connection:
                if connection.execute("PRAGMA user_version").fetchone()[0] < SCRUBBED:
                    connection.execute("VACUUM")
                    connection.execute(f"PRAGMA user_version = {SCRUBBED}")
                is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            if not self.passes(error):
                raise
            is_busy = True
        return "somebody reads from the database, or writes it, at this moment" if is_busy else ""

    def close(self) -> None:
        """Close all connections."""
        with self._writing:
            connections = [*filter(None, [self._writer]), *self._readers]
            self._writer, self._readers = None, []
        for connection in connections:
            connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Generator[Transaction]:
    connection.execute(begin)
    try:
        yield _Transaction(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _usable(connection: sqlite3.Connection | None) -> sqlite3.Connection | None:
    """A connection for the next transaction; None for one that could not end its last, which is closed."""
    if connection is None or not connection.in_transaction:
        return connection
    connection.close()
    return None


_drivers: weakref.WeakSet[SqliteDriver] = weakref.WeakSet()
# Connections that this process has from its parent: to close one would take the parent's locks away.
_of_the_parent: list[sqlite3.Connection] = []


def _after_fork() -> None:
    for driver in _drivers:
        driver.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
