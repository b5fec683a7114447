"""One session of `JsonlStore`: its two files, and the index of long ones."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, final

import anyio

from hooksdk.errors import StoreError
from hooksdk.formats import Message
from hooksdk.stores._append_file import AppendFile
from hooksdk.stores._lines import is_index_due
from hooksdk.stores.files import replace_file
from hooksdk.stores.locks import Lease
from hooksdk.tasks import in_thread, run_shielded
from hooksdk.transcript import Entry, MessageReader, MessageSource, encode

if TYPE_CHECKING:
    from hooksdk.stores._index import Index

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
P = TypeVarTuple("P")

# The version in the journal's header. A file of a higher version is refused.
VERSION = 1
# The number of sessions that read and write their files at the same time: a thousand sessions need no thousand
# descriptors.
AT_WORK = 64
_workers = threading.BoundedSemaphore(AT_WORK)


def _all_are_free() -> None:
    global _workers  # noqa: PLW0603 - a forked child has none of the threads that were at work
    _workers = threading.BoundedSemaphore(AT_WORK)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_all_are_free)


@final
class JsonlLog:
    """One session's two files. All file work is done in worker threads, one at a time."""

    def __init__(
        self, base: Path, session_id: str, lease: Lease, threads: anyio.CapacityLimiter, *, materialized: bool
    ) -> None:
        self.session_id = session_id
        self.materialized = materialized
        self.token = lease.token
        self._index_path = base.with_name(base.name + ".index")
        # The bytes of the messages that the index covers.
        self._covered = 0
        self._view_path = base.with_name(base.name + ".view.jsonl")
        self._lease = lease
        self._busy = threading.Lock()
        self._threads = threads
        self._first: list[Entry] | None = None
        self._loaded = False
        self.is_open = True
        with _workers:
            self._messages = AppendFile(base.with_name(base.name + ".messages.jsonl"), session_id)
            self._journal = AppendFile(base.with_name(base.name + ".journal.jsonl"), session_id)
            self.existed = self._begin()

    def _begin(self) -> bool:
        """Write the header into a new journal, or one whose header was torn. True for a session that existed."""
        known = with_header(self._journal)
        stored = self._messages.path.stat().st_size > 0
        if stored and not known:
            logger.warning(
                "%s is empty although messages are stored: trims and plugin state are lost", self._journal.path
            )
        if not known:
            self._journal.append([self._header])
        self._first = known[1:]
        return bool(known) or stored

    @property
    def _header(self) -> Entry:
        return {"hooksdk": "journal", "version": VERSION, "session": self.session_id}

    async def _alone(self, work: Callable[[*P], T], *args: *P) -> T:
        def locked() -> T:
            with _workers, self._busy:
                if not self.is_open:
                    raise StoreError(f"session '{self.session_id}'", "it was closed")
                return work(*args)

        return await in_thread(locked, limiter=self._threads)

    async def read(self) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal."""
        return await self._alone(self._read)

    def _read(self) -> tuple[list[Message], list[Entry]]:
        journal = self._journal_again()
        messages = self._messages.read()
        self._loaded = True
        return messages, journal

    def _journal_again(self) -> list[Entry]:
        if self._loaded:
            self._verify()
        first, self._first = self._first, None
        return with_header(self._journal)[1:] if first is None else first

    async def read_lazily(self, reader: MessageReader) -> MessageSource:
        """Show the journal and the messages to a reader. Messages that an index covers are only hashed."""
        return await self._alone(self._read_lazily, reader)

    def _read_lazily(self, reader: MessageReader) -> MessageSource:
        journal = self._journal_again()
        index = self._read_index()
        if index and not self._messages.begin(index.covered):
            index = None
        known = reader.begin(journal, index.note if index else None)
        if index and known == len(index.covered.lines):
            self._covered = index.covered.size
        else:
            self._covered = 0
            self._messages.begin(None)
            reader.begin(journal, None)
        self._messages.scan(reader.take)
        self._loaded = True
        return self._messages.stored()

    def _read_index(self) -> Index | None:
        if not self._index_path.exists():
            return None
        from hooksdk.stores._index import read_index  # most sessions are short, and have none

        return read_index(self._index_path, self.session_id)

    @property
    def index_is_due(self) -> bool:
        """True if the next opening would have to read much."""
        return self._loaded and is_index_due(self._messages.size, self._covered)

    async def keep_index(self, index: bytes, count: int) -> None:
        """Write an index beside the messages, if it is about all of them."""
        await self._alone(self._keep_index, index, count)

    def _keep_index(self, note: bytes, count: int) -> None:
        self._lease.check(self.session_id)
        covered = self._messages.covered()
        if covered is not None and len(covered.lines) == count:
            from hooksdk.stores._index import Index, write_index

            write_index(self._index_path, self.session_id, Index(covered, note))
            self._covered = covered.size

    async def append_messages(self, messages: Sequence[Message]) -> None:
        """Store more messages."""
        await self._alone(self._append, self._messages, messages)

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None:
        """Store more journal entries in one atomic step."""
        await self._alone(self._append, self._journal, entries, verify)

    def _append(self, file: AppendFile, values: Sequence[object], verify: bool = False) -> None:
        if not self._loaded:
            self._read()
        if verify:
            self._verify()
        else:
            self._lease.check(self.session_id)
        file.append(values)

    async def rewrite_journal(self, entries: Sequence[Entry]) -> None:
        """Replace the journal by a new file with these entries."""
        await self._alone(self._rewrite, [self._header, *entries])

    def _rewrite(self, entries: Sequence[Entry]) -> None:
        self._verify()
        self._journal.rewrite(entries)

    async def write_view(self, messages: Sequence[Message]) -> None:
        """Write the view in one step."""
        await self._alone(
            lambda: replace_file(self._view_path, b"".join(encode(message) + b"\n" for message in messages))
        )

    async def verify(self) -> None:
        """Raise `TranscriptChanged` if somebody else changed one of the files."""
        await self._alone(self._verify)

    def _verify(self) -> None:
        self._lease.check(self.session_id)
        self._messages.verify()
        self._journal.verify()

    async def close(self) -> None:
        """Let the session go."""
        if self.is_open:
            await run_shielded(self._close)

    async def _close(self) -> None:
        await in_thread(self.release, limiter=self._threads)

    def release(self) -> None:
        """`close`, for code that cannot await."""
        with self._busy:
            if self.is_open:
                self.is_open = False
                self._lease.release()


def with_header(journal: AppendFile) -> list[Entry]:
    """All entries of a journal, its header first; none before the header is written."""
    entries = journal.read()
    if entries:
        header = entries[0]
        if header.get("hooksdk") != "journal" or not isinstance(header.get("version"), int):
            raise StoreError(f"{journal.path}, line 1", "this is not the header of a journal. Nothing was changed")
        if header["version"] > VERSION:
            problem = f"it was written by a newer hooksdk (version {header['version']}). Nothing was changed"
            raise StoreError(str(journal.path), problem)
        if header.get("session") != journal.session_id:
            raise StoreError(str(journal.path), "it belongs to another session. Nothing was changed")
    return entries
