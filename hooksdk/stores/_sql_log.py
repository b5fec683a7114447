"""One session of `SqlStore`: its rows, and the lease under which they are written."""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

import anyio

from hooksdk.errors import HookSDKError, SessionBusy, StoreError, TranscriptChanged
from hooksdk.formats import Message
from hooksdk.stores import _holders
from hooksdk.stores._index import index_of_rows, note_on_rows
from hooksdk.stores._lines import is_index_due
from hooksdk.stores.jsonl import file_name
from hooksdk.tasks import in_thread, run_shielded
from hooksdk.transcript import EncodedMessages, Entry, MessageReader, MessageSource, encode_for

if TYPE_CHECKING:
    from hooksdk.stores._database import Database, Transaction

logger = logging.getLogger("hooksdk")

T = TypeVar("T")

RENEW = "UPDATE hooksdk_sessions SET expires = {now} + :lease WHERE key = :key AND token = :token AND holder = :holder"
WRITTEN = "UPDATE hooksdk_sessions SET changed = {now} WHERE key = :key"
RELEASE = """
UPDATE hooksdk_sessions SET expires = NULL, holder = NULL WHERE key = :key AND token = :token AND holder = :holder"""
INDEX = "SELECT body FROM hooksdk_indexes WHERE key = :key"
KEEP_INDEX = """
INSERT INTO hooksdk_indexes (key, body) VALUES (:key, :body) ON CONFLICT (key) DO UPDATE SET body = excluded.body"""
# Rows that are read at a time under the lease: as objects of the database's driver they take twice what they hold.
PAGE = 5_000
ALL = 1 << 62


