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
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast, final

import anyio

from hooksdk.errors import HookSDKError, SessionBusy, StoreError, TranscriptChanged
from hooksdk.formats import Message
from hooksdk.stores import _holders
from hooksdk.stores._hashes import NO_ROWS, chain, digest, session_key
from hooksdk.stores._sealing import PLAIN, Seal
from hooksdk.tasks import run_shielded
from hooksdk.transcript import Entry, MessageSource, RowKind, SessionState, StoredRow, encode_for

if TYPE_CHECKING:
    from hooksdk.stores._database import Database, Transaction

logger = logging.getLogger("hooksdk")

T = TypeVar("T")

RENEW = "UPDATE hooksdk_sessions SET expires = {now} + :lease WHERE id = :id AND token = :token AND holder = :holder"
ENDS = "messages = :messages, messages_hash = :messages_hash, journal = :journal, journal_hash = :journal_hash"
WRITE = f"""
UPDATE hooksdk_sessions SET expires = {{now}} + :lease, changed = {{now}}, {ENDS}
WHERE id = :id AND token = :token AND holder = :holder AND messages = :old_messages
AND messages_hash = :old_messages_hash AND journal = :old_journal AND journal_hash = :old_journal_hash"""
SETTLE = f"UPDATE hooksdk_sessions SET {ENDS} WHERE id = :id"
SESSION = """
SELECT token, holder, messages, messages_hash, journal, journal_hash FROM hooksdk_sessions WHERE id = :id"""
RELEASE = """
UPDATE hooksdk_sessions SET expires = NULL, holder = NULL WHERE id = :id AND token = :token AND holder = :holder"""
STATE = "SELECT messages, journal, upto, body, hash FROM hooksdk_states WHERE session = :id"
KEEP_STATE = """
INSERT INTO hooksdk_states VALUES (:id, :count, :entries, :upto, :body, :hash)
ON CONFLICT (session) DO UPDATE SET messages = excluded.messages, journal = excluded.journal, upto = excluded.upto,
body = excluded.body, hash = excluded.hash"""
DROP_STATE = "DELETE FROM hooksdk_states WHERE session = :id"
DROP_ROWS = "DELETE FROM hooksdk_rows WHERE session = :id"
KEEP_ROW = """
INSERT INTO hooksdk_rows VALUES (:id, :kind, :number, :tag, :body, :hash)
ON CONFLICT (session, kind, number) DO UPDATE SET tag = excluded.tag, body = excluded.body, hash = excluded.hash"""
ROWS = """
SELECT number, tag, body, hash FROM hooksdk_rows
WHERE session = :id AND kind = :kind AND number >= :start AND number < :stop ORDER BY number"""
FIND_ROWS = """
SELECT number, tag, body, hash FROM hooksdk_rows
WHERE session = :id AND kind = :kind AND tag = :tag ORDER BY number"""
# Rows that are read at a time: as objects of the database's driver they take twice what they hold.
PAGE = 5_000
# So many bytes are stored before the state of a session is kept anew: they are read in a few milliseconds.
MIN_STATE_BYTES = 256 * 1024
# Bytes of the newest messages that are read with the state.
RECENT_BYTES = 1_000_000
# Of these, rows that are read at a time.
RECENT_ROWS = 200


class End(NamedTuple):
    """The end of a sequence: how many rows it has, and the hash of the newest."""

    length: int = 0
    hash: bytes = NO_ROWS


@final
class Table:
    """The statements over the messages, or over the journal."""

    def __init__(self, name: str, columns: str) -> None:
        self.name = name
        self.select = f"""
            SELECT position, body, hash FROM hooksdk_{name} WHERE session = :id AND position >= :start
            AND position < :stop ORDER BY position LIMIT :limit"""
        self.end = f"SELECT coalesce(max(position) + 1, 0) FROM hooksdk_{name} WHERE session = :id"
        self.cut = f"DELETE FROM hooksdk_{name} WHERE session = :id AND position >= :length"
        self.insert = f"INSERT INTO hooksdk_{name} VALUES ({columns})"


