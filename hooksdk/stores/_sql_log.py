"""One session of `SqlStore`: its rows, and the lease under which they are written.

Each message and each journal entry has the hash of itself and of all before it, and the session's row has the number
and the hash of the newest: what somebody else has changed is found when it is read.
"""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, final

import anyio

from hooksdk.errors import HookSDKError, SessionBusy, StoreError, TranscriptChanged
from hooksdk.formats import Message
from hooksdk.stores import _digests, _holders
from hooksdk.stores._chains import (
    JOURNAL,
    MESSAGES,
    PAGE,
    SESSION,
    Chained,
    End,
    Ends,
    Table,
    chained,
    ends_of,
    kind_of,
    named_ends,
    parse,
    read_chain,
    read_encoded,
)
from hooksdk.stores._hashes import session_key
from hooksdk.stores._kept_rows import DROP_ROWS, DROP_STATE, KeptRows
from hooksdk.tasks import run_shielded
from hooksdk.transcript import Entry, MessageSource, RowKind, encode_for

if TYPE_CHECKING:
    from hooksdk.stores._database import Database
    from hooksdk.stores._transaction import Transaction

logger = logging.getLogger("hooksdk")

T = TypeVar("T")

RENEW = "UPDATE hooksdk_sessions SET expires = {now} + :lease WHERE id = :id AND token = :token AND holder = :holder"
ENDS = "messages = :messages, messages_hash = :messages_hash, journal = :journal, journal_hash = :journal_hash"
WRITE = f"""
UPDATE hooksdk_sessions SET expires = {{now}} + :lease, changed = {{now}}, {ENDS}
WHERE id = :id AND token = :token AND holder = :holder AND messages = :old_messages
AND messages_hash = :old_messages_hash AND journal = :old_journal AND journal_hash = :old_journal_hash"""
SETTLE = f"UPDATE hooksdk_sessions SET {ENDS} WHERE id = :id"
DELETE = [f"DELETE FROM hooksdk_{name} WHERE session = :id" for name in ("messages", "journal", "rows", "states")]
DELETE.append("DELETE FROM hooksdk_sessions WHERE id = :id")
RELEASE = """
UPDATE hooksdk_sessions SET expires = NULL, holder = NULL WHERE id = :id AND token = :token AND holder = :holder"""


