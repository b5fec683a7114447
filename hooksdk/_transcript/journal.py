"""A session's state, computed from its messages and its journal. Pure: no file, no clock, nothing awaited; the same input
gives the same bytes.

Both sequences only ever grow. Every journal entry says in `m` how many messages were stored when it was written, so a replay
applies both in their original order, and a ledger that is rebuilt equals the one that was in memory.

| kind | fields |
|---|---|
| format | name |
| staged | call `[id, name, arguments]`, reply and order (which call; order null: not recorded yet), result, disposable, ran (the real tool, where the call names a bridge), said (`answer_hash`, once the result is among the messages and its text was left out here) |
| answered | reply, order, disposable, ran, said (`answer_hash`, if the message reads otherwise): the message follows |
| dropped | staged results whose calls were never recorded are given up |
| trim, restore | n, handle, at `{position, call_id, occurrence, hash}`, text (of a trim), owner, reason |
| drain | done `[[n, status], ...]`: one entry applies everything that was queued |
| compact | base (messages, and positions of stored ones that stay), upto (stored messages that the base stands for), hash (of the last of these) |
| state | plugin, change (`changes.py`: what is new in it), or state (the whole of it) |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hooksdk import schema
from hooksdk._tasks.background import logger
from hooksdk._transcript.changes import changed
from hooksdk._transcript.encoding import load_result, request_of, summary_of
from hooksdk._transcript.entries import Entry, Record, Slot
from hooksdk._transcript.loose_ends import LooseEnds
from hooksdk._transcript.trims import TOO_SHORT, DrainedTrim, TrimStatus, saves_enough
from hooksdk.calls import ResultInfo, ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats._content import size_of
from hooksdk.formats._shared import identified

Orphan = tuple[ToolCall, ToolResult, bool, str, str | None]
"""A result whose call is not recorded yet: disposable, the real tool's name, and the hash of the text that was answered."""


