"""A session's transcript: what is stored, what the model sees of it, and the trims between the two.

The stored truth is two sequences that only grow: messages, in the host's own format, and journal entries. The model's view is a
pure function of both (`_journal.py`), so nothing stored is ever rewritten and every trim can be taken back. Messages and calls
are in `_conversation.py`, trims and the fence here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, final

from hooksdk import schema
from hooksdk._tasks.background import logger
from hooksdk._transcript.conversation import Conversation
from hooksdk._transcript.encoding import encode
from hooksdk._transcript.journal import Entry, Record, view
from hooksdk._transcript.matching import MismatchError, checked, same
from hooksdk._transcript.storage import SessionLog, Store
from hooksdk._transcript.trims import DrainedTrim, DrainReport, clean, head, resolve, short_form
from hooksdk.calls import ResultInfo, Results, TrimReceipt
from hooksdk.errors import FenceClosed, StoreError, TranscriptChanged
from hooksdk.formats import Message

__all__ = [
    "DrainReport",
    "DrainedTrim",
    "Message",
    "SessionLog",
    "Store",
    "Transcript",
    "TranscriptEditor",
    "view",
]


@final
class Transcript(Conversation):
    """One open session's messages, journal and view. Steps that write run one at a time and to their end."""

    closed = False
    """The fence: True while a run is open, so that nobody edits the transcript."""

    # Results and trims

    @property
    def queued(self) -> int:
        """How many trims and restores wait for the drain."""
        return len(self._ledger.queue)

    def results(self, owner: str, *, refused: Exception | None = None) -> Results:
        """The tool results, as a plugin may read and trim them; its id goes into the journal. `refused` is raised when it
        asks for a trim that could never be drained.
        """
        return _OwnedResults(self, owner, refused)

    def list_results(self) -> list[ResultInfo]:
        """All results, oldest first, without their bodies."""
        return [self._ledger.info(record) for record in self._ledger.records]

    def read_result(self, reference: str) -> str:
        """The original text of a result."""
        return self._ledger.body(self._find(reference)).text

    def _find(self, reference: str) -> Record:
        ledger = self._ledger
        number = resolve(reference, ledger.handles, ledger.by_id, lambda number: ledger.records[number].tool or "?")
        return ledger.records[number]

    async def trim_result(self, owner: str, reference: str, replacement: str | None, reason: str) -> TrimReceipt:
        """Queue one trim; durable when this returns. One that is refused answers `not_trimmed`, with the reason as text."""
        return await self._exclusive(self._trim, owner, reference, replacement, reason)

    async def _trim(self, owner: str, reference: str, replacement: str | None, reason: str) -> TrimReceipt:
        ledger, form = self._ledger, self._form
        record = self._find(reference)
        before = record.characters
        if record.trimmed:
            text = record.queued["text"] if record.queued else record.shown or ""
            status = "already_queued" if record.queued else "already_trimmed"
            return _receipt(record, status, before, text)
        text, problem = None, ledger.why_not(record)
        if problem is None:
            message = ledger.messages[record.position]
            length = len(encode(message))
            start = head(record.handle, record.tool, before, record.is_error)
            text = short_form(
                start, replacement, before, lambda text: len(encode(form.replace(message, record.index, text))) < length
            )
        if text is None:
            refusal = (
                f"{record.handle} cannot be trimmed: {problem or 'too short: the note in its place would be as long'}"
            )
            return TrimReceipt(
                handle=record.handle,
                status="not_trimmed",
                characters_before=before,
                characters_after=before,
                text=refusal,
            )
        await self._queue("trim", record, owner, clean(reason, 500), text=text)
        return _receipt(record, "queued", before, text)

    async def restore_result(self, owner: str, reference: str) -> TrimReceipt:
        """Queue the end of a trim; durable when this returns."""
        return await self._exclusive(self._restore, owner, reference)

    async def _restore(self, owner: str, reference: str) -> TrimReceipt:
        record = self._find(reference)
        text = self._ledger.body(record).text
        if not record.trimmed:
            return _receipt(record, "already_queued" if record.queued else "not_trimmed", record.characters, text)
        before = len(record.queued["text"] if record.queued else record.shown or "")
        await self._queue("restore", record, owner, "")
        return _receipt(record, "queued", before, text)

    async def _queue(self, kind: str, record: Record, owner: str, reason: str, **more: str) -> None:
        asked: Entry = {
            "kind": kind,
            "n": self._ledger.trims,
            "handle": record.handle,
            "at": self._ledger.address(record),
        }
        await self._journal({**asked, "owner": owner, "reason": reason, **more})

    async def drain(self) -> DrainReport:
        """Apply everything queued in one atomic step. Doing it again changes nothing. Raises `TranscriptChanged` when
        somebody else changed what is stored; the queue is kept then.
        """
        return await self._exclusive(self._drain)

    async def _drain(self) -> DrainReport:
        judged = self._ledger.judge() if self._ledger.form else {}
        if judged:
            done = [[n, trim.status] for n, trim in judged.items()]
            await self._journal({"kind": "drain", "done": done}, verify=True)
        await self._publish()
        return DrainReport(tuple(judged.values()))

    async def _publish(self) -> None:
        if self._log.materialized and self._ledger.form:
            try:
                await self._log.write_view(self._ledger.view())
            except StoreError as error:
                logger.warning("the view of session %r could not be written: %s", self.session_id, error)

    async def compact(self, messages: Sequence[Message]) -> None:
        """Let the view begin with these messages. What is stored stays whole; results that they stand for are gone for
        trims. Messages at their end that the view ends with as well count as kept, so their results stay trimmable.
        """
        await self._exclusive(self._compact, messages)

    async def _compact(self, messages: Sequence[Message]) -> None:
        ledger, form = self._ledger, self._form
        try:
            base = [checked(message, form, place) for place, message in enumerate(messages)]
        except MismatchError as error:
            raise TranscriptChanged(self.session_id, error.place, str(error)) from error.__cause__
        later = ledger.view()[len(ledger.base) :]
        kept = 0
        while kept < min(len(base), len(later)) and same(base[-1 - kept], later[-1 - kept]):
            kept += 1
        upto = len(ledger.messages) - kept
        await self._journal({"kind": "compact", "base": base[: len(base) - kept], "upto": upto})
        await self._publish()

    # Plugin state, fence, end

    def state(self, plugin: str) -> dict[str, Any]:
        """What a plugin keeps in this session: a fresh copy."""
        return schema.clone(self._ledger.states.get(plugin, {}))

    async def save_state(self, plugin: str, state: dict[str, Any]) -> None:
        """Keep a plugin's state, if it changed; durable when this returns."""
        await self._exclusive(self._save_state, plugin, state)

    async def _save_state(self, plugin: str, state: dict[str, Any]) -> None:
        try:
            fresh = json.loads(encode(schema.clone(state)))
        except (ValueError, TypeError) as error:
            raise StoreError(f"state of plugin '{plugin}'", f"this is not JSON: {error}") from error
        if not same(fresh, self._ledger.states.get(plugin, {})):
            await self._journal({"kind": "state", "plugin": plugin, "state": fresh})

    def close_fence(self) -> None:
        """A run begins: no edits."""
        self.closed = True

    def open_fence(self) -> None:
        """The run is over: edits are possible."""
        self.closed = False