MESSAGES = Table("messages", ":id, :position, :body, :hash")
JOURNAL = Table("journal", ":id, :position, :kind, :body, :hash")
Ends = dict[Table, End]


@final
class SqlLog:
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
        # The messages from a position on, as they are stored: a server cannot be asked without waiting.
        self._warm_start = 0
        self._warm: list[bytes] | None = None
        # Bytes that were stored since the state was kept, and bytes of that state.
        self._unkept = self._state_size = 0
        # False once a row was found that is not what was stored: the next opening makes all of them anew.
        self._rows_fit = True
        # A write was begun, and it is not known whether it was stored: it is undone before anything else is done.
        self._doubtful = False
        # The write replaces what is stored: if it was stored, the new rows count.
        self._rewriting = False

    async def _hold(
        self,
        step: Callable[[Transaction], T],
        ends: Callable[[], Ends] | None = None,
        *,
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
            self._ends = _ends_of(transaction, self.row) or self._ends
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
        return [*_parse(lines, MESSAGES, self.session_id)], journal

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

    async def read_state(self) -> SessionState | None:
        """The state that was kept, and what came later. Raises `StoreError` for a row that was changed."""
        state = await self._hold(self._read_state)
        if state is not None:
            later = [*state.messages, *(b"%d" % len(entry) for entry in state.journal)]
            self._unkept, self._state_size = sum(map(len, later)), len(state.state)
            self._warm_start = state.known - len(state.recent)
            self._warm = [*state.recent, *state.messages] if self._database.is_remote else None
        return state

    def _read_state(self, transaction: Transaction) -> SessionState | None:
        row: Any = transaction.execute(STATE, self.row).fetchone()
        if row is None:
            return None
        count, entries, upto, body, stored_hash = row
        before = _hash_before(transaction, MESSAGES, self.row, count)
        journal_before = _hash_before(transaction, JOURNAL, self.row, entries)
        if (
            before is None
            or journal_before is None
            or bytes(stored_hash) != digest(count, entries, upto, before, journal_before, body, self._seal.key_id)
        ):
            logger.warning("session %r: its kept state does not fit what is stored, and is made anew", self.session_id)
            return None
        recent, start = list[bytes](), count
        while start > upto and sum(map(len, recent)) < RECENT_BYTES:
            stop, start = start, max(upto, start - RECENT_ROWS)
            recent = [*read_chain(transaction, MESSAGES, self.session_id, start, stop, self._seal), *recent]
        later = read_chain(transaction, MESSAGES, self.session_id, count, self._ends[MESSAGES].length, self._seal)
        journal = read_chain(transaction, JOURNAL, self.session_id, entries, self._ends[JOURNAL].length, self._seal)
        _check_ends(transaction, self.session_id, self._ends)
        return SessionState(
            self._seal.open(body, self.row["id"], "state"),
            count,
            recent,
            later,
            [*_parse(journal, JOURNAL, self.session_id, entries)],
        )

    def scan(self, start: int, stop: int) -> Iterator[Message]:
        """The messages from `start` to before `stop`, each a fresh object. Raises `StoreError`."""
        if self._warm is not None:
            if start < self._warm_start:
                end = min(stop, self._warm_start)
                lines = self._database.look(
                    lambda transaction: read_chain(transaction, MESSAGES, self.session_id, start, end, self._seal)
                )
                if end < self._warm_start:
                    return _parse(lines, MESSAGES, self.session_id, start)
                self._warm_start, self._warm = start, [*lines, *self._warm]
            lines = self._warm[start - self._warm_start : stop - self._warm_start]
            return _parse(lines, MESSAGES, self.session_id, start)
        return self._scan(start, stop)

    def _scan(self, start: int, stop: int) -> Iterator[Message]:
        for first in range(start, stop, PAGE):
            last = min(first + PAGE, stop)
            lines = self._database.look(
                lambda transaction, first=first, last=last: read_chain(
                    transaction, MESSAGES, self.session_id, first, last, self._seal
                )
            )
            yield from _parse(lines, MESSAGES, self.session_id, first)

    def read_rows(self, kind: RowKind, start: int, stop: int) -> list[StoredRow]:
        """The rows from `start` to before `stop`, by number. Raises `StoreError` where one is not what was stored."""
        rows = self._rows(ROWS, kind, start=start, stop=stop)
        if [row.number for row in rows] != [*range(start, stop)]:
            self._forget_rows(kind, "rows are missing")
        return rows

    def find_rows(self, kind: RowKind, tag: str) -> list[StoredRow]:
        """The rows with this tag, by number. Raises `StoreError` as `read_rows`."""
        return self._rows(FIND_ROWS, kind, tag=self._seal.tag(tag))

    def _rows(self, statement: str, kind: RowKind, **row: object) -> list[StoredRow]:
        parameters = {**self.row, "kind": kind, **row}
        found = self._database.look(lambda transaction: transaction.execute(statement, parameters).fetchall())
        for number, tag, body, stored_hash in found:
            if digest(self.row["id"], kind, number, bytes(tag), body) != bytes(stored_hash):
                self._forget_rows(kind, f"row {number} was changed by somebody else")
        key = self.row["id"]
        return [StoredRow(number, "", self._seal.open(body, key, kind, number)) for number, _, body, _ in found]

    def _forget_rows(self, kind: RowKind, problem: str) -> NoReturn:
        self._rows_fit = False
        where = f"session '{self.session_id}', hooksdk_rows, {kind}"
        raise StoreError(where, f"{problem}. Close the session and open it again: they are made anew")

    # Writing

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
        sealed = self._seal.close(state, key, "state")
        row = {"id": key, "count": known, "entries": entries, "upto": upto, "body": sealed}
        row["hash"] = digest(known, entries, upto, before, journal_before, sealed, self._seal.key_id)

        def store(transaction: Transaction) -> None:
            if anew:
                transaction.execute(DROP_ROWS, self.row)
            if parameters:
                transaction.execute(KEEP_ROW, parameters)
            transaction.execute(KEEP_STATE, row)

        await self._hold(store, patient=False)
        self._unkept, self._state_size = 0, len(state)
        if self._warm is not None and upto > self._warm_start:
            del self._warm[: upto - self._warm_start]
            self._warm_start = upto

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages."""
        lines = [encode_for(f"session '{self.session_id}'", message) for message in messages]
        await self._append(MESSAGES, lines, [{} for _ in lines])
        if self._warm is not None:
            self._warm += lines

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one transaction."""
        lines = [encode_for(f"session '{self.session_id}'", entry) for entry in entries]
        await self._append(JOURNAL, lines, list(map(_kind, entries)), verify=verify)

    async def _append(
        self, table: Table, lines: Sequence[bytes], columns: Sequence[dict[str, str]], *, verify: bool = False
    ) -> None:
        rows: list[dict[str, Any]] = []

        def ends() -> Ends:
            rows[:], end = chained(self.row["id"], table, self._ends[table], lines, columns, self._seal)
            return {**self._ends, table: end}

        def store(transaction: Transaction) -> None:
            if verify:
                self._compare(transaction)
            if rows:
                self._insert(transaction, table, rows)

        if lines or verify:
            await self._hold(store, ends)
            self._unkept += sum(map(len, lines))

    def _insert(self, transaction: Transaction, table: Table, rows: Sequence[dict[str, Any]]) -> None:
        end = transaction.execute(table.end, self.row).fetchone()[0]
        if end != rows[0]["position"]:
            self._changed(f"the {table.name} end at {end}")
        transaction.execute(table.insert, rows)

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Store these entries instead of the journal, in one transaction. The kept state goes with it."""
        lines = [encode_for(f"session '{self.session_id}'", entry) for entry in entries]
        rows, end = chained(self.row["id"], JOURNAL, End(), lines, list(map(_kind, entries)), self._seal)

        def store(transaction: Transaction) -> None:
            self._rewriting = True
            self._compare(transaction)
            for statement in (JOURNAL.cut, DROP_STATE, DROP_ROWS):
                transaction.execute(statement, {**self.row, "length": 0})
            if rows:
                transaction.execute(JOURNAL.insert, rows)

        await self._hold(store, lambda: {**self._ends, JOURNAL: end})

    async def rekey(self) -> bool:
        """Encrypt the whole session anew with the store's first key, in one transaction; False where none is to be
        encrypted anew. The journal says that its chains began anew, and how they ended before."""
        prefix = f"~{self._seal.key_id}:%"
        if not await self._hold(lambda transaction: _other_keys(transaction, {**self.row, "prefix": prefix})):
            return False
        _, lines, journal = await self.read_encoded()
        before = {table.name: end.hash.hex() for table, end in self._ends.items()}
        entry = {"kind": "chain", "m": len(lines), "time": round(time.time(), 3), "why": "a new key", "before": before}
        bodies = [encode_for(f"session '{self.session_id}'", each) for each in (*journal, entry)]
        key = self.row["id"]
        stored = {
            MESSAGES: chained(key, MESSAGES, End(), lines, [{} for _ in lines], self._seal),
            JOURNAL: chained(key, JOURNAL, End(), bodies, list(map(_kind, (*journal, entry))), self._seal),
        }

        def store(transaction: Transaction) -> None:
            self._rewriting = True
            for statement in (MESSAGES.cut, JOURNAL.cut, DROP_STATE, DROP_ROWS):
                transaction.execute(statement, {**self.row, "length": 0})
            for table, (rows, _) in stored.items():
                if rows:
                    transaction.execute(table.insert, rows)

        await self._hold(store, lambda: {table: end for table, (_, end) in stored.items()})
        return True

    def _compare(self, transaction: Transaction) -> None:
        for table, end in self._ends.items():
            stored = transaction.execute(table.end, self.row).fetchone()[0]
            if stored != end.length:
                self._changed(f"the {table.name} end at {stored}")

    async def verify(self) -> None:
        """Raise `SessionBusy` when the lease is another's now, and `TranscriptChanged` when rows were added or cut
        off."""

        def look(transaction: Transaction) -> None:
            if _ends_of(transaction, self.row) != self._ends:
                self._explain(transaction)
            self._compare(transaction)

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


def chained(
    key: int, table: Table, end: End, lines: Sequence[bytes], columns: Sequence[dict[str, str]], seal: Seal = PLAIN
) -> tuple[list[dict[str, Any]], End]:
    """The rows of these lines of a session, with their hashes, and the end of the sequence after them."""
    rows: list[dict[str, Any]] = []
    for line, more in zip(lines, columns, strict=True):
        body = seal.close(line.decode(), key, table.name, end.length)
        row = {"id": key, "position": end.length, "body": body, **more}
        end = End(end.length + 1, chain(end.hash, body.encode()))
        rows.append({**row, "hash": end.hash})
    return rows, end


def _other_keys(transaction: Transaction, row: dict[str, Any]) -> bool:
    """True where a body of the session is not encrypted with the key of this prefix."""
    statement = "SELECT 1 FROM hooksdk_{} WHERE session = :id AND body NOT LIKE :prefix LIMIT 1"
    return any(transaction.execute(statement.format(table.name), row).fetchone() for table in (MESSAGES, JOURNAL))


def named_ends(ends: Ends, prefix: str = "") -> dict[str, Any]:
    """The ends as parameters of a statement."""
    return {
        f"{prefix}{table.name}{ending}": value
        for table, end in ends.items()
        for ending, value in (("", end.length), ("_hash", end.hash))
    }


def _kind(entry: Entry) -> dict[str, str]:
    return {"kind": str(entry.get("kind", ""))[:80]}


def _ends_of(transaction: Transaction, row: dict[str, Any]) -> Ends | None:
    stored: Any = transaction.execute(SESSION, row).fetchone()
    return stored and ends_in(stored[2:])


def ends_in(columns: Sequence[Any]) -> Ends:
    """The ends by the columns of a session's row."""
    messages, messages_hash, journal, journal_hash = columns
    return {MESSAGES: End(messages, bytes(messages_hash)), JOURNAL: End(journal, bytes(journal_hash))}


def read_session(
    transaction: Transaction, session_id: str, seal: Seal = PLAIN
) -> tuple[list[Message], list[Entry]] | None:
    """The messages and the journal of a session, whoever holds it; None where there is none."""
    ends = _ends_of(transaction, {"id": session_key(session_id)})
    if ends is None:
        return None
    lines, journal = read_encoded(transaction, session_id, ends, seal)
    return [*_parse(lines, MESSAGES, session_id)], journal


def read_encoded(
    transaction: Transaction, session_id: str, ends: Ends, seal: Seal = PLAIN
) -> tuple[list[bytes], list[Entry]]:
    """Both sequences, the messages as their JSON. Raises `StoreError` for a row that is missing or was changed."""
    journal = read_chain(transaction, JOURNAL, session_id, 0, ends[JOURNAL].length, seal)
    lines = read_chain(transaction, MESSAGES, session_id, 0, ends[MESSAGES].length, seal)
    _check_ends(transaction, session_id, ends)
    return lines, [*_parse(journal, JOURNAL, session_id)]


def read_chain(
    transaction: Transaction, table: Table, session_id: str, start: int, stop: int, seal: Seal = PLAIN
) -> list[bytes]:
    """The bodies from `start` to before `stop`, each of which fits its hash. Raises `StoreError`."""
    lines: list[bytes] = []
    row: dict[str, Any] = {"id": session_key(session_id), "stop": stop, "limit": PAGE}
    before = _hash_before(transaction, table, row, start)
    while (expected := start + len(lines)) < stop:
        rows = transaction.execute(table.select, {**row, "start": expected}).fetchall()
        if before is None or not rows:
            raise _damage(table, session_id, expected if rows else expected - 1, "this row is missing")
        for number, (position, body, stored_hash) in enumerate(rows, expected):
            if position != number:
                raise _damage(table, session_id, number, f"this row is missing; the next is {position}")
            before = chain(before, body.encode())
            if before != bytes(stored_hash):
                raise _damage(
                    table, session_id, position, "this row was changed by somebody else, or the one before it"
                )
            try:
                lines.append(seal.open(body, row["id"], table.name, position).encode())
            except StoreError as error:
                raise _damage(table, session_id, position, error.problem) from error
    return lines


def _hash_before(transaction: Transaction, table: Table, row: dict[str, Any], position: int) -> bytes | None:
    """The hash of the row before a position; None where there is none."""
    if position == 0:
        return NO_ROWS
    one = {"id": row["id"], "start": position - 1, "stop": position, "limit": 1}
    rows = transaction.execute(table.select, one).fetchall()
    return bytes(rows[0][2]) if rows else None


def _check_ends(transaction: Transaction, session_id: str, ends: Ends) -> None:
    """The sequences end as the session's row says. Raises `StoreError`."""
    row = {"id": session_key(session_id)}
    for table, end in ends.items():
        if _hash_before(transaction, table, row, end.length) != end.hash:
            raise _damage(table, session_id, end.length - 1, "the newest row is not the one that was stored last")
        stored = transaction.execute(table.end, row).fetchone()[0]
        if stored > end.length:
            raise _damage(table, session_id, end.length, "this row was added by somebody else")


def _parse(lines: Sequence[bytes], table: Table, session_id: str, start: int = 0) -> Iterator[dict[str, Any]]:
    for position, line in enumerate(lines, start):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _damage(table, session_id, position, f"this row is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise _damage(table, session_id, position, f"this row is a {type(value).__name__}, not an object")
        yield cast("dict[str, Any]", value)


def _damage(table: Table, session_id: str, position: int, problem: str) -> StoreError:
    where = f"session '{session_id}', hooksdk_{table.name}, position {position}"
    return StoreError(where, f"{problem}. Nothing was changed; `hooksdk sessions doctor` tells what can be done")
