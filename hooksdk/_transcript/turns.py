"""The turns of a conversation: which calls the newest reply made, which results answered them, and a row for each
message and each result. A pure function of the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooksdk import schema
from hooksdk._origins.labels import UNLABELLED
from hooksdk._transcript.encoding import (
    EncodedMessage,
    MessageParts,
    encode,
    long_arguments,
    request_of,
    summary_of,
)
from hooksdk._transcript.loose_ends import LooseEnds, is_loose_end
from hooksdk._transcript.messages import Messages, ResultRows, Rows
from hooksdk._transcript.rows import (
    LOOSE,
    OTHER,
    REPLY,
    USER,
    CallRow,
    Marks,
    MessageRow,
    ResultRow,
    load_message_row,
)
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.content import size_of
from hooksdk.formats.kit import answered_ids, arguments_of

_NOTHING = MessageParts((), (), is_reply=False, is_loose=False)


def read_message(message: Message, message_format: MessageFormat) -> MessageParts:
    """The parts of a message, by its format. A message on its way into the store is read once."""
    if type(message) is EncodedMessage:
        if message.parts is None:
            message.parts = read_message(message.plain, message_format)
        return message.parts
    is_reply = message_format.is_reply(message)
    calls = message_format.calls(message) if is_reply else ()
    is_loose = is_reply and is_loose_end(message, message_format)
    return MessageParts(calls, message_format.results(message), is_reply=is_reply, is_loose=is_loose)


# A result whose call is not recorded yet.
Orphan = tuple[ToolCall, ToolResult, Marks]


@dataclass(slots=True, eq=False)
class Slot:
    """One call of the newest reply, and its result as far as there is one.

    Attributes:
        order: Its index among all calls of the reply, which may be made of several messages.
        read_call: Reads the call of a row.
        marks: The marks of its result, until the result is stored and has them.
        by_run: True for a call that the run answered, not a message that the host recorded.
    """

    row: CallRow
    order: int
    read_call: Callable[[CallRow], ToolCall]
    staged: ToolResult | None = None
    record: ResultRow | None = None
    marks: Marks | None = None
    by_run: bool = False
    known_call: ToolCall | None = None

    id: str = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.id, self.name = self.row.id, self.row.name

    @property
    def call(self) -> ToolCall:
        if self.known_call is None:
            self.known_call = self.read_call(self.row)
        return self.known_call

    @property
    def open(self) -> bool:
        return self.staged is None and self.record is None

    def take(self, result: ToolResult, marks: Marks) -> None:
        self.staged, self.marks, self.by_run = result, marks, True


class Turns:
    """The turns of a conversation. Without a format the messages are kept, and nothing is known of them.

    Attributes:
        count: The number of messages.
        results: The number of their results.
        in_session: False for a plain list: no tool gets a result of it back whole.
        upto: The number of messages at the beginning that a compaction stands for.
        unanswered: By id: the calls of earlier replies that have no result.
    """

    in_session = True

    def __init__(self, message_format: MessageFormat | None, messages: Messages | None = None) -> None:
        self.format = message_format
        self.messages = Messages() if messages is None else messages
        self.rows = Rows[MessageRow]("message", load_message_row)
        self.records = ResultRows()
        self.slots: list[Slot] = []
        self.orphans: list[Orphan] = []
        self.count = 0
        self.results = 0
        self.unanswered: dict[str, CallRow] = {}
        self.upto = 0
        self.replies = 0
        self.last_reply = -1
        self.first_user: int | None = None
        self.loose_ends = LooseEnds()
        self.last_kind = OTHER
        # The message whose results were read last, by its position, and these results.
        self._results_read: tuple[int, list[FoundResult]] = (-1, [])

    def need_format(self) -> MessageFormat:
        """The format, where there are results: without one none is ever added."""
        assert self.format is not None
        return self.format

    # Messages

    def add(self, message: Message, size: int = 0) -> None:
        """Add a stored message, of so many bytes."""
        if type(message) is EncodedMessage:
            self.messages.append(message.plain, len(message.line))
        else:
            self.messages.append(message, size)
        position = self.count
        parts = _NOTHING if self.format is None else read_message(message, self.format)
        if parts.is_loose or self.loose_ends.newest:
            self.loose_ends.add(position, is_reply=parts.is_reply, is_loose=parts.is_loose)
        kind = OTHER
        if parts.is_reply:
            kind = LOOSE if parts.is_loose else REPLY
            if not self.reply_goes_on():
                self.unanswered.update({slot.id: slot.row for slot in self.slots if slot.record is None})
                self.replies += 1
                self.last_reply = position
                self.slots = []
            self._open_calls(position, parts.calls)
            if self.orphans:
                self.orphans = [orphan for orphan in self.orphans if not self._adopt(orphan)]
        elif self.format is not None and not parts.results and message.get("role", "user") == "user":
            kind = USER
            if self.first_user is None:
                self.first_user = position
        if parts.results:
            self._take_results(position, parts.results)
        self.rows.newest.append(MessageRow(kind, self.replies, self.results))
        self.last_kind = kind
        self.count += 1

    def _open_calls(self, position: int, calls: Sequence[ToolCall]) -> None:
        for index, call in enumerate(calls):
            # An `isinstance` of the protocol for each reply takes a tenth of the time in which a long session is read.
            long = long_arguments(call) if hasattr(self.format, "with_arguments") else ()
            sizes = tuple((name, len(text), schema.estimate_tokens(text)) for name, text in long)
            row = CallRow(position, index, call.id, call.name, summary_of(call), sizes)
            self.slots.append(Slot(row, len(self.slots), self.call_at, known_call=call))

    def _take_results(self, position: int, results: Sequence[FoundResult]) -> None:
        ids = [result.call_id for result in results]
        if not all(ids):
            open_slots = [slot for slot in self.slots if slot.record is None]
            ids = answered_ids([(result.call_id, result.name) for result in results], open_slots)
        for index, (call_id, result) in enumerate(zip(ids, results, strict=True)):
            slot = next((slot for slot in self.slots if slot.record is None and slot.id == call_id), None)
            size = size_of(result.content)
            row = ResultRow(self.results, position, index, call_id, self.replies, size.characters, size.tokens)
            row.is_error, row.refusal = result.is_error, result.why_not
            if slot is not None:
                row.call = slot.row
                if slot.row.arguments:
                    row.add_arguments()
                row.marks = slot.marks or row.marks
                slot.record = row
            else:
                row.call = self._late_call(call_id)
            self.records.newest.append(row)
            self.results += 1

    def _late_call(self, call_id: str) -> CallRow | None:
        """The call of a result that answers none of the newest reply's open calls."""
        newest = next((slot.row for slot in reversed(self.slots) if slot.id == call_id), None)
        late = newest or self.unanswered.pop(call_id, None)
        return late or next((row.call for row in reversed(self.records.with_id(call_id))), None)

    def turn_at(self, position: int) -> int:
        """The number of replies up to a message, itself counted."""
        return self.rows[position].turn if position >= 0 else 0

    def results_at(self, position: int) -> list[ResultRow]:
        """The results of one stored message, in order."""
        end = self.rows[position].results
        start = self.rows[position - 1].results if position else 0
        return self.records[start:end] if start < end else []

    def arguments_at(self, position: int) -> Iterator[tuple[int, list[ResultRow]]]:
        """The long arguments in one stored reply that has ended, by the index of their call in the message."""
        row = self.rows[position]
        for number in range(row.results, len(self.records)):
            record = self.records[number]
            if record.turn != row.turn:
                break
            if record.call is not None and record.call.position == position and record.arguments:
                yield record.call.at, record.arguments

    def reply_goes_on(self) -> bool:
        """True when a reply that came now would be a part of the newest reply."""
        joined = self.format is not None and self.format.joined
        return joined and self.count > self.upto and self.last_kind in (REPLY, LOOSE)

    def leaves_turn(self, message: Message) -> bool:
        """True for a message that is neither a result nor a part of the newest reply."""
        parts = read_message(message, self.need_format())
        return not self.reply_goes_on() if parts.is_reply else not parts.results

    # Calls

    def call_at(self, row: CallRow) -> ToolCall:
        """The call of a row, with its arguments."""
        return self.need_format().calls(self.messages[row.position])[row.at]

    def slot_of(self, call: ToolCall) -> Slot | None:
        """The unanswered slot of the newest reply that this call fills. Ids repeat, even in one reply: then name and
        arguments decide, then the order.
        """
        same_id = [slot for slot in self.slots if slot.open and slot.id == call.id]
        if len(same_id) > 1:
            request = request_of(call)
            same_id.sort(key=lambda slot: (request_of(slot.call) != request, slot.name != call.name, slot.order))
        return same_id[0] if same_id else None

    def answered_as(self, call: ToolCall) -> int:
        """The number of answered calls with this id in the newest reply; 0 where none of them is still open."""
        same_id = [slot.open for slot in self.slots if slot.id == call.id]
        return same_id.count(False) if any(same_id) else 0

    def result_of(self, call: ToolCall) -> ToolResult | None:
        """The result that this very call (id, name and arguments) of the newest reply has already; None for any
        other."""
        same_id = [slot for slot in self.slots if slot.id == call.id]
        if not same_id or any(slot.open for slot in same_id):
            return None
        slot = next((slot for slot in same_id if request_of(slot.call) == request_of(call)), None)
        if slot is None or slot.staged is not None or slot.record is None:
            labels = slot.marks.labels if slot and slot.marks else UNLABELLED
            return slot.staged.with_labels(labels) if slot and slot.staged else None
        stored = self.body(slot.record)
        return ToolResult(stored.text, is_error=stored.is_error, labels=slot.record.labels)

    def due(self, answered: Slot | None = None, result: ToolResult | None = None) -> list[tuple[Slot, ToolResult]]:
        """The results that may be appended now: in the order of the calls, all together where the format wants one
        message for all. With `result` as if that were the result of `answered`."""
        ready: list[tuple[Slot, ToolResult]] = []
        for slot in self.slots:
            if slot.record is None:
                staged = result if slot is answered else slot.staged
                if staged is None:
                    return [] if self.need_format().grouped else ready
                ready.append((slot, staged))
        return ready

    def _adopt(self, orphan: Orphan) -> bool:
        slot = self.slot_of(orphan[0])
        if slot:
            slot.take(*orphan[1:])
        return slot is not None

    # Results

    def body(self, record: ResultRow) -> FoundResult:
        """The stored result itself; an argument in the form of a result."""
        position = record.position
        if record.argument_name:
            assert record.call is not None
            call = self.call_at(record.call)
            value: object = (arguments_of(call.arguments) or {})[record.argument_name]
            text = value if isinstance(value, str) else encode(value).decode()
            return FoundResult(call_id=call.id, index=0, text=text, content=value, is_error=False, why_not=None)
        if self._results_read[0] != position:  # one message may hold hundreds of results
            self._results_read = position, self.need_format().results(self.messages[position])
        return self._results_read[1][record.index]

    def address(self, record: ResultRow) -> dict[str, Any]:
        """The place and content of a result, by which a trim finds it again. The call id alone would not do: ids
        repeat."""
        marks = record.marks
        if marks.content_hash is None:
            marks.content_hash = schema.fingerprint(self.body(record).content)
        place: dict[str, Any] = {"position": record.position, "call_id": record.call_id}
        if record.argument_name:
            place["argument"] = record.argument_name
        same_id = self.records.with_id(record.call_id)
        occurrence = next(number for number, each in enumerate(same_id) if each.number == record.number)
        return {**place, "occurrence": occurrence, "hash": marks.content_hash}

    def addressed(self, address: dict[str, Any]) -> ResultRow | None:
        """The result that a trim was made for, if it still stands there with the same content."""
        same_id, occurrence = self.records.with_id(str(address["call_id"])), int(address["occurrence"])
        rows = same_id[occurrence].with_arguments if occurrence < len(same_id) else ()
        record = next((row for row in rows if row.argument_name == address.get("argument", "")), None)
        return record if record and self.address(record) == address else None
