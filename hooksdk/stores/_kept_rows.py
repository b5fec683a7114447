"""What the database keeps of a session beside its messages and its journal: rows about them, and one state, with which
a long session opens without them. What does not fit what is stored is made anew."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from hooksdk.errors import StoreError
from hooksdk.stores._chains import JOURNAL, MESSAGES, Ends, check_ends, damage, hash_before, parse, read_chain
from hooksdk.stores._hashes import NO_ROWS, chain, digest
from hooksdk.transcript import Entry, RowKind, SessionState, StoredRow

if TYPE_CHECKING:
    from hooksdk.stores._database import Database
    from hooksdk.stores._sealing import Seal
    from hooksdk.stores._transaction import Transaction

logger = logging.getLogger("hooksdk")

T = TypeVar("T")

STATE = "SELECT messages, journal, upto, body, hash, sums FROM hooksdk_states WHERE session = :id"
KEEP_STATE = """
INSERT INTO hooksdk_states VALUES (:id, :count, :entries, :upto, :body, :hash, :sums)
ON CONFLICT (session) DO UPDATE SET messages = excluded.messages, journal = excluded.journal, upto = excluded.upto,
body = excluded.body, hash = excluded.hash, sums = excluded.sums"""
DROP_STATE = "DELETE FROM hooksdk_states WHERE session = :id"
DROP_ROWS = "DELETE FROM hooksdk_rows WHERE session = :id"
KEEP_ROW = """
INSERT INTO hooksdk_rows VALUES (:id, :kind, :number, :tag, :body, :hash)
ON CONFLICT (session, kind, number) DO UPDATE SET tag = excluded.tag, body = excluded.body, hash = excluded.hash"""
ROWS = """
SELECT number, tag, body, hash FROM hooksdk_rows
WHERE session = :id AND kind = :kind AND number >= :start AND number < :stop ORDER BY number"""
ENTRIES = """
SELECT entry.position, entry.body, entry.hash, coalesce(before.hash, :no_rows) FROM hooksdk_journal AS entry
LEFT JOIN hooksdk_journal AS before ON before.session = entry.session AND before.position = entry.position - 1
WHERE entry.session = :id AND entry.kind = :kind ORDER BY entry.position"""
FIND_ROWS = """
SELECT number, tag, body, hash FROM hooksdk_rows
WHERE session = :id AND kind = :kind AND tag = :tag ORDER BY number"""
# So many bytes are stored before the state of a session is kept anew: they are read in a few milliseconds.
MIN_STATE_BYTES = 256 * 1024
# Bytes of the newest messages that are read with the state.
RECENT_BYTES = 1_000_000
# Of these, rows that are read at a time.
RECENT_ROWS = 200


class KeptRows(Protocol):
    """The part of `SqlLog` that keeps and reads the rows and the state."""

    session_id: str
    row: dict[str, Any]
    _database: Database
    _seal: Seal
    _ends: Ends
    # The messages from a position on, as they are stored: a server cannot be asked without waiting.
    _warm_start: int
    _warm: list[bytes] | None
    # Bytes that were stored since the state was kept, and bytes of that state.
    _unkept: int
    _state_size: int
    # False once a row was found that is not what was stored: the next opening makes all of them anew.
    _rows_fit: bool
    # The kinds of rows of which it is known that none is missing.
    _whole: set[RowKind]

    async def _hold(self, step: Callable[[Transaction], T], *, patient: bool = True) -> T: ...

    @property
    def state_is_due(self) -> bool:
        """True when the next opening would have to read much."""
        return self._rows_fit and self._unkept > max(MIN_STATE_BYTES, self._state_size)

    async def keep_state(
        self, state: str, rows: Sequence[tuple[RowKind, StoredRow]], *, known: int, upto: int, anew: bool
    ) -> None:
        """Keep the state of all that is stored, and these rows. The view begins after `upto` messages."""
        ends, key = dict(self._ends), self.row["id"]
        if known != ends[MESSAGES].length:
            return
        parameters: list[dict[str, Any]] = []
        for kind, (number, text, whole) in rows:
            tag, body = self._seal.tag(text), self._seal.close(whole, key, kind, number)
            own_hash = digest(key, kind, number, tag, body)
            parameters.append({"id": key, "kind": kind, "number": number, "tag": tag, "body": body, "hash": own_hash})
        entries, before, journal_before = ends[JOURNAL].length, ends[MESSAGES].hash, ends[JOURNAL].hash
        from hooksdk.stores._row_sums import place_of, sum_with, sums_in  # most processes keep no state

        sealed = self._seal.close(state, key, "state")
        row = {"id": key, "count": known, "entries": entries, "upto": upto, "body": sealed}

        def store(transaction: Transaction) -> None:
            if anew:
                transaction.execute(DROP_ROWS, self.row)
            sums = {} if anew else sums_in(transaction, self.row)
            for kind, new in itertools.groupby(sorted(parameters, key=place_of), lambda each: each["kind"]):
                sums[kind] = sum_with(transaction, [*new], sums.get(kind, (0, 0)))
            if parameters:
                transaction.execute(KEEP_ROW, parameters)
            text = json.dumps(sums)
            own_hash = digest(known, entries, upto, before, journal_before, sealed, self._seal.key_id, text)
            transaction.execute(KEEP_STATE, {**row, "hash": own_hash, "sums": text})

        await self._hold(store, patient=False)
        self._unkept, self._state_size = 0, len(state)
        if self._warm is not None and upto > self._warm_start:
            del self._warm[: upto - self._warm_start]
            self._warm_start = upto

    async def read_state(self) -> SessionState | None:
        """The state that was kept, and what came later. Raises `StoreError` for a row that was changed."""
        state = await self._hold(self._read_state)
        if state is not None:
            self._unkept, self._state_size = sum(map(len, state.messages)), len(state.state)
            self._warm_start = state.known - len(state.recent)
            self._warm = [*state.recent, *state.messages] if self._database.is_remote else None
        return state

    def _read_state(self, transaction: Transaction) -> SessionState | None:
        row: Any = transaction.execute(STATE, self.row).fetchone()
        if row is None:
            return None
        count, entries, upto, body, stored_hash, sums = row
        before = hash_before(transaction, MESSAGES, self.row, count)
        journal_before = hash_before(transaction, JOURNAL, self.row, entries)
        if (
            before is None
            or journal_before is None
            or stored_hash != digest(count, entries, upto, before, journal_before, body, self._seal.key_id, sums)
        ):
            logger.warning("session %r: its kept state does not fit what is stored, and is made anew", self.session_id)
            return None
        recent, start = list[bytes](), count
        while start > upto and sum(map(len, recent)) < RECENT_BYTES:
            stop, start = start, max(upto, start - RECENT_ROWS)
            recent = [*read_chain(transaction, MESSAGES, self.session_id, start, stop, self._seal), *recent]
        later = read_chain(transaction, MESSAGES, self.session_id, count, self._ends[MESSAGES].length, self._seal)
        journal = read_chain(transaction, JOURNAL, self.session_id, entries, self._ends[JOURNAL].length, self._seal)
        check_ends(transaction, self.session_id, self._ends)
        return SessionState(
            self._seal.open(body, self.row["id"], "state"),
            count,
            recent,
            later,
            [*parse(journal, JOURNAL, self.session_id, entries)],
        )

    def read_rows(self, kind: RowKind, start: int, stop: int) -> list[StoredRow]:
        """The rows from `start` to before `stop`, by number. Raises `StoreError` where one is not what was stored."""
        rows = self._rows(ROWS, kind, start=start, stop=stop)
        if [row.number for row in rows] != [*range(start, stop)]:
            self._forget_rows(kind, "rows are missing")
        return rows

    def find_rows(self, kind: RowKind, tag: str) -> list[StoredRow]:
        """The rows with this tag, by number. Raises `StoreError` as `read_rows`."""
        if kind == "prompt" and kind not in self._whole:  # that one is missing would be seen by nobody
            from hooksdk.stores._row_sums import is_whole

            if not self._database.look(lambda transaction: is_whole(transaction, self.row, kind)):
                self._forget_rows(kind, "a row is missing, or is an older one")
            self._whole.add(kind)
        return self._rows(FIND_ROWS, kind, tag=self._seal.tag(tag))

    def read_entries(self, kind: str) -> list[Entry]:
        """All entries of this kind in the journal."""
        row = {**self.row, "kind": kind, "no_rows": NO_ROWS}
        entries: list[Entry] = []
        for position, body, stored_hash, before in self._database.look(
            lambda transaction: transaction.execute(ENTRIES, row).fetchall()
        ):
            if chain(before, body, kind) != stored_hash:
                raise damage(JOURNAL, self.session_id, position, "this row was changed by somebody else")
            entries.append(json.loads(self._seal.open(body, self.row["id"], JOURNAL.name, position)))
        return entries

    def _rows(self, statement: str, kind: RowKind, **row: object) -> list[StoredRow]:
        parameters = {**self.row, "kind": kind, **row}
        found = self._database.look(lambda transaction: transaction.execute(statement, parameters).fetchall())
        for number, tag, body, stored_hash in found:
            if digest(self.row["id"], kind, number, tag, body) != stored_hash:
                self._forget_rows(kind, f"row {number} was changed by somebody else")
        key = self.row["id"]
        return [StoredRow(number, "", self._seal.open(body, key, kind, number)) for number, _, body, _ in found]

    def _forget_rows(self, kind: RowKind, problem: str) -> NoReturn:
        self._rows_fit = False
        where = f"session '{self.session_id}', hooksdk_rows, {kind}"
        raise StoreError(where, f"{problem}. Close the session and open it again: they are made anew")
