"""The turns of the stored messages: which calls the newest reply made, which results answered them, and how many there were."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hooksdk import schema
from hooksdk._transcript.encoding import request_of
from hooksdk._transcript.facts import LOOSE, REPLY, USER, Facts
from hooksdk._transcript.loose_ends import LooseEnds
from hooksdk._transcript.messages import Messages
from hooksdk._transcript.results import Record, Records
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.kit import answered_ids

Orphan = tuple[ToolCall, ToolResult, bool, str, str | None]
"""A result whose call is not recorded yet: disposable, the real tool's name, and the hash of the text that was answered."""


@dataclass(slots=True, eq=False)
class Slot:
    """One call of the newest reply, and what is known of its result."""

    number: int
    """Among all calls of the session."""
    id: str
    name: str
    order: int
    read_call: Callable[[int], ToolCall]
    """Gives the call of a number."""
    staged: ToolResult | None = None
    record: Record | None = None
    disposable: bool = False
    ran: str = ""
    answer_hash: str | None = None
    by_run: bool = False
    """Answered by the run, not by a message that the host recorded."""
    known_call: ToolCall | None = None

    @property
    def call(self) -> ToolCall:
        if self.known_call is None:
            self.known_call = self.read_call(self.number)
        return self.known_call

    @property
    def open(self) -> bool:
        return self.staged is None and self.record is None

    def take(self, result: ToolResult, disposable: bool, ran: str, answer_hash: str | None = None) -> None:
        self.staged, self.disposable, self.ran, self.by_run = result, disposable, ran, True
        self.answer_hash = answer_hash or schema.fingerprint(result.text)


