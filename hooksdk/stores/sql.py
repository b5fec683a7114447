"""Sessions in a database: SQLite for the workers of one machine, PostgreSQL for workers on many.

Who opens a session gets a lease with a token that rises. The lease is renewed in the background and lapses when its
worker dies or hangs; then any other worker may take the session over. Each write looks at the lease in its own
transaction, so a worker that was suspended past its lease cannot write any more.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import anyio

from hooksdk.config import split_store, state_folder, without_password
from hooksdk.errors import ConfigError, SessionBusy, StoreError
from hooksdk.formats import Message
from hooksdk.stores import _digests, _holders
from hooksdk.stores._chains import ends_in, read_session
from hooksdk.stores._database import Database, Driver
from hooksdk.stores._hashes import NO_ROWS, session_key
from hooksdk.stores._names import OLD_FILES, journal_of, name_in
from hooksdk.stores._sealing import PLAIN, Seal
from hooksdk.stores._sql_log import RENEW, SqlLog
from hooksdk.stores._transaction import Run, Transaction
from hooksdk.stores._values import SqlValues
from hooksdk.tasks import in_thread, keep_trying, run_shielded, start_task
from hooksdk.transcript import Entry, SessionBeginning, unknown_session

logger = logging.getLogger("hooksdk")

__all__ = ["SqlLog", "SqlStore"]

T = TypeVar("T")

# The name of the database in a folder.
FILE_NAME = "hooksdk.db"
# How long this process goes on by its own clock before it asks the server for the time again.
CLOCK_SECONDS = 60
TAKE = """
INSERT INTO hooksdk_sessions VALUES (:id, :name, :first, :holder, {now} + :lease, {now}, 0, :no_rows, 0, :no_rows)
ON CONFLICT (id) DO UPDATE SET token = hooksdk_sessions.token + 1, holder = excluded.holder, expires = excluded.expires
WHERE hooksdk_sessions.name = excluded.name AND (
hooksdk_sessions.expires IS NULL OR hooksdk_sessions.expires <= {now} OR hooksdk_sessions.holder = :claim)
RETURNING token, messages, messages_hash, journal, journal_hash"""
EXISTS = "SELECT 1 FROM hooksdk_sessions WHERE id = :id"
HOLDER = "SELECT holder, expires - {now} FROM hooksdk_sessions WHERE id = :id"
CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT id FROM hooksdk_sessions WHERE expires <= {now} ORDER BY expires LIMIT :limit {skip_locked})
UPDATE hooksdk_sessions SET token = token + 1, holder = :holder, expires = {now} + :lease
FROM picked WHERE hooksdk_sessions.id = picked.id RETURNING hooksdk_sessions.name"""
HELD = """
SELECT name, holder, expires > {now} FROM hooksdk_sessions WHERE expires IS NOT NULL AND substr(name, 1, :length) = :beginning"""