@final
class Table:
    """The statements over the messages, or over the journal."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.select = f"""
            SELECT position, body FROM hooksdk_{name} WHERE key = :key AND position >= :start ORDER BY position LIMIT :limit"""
        self.end = f"SELECT coalesce(max(position) + 1, 0) FROM hooksdk_{name} WHERE key = :key"
        self.cut = f"DELETE FROM hooksdk_{name} WHERE key = :key AND position >= :length"
        self.insert = f"INSERT INTO hooksdk_{name} (key, position, body) VALUES (:key, :position, :body)"


MESSAGES, JOURNAL = Table("messages"), Table("journal")


@final
class SqlLog:
    """One session's rows, held by a lease.

    Attributes:
        row: The parameters that name this lease.
    """

    materialized = False

    def __init__(
        self, database: Database, session_id: str, *, holder: str, token: int, lease: float, lengths: dict[Table, int]
    ) -> None:
        self.session_id = session_id
        self.existed = token > 1
        self.token = token
        self.is_open = True
        self.row: dict[str, Any] = {"key": file_name(session_id), "token": token, "holder": holder, "lease": lease}
        _holders.live_with(holder, self)
        self._database = database
        self._lengths = lengths
        self._alone = anyio.Lock()
        # The messages as they were read and appended: a database cannot be asked without waiting.
        self._encoded = EncodedMessages([])
        self._loaded = False
        self._size = self._covered = 0
        """Of the messages, and of those that the index covers."""
        # A write was begun, and whether it was stored is not known: its rows are cut off before anything else is done.
        self._doubtful = False
        # The write replaces the stored journal: the new one counts then.
        self._rewriting = False

    async def _hold(
        self,
        step: Callable[[Transaction], T],
        committed: Callable[[T], None] = lambda _: None,
        *,
        patient: bool = True,
    ) -> T:
        """Run a step in one transaction with a look at the lease, which is renewed; `committed` is told of its
        answer."""

        def held(transaction: Transaction) -> T:
            if not transaction.execute(RENEW, self.row).rowcount:
                raise SessionBusy(self.session_id, 0)
            was_doubtful = self._doubtful
            if was_doubtful:
                if self._rewriting:  # whether the old journal is stored or the new one is decided by now
                    self._lengths[JOURNAL] = transaction.execute(JOURNAL.end, self.row).fetchone()[0]
                    self._rewriting = False
                for table, length in self._lengths.items():
                    transaction.execute(table.cut, {**self.row, "length": length})
            self._doubtful = True
            try:
                return step(transaction)
            except HookSDKError:  # of our own: this try is rolled back, and that is known
                self._doubtful = was_doubtful
                raise

        async def alone() -> T:
            async with self._alone:
                if not self.is_open:
                    raise StoreError(f"session '{self.session_id}'", "it was closed")
                answer = await self._database.transaction(held, patient=patient)
                self._doubtful = self._rewriting = False
                committed(answer)
                return answer

        return await run_shielded(alone)

    async def read(self) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal. Raises `StoreError` for a row that is missing or is not JSON."""

        def look(transaction: Transaction) -> tuple[list[Message], list[Entry]]:
            return read_rows(transaction, self.session_id)

        def count(read: tuple[list[Message], list[Entry]]) -> None:
            self._lengths = {MESSAGES: len(read[0]), JOURNAL: len(read[1])}

        return await self._hold(look, count)

    @property
    def index_is_due(self) -> bool:
        """True when the next opening would have to judge much."""
        return self._loaded and is_index_due(self._size, self._covered)

    async def read_lazily(self, reader: MessageReader) -> MessageSource:
        """Show the journal and the messages to a reader; of those that an index covers nothing but their hash is looked
        at. They stay in memory as they are stored. Raises `StoreError`."""

        def look(transaction: Transaction) -> tuple[list[bytes], list[Entry], bytes]:
            index = transaction.execute(INDEX, self.row).fetchone()
            return *read_encoded(transaction, self.session_id, PAGE), bytes(index[0] if index else b"")

        def count(read: tuple[list[bytes], list[Entry], bytes]) -> None:
            self._encoded = EncodedMessages(read[0])
            self._lengths = {MESSAGES: len(read[0]), JOURNAL: len(read[1])}

        lines, journal, index = await self._hold(look, count)

        def show() -> None:
            known, note = note_on_rows(index, self.session_id, lines) or (0, None)
            if reader.begin(journal, note) != known:
                known = reader.begin(journal, None)
            for position, line in enumerate(lines[known:], known):
                reader.take(_parse_body(line, MESSAGES, self.session_id, position), len(line))
            self._size, self._covered = sum(map(len, lines)), sum(map(len, lines[:known]))
            self._loaded = True

        await in_thread(show)
        return self._encoded

    async def keep_index(self, index: bytes, count: int) -> None:
        """Keep an index beside the messages, if these are as many."""
        lines, size = self._encoded.lines[:], self._size
        if count != len(lines):
            return
        row = {**self.row, "body": await in_thread(index_of_rows, self.session_id, lines, index)}

        def kept(_: object) -> None:
            self._covered = size

        await self._hold(lambda transaction: transaction.execute(KEEP_INDEX, row), kept, patient=False)

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages."""
        await self._append(MESSAGES, messages)

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one transaction."""
        await self._append(JOURNAL, entries, verify=verify)

    async def _append(self, table: Table, values: Sequence[object], *, verify: bool = False) -> None:
        lines = [encode_for(f"session '{self.session_id}'", value) for value in values]

        def store(transaction: Transaction) -> None:
            self._compare(transaction, self._lengths if verify else (table,))
            key, start = self.row["key"], self._lengths[table]
            rows = [{"key": key, "position": start + n, "body": line.decode()} for n, line in enumerate(lines)]
            if rows:
                transaction.execute(table.insert, rows)
                transaction.execute(WRITTEN, self.row)

        def count(_: object) -> None:
            self._lengths[table] += len(lines)
            if table is MESSAGES:
                self._encoded.lines.extend(lines)
                self._size += sum(map(len, lines))

        if lines or verify:
            await self._hold(store, count)

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Store these entries instead of the journal, in one transaction."""
        bodies = [encode_for(f"session '{self.session_id}'", entry).decode() for entry in entries]

        def store(transaction: Transaction) -> None:
            self._compare(transaction)
            self._rewriting = True
            transaction.execute(JOURNAL.cut, {**self.row, "length": 0})
            rows = [{"key": self.row["key"], "position": number, "body": body} for number, body in enumerate(bodies)]
            if rows:
                transaction.execute(JOURNAL.insert, rows)

        def count(_: object) -> None:
            self._lengths[JOURNAL] = len(bodies)

        await self._hold(store, count)

    def _compare(self, transaction: Transaction, tables: Iterable[Table] = (MESSAGES, JOURNAL)) -> None:
        for table in tables:
            length = self._lengths[table]
            end = transaction.execute(table.end, self.row).fetchone()[0]
            if end != length:
                problem = f"the {table.name} end at {end}, and {length} were stored by this worker: somebody else changed them"
                raise TranscriptChanged(self.session_id, self._lengths[MESSAGES], problem)

    async def write_view(self, messages: Sequence[Message]) -> None:
        """Do nothing: the view is for readers of files."""

    async def verify(self) -> None:
        """Raise `SessionBusy` when the lease is another's now, and `TranscriptChanged` when rows were added or cut
        off."""
        await self._hold(self._compare)

    async def close(self) -> None:
        """Let the session go. Where the database does not answer, its lease lapses by itself."""
        if self.is_open:
            await run_shielded(self._close)

    async def _close(self) -> None:
        async with self._alone:
            self.is_open = False
            _holders.let_go(self.row["holder"])
            try:
                await self._database.transaction(
                    lambda transaction: transaction.execute(RELEASE, self.row), patient=False
                )
            except StoreError as error:
                logger.warning("session %r is free only when its lease lapses: %s", self.session_id, error)


def read_rows(transaction: Transaction, session_id: str) -> tuple[list[Message], list[Entry]]:
    """Both sequences."""
    lines, journal = read_encoded(transaction, session_id)
    return _parse(lines, MESSAGES, session_id), journal


def read_encoded(transaction: Transaction, session_id: str, page: int = ALL) -> tuple[list[bytes], list[Entry]]:
    """Both sequences, the messages as their JSON. The journal first: the messages that it speaks of were stored before
    it was written. Who does not hold the session reads all at once: of several pages some may be deleted meanwhile."""
    journal = _read_bodies(transaction, session_id, JOURNAL, ALL)
    entries = _parse(journal, JOURNAL, session_id)
    return _read_bodies(transaction, session_id, MESSAGES, page), entries


def _read_bodies(transaction: Transaction, session_id: str, table: Table, page: int) -> list[bytes]:
    lines: list[bytes] = []
    is_end = False
    while not is_end:
        row = {"key": file_name(session_id), "start": len(lines), "limit": page}
        rows = transaction.execute(table.select, row).fetchall()
        lines += _bodies(rows, table, session_id, len(lines))
        is_end = len(rows) < page
    return lines


def _bodies(rows: Sequence[Any], table: Table, session_id: str, start: int) -> list[bytes]:
    for expected, (position, _) in enumerate(rows, start):
        if position != expected:
            where = _place(table, session_id, expected)
            raise StoreError(where, f"this row is missing; the next is {position}. Nothing was changed")
    return [body.encode() for _, body in rows]


def _parse(lines: Sequence[bytes], table: Table, session_id: str) -> list[dict[str, Any]]:
    return [_parse_body(line, table, session_id, position) for position, line in enumerate(lines)]


def _parse_body(line: bytes, table: Table, session_id: str, position: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        where = _place(table, session_id, position)
        raise StoreError(where, f"this row is not JSON: {error}. Nothing was changed") from error
    if not isinstance(value, dict):
        where = _place(table, session_id, position)
        raise StoreError(where, f"this row is a {type(value).__name__}, not an object. Nothing was changed")
    return cast("dict[str, Any]", value)


def _place(table: Table, session_id: str, position: int) -> str:
    return f"session '{session_id}', hooksdk_{table.name}, position {position}"
