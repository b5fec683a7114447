"""A session's messages and calls: what is stored, what the model sees, what still waits for a result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Self, TypeVar, TypeVarTuple

import anyio

from hooksdk import schema
from hooksdk._tasks.background import logger
from hooksdk._tasks.shielding import in_thread, run_shielded
from hooksdk._transcript.encoding import encode, plain_call, plain_result, save_result
from hooksdk._transcript.journal import Entry, Ledger
from hooksdk._transcript.matching import MismatchError, checked, compare, without_repeats
from hooksdk._transcript.storage import SessionLog
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ConfigError, HookSDKError, SessionClosed, StoreError, TranscriptChanged
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format
from hooksdk.tools import Tool

__all__ = ["Conversation"]

T = TypeVar("T")
P = TypeVarTuple("P")


class Conversation:
    """One open session: what is stored and what is pending. Steps that write run one at a time and to their end."""

    def __init__(self, log: SessionLog, session_id: str) -> None:
        self.session_id = session_id
        self.existed = log.existed
        self._log = log
        self._lock = anyio.Lock()
        self._ledger = Ledger(None)
        self._sizes: list[tuple[int, int]] = []
        self._done = False
        self._doubt = False

    @classmethod
    async def open(cls, log: SessionLog, session_id: str) -> Self:
        """Rebuild everything from what is stored. Nothing is written, and queued trims stay queued until a drain."""
        transcript = cls(log, session_id)
        await transcript._load(None)
        return transcript

    async def _load(self, form: MessageFormat | None) -> None:
        messages, journal = await self._log.read()
        named = next((str(entry.get("name")) for entry in journal if entry.get("kind") == "format"), None)
        if form is None and named in FORMATS:
            form = get_format(named)
        try:
            self._ledger = await in_thread(Ledger.replay, messages, journal, form)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            problem = f"the journal cannot be understood ({type(error).__name__}: {error}); nothing was changed"
            raise StoreError(f"session '{self.session_id}'", problem) from error
        self._sizes.clear()
        self._doubt = False

    async def _exclusive(self, step: Callable[[*P], Coroutine[Any, Any, T]], *args: *P) -> T:
        async with self._lock:
            if self._done:
                raise SessionClosed(f"session '{self.session_id}'")
            if self._doubt:
                await run_shielded(self._load, self._ledger.form)
            # Set while a step is under way: one that ends otherwise than by an answer or an error of ours has left us
            # unsure of what was stored, and the next step reads it again.
            self._doubt = True
            try:
                answer = await run_shielded(step, *args)
            except HookSDKError:
                self._doubt = False
                raise
            self._doubt = False
            return answer

    async def _journal(self, *entries: Entry, verify: bool = False) -> None:
        stamp = {"m": len(self._ledger.messages), "time": round(time.time(), 3)}
        stamped = [{**entry, **stamp} for entry in entries]
        await self._log.append_journal(stamped, verify=verify)
        for entry in stamped:
            self._ledger.apply(entry)

    async def _store(self, messages: Sequence[Message]) -> None:
        if messages:
            await self._log.append_messages(messages)
            for message in messages:
                self._ledger.add(message)

    # Messages

    @property
    def format(self) -> MessageFormat | None:
        """The session's message format; None until the first run declares it."""
        return self._ledger.form if self._ledger.format_name else None

    async def use_format(self, form: MessageFormat) -> None:
        """Declare the session's format. It stays the same for good: another one is a `ConfigError`."""
        await self._exclusive(self._use_format, form)

    async def _use_format(self, form: MessageFormat) -> None:
        if (named := self._ledger.format_name) is None:
            await self._journal({"kind": "format", "name": form.name})
        elif named != form.name:
            advice = f"session '{self.session_id}' is kept in '{named}', so '{form.name}' cannot be used"
            raise ConfigError("format", (f"{advice}. Run it with format='{named}', or take another session id",))
        if type(self._ledger.form) is not type(form):
            if self._ledger.messages:
                await self._load(form)
            self._ledger.form = form
        await self._flush()

    @property
    def _form(self) -> MessageFormat:
        if (form := self.format) is None:
            problem = f"session '{self.session_id}' has no message format yet; begin a run with format='...' first"
            raise ConfigError("format", (problem,))
        return form

    @property
    def messages(self) -> list[Message]:
        """The stored messages, whole: fresh copies."""
        return [schema.clone(message) for message in self._ledger.messages]

    def view(self) -> list[Message]:
        """What the model sees: the newest compaction and what came after it, with the applied trims. Fresh copies."""
        return [schema.clone(message) for message in self._ledger.view()]

    def tokens(self) -> int:
        """What the view costs, estimated."""
        return self._measure()[1]

    def characters(self) -> int:
        """How long the view is as compact JSON."""
        return self._measure()[0]

    def _measure(self) -> tuple[int, int]:
        ledger = self._ledger
        self._sizes.extend(_size(message) for message in ledger.messages[len(self._sizes) :])
        shown = {position: _size(message) for position, message in ledger.shown.items()}
        sizes = [shown.get(position, size) for position, size in enumerate(self._sizes) if position >= ledger.upto]
        sizes += [_size(message) for message in ledger.base]
        return sum(size[0] for size in sizes), sum(size[1] for size in sizes)

    async def append(self, messages: Sequence[Message]) -> None:
        """Store messages; durable when this returns. Raises `TranscriptChanged` for one that is not of the format.

        A reply opens its calls; a result answers its call. A result that `answer` recorded already is not stored twice. When
        the conversation goes on although calls are open, these get an error result first: no request may lack one.
        """
        await self._exclusive(self._append, messages, True)

    async def match(self, messages: Sequence[Message]) -> int:
        """Take a message list that the host keeps: it must begin with the view (each message as stored, as shown now, or as
        shown before), and what follows is appended. Answers how many were known. Raises `TranscriptChanged` for anything
        else.
        """
        return await self._exclusive(self._match, messages)

    async def _append(self, messages: Sequence[Message], close: bool) -> None:
        form, start = self._form, len(self._ledger.messages)
        try:
            fresh = [checked(message, form, start + offset) for offset, message in enumerate(messages)]
            await self._flush()
            fresh = without_repeats(fresh, self._ledger, form)
        except MismatchError as error:
            raise TranscriptChanged(self.session_id, error.place, str(error)) from error.__cause__
        if close and fresh and self.pending and not form.results(fresh[0]):
            await self._close_turn("no result: the conversation went on before this call had one")
        await self._store(fresh)
        await self._flush()

    async def _match(self, messages: Sequence[Message]) -> int:
        form = self._form
        await self._flush()
        try:
            known = compare(messages, self._ledger, form)
        except MismatchError as error:
            raise TranscriptChanged(self.session_id, error.place, str(error)) from None
        await self._append(messages[known:], False)
        return known

    # Calls

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """Calls of the newest reply that have no result yet, also after a pause or in another process."""
        return tuple(slot.call for slot in self._ledger.slots if slot.open)

    async def answer(self, call: ToolCall, result: ToolResult, tool: Tool | None) -> None:
        """Record a call's result; durable when this returns. It joins the messages in the order of the calls, as soon as the
        earlier ones have theirs. A call whose reply is not recorded yet waits for it.
        """
        ran = tool.name if tool is not None and tool.name != call.name else ""
        await self._exclusive(self._answer, call, result, tool is not None and tool.disposable, ran)

    async def _answer(self, call: ToolCall, result: ToolResult, disposable: bool, ran: str) -> None:
        result = plain_result(result)
        slot = self._ledger.slot_of(call)
        if slot is None or not self._ledger.completes(slot):
            place = {"reply": self._ledger.last_reply, "order": slot.order if slot else None}
            entry = {"kind": "staged", "call": plain_call(call), **place}
            await self._journal({**entry, "result": save_result(result), "disposable": disposable, "ran": ran})
            return
        written = [found.text for made in self._result_messages([(call, result)]) for found in self._form.results(made)]
        said = None if written == [result.text] else schema.fingerprint(result.text)
        if disposable or ran or said:
            place = {"reply": self._ledger.last_reply, "order": slot.order}
            await self._journal({"kind": "answered", **place, "disposable": disposable, "ran": ran, "said": said})
        slot.take(result, disposable, ran)
        try:
            await self._flush()
        except HookSDKError:
            slot.staged, slot.by_run = None, False
            raise

    async def _flush(self) -> None:
        if self._ledger.form and (due := self._ledger.due()):
            await self._store(self._result_messages([(slot.call, slot.staged) for slot in due if slot.staged]))

    def _result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        made = self._form.result_messages(answered)
        return [json.loads(encode(message)) for message in made]

    async def close_turn(self, text: str) -> int:
        """Give every open call an error result with this text, and store the results that still wait. Answers how many."""
        return await self._exclusive(self._close_turn, text)

    async def _close_turn(self, text: str) -> int:
        ledger = self._ledger
        missing = len(self.pending)
        waiting = [(slot.call, slot.staged or ToolResult.error(text)) for slot in ledger.slots if slot.record is None]
        if waiting:
            await self._store(self._result_messages(waiting))
        if ledger.orphans:
            names = ", ".join(sorted({orphan[0].id for orphan in ledger.orphans}))[:200]
            logger.warning(
                "left out of session %r: results of calls that no recorded reply made (%s)", self.session_id, names
            )
            await self._journal({"kind": "dropped"})
        return missing

    # The end

    async def verify(self) -> None:
        """Raise `TranscriptChanged` when somebody else changed what is stored."""
        await self._exclusive(self._log.verify)

    async def close(self) -> None:
        """Let the session go. Queued trims stay queued."""
        if not self._done:
            self._done = True
            await run_shielded(self._close)

    async def _close(self) -> None:
        async with self._lock:
            await self._log.close()


def _size(message: Message) -> tuple[int, int]:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return len(text), schema.estimate_tokens(text)