class SqlStore(SqlValues):
    """Sessions in a database: `sqlite:///FILE` for the workers of one machine, `postgresql://...` for workers on many.
    A `Path` names a folder, in which the file is `hooksdk.db`; what earlier versions have kept there in files of JSON
    lines is taken over when it is first opened, and these files stay in a folder beside it.

    `lease` is after how many seconds a session whose worker died or hangs is free for others; it is renewed three times
    in that time. PostgreSQL needs the extra `postgres`. Raises `ConfigError` for another URL, or where the extra is not
    installed.

    Attributes:
        file: The file of SQLite; None for a server.
        old_files: The folder of earlier versions' files, if there is one.
        seal: How texts are stored.

    ```python
    import asyncio
    from pathlib import Path

    from hooksdk import Host
    from hooksdk.stores import SqlStore

    async def main() -> None:
        store = SqlStore(Path("sessions"))
        for resumed in (False, True):
            async with Host(store=store) as host, host.session("ann") as session:
                assert session.resumed is resumed
        await store.aclose()

    asyncio.run(main())
    ```
    """

    def __init__(
        self,
        place: str | PathLike[str],
        *,
        lease: float = 15.0,
        old_files: Path | None = None,
        keys: Sequence[bytes] = (),
    ) -> None:
        """`old_files` is the folder of earlier versions' files; None for that of the database, where `place` is a
        folder. With `keys`, of 32 bytes each, what is written is encrypted with the first, and what any of them has
        encrypted can be read."""
        self.seal: Seal = PLAIN
        if keys:
            from hooksdk.stores._keys import Sealed

            self.seal = Sealed(keys)
        self.old_files = old_files
        if isinstance(place, PathLike):
            folder = Path(place).expanduser()
            self.old_files = old_files or folder
            if folder == state_folder() / "sessions":  # where earlier versions kept the files of the user's own store
                folder = state_folder()
            place = f"sqlite:///{folder / FILE_NAME}"
        url = place
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
        self.file = Path(place) if kind == "sqlite" else None
        self._database: Database | None = None
        self._logs: list[SqlLog] = []
        # By session: the holder under which it was claimed here.
        self._claims: dict[str, str] = {}
        # When the server was last asked for the time, by this process's steady clock, and what it said.
        self._clock: tuple[float, float] | None = None
        self._heartbeat: anyio.CancelScope | None = None
        self._beaten = anyio.Event()

    def __str__(self) -> str:
        """The URL, without a password."""
        return f"sqlite:///{self.file}" if self.file else without_password(self._url)

    @property
    def database(self) -> Database:
        """The database, for the modules beside this one."""
        if self._database is None:
            driver: Driver
            if self.file:
                from hooksdk.stores._sqlite import SqliteDriver

                driver = SqliteDriver(self.file)
            else:
                from hooksdk.stores._postgres import PostgresDriver

                driver = PostgresDriver(self._url, stall=self.lease)
            self._database = Database(driver, str(self), self._take_over_all, self.seal)
        return self._database

    async def _take_over(self, session_id: str) -> None:
        """Take over what files of an earlier version have of this session. Raises `SessionBusy` while such a version
        has it open, and `StoreError` for damage."""
        folder = self.old_files
        if folder is not None and journal_of(folder, session_id).exists():
            from hooksdk.stores._old_files import take_over_session

            await self.database.work(lambda run: take_over_session(run, folder, session_id, self.seal))

    def _take_over_all(self, run: Run) -> None:
        if self._has_files():
            from hooksdk.stores._old_files import take_over

            assert self.old_files is not None
            take_over(run, self.old_files, self.seal)

    def _has_files(self) -> bool:
        """True where files of an earlier version are not in the database yet."""
        folder = self.old_files
        return folder is not None and any(next(folder.glob(each), None) is not None for each in OLD_FILES)

    # Sessions

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> SqlLog:
        """Take hold of a session, new or old. Raises `SessionBusy` when another holder does not let go, and its lease
        does not lapse, in time."""
        database, holder = self.database, _holders.new_holder()
        row = {"id": session_key(session_id), "name": json.dumps(session_id), "holder": holder, "lease": self.lease}
        # A session that was deleted and begins again has a higher token than any holder of it had.
        row |= {"no_rows": NO_ROWS, "first": int(time.time() * 1000)}
        row["claim"] = self._claims.pop(session_id, "")
        await self._take_over(session_id)
        logs: list[SqlLog] = []
        rival = ""

        def take(transaction: Transaction) -> SqlLog | None:
            nonlocal rival
            existed = transaction.execute(EXISTS, row).fetchone() is not None
            taken: Any = transaction.execute(TAKE, row).fetchone()
            name, rest = "", 0.0
            if taken is None:
                rival_row: Any = transaction.execute(HOLDER, row).fetchone()
                name, rest = rival_row or ("", 0)
                if name and _holders.is_gone(name):  # its lease need not lapse
                    taken = transaction.execute(TAKE, {**row, "claim": name}).fetchone()
            if taken is None:
                lapse = f"whose lease lapses in {max(rest, 0):.0f} s unless it is renewed"
                rival = f"{_holders.readable(name)}, {lapse}" if name else ""
                return None
            ends = ends_in(taken[1:])
            token: int = taken[0]
            if not existed and token == row["first"]:
                _digests.note_session(transaction, json.dumps(session_id), 1)
            return SqlLog(
                database, session_id, existed=existed, holder=holder, token=token, lease=self.lease, ends=ends
            )

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
                while rows := sorted((log.row for log in self._logs if log.is_open), key=lambda row: row["id"]):
                    await anyio.sleep(self.lease / 3)
                    try:
                        await self.database.transaction(functools.partial(_renew, rows=rows), patient=False)
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
        database, holder = self.database, _holders.new_holder()
        row = {"holder": holder, "lease": self.lease, "limit": limit}
        if await self._is_absent():
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
        held = await self.fetch(HELD, beginning=beginning, length=len(beginning))
        return {name_in(name): bool(alive) and not _holders.is_gone(holder) for name, holder, alive in held}

    async def look(self, step: Callable[[Transaction], T], absent: T) -> T:
        """Read in one transaction; `absent` where there is no database yet."""
        return absent if await self._is_absent() else await self.database.transaction(step, writes=False)

    async def work(self, task: Callable[[Run], T]) -> T:
        """Run a task of several transactions in a worker thread."""
        return await self.database.work(task)

    async def _is_absent(self) -> bool:
        """True where nothing was ever stored; looking makes no file."""
        return await self.database.is_absent() and not await in_thread(self._has_files)

    async def fetch(self, statement: str, **parameters: object) -> Sequence[Any]:
        """The rows that a statement finds; none where there is no database yet."""

        def rows(transaction: Transaction) -> Sequence[Any]:
            return transaction.execute(statement, parameters).fetchall()

        return await self.look(rows, ())

    async def now(self) -> float:
        """Seconds since 1970 by the clock of the server, so that all workers have the same; of a file by this
        machine's. The server is asked once a minute: in between counts a clock that nobody sets."""
        if not self.database.is_remote:
            return time.time()
        if self._clock is None or time.monotonic() > self._clock[0] + CLOCK_SECONDS:
            ((now,),) = await self.fetch("SELECT {now}")
            self._clock = time.monotonic(), float(now)  # taken after the answer: never ahead of the server
        return self._clock[1] + time.monotonic() - self._clock[0]

    async def read_session(self, session_id: str) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal of a session as they are now, whoever holds it. Raises `StoreError`."""
        await self._take_over(session_id)
        stored = await self.look(functools.partial(read_session, session_id=session_id, seal=self.seal), None)
        if stored is None:
            raise unknown_session(session_id)
        return stored

    async def session_exists(self, session_id: str) -> bool:
        """True when the session has been opened before."""
        return bool(await self.fetch(EXISTS, id=session_key(session_id)))

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted."""
        return sorted(name_in(name) for (name,) in await self.fetch("SELECT name FROM hooksdk_sessions"))

    async def list_beginnings(self) -> list[SessionBeginning]:
        """The first rows of every session, and when it was last written."""
        from hooksdk.stores._beginnings import read_beginnings  # for whoever lists sessions

        return await self.look(functools.partial(read_beginnings, seal=self.seal), [])

    async def delete_session(self, session_id: str, *, wait: float = 5.0) -> bool:
        """Remove a session for good; False where there is none. Raises `SessionBusy` when a holder does not let go in
        time. Its sub-agents' sessions, and what is kept of it elsewhere, stay: `hooksdk sessions erase` removes them,
        too."""
        if not await self.session_exists(session_id):
            return False
        log = await self.open_session(session_id, wait=wait)
        try:
            await log.delete()
        finally:
            await log.close()
        return True

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


def _renew(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    transaction.execute(RENEW, rows)
