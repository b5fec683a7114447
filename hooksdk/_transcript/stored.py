"""What is stored of one open session, and the steps that write to it: one at a time, each to its end."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, final

import anyio

from hooksdk._tasks.limits import describe
from hooksdk._tasks.shielding import run_shielded
from hooksdk._transcript.encoding import EncodedMessage, as_stored
from hooksdk._transcript.entries import Entry
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.matching import MismatchError
from hooksdk._transcript.reading import keep_index, read_ledger, shorten_journal
from hooksdk._transcript.storage import SessionLog, with_store_errors
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import HookSDKError, SessionClosed, StoreError, TranscriptChanged
from hooksdk.formats import Message, MessageFormat
from hooksdk.tools import Tool

S = TypeVar("S", bound="Stored")
T = TypeVar("T")
P = ParamSpec("P")
MANY_VOID = 2000
"""Entries that later ones make void, after which the journal of an open session is looked through: about as many as make it
worth a new file."""


def alone(
    step: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Let a step that writes run alone and to its end, over what is really stored."""

    @functools.wraps(step)
    async def one_at_a_time(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.take_step(functools.partial(step, self, *args, **kwargs))

    return one_at_a_time


@final
@dataclass
class Unwritten:
    """The records that could not be written, as on a full disk."""

    may_be_full: bool
    """True until it is shown that there is room."""
    failures: int = 0
    """How many they are."""
    problem: str = ""
    """Why the last of them could not be."""
    results: list[tuple[ToolCall, ToolResult, Tool | None, int, str]] = field(
        default_factory=list[tuple[ToolCall, ToolResult, Tool | None, int, str]]
    )
    """The results among them, each with the number of replies at that time, and the effect whose end it tells."""

    @contextmanager
    def watch(self) -> Generator[None]:
        """While a record is written."""
        try:
            yield
        except Exception as error:
            self.failures, self.problem, self.may_be_full = self.failures + 1, describe(error), True
            raise


class Stored:
    """The log of one open session, and the ledger of what is in it."""

    def __init__(self, log: SessionLog, session_id: str) -> None:
        self.session_id = session_id
        self.existed = log.existed
        self.volatile: bool = getattr(log, "volatile", False)
        """True where what is stored ends with the process: a call that begins there is written once it is cut off."""
        self._log = with_store_errors(log, session_id)
        self._lock = anyio.Lock()  # not fast_acquire: each step lets other tasks run
        self._ledger = Ledger(None)
        self._closed = False
        self._replies_before = 0
        """How many replies of the model there were when the session was opened: calls of the newest may have been cut off."""
        self._ended: list[str] = []
        """Effects whose end is to be written with the next entry."""
        self._unconfirmed: set[str] = set()
        """Effects that have ended, and of whose end whoever made the call may not have heard yet."""
        self._void: int = 0
        """Entries that may be void, since the journal was last looked through for them."""
        self._must_reload = False
        """True while a step is under way, and after one that was interrupted: the next one reads the log again first."""
        self.unwritten = Unwritten(may_be_full=log.existed)  # the files of a new session have just been made

    @classmethod
    async def open(cls, log: SessionLog, session_id: str) -> Self:
        """Rebuild everything from what is stored. Queued trims stay queued. A journal that is mostly void is stored anew."""
        stored = cls(log, session_id)
        await run_shielded(shorten_journal, session_id, log, await stored._load(None), stored._ledger)
        stored._replies_before = stored._ledger.replies
        await run_shielded(keep_index, log, stored._ledger)
        return stored

    async def _load(self, message_format: MessageFormat | None) -> list[Entry]:
        self._ledger, journal = await read_ledger(self._log, self.session_id, message_format)
        self._must_reload = False
        return journal

    async def take_step(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a step that writes, once no other does."""
        async with self._lock:
            if self._closed:
                raise SessionClosed(f"session '{self.session_id}'")
            if self._must_reload:
                await run_shielded(self._load, self._ledger.format)
            self._must_reload = True
            try:
                answer = await run_shielded(step)
            except HookSDKError:
                self._must_reload = False
                raise
            except MismatchError as error:
                self._must_reload = False
                raise TranscriptChanged(self.session_id, error.position, str(error)) from error.__cause__
            self._must_reload = False
            return answer

    async def _journal(self, *entries: Entry, verify: bool = False) -> None:
        stamp = {"m": self._ledger.count, "time": round(time.time(), 3)}
        ended = self._ended[:]
        if ended:
            entries = ({"kind": "done", "effects": ended}, *entries)
        stamped = [{**entry, **stamp} for entry in entries]
        with self.unwritten.watch():
            await self._log.append_journal(stamped, verify=verify)
        del self._ended[: len(ended)]
        for entry in stamped:
            self._ledger.apply(entry)

    async def _shorten(self) -> None:
        """Store the journal anew, where it keeps no messages and much of it may be void: such a session may live for weeks."""
        if self._void >= MANY_VOID and not self._ledger.count:
            self._void = 0
            await shorten_journal(self.session_id, self._log, await self._load(self._ledger.format), self._ledger)

    async def _store(self, messages: Sequence[Message]) -> None:
        if messages:
            ready = [each if type(each) is EncodedMessage else as_stored(each) for each in messages]
            with self.unwritten.watch():
                await self._log.append_messages(ready)
            for message in ready:
                self._ledger.add(message)

    async def close(self) -> None:
        """Let the session go. Queued trims stay queued."""
        if not self._closed:
            self._closed = True
            async with self._lock:
                await run_shielded(self._close)

    async def _close(self) -> None:
        try:
            if not self._must_reload:
                if self._ended:
                    with suppress(StoreError):
                        await self._journal()
                await keep_index(self._log, self._ledger)
        finally:
            await self._log.close()
