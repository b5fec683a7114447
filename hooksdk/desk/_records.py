"""The records of questions to people, in one file that every process of the user reads and answers.

The record is the authority: whoever is asked (a terminal, a client, a web service) only writes an answer into it, once, and a
call takes that answer out of it, once. Each step is one transaction.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.config import state_folder
from hooksdk.desk._record import ApprovalRecord, read_stored, record_of
from hooksdk.errors import HostError, StoreError
from hooksdk.tasks import in_thread
from hooksdk.values import canonical

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
FILE_NAME = "approvals.db"
DAY = 24 * 3600.0
KEPT = 7 * DAY
"""Seconds after its expiry for which a record can be looked at."""
MAX_WAITING = 100
"""Questions of one session that may wait: a model that asks for more is refused, and the person keeps a list to read."""
DRIFT = 60.0
"""Seconds by which a clock may be set back. By more nobody knows what has expired: all that waits expires then."""
BUSY = 10.0
"""Seconds to wait for another process's transaction."""
_SCHEMA = (
    """create table approvals (number integer primary key autoincrement, state text not null, key text not null,
    session text not null, expires real not null, ticket text, record text not null)""",
    "create index approvals_by_key on approvals (key, state)",
    "create table clock (latest real not null)",
    "insert into clock values (0)",
    "create table signing (key blob not null)",
    "pragma user_version = 1",
)


@dataclass(eq=False)
class NotWaiting(HostError):
    """The question of this number takes no answer: there is none, or it was answered or has expired."""

    number: int
    problem: str

    def __str__(self) -> str:
        return f"approval {self.number} {self.problem}"