@final
class _OwnedResults:
    """`Results` for one plugin."""

    def __init__(self, transcript: Transcript, owner: str, refused: Exception | None) -> None:
        self._transcript = transcript
        self._owner = owner
        self._refused = refused

    def list(self) -> Sequence[ResultInfo]:
        return self._transcript.list_results()

    def read(self, reference: str) -> str:
        if self._refused:
            raise self._refused
        return self._transcript.read_result(reference)

    async def trim(self, reference: str, replacement: str | None = None, *, reason: str = "") -> TrimReceipt:
        if self._refused:
            raise self._refused
        return await self._transcript.trim_result(self._owner, reference, replacement, reason)

    async def restore(self, reference: str) -> TrimReceipt:
        if self._refused:
            raise self._refused
        return await self._transcript.restore_result(self._owner, reference)


@final
class TranscriptEditor:
    """What an `agent_end` handler may do with the transcript. Everything raises `FenceClosed` while a run is open."""

    def __init__(self, transcript: Transcript, owner: str = "agent_end") -> None:
        self._transcript = transcript
        self._results = transcript.results(owner)

    def _check(self) -> None:
        if self._transcript.closed:
            raise FenceClosed(self._transcript.session_id)

    def messages(self) -> list[Message]:
        """The stored messages, whole: fresh copies."""
        self._check()
        return self._transcript.messages

    @property
    def results(self) -> Results:
        """The tool results."""
        self._check()
        return self._results

    async def trim(self, reference: str, replacement: str | None = None, *, reason: str = "") -> TrimReceipt:
        """Queue one trim; it is applied in the drain that follows."""
        self._check()
        return await self._results.trim(reference, replacement, reason=reason)

    async def restore(self, reference: str) -> TrimReceipt:
        """Queue the end of one trim."""
        self._check()
        return await self._results.restore(reference)


def _receipt(
    record: Record,
    status: Literal["queued", "already_queued", "already_trimmed", "not_trimmed"],
    before: int,
    text: str,
) -> TrimReceipt:
    return TrimReceipt(
        handle=record.handle, status=status, characters_before=before, characters_after=len(text), text=text
    )
