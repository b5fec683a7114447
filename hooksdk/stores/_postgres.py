"""PostgreSQL: one database for workers on many machines, reached through a pool of connections."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar, cast, final

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from hooksdk.stores import _database
from hooksdk.stores._database import in_dialect
from hooksdk.stores._transaction import Cursor, Parameters, Transaction

T = TypeVar("T")

# Connections of one process at most: more callers wait in line.
MOST_CONNECTIONS = 10
# How long one try waits for a connection: a server that restarts is back by then.
WAIT_SECONDS = 30.0
TABLES = r"""
SELECT oid::regclass::text FROM pg_class
WHERE relkind = 'r' AND relname LIKE 'hooksdk\_%' AND pg_table_is_visible(oid) ORDER BY 1"""
# How often a table that others use is tried to be written anew, and the seconds in between.
SCRUBS = 20
SCRUB_PAUSE = 0.1


class _Transaction:
    """An open transaction of one connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Parameters | None = None) -> Cursor:
        text = cast("Any", in_dialect(statement, PostgresDriver))
        if isinstance(parameters, Mapping) or parameters is None:
            return self._connection.execute(text, parameters)
        cursor = self._connection.cursor()
        cursor.executemany(text, parameters)
        return cursor


@final
class PostgresDriver:
    """The connections to one database."""

    WORDS: ClassVar = {
        "{now}": "extract(epoch FROM clock_timestamp())",
        "{skip_locked}": "FOR UPDATE SKIP LOCKED",
        "{alone}": "FOR UPDATE",
        "{migration_lock}": f"SELECT pg_advisory_xact_lock({_database.MIGRATION_LOCK})",
    }
    PARAMETER = r"%(\1)s"
    is_remote = True

    def __init__(self, url: str, *, stall: float) -> None:
        """`stall` is after how many seconds the server ends a transaction whose worker was suspended in the middle."""
        self._url = url
        # A pooler gives each transaction another of the server's connections, where a prepared statement may be
        # unknown.
        self._options: dict[str, Any] = {"prepare_threshold": None, "autocommit": True}
        # For one transaction alone: behind a pooler the connection is somebody else's in the next moment.
        limits = {
            "lock_timeout": _database.LOCK_SECONDS * 1000,
            "idle_in_transaction_session_timeout": max(int(stall * 1000), 1),
        }
        self._limits = "; ".join(f"SET LOCAL {name} = {value}" for name, value in limits.items())
        self._opening = threading.Lock()
        self._pool: ConnectionPool[psycopg.Connection[Any]] | None = None
        self._process = 0

    def _open(self) -> ConnectionPool[psycopg.Connection[Any]]:
        if self._process != os.getpid():  # a forked child has the lock of a thread that is not in it
            self._process, self._opening, self._pool = os.getpid(), threading.Lock(), None
        with self._opening:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._url, kwargs=self._options, min_size=0, max_size=MOST_CONNECTIONS, open=True, max_idle=60
                )
            return self._pool

    def run(self, step: Callable[[Transaction], T], *, writes: bool, patient: bool) -> T:
        """Run `step` in one transaction; what it wrote is durable when this returns."""
        pool = self._open()
        try:
            connection = pool.getconn(WAIT_SECONDS if patient else _database.LOCK_SECONDS)
        except PoolTimeout:
            self._connect().close()  # raises why there is none
            raise
        try:
            begin = "BEGIN" if writes else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            connection.execute(cast("Any", f"{begin}; {self._limits}"))
            answer = step(_Transaction(connection))
            connection.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            raise
        finally:
            pool.putconn(connection)  # which closes one that is lost, or still in a transaction
        return answer

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, **self._options)

    def version(self) -> int:
        """The version of the tables; 0 where there are none."""
        with self._connect() as connection:
            found = connection.execute("SELECT to_regclass('hooksdk_schema')").fetchone()
            if found is None or found[0] is None:
                return 0
            row = connection.execute("SELECT max(version) FROM hooksdk_schema").fetchone()
            return (row[0] if row else 0) or 0

    def is_absent(self) -> bool:
        """Never: the database must be there."""
        return False

    def problem(self, error: Exception) -> str | None:
        """Why the server, or the way to it, refuses; None for an error that is not theirs."""
        if not isinstance(error, (psycopg.Error, OSError)):
            return None
        return f"the database says: {' '.join(str(error).split())}. What was stored before is whole"

    def passes(self, error: Exception) -> bool:
        """True for conflicts, deadlocks, waits for a lock, a server that has no connection to spare, and one that ended
        the transaction."""
        return str(getattr(error, "sqlstate", None)).startswith(("40", "55P03", "53300", "25P03"))

    def is_away(self, error: Exception) -> bool:
        """True for a server that goes down or starts, and for a connection that was lost."""
        state = getattr(error, "sqlstate", None)
        if state is not None:
            is_away = str(state).startswith(("57P0", "08"))
        else:
            is_away = isinstance(error, psycopg.OperationalError) and self._pool is not None
        if is_away and self._pool is not None:
            self._pool.check()  # the other idle ones are lost, too
        return is_away

    def scrub(self) -> str:
        """Write the tables anew: a plain VACUUM frees the room of what was deleted, and leaves the words in it. A table
        that others use is tried a few times, and nobody waits in line behind this."""
        told: list[tuple[str, str]] = []
        with self._connect() as connection:
            # A notice is of no use after its handler.
            connection.add_notice_handler(
                lambda one: told.append((one.message_detail or "", one.message_primary or ""))
            )
            for (table,) in connection.execute(TABLES).fetchall():
                left = ""
                for number in range(SCRUBS):
                    told.clear()
                    connection.execute(cast("Any", f"VACUUM (FULL, SKIP_LOCKED, VERBOSE) {table}"))
                    # What was done has a detail, which begins with the number of deleted rows that somebody still sees.
                    left = next((detail for detail, _ in told if detail), "")
                    if re.match(r"\D*0 ", left) or (left and number > 1):
                        break
                    time.sleep(SCRUB_PAUSE)
                if not re.match(r"\D*0 ", left):
                    return f"{table} could not be written anew: {(left or told[-1][1]).partition(chr(10))[0]}"
        return ""

    def close(self) -> None:
        """Close all connections."""
        if self._pool is not None and self._process == os.getpid():
            self._pool.close()
        self._pool = None