@final
class ApprovalRecords:
    """The questions that wait for a person, and their answers: `$HOOKSDK_HOME/approvals.db`, or
    `~/.local/state/hooksdk/approvals.db`, unless another path is given. Only its owner can read the file.

    An answer counts for one call: of the same session and requester, to the same tool with the same arguments, about which
    the same is asked, before it expires. `clock` gives seconds since the epoch.

    ```python
    import anyio

    from hooksdk.approvals import Approval, ApprovalRecords

    async def grant_all(records: ApprovalRecords) -> None:
        for record in await records.list():
            if record.state == "pending":
                await records.answer(record.number, Approval(True, by="ann"))

    anyio.run(grant_all, ApprovalRecords("approvals.db"))
    ```
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self.path = state_folder() / FILE_NAME if path is None else Path(path).expanduser()
        self._clock = clock
        self._key: bytes | None = None

    async def list(self) -> Sequence[ApprovalRecord]:
        """All that are kept, by number: those that were used or have expired for a week. One that is damaged is left out,
        and the log says so. Raises `StoreError`."""

        def work(database: sqlite3.Connection, _now: float) -> list[ApprovalRecord]:
            rows = database.execute("select * from approvals order by number").fetchall()
            return [record for row in rows if (record := _read(row))]

        return await self._step(work)

    async def get(self, number: int) -> ApprovalRecord | None:
        """The one of this number; None where there is none, or it is damaged. Raises `StoreError`."""
        return await self._step(lambda database, _now: _find(database, number))

    async def answer(self, number: int, answer: Approval) -> ApprovalRecord:
        """Write an answer into a record that has none, whoever asked for it. Raises `NotWaiting` and `StoreError`."""

        def work(database: sqlite3.Connection, now: float) -> ApprovalRecord:
            record = _find(database, number)
            if record is None:
                raise NotWaiting(number, "is none that waits here")
            if record.state != "pending":
                raise NotWaiting(number, "has expired" if record.state == "expired" else "was answered already")
            state = "granted" if answer.granted else "denied"
            answered = replace(record, state=state, answer=answer, answered=now)
            _write(database, answered)
            return answered

        return await self._step(work)

    async def ask(
        self, request: ApprovalRequest, *, keep: float = DAY, waited_for: int | None = None,
        is_over: Callable[[str], bool] | None = None,
    ) -> tuple[ApprovalRecord, Approval | None]:  # fmt: skip
        """The record of this question, and the answer to it if there is one: it counts as used from now on. Where none waits
        and none is answered, the record is made, to expire in `keep` seconds. Whoever has `waited_for` a record takes its no
        also where another call has taken that. Where this session has no such record it takes over one of a session that
        `is_over`, by its id: of the same requester about the same call. Raises `ValueError` for what nobody can be asked about, and `StoreError`."""
        asked = record_of(request, made=0.0, expires=0.0)

        def work(database: sqlite3.Connection, now: float) -> tuple[ApprovalRecord, Approval | None]:
            query = (
                "select * from approvals where key = ? and state in ('granted', 'denied', 'pending') order by number"
            )
            found = (_read(row) for row in database.execute(query, [asked.key]).fetchall())
            own = [record for record in found if record is not None and record.key == asked.key]
            if not own and is_over is not None:
                own = _taken_over(database, asked, is_over)
            if own:
                oldest = replace(own[0], state="used") if own[0].answer is not None else own[0]
                _write(database, oldest)
                return oldest, oldest.answer
            before = None if waited_for is None else _find(database, waited_for)
            if before and before.key == asked.key and before.answer and not before.answer.granted:
                return before, before.answer
            return _insert(database, replace(asked, made=now, expires=now + keep)), None

        return await self._step(work)

    async def find(self, request: ApprovalRequest) -> ApprovalRecord | None:
        """The record in which this question waits, if it does. Raises `ValueError` and `StoreError`."""
        key = record_of(request, made=0.0, expires=0.0).key

        def work(database: sqlite3.Connection, _now: float) -> ApprovalRecord | None:
            query = "select * from approvals where key = ? and state = 'pending' order by number"
            row = database.execute(query, [key]).fetchone()
            return _read(row) if row else None

        return await self._step(work)

    async def is_pending(self, number: int) -> bool:
        """True while nobody has answered it. Nothing is locked or written. Raises `StoreError`."""

        def work() -> bool:
            with self._open() as database:
                query = "select state, expires from approvals where number = ?"
                row = database.execute(query, [number]).fetchone()
                return bool(row) and row["state"] == "pending" and row["expires"] > self._clock()

        return await in_thread(work)

    async def set_ticket(self, number: int, ticket: str) -> None:
        """Let the answer that comes with this ticket, and with none before, count. Raises `StoreError`."""

        def work(database: sqlite3.Connection, _now: float) -> None:
            database.execute("update approvals set ticket = ? where number = ?", [ticket, number])

        await self._step(work)

    async def take_ticket(self, number: int, ticket: str) -> ApprovalRecord | None:
        """The record that waits for an answer with this ticket, which counts once; None where none does. Raises
        `StoreError`."""

        def work(database: sqlite3.Connection, _now: float) -> ApprovalRecord | None:
            spend = "update approvals set ticket = null where number = ? and ticket = ? and state = 'pending'"
            return _find(database, number) if database.execute(spend, [number, ticket]).rowcount else None

        return await self._step(work)

    async def key(self) -> bytes:
        """The secret with which tickets to these records are signed. Raises `StoreError`."""
        if self._key is None:
            key: bytes = await self._step(
                lambda database, _now: database.execute("select key from signing").fetchone()[0]
            )
            self._key = key
        return self._key

    async def _step(self, work: Callable[[sqlite3.Connection, float], T]) -> T:
        return await in_thread(self._transaction, work)

    def _transaction(self, work: Callable[[sqlite3.Connection, float], T]) -> T:
        with self._open() as database:
            database.execute("begin immediate")
            try:
                version = database.execute("pragma user_version").fetchone()[0]
                for statement in () if version else _SCHEMA:
                    database.execute(statement)
                if not version:
                    database.execute("insert into signing values (?)", [secrets.token_bytes(32)])
                result = work(database, self._expire(database))
            except BaseException:
                database.execute("rollback")
                raise
            database.execute("commit")
            return result

    def _expire(self, database: sqlite3.Connection) -> float:
        """Expire what is too old, and answer what time it is: never earlier than it was."""
        now, latest = self._clock(), database.execute("select latest from clock").fetchone()[0]
        where, values = "state in ('pending', 'granted', 'denied')", list[float]()
        if set_back := now < latest - DRIFT:
            logger.warning("the clock was set back by %.0f s, so every approval that waits has expired", latest - now)
        else:
            now = max(now, latest)
            where, values = f"{where} and expires <= ?", [now]
        for row in database.execute(f"select * from approvals where {where}", values).fetchall():  # noqa: S608 - no values
            record = _read(row)
            if record is None:
                database.execute("update approvals set state = 'expired' where number = ?", [row["number"]])
            else:
                _write(database, replace(record, state="expired"))
        if set_back or now > latest + DRIFT / 2:
            database.execute("update clock set latest = ?", [now])
            database.execute("delete from approvals where expires <= ?", [now - KEPT])
        return now

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        import sqlite3

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # the database's own files get the same mode
            with closing(sqlite3.connect(self.path, timeout=BUSY, isolation_level=None)) as database:
                database.row_factory = sqlite3.Row
                yield database
        except (sqlite3.Error, OSError) as error:
            advice = "nothing was approved. If the file is damaged, move it away: what waits is asked anew"
            raise StoreError(str(self.path), f"{error}; {advice}") from error


def _find(database: sqlite3.Connection, number: int) -> ApprovalRecord | None:
    row = database.execute("select * from approvals where number = ?", [number]).fetchone()
    return _read(row) if row else None


def _read(row: sqlite3.Row) -> ApprovalRecord | None:
    """The record in a row; None for a damaged one, which is told and counts for nothing."""
    try:
        record = read_stored({**json.loads(row["record"]), "number": row["number"], "state": row["state"]})
        if (record.key, record.expires) != (row["key"], row["expires"]):
            raise ValueError("it is not the question that it was made for")
    except ValueError as error:
        logger.warning("approval %s is damaged, and counts for nothing: %s", row["number"], error)
        return None
    return record


def _taken_over(
    database: sqlite3.Connection, asked: ApprovalRecord, is_over: Callable[[str], bool]
) -> list[ApprovalRecord]:
    """The oldest record of this question that a session has left, as this session's."""
    rows = database.execute(
        "select * from approvals where state in ('granted', 'denied', 'pending') order by number"
    ).fetchall()
    for row in rows:
        if is_over(row["session"]) and (left := _read(row)) is not None:
            record = replace(left, session=asked.session)
            if record.key == asked.key:
                move = "update approvals set session = ?, key = ? where number = ?"
                database.execute(move, [record.session, record.key, record.number])
                _write(database, record)
                return [record]
    return []


def _insert(database: sqlite3.Connection, record: ApprovalRecord) -> ApprovalRecord:
    waiting = "select count(*) from approvals where session = ? and state = 'pending'"
    if database.execute(waiting, [record.session]).fetchone()[0] >= MAX_WAITING:
        raise ValueError(f"{MAX_WAITING} calls of this session wait for an approval already")
    insert = "insert into approvals (state, key, session, expires, record) values (?, ?, ?, ?, '')"
    values = [record.state, record.key, record.session, record.expires]
    made = replace(record, number=database.execute(insert, values).lastrowid)
    _write(database, made)
    return made


def _write(database: sqlite3.Connection, record: ApprovalRecord) -> None:
    """Store a record whole, but for what has a column of its own."""
    value = {name: one for name, one in record.as_dict().items() if name not in {"number", "state"}}
    update = "update approvals set state = ?, record = ? where number = ?"
    database.execute(update, [record.state, canonical(value), record.number])