@final
class SqlLog(KeptRows):
    """One session's rows, held by a lease.

    Attributes:
        row: The parameters that name this lease.
    """

    def __init__(
        self,
        database: Database,
        session_id: str,
        *,
        existed: bool,
        holder: str,
        token: int,
        lease: float,
        ends: Ends,
    ) -> None:
        self.session_id = session_id
        self.existed = existed
        self.token = token
        self.is_open = True
        self.row: dict[str, Any] = {"id": session_key(session_id), "token": token, "holder": holder, "lease": lease}
        _holders.live_with(holder, self)
        self._database = database
        self._seal = database.seal
        self._ends = ends
        self._alone = anyio.Lock()
        self._warm_start = 0
        self._warm: list[bytes] | None = None
        self._unkept = self._state_size = 0
        self._rows_fit = True
        self._whole: set[RowKind] = set()
        # A write was begun, and it is not known whether it was stored: it is undone before anything else is done.
        self._doubtful = False
        # The write replaces what is stored: if it was stored, the new rows count.
        self._rewriting = False

    async def _hold(
        self,
        step: Callable[[Transaction], T],
        *,
        ends: Callable[[], Ends] | None = None,
        patient: bool = True,
    ) -> T:
        """Run a step in one transaction under the lease, which is renewed; after it the sequences have these ends."""
        later: Ends | None = None

        def held(transaction: Transaction) -> T:
            nonlocal later
            was_doubtful = self._doubtful
            if was_doubtful:
                self._settle(transaction)
            if ends is None:
                if not transaction.execute(RENEW, self.row).rowcount:
                    raise SessionBusy(self.session_id, 0)
                return step(transaction)
            self._doubtful, later = True, ends()
            try:
                if not transaction.execute(
                    WRITE, {**self.row, **named_ends(later), **named_ends(self._ends, "old_")}
                ).rowcount:
                    self._explain(transaction)
                return step(transaction)
            except HookSDKError:  # of our own: this try is rolled back, and that is known
                self._doubtful = was_doubtful
                raise

        async def alone() -> T:
            async with self._alone:
                if not self.is_open:
                    raise StoreError(f"session '{self.session_id}'", "it was closed")
                answer = await self._database.transaction(held, patient=patient)
                self._ends = later or self._ends
                self._doubtful = self._rewriting = False
                return answer

        return await run_shielded(alone)

    def _settle(self, transaction: Transaction) -> None:
        """Undo a write of which it is not known whether it was stored."""
        if not transaction.execute(RENEW, self.row).rowcount:
            raise SessionBusy(self.session_id, 0)
        if self._rewriting:  # whether the old journal is stored or the new one is decided by now
            self._ends = ends_of(transaction, self.row) or self._ends
            self._rewriting = False
        transaction.execute(SETTLE, {**self.row, **named_ends(self._ends)})
        for table, end in self._ends.items():
            transaction.execute(table.cut, {**self.row, "length": end.length})

    def _explain(self, transaction: Transaction) -> NoReturn:
        """Raise why nothing can be written."""
        stored = transaction.execute(SESSION, self.row).fetchone()
        if stored is None or (stored[0], stored[1]) != (self.token, self.row["holder"]):
            raise SessionBusy(self.session_id, 0)
        self._changed(f"the session's row says {stored[2]} messages and {stored[4]} entries")

    def _changed(self, found: str) -> NoReturn:
        ours = f"{self._ends[MESSAGES].length} and {self._ends[JOURNAL].length} were stored by this worker"
        problem = f"{found}, and {ours}: somebody else changed them"
        raise TranscriptChanged(self.session_id, self._ends[MESSAGES].length, problem)

    # Reading

    async def read(self) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal. Raises `StoreError` for a row that is missing, was changed, or is not JSON."""
        _, lines, journal = await self.read_encoded()
        return [*parse(lines, MESSAGES, self.session_id)], journal

    async def read_encoded(self) -> tuple[MessageSource, Sequence[bytes], list[Entry]]:
        """The messages as they are stored, and the journal. Raises `StoreError`."""
        lines, journal = await self._hold(
            lambda transaction: read_encoded(transaction, self.session_id, self._ends, self._seal)
        )
        self._unkept, self._state_size = sum(map(len, lines)), 0
        if self._database.is_remote:
            self._warm_start, self._warm = 0, lines
            return self, lines[:], journal
        return self, lines, journal

    def scan(self, start: int, stop: int) -> Iterator[Message]:
        """The messages from `start` to before `stop`, each a fresh object. Raises `StoreError`."""
        if self._warm is not None:
            if start < self._warm_start:
                end = min(stop, self._warm_start)
                lines = self._database.look(
                    lambda transaction: read_chain(transaction, MESSAGES, self.session_id, start, end, self._seal)
                )
                if end < self._warm_start:
                    return parse(lines, MESSAGES, self.session_id, start)
                self._warm_start, self._warm = start, [*lines, *self._warm]
            lines = self._warm[start - self._warm_start : stop - self._warm_start]
            return parse(lines, MESSAGES, self.session_id, start)
        return self._scan(start, stop)

    def _scan(self, start: int, stop: int) -> Iterator[Message]:
        for first in range(start, stop, PAGE):
            last = min(first + PAGE, stop)
            lines = self._database.look(
                lambda transaction, first=first, last=last: read_chain(
                    transaction, MESSAGES, self.session_id, first, last, self._seal
                )
            )
            yield from parse(lines, MESSAGES, self.session_id, first)

    # Writing

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages."""
        lines = [encode_for(f"session '{self.session_id}'", message) for message in messages]
        await self._append(MESSAGES, lines)
        if self._warm is not None:
            self._warm += lines

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one transaction."""
        lines = [encode_for(f"session '{self.session_id}'", entry) for entry in entries]
        await self._append(JOURNAL, lines, list(map(kind_of, entries)), verify=verify)

    async def _append(
        self, table: Table, lines: Sequence[bytes], kinds: Sequence[str] = (), *, verify: bool = False
    ) -> None:
        rows: list[dict[str, Any]] = []

        def ends() -> Ends:
            rows[:], end = chained(self.row["id"], table, self._ends[table], lines, kinds, self._seal)
            return {**self._ends, table: end}

        def store(transaction: Transaction) -> None:
            self._compare(transaction, *(self._ends if verify else [table]))
            if rows:
                transaction.execute(table.insert, rows)

        if lines or verify:
            await self._hold(store, ends=ends)
            self._unkept += sum(map(len, lines))

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Store these entries instead of the journal, in one transaction. The kept state goes with it."""
        await self._replace({JOURNAL: self._journal(entries)})

    def _journal(self, entries: Sequence[Entry]) -> Chained:
        lines = [encode_for(f"session '{self.session_id}'", entry) for entry in entries]
        return chained(self.row["id"], JOURNAL, End(), lines, list(map(kind_of, entries)), self._seal)

    async def _replace(self, new: dict[Table, Chained]) -> None:
        """Store these sequences instead of those that are there. The kept state goes with them."""

        def store(transaction: Transaction) -> None:
            self._rewriting = True
            self._compare(transaction, *self._ends)
            for statement in (*(table.cut for table in new), DROP_STATE, DROP_ROWS):
                transaction.execute(statement, {**self.row, "length": 0})
            for table, (rows, _) in new.items():
                if rows:
                    transaction.execute(table.insert, rows)

        await self._hold(store, ends=lambda: {**self._ends, **{table: end for table, (_, end) in new.items()}})

    async def rekey(self) -> bool:
        """Encrypt the whole session anew with the store's first key, in one transaction; False where none is to be
        encrypted anew. The journal says that its chains began anew, and how they ended before."""
        prefix = f"~{self._seal.key_id}:%"
        if not await self._hold(lambda transaction: _other_keys(transaction, {**self.row, "prefix": prefix})):
            return False
        _, lines, journal = await self.read_encoded()
        before = {table.name: end.hash.hex() for table, end in self._ends.items()}
        entry = {"kind": "chain", "m": len(lines), "time": round(time.time(), 3), "why": "a new key", "before": before}
        messages = chained(self.row["id"], MESSAGES, End(), lines, seal=self._seal)
        await self._replace({MESSAGES: messages, JOURNAL: self._journal([*journal, entry])})
        return True

    def _compare(self, transaction: Transaction, *tables: Table) -> None:
        for table in tables:
            stored = transaction.execute(table.end, self.row).fetchone()[0]
            if stored != self._ends[table].length:
                self._changed(f"the {table.name} end at {stored}")

    async def delete(self) -> None:
        """Remove the session for good, under the lease. Raises `SessionBusy` where that is another's now."""

        def remove(transaction: Transaction) -> None:
            deleted = [transaction.execute(statement, self.row).rowcount for statement in DELETE]
            if deleted[-1] > 0:
                _digests.note_session(transaction, json.dumps(self.session_id), -1)

        await self._hold(remove)

    async def verify(self) -> None:
        """Raise `SessionBusy` when the lease is another's now, and `TranscriptChanged` when rows were added or cut
        off."""

        def look(transaction: Transaction) -> None:
            if ends_of(transaction, self.row) != self._ends:
                self._explain(transaction)
            self._compare(transaction, *self._ends)

        await self._hold(look)

    async def close(self) -> None:
        """Let the session go. Where the database does not answer, its lease lapses by itself."""
        if self.is_open:
            await run_shielded(self._close)

    async def _close(self) -> None:
        async with self._alone:
            self.is_open = False
            _holders.let_go(self.row["holder"])
            try:
                await self._database.transaction(self._release, patient=False)
            except StoreError as error:
                logger.warning("session %r is free only when its lease lapses: %s", self.session_id, error)

    def _release(self, transaction: Transaction) -> None:
        if transaction.execute(RELEASE, self.row).rowcount and not self._rows_fit:
            transaction.execute(DROP_STATE, self.row)


def _other_keys(transaction: Transaction, row: dict[str, Any]) -> bool:
    """True where a body of the session is not encrypted with the key of this prefix."""
    statement = "SELECT 1 FROM hooksdk_{} WHERE session = :id AND body NOT LIKE :prefix LIMIT 1"
    return any(transaction.execute(statement.format(table.name), row).fetchone() for table in (MESSAGES, JOURNAL))