class Turns:
    """What the messages say. Without a format they are kept, and nothing is known of them."""

    def __init__(
        self, message_format: MessageFormat | None, messages: Messages | None = None, facts: Facts | None = None
    ) -> None:
        """`facts` tell of the messages that are there already, which `take_until` goes through."""
        self.format = message_format
        self.messages = Messages() if messages is None else messages
        self.facts = Facts(message_format) if facts is None else facts
        self.records = Records(self.facts)
        self.slots: list[Slot] = []
        self.orphans: list[Orphan] = []
        self.count = 0
        """How many messages were gone through."""
        self.upto = 0
        """How many of the first messages a compaction stands for."""
        self.replies = 0
        self.last_reply = -1
        self.first_user: int | None = None
        self.loose_ends = LooseEnds()
        self._newest_call: array[int] = array("i")
        """By id, as its number: the last call with it, or -1."""
        self._results_read: tuple[int, list[FoundResult]] = (-1, [])
        """The position of the message whose results were read last, and these."""

    def use(self, message_format: MessageFormat) -> None:
        """Take a format, while there are no messages."""
        self.format, self.facts = message_format, Facts(message_format)
        self.records = Records(self.facts)

    def need_format(self) -> MessageFormat:
        """The format, where there are results: without one none is ever added."""
        assert self.format is not None
        return self.format

    # Messages

    def add(self, message: Message) -> None:
        """One more stored message."""
        self.messages.append(message)
        self._take(self.facts.add(message))

    def take_until(self, count: int) -> None:
        """Go through the messages that are there, up to so many of them."""
        while self.count < count:
            self._take(None)

    def _take(self, calls: Sequence[ToolCall] | None) -> None:
        """Go through the next message, whose calls may be at hand."""
        position, facts = self.count, self.facts
        kind = facts.kinds[position]
        self.loose_ends.add(position, is_reply=kind == REPLY, is_loose=kind == LOOSE)
        if kind in (REPLY, LOOSE):
            if not self.reply_goes_on():
                self.replies += 1
                self.last_reply = position
                self.slots = []
            self._open_calls(facts.calls_at(position), calls)
            if self.orphans:
                self.orphans = [orphan for orphan in self.orphans if not self._adopt(orphan)]
        elif kind == USER and self.first_user is None:
            self.first_user = position
        if results := facts.results_at(position):
            self._take_results(results)
        self.count = position + 1

    def _open_calls(self, numbers: range, calls: Sequence[ToolCall] | None) -> None:
        facts = self.facts
        missing = len(facts.ids.texts) - len(self._newest_call)
        if numbers and missing > 0:
            self._newest_call.extend([-1] * missing)
        for index, number in enumerate(numbers):
            call_id = facts.call_ids[number]
            name = facts.names.texts[facts.call_names[number]]
            slot = Slot(number, facts.ids.texts[call_id], name, len(self.slots), self.call_at)
            if calls is not None:
                slot.known_call = calls[index]
            self.slots.append(slot)
            self._newest_call[call_id] = number

    def _take_results(self, numbers: range) -> None:
        facts = self.facts
        found = [facts.ids.texts[facts.result_ids[number]] for number in numbers]
        ids = found
        if not all(found):
            names = [facts.names.texts[facts.result_names[number]] for number in numbers]
            open_slots = [slot for slot in self.slots if slot.record is None]
            ids = answered_ids(zip(found, names, strict=True), open_slots)
        for call_id in ids:
            slot = next((slot for slot in self.slots if slot.record is None and slot.id == call_id), None)
            id_number = facts.ids.number(call_id)
            call = slot.number if slot else self._newest_call[id_number] if id_number < len(self._newest_call) else -1
            record = self.records.add(self.count, id_number, self.replies, call)
            if slot:
                slot.record = record
                if slot.disposable or slot.ran or slot.answer_hash:
                    marks = record.own_marks
                    marks.disposable, marks.ran, marks.answer_hash = slot.disposable, slot.ran, slot.answer_hash

    def reply_goes_on(self) -> bool:
        """True when a reply after all that was gone through is a part of the reply before it."""
        joined = self.format is not None and self.format.joined
        return joined and self.count > self.upto and self.facts.kinds[self.count - 1] in (REPLY, LOOSE)

    def leaves_turn(self, message: Message) -> bool:
        """True for a message that is no result and no part of the newest reply."""
        if self.need_format().is_reply(message):
            return not self.reply_goes_on()
        return not self.need_format().results(message)

    # Calls

    def call_at(self, number: int) -> ToolCall:
        """A call, by its number among all."""
        position, index = self.facts.call_place(number)
        return self.need_format().calls(self.messages[position])[index]

    def slot_of(self, call: ToolCall) -> Slot | None:
        """The unanswered slot of the newest reply that this call fills. Ids repeat, even in one reply: then name and arguments
        decide, then the order.
        """
        same_id = [slot for slot in self.slots if slot.open and slot.id == call.id]
        if len(same_id) > 1:
            request = request_of(call)
            same_id.sort(key=lambda slot: (request_of(slot.call) != request, slot.name != call.name, slot.order))
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

    # Results

    def body(self, record: Record) -> FoundResult:
        """The stored result itself."""
        position = record.position
        if self._results_read[0] != position:  # one message may hold hundreds of results
            self._results_read = position, self.need_format().results(self.messages[position])
        return self._results_read[1][record.index]

    def address(self, record: Record) -> dict[str, Any]:
        """Where a result is and what it holds. The call id alone would not do: ids repeat."""
        marks = record.own_marks
        if marks.content_hash is None:
            marks.content_hash = schema.fingerprint(self.body(record).content)
        place: dict[str, Any] = {"position": record.position, "call_id": record.call_id}
        return {**place, "occurrence": record.occurrence, "hash": marks.content_hash}

    def addressed(self, address: dict[str, Any]) -> Record | None:
        """The result that a trim was made for, if it still stands there with the same content."""
        same_id, occurrence = self.records.by_id(str(address["call_id"])), int(address["occurrence"])
        record = same_id[occurrence] if occurrence < len(same_id) else None
        return record if record and self.address(record) == address else None
