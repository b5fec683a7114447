"""One open session as it is stored: its log, the ledger of what is in the log, and the steps that write to it.

A step runs alone and to its end, whoever cancels the caller, so the ledger in memory never falls behind the log.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, final

import anyio

from hooksdk import schema
from hooksdk._tasks.limits import describe, run_shielded
from hooksdk._transcript.changes import change_of
from hooksdk._transcript.effects import Begun
from hooksdk._transcript.encoding import EncodedMessage, Entry, as_stored, encode_for
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.pairing import MismatchError
from hooksdk._transcript.reading import MANY_VOID, keep_state, read_ledger, shorten_journal
from hooksdk._transcript.storage import RowLog, SessionLog, as_store_errors
from hooksdk.calls import CallInDoubt, ToolCall, ToolResult
from hooksdk.errors import HookSDKError, SessionClosed, StoreError, TranscriptChanged
from hooksdk.formats import Message, MessageFormat
from hooksdk.tools import Tool

S = TypeVar("S", bound="Stored")
T = TypeVar("T")
P = ParamSpec("P")


def alone(
    step: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Run a step that writes alone and to its end, on a ledger that agrees with the log."""

    @functools.wraps(step)
    async def one_at_a_time(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.take_step(functools.partial(step, self, *args, **kwargs))

    return one_at_a_time


@final
@dataclass
class Unwritten:
    """The records that could not be written, as on a full disk.

    Attributes:
        may_be_full: True until a record has been written: the disk may be full.
        failures: The number of records that could not be written.
        problem: The reason for the last of them.
        results: The results among them, each with the number of replies at that time and the id of the effect that it
            ends.
    """

    may_be_full: bool
    failures: int = 0
    problem: str = ""
    results: list[tuple[ToolCall, ToolResult, Tool | None, int, str]] = field(
        default_factory=list[tuple[ToolCall, ToolResult, Tool | None, int, str]]
    )

    @contextmanager
    def watch(self) -> Generator[None]:
        """Count a record as unwritten where the block raises."""
        try:
            yield
        except Exception as error:
            self.failures, self.problem, self.may_be_full = self.failures + 1, describe(error), True
            raise


@final
@dataclass
class _Commit:
    """The beginnings of several calls, stored in one step: they come in while another step is under way."""

    entries: list[Entry] = field(default_factory=list[Entry])
    is_stored: bool = False
    error: Exception | None = None


class Stored:
    """The log of one open session, the ledger of what is in it, and which calls have begun.

    Attributes:
        volatile: True where the store loses everything when the process ends: a call's beginning is written only when
            the call is cut off.
    """

    def __init__(self, log: SessionLog, session_id: str) -> None:
        self.session_id = session_id
        self.existed = log.existed
        self.volatile: bool = getattr(log, "volatile", False)
        self._log = log
        self._row_log = log if isinstance(log, RowLog) else None  # asked once: each look at a protocol takes a while
        self._where = f"session '{session_id}'"
        self._lock = anyio.Lock()  # not fast_acquire: each step lets other tasks run
        self._ledger = Ledger(None)
        self._closed = False
        # The number of the model's replies when the session was opened: calls of the newest may have been cut off.
        self._replies_before = 0
        # The effects whose end is written with the next entry.
        self._ended: list[str] = []
        # The effects that have ended before their caller has confirmed it.
        self._unconfirmed: set[str] = set()
        self._next_commit: _Commit | None = None
        # True during a step and after an interrupted one: the next step reads the log again first.
        self._must_reload = False
        self.unwritten = Unwritten(may_be_full=log.existed)  # the files of a new session have just been made

    @classmethod
    async def open(cls, log: SessionLog, session_id: str) -> Self:
        """Rebuild the ledger from the log. Queued trims stay queued. A journal that is mostly void is stored anew."""
        stored = cls(log, session_id)
        await run_shielded(shorten_journal, session_id, log, await stored._load(None), stored._ledger)
        stored._replies_before = stored._ledger.replies
        await run_shielded(keep_state, stored._row_log, stored._ledger)
        return stored

    async def _load(self, message_format: MessageFormat | None, *, whole: bool = False) -> list[Entry] | None:
        self._ledger, journal = await read_ledger(self._log, self.session_id, message_format, whole=whole)
        self._ledger.effects.end(self._ended)
        self._must_reload = False
        return journal

    async def take_step(self, step: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a step that writes once no other step runs."""
        async with self._lock:
            if self._closed:
                raise SessionClosed(self._where)
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

    async def _write(self, writing: Awaitable[None]) -> None:
        try:  # context managers around each write would cost more than some writes do
            await writing
        except Exception:
            with self.unwritten.watch(), as_store_errors(self._where):
                raise

    async def _journal(self, *entries: Entry, verify: bool = False) -> None:
        stamp = {"m": self._ledger.count, "time": round(time.time(), 3)}
        ended = self._ended[:]
        if ended:
            entries = ({"kind": "done", "effects": ended}, *entries)
        stamped = [{**entry, **stamp} for entry in entries]
        await self._write(self._log.append_journal(stamped, verify=verify))
        del self._ended[: len(ended)]
        for entry in stamped:
            self._ledger.apply(entry)

    async def _shorten(self) -> None:
        """Store a long journal without its void entries, in a session that keeps no messages: it may live for weeks."""
        if self._ledger.void >= MANY_VOID and not self._ledger.count:
            await shorten_journal(
                self.session_id, self._log, await self._load(self._ledger.format, whole=True), self._ledger
            )

    async def _store(self, messages: Sequence[Message]) -> None:
        if messages:
            ready = [each if type(each) is EncodedMessage else as_stored(each) for each in messages]
            await self._write(self._log.append_messages(ready))
            for message in ready:
                self._ledger.add(message)
            if self._row_log is not None:
                await keep_state(self._row_log, self._ledger)

    # Calls that may take effect, between their judgement and their result

    async def begin(self, entry: Entry) -> None:
        """Record that a call begins; durable when this returns. Calls that begin at the same time share one step of the
        store. Raises what the store raises: then nothing is stored, and the call must not run."""
        commit = self._next_commit = self._next_commit or _Commit()
        commit.entries.append({"kind": "began", **entry})
        await self._store_commit(commit)
        if commit.error is not None:
            raise StoreError(self._where, str(commit.error)) from commit.error

    @alone
    async def _store_commit(self, commit: _Commit) -> None:
        if commit.is_stored or commit.error is not None:  # with another call's
            return
        self._next_commit = None
        try:
            await self._journal(*commit.entries)
        except Exception as error:
            commit.error = error
            raise
        commit.is_stored = True
        self._ledger.void += len(commit.entries)
        await self._shorten()

    def end(self, effect_id: str, *, confirmed: bool = True) -> None:
        """Note that a call has ended without a result among the messages. The note is written with the next entry once
        its caller has `confirmed` the end; a process that dies before that leaves the call in doubt."""
        if effect_id in self._ledger.effects.begun:
            if confirmed:
                self._ledger.effects.end([effect_id])
                self._ended.append(effect_id)
            else:
                self._unconfirmed.add(effect_id)

    def confirm(self, effect_id: str, *, arrived: bool) -> None:
        """Confirm an unconfirmed end, or leave the call in doubt where the result has not `arrived`. Any other effect
        is left as it is."""
        if effect_id in self._unconfirmed:
            self._unconfirmed.remove(effect_id)
            if arrived:
                self.end(effect_id)

    def end_run(self) -> None:
        """Leave unconfirmed calls in doubt: after the run nobody confirms them."""
        self._unconfirmed.clear()

    @property
    def unconfirmed(self) -> frozenset[str]:
        """The effect ids of calls that have ended before their caller has confirmed it."""
        return frozenset(self._unconfirmed)

    @alone
    async def write_ended(self) -> None:
        """Write the ends that wait for the next entry, where no entry is to come."""
        if self._ended:
            await self._journal()
            await self._shorten()

    async def doubt(self, effect_id: str) -> None:
        """Record that nobody will know how a call has ended."""
        if (call := self._ledger.effects.begun.get(effect_id)) is not None:
            await self._doubt_alone([call])

    async def _doubt(self, calls: Sequence[Begun]) -> None:
        if calls:
            await self._journal({"kind": "doubt", "effects": [call.effect_id for call in calls]})

    _doubt_alone = alone(_doubt)

    @property
    def without_end(self) -> list[CallInDoubt]:
        """The calls that have begun and not ended, running ones among them; the oldest first."""
        effects = self._ledger.effects
        return effects.described() if effects.begun else []

    @property
    def lost(self) -> list[CallInDoubt]:
        """The calls that have ended, and whose reply the conversation has lost."""
        return [call.described(lost=True) for call in self._ledger.effects.lost.values()]

    @property
    def doubted(self) -> frozenset[str]:
        """The effect ids of calls that get no result of their own any more."""
        return frozenset(effect_id for effect_id, call in self._ledger.effects.begun.items() if call.in_doubt)

    def forget_ended(self, run_id: str) -> None:
        """Forget the ended calls of a run that has handed on its answer; written with the next entry, or when the
        session closes. Calls that the conversation had lost before the run stay."""
        effects = self._ledger.effects
        effects.sweep()
        replies = self._ledger.replies  # a host that records no replies has no conversation that could lose one
        is_known = {
            effect
            for effect, call in effects.lost.items()
            if call.entry["run"] == run_id or (call.reply or 0) > replies
        }
        ended = [*effects.over, *is_known]
        effects.end(ended)
        self._ended += ended

    # Plugin state

    def state(self, plugin: str) -> dict[str, Any]:
        """What a plugin keeps in this session: a fresh copy."""
        return schema.clone(self._ledger.states.get(plugin, {}))

    @alone
    async def save_state(self, plugin: str, state: dict[str, Any]) -> None:
        """Keep a plugin's state, if it changed; durable when this returns."""
        fresh = json.loads(encode_for(f"state of plugin '{plugin}'", state))
        change = change_of(self._ledger.states.get(plugin, {}), fresh)
        if change is not None:
            await self._journal({"kind": "state", "plugin": plugin, "change": change})
            self._ledger.void += 1
        await self._shorten()

    # The end

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
                await keep_state(self._row_log, self._ledger)
        finally:
            with as_store_errors(self._where):
                await self._log.close()