class Ledger:
    """The state computed from messages and journal entries. Without a format it keeps messages and plugin state only."""

    def __init__(self, message_format: MessageFormat | None) -> None:
        self.format = message_format
        self.format_name: str | None = None
        self.messages: list[Message] = []
        self.records: list[Record] = []
        self.by_id: dict[str, list[Record]] = {}
        self.by_handle: dict[str, Record] = {}
        self.slots: list[Slot] = []
        self.orphans: list[Orphan] = []
        self.queue: dict[int, tuple[Entry, Record | None]] = {}
        self.trim_count = 0
        self.base: list[Message | int] = []
        """What a compaction put in the place of the first `upto` messages: its own, and the positions of stored ones."""
        self.upto = 0
        self._kept_by_compaction: frozenset[int] = frozenset()
        self.trimmed_messages: dict[int, Message] = {}
        """By position: what stands in the view instead."""
        self.tokens_at: dict[int, int] = {}
        """By position: the size of what stands in the view, once somebody asked for it."""
        self.shown_before: dict[int, set[str]] = {}
        """By position: the fingerprints of everything that ever stood in the view."""
        self.states: dict[str, dict[str, Any]] = {}
        self._loose_ends = LooseEnds()
        self.replies = 0
        self.last_reply = -1
        self.first_user: int | None = None
        self._calls: dict[str, ToolCall] = {}
        self._in_message: dict[int, list[Record]] = {}
        self._unknown: set[str] = set()
        self._read_results: tuple[int, list[FoundResult]] = (-1, [])
        """The position of the message whose results were read last, and these."""

    @classmethod
    def replay(
        cls, messages: Sequence[Message], journal: Iterable[Entry], message_format: MessageFormat | None
    ) -> Ledger:
        """The ledger of stored messages and journal entries."""
        ledger = cls(message_format)
        most = 0
        for entry in journal:
            most = max(most, int(entry.get("m", 0)))
            for message in messages[len(ledger.messages) : int(entry.get("m", 0))]:
                ledger.add(message)
            ledger.apply(entry)
        for message in messages[len(ledger.messages) :]:
            ledger.add(message)
        if most > len(messages):
            problem = "the journal was written when %d messages were stored, and now there are %d: what it says of lost ones is left out"
            logger.warning(problem, most, len(messages))
        return ledger

    # Messages

    def add(self, message: Message) -> None:
        """One more stored message."""
        position = len(self.messages)
        self.messages.append(message)
        if self.format is None:
            return
        self._loose_ends.add(position, message, self.format)
        results = self.format.results(message)
        if self.format.is_reply(message):
            if not self.reply_goes_on(position):
                self.replies += 1
                self.last_reply = position
                self.slots = []
            self.slots += [Slot(call, order) for order, call in enumerate(self.format.calls(message), len(self.slots))]
            self._calls.update({slot.call.id: slot.call for slot in self.slots})
            self.orphans = [orphan for orphan in self.orphans if not self._adopt(orphan)]
        elif self.first_user is None and not results and message.get("role", "user") == "user":
            self.first_user = position
        if results:
            for result in identified(results, (slot.call for slot in self.slots if slot.record is None)):
                self._add_result(position, result)

    def reply_goes_on(self, count: int | None = None) -> bool:
        """True when a reply after the first `count` messages (None: after all) is a part of the reply before it."""
        count = len(self.messages) if count is None else count
        message_format = self.need_format()
        return message_format.joined and count > self.upto and message_format.is_reply(self.messages[count - 1])

    @property
    def ends_with_reply(self) -> bool:
        """True when the view ends with a reply whose calls have their results, or with one that made none."""
        places = self.base if len(self.messages) == self.upto else [len(self.messages) - 1]
        if not places or not all(slot.record for slot in self.slots):
            return False
        message = self.messages[places[-1]] if isinstance(places[-1], int) else places[-1]
        return self.need_format().is_reply(message)

    def leaves_turn(self, message: Message) -> bool:
        """True for a message that is no result and no part of the newest reply."""
        if self.need_format().is_reply(message):
            return not self.reply_goes_on()
        return not self.need_format().results(message)

    def _add_result(self, position: int, result: FoundResult) -> None:
        slot = next((slot for slot in self.slots if slot.record is None and slot.call.id == result.call_id), None)
        same_id = self.by_id.setdefault(result.call_id, [])
        size = size_of(result.content)
        record = Record(
            handle=f"r{len(self.records) + 1}",
            position=position,
            index=result.index,
            occurrence=len(same_id),
            call_id=result.call_id,
            characters=size.characters,
            tokens=size.tokens,
            is_error=result.is_error,
            refusal=result.why_not,
            turn=self.replies,
            call=slot.call if slot else self._calls.get(result.call_id),
        )
        if slot:
            slot.record, record.answer_hash = record, slot.answer_hash
            record.disposable, record.ran = slot.disposable, slot.ran
        same_id.append(record)
        self.by_handle[record.handle] = record
        self.records.append(record)
        self._in_message.setdefault(position, []).append(record)

    # Calls

    def slot_of(self, call: ToolCall) -> Slot | None:
        """The unanswered slot of the newest reply that this call fills. Ids repeat, even in one reply: then name and arguments
        decide, then the order.
        """
        same_id = [slot for slot in self.slots if slot.open and slot.call.id == call.id]
        if len(same_id) > 1:
            request = request_of(call)
            same_id.sort(key=lambda slot: (request_of(slot.call) != request, slot.call.name != call.name, slot.order))
        return same_id[0] if same_id else None

    def completes(self, slot: Slot) -> bool:
        """True when this call's result may be appended at once, given the answers that are there already."""
        earlier = self.slots if self.format and self.format.grouped else self.slots[: slot.order]
        return all(each is slot or not each.open for each in earlier)

    def due(self) -> list[Slot]:
        """Answered calls whose results may be appended now: in the order of the calls, all together where the format
        wants one message for all.
        """
        ready: list[Slot] = []
        for slot in self.slots:
            if slot.record is None:
                if slot.staged is None:
                    return [] if self.need_format().grouped else ready
                ready.append(slot)
        return ready

    def _adopt(self, orphan: Orphan) -> bool:
        slot = self.slot_of(orphan[0])
        if slot:
            slot.take(*orphan[1:])
        return slot is not None

    # The journal

    def apply(self, entry: Entry) -> None:
        """One more journal entry. Kinds that a newer version writes are left alone."""
        step = getattr(self, f"_apply_{entry.get('kind')}", None)
        if step is not None:
            step(entry)
        elif (kind := str(entry.get("kind"))) not in self._unknown:
            self._unknown.add(kind)
            logger.warning("journal entries of kind %r are unknown to this version: kept, not used", kind[:80])

    def _apply_format(self, entry: Entry) -> None:
        self.format_name = self.format_name or str(entry["name"])

    def _apply_state(self, entry: Entry) -> None:
        name = entry["plugin"]
        self.states[name] = entry["state"] if "state" in entry else changed(self.states.get(name, {}), entry["change"])

    def _slot_at(self, entry: Entry) -> Slot | None:
        reply, order = int(entry["reply"]), int(entry["order"])
        return self.slots[order] if reply == self.last_reply and order < len(self.slots) else None

    def _apply_staged(self, entry: Entry) -> None:
        call_id, name, arguments = entry["call"]
        result, disposable, ran = load_result(entry["result"]), bool(entry["disposable"]), str(entry.get("ran", ""))
        said: str | None = entry.get("said")
        if entry["order"] is None:
            self.orphans.append((ToolCall(call_id, name, arguments), result, disposable, ran, said))
        elif (slot := self._slot_at(entry)) and slot.call.id == call_id:
            slot.take(result, disposable, ran, said)

    def _apply_answered(self, entry: Entry) -> None:
        if slot := self._slot_at(entry):
            slot.disposable, slot.answer_hash = bool(entry["disposable"]), entry.get("said")
            slot.ran = str(entry.get("ran", ""))

    def _apply_dropped(self, _entry: Entry) -> None:
        self.orphans.clear()

    def _apply_trim(self, entry: Entry) -> None:
        n, record = int(entry["n"]), self._addressed(entry["at"])
        self.trim_count = max(self.trim_count, n + 1)
        self.queue[n] = entry, record
        if record:
            record.queued_entry, record.missed_trim = entry, None

    _apply_restore = _apply_trim

    def _apply_drain(self, entry: Entry) -> None:
        changed: set[int] = set()
        for n, status in entry["done"]:
            request, record = self.queue.pop(n, ({}, None))
            if by_name := record or self.by_handle.get(str(request.get("handle"))):
                by_name.missed_trim = status if status in {"stale", "gone"} else None
            if record is None:
                continue
            if record.queued_entry is request:
                record.queued_entry = None
            if status == "applied":
                record.short_text = request["text"] if request["kind"] == "trim" else None
                changed.add(record.position)
        for position in changed:
            self._show(position)

    def _show(self, position: int) -> None:
        message = self.messages[position]
        for record in self.records_at(position):
            if record.short_text is not None:
                message = self.need_format().replace(message, record.index, record.short_text)
        self.trimmed_messages[position] = message
        self.tokens_at.pop(position, None)
        self.shown_before.setdefault(position, set()).add(schema.fingerprint(message))

    def _apply_compact(self, entry: Entry) -> None:
        upto = int(entry["upto"])
        # Messages may have been lost since, by hand or by a backup: then nothing that is still there may be hidden.
        if "hash" not in entry or self.last_hash(upto) == entry["hash"]:
            self.base, self.upto = entry["base"], min(upto, len(self.messages))
            self._kept_by_compaction = frozenset(place for place in self.base if isinstance(place, int))
        else:
            logger.warning(
                "a compaction of %d messages is left out: the last of them is not stored there any more", upto
            )

    def last_hash(self, count: int) -> str | None:
        """What the last of the first `count` stored messages is told by; None where there is none."""
        return schema.fingerprint(self.messages[count - 1]) if 0 < count <= len(self.messages) else None

    # Results

    def need_format(self) -> MessageFormat:
        """The format, where there are results: without one none is ever added."""
        assert self.format is not None
        return self.format

    def body(self, record: Record) -> FoundResult:
        """The stored result itself."""
        if self._read_results[0] != record.position:  # one message may hold hundreds of results
            self._read_results = record.position, self.need_format().results(self.messages[record.position])
        return self._read_results[1][record.index]

    def address(self, record: Record) -> dict[str, Any]:
        """Where a result is and what it holds. The call id alone would not do: ids repeat."""
        if record.content_hash is None:
            record.content_hash = schema.fingerprint(self.body(record).content)
        place: dict[str, Any] = {"position": record.position, "call_id": record.call_id}
        return {**place, "occurrence": record.occurrence, "hash": record.content_hash}

    def _addressed(self, address: dict[str, Any]) -> Record | None:
        """The result that a trim was made for, if it still stands there with the same content."""
        same_id, occurrence = self.by_id.get(str(address["call_id"]), []), int(address["occurrence"])
        record = same_id[occurrence] if occurrence < len(same_id) else None
        return record if record and self.address(record) == address else None

    def records_at(self, position: int) -> list[Record]:
        """The results of one stored message, in order."""
        return self._in_message.get(position, [])

    def judge(self) -> dict[int, DrainedTrim]:
        """What a drain would do with everything queued, in order. Changes nothing."""
        texts: dict[str, str | None] = {}
        judged: dict[int, DrainedTrim] = {}
        for n, (entry, record) in self.queue.items():
            text = entry.get("text")
            now = texts.get(record.handle, record.short_text) if record else None
            status: TrimStatus = "applied"
            saved = 0
            if record is None:
                status = "stale"
            elif self._is_gone(record):
                status = "gone"
            elif (now is None) == (text is None):
                status = "not_trimmed" if text is None else "already_trimmed"
            else:
                texts[record.handle] = text
                sizes = [record.tokens if each is None else schema.estimate_tokens(each) for each in (now, text)]
                saved = sizes[0] - sizes[1]
            judged[n] = DrainedTrim(
                handle=entry["handle"],
                kind=entry["kind"],
                status=status,
                owner=entry.get("owner", ""),
                reason=entry.get("reason", ""),
                tool=record.tool if record else "",
                age=self.replies - record.turn if record else 0,
                tokens_saved=saved,
            )
        return judged

    def _is_gone(self, record: Record) -> bool:
        return record.position < self.upto and record.position not in self._kept_by_compaction

    def why_not(self, record: Record) -> str | None:
        """Why a trim of this result would not be accepted."""
        if self._is_gone(record):
            return "it was compacted away"
        if record.will_be_trimmed:
            return "its trim is queued" if record.queued_entry else "it is trimmed already"
        if record.refusal:
            return record.refusal
        if self.first_user is not None and record.position < self.first_user:
            return "it stands before the first user message"
        if record.turn == self.replies:
            return "the model has not read it yet"
        if not saves_enough(record.tokens, schema.estimate_tokens(record.note)):
            return TOO_SHORT
        return None

    def info(self, record: Record) -> ResultInfo:
        """The result as plugins see it."""
        if record.summary is None:
            record.summary = summary_of(record.call)
        is_shared = any(each is not record for each in self.by_id.get(record.handle, ()))
        return ResultInfo(
            handle=record.handle.upper() if is_shared else record.handle,  # not the spelling of another one's call id
            call_id=record.call_id,
            tool=record.tool,
            position=record.position,
            characters=record.characters,
            tokens=record.tokens,
            turns_ago=self.replies - record.turn,
            arguments=record.summary,
            is_error=record.is_error,
            disposable=record.disposable,
            trimmed=record.short_text is not None,
            queued=record.queued_entry is not None and record.queued_entry["kind"] == "trim",
            why_not=self.why_not(record),
            missed_trim=record.missed_trim,
        )

    # The view

    @property
    def places(self) -> list[Message | int]:
        """What the view is made of: positions of stored messages, and the messages that a compaction made."""
        return [*self.base, *self._loose_ends.others(self.upto, len(self.messages))]

    @property
    def view(self) -> list[Message]:
        """What the model sees. The ledger's own messages: copy before handing them out."""
        trimmed, messages = self.trimmed_messages, self.messages
        return [trimmed.get(place, messages[place]) if isinstance(place, int) else place for place in self.places]
