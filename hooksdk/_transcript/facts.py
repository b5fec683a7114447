"""The facts about stored messages that are needed without their bodies.

`Facts` hold the calls and results of each message in columns: a pure function of the messages. As bytes they are kept
beside the messages, so that the next opening need not read these again. `ResultRows` are the results, each with its
`Marks`: what the journal says of it. `Turns` join both: which calls the newest reply made, and which results answered
them.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast, final, overload

from hooksdk import schema
from hooksdk._origins.labels import UNLABELLED, Labels
from hooksdk._transcript.encoding import (
    EncodedMessage,
    Entry,
    MessageParts,
    encode,
    long_arguments,
    request_of,
    summary_of,
)
from hooksdk._transcript.loose_ends import LooseEnds, is_loose_end
from hooksdk._transcript.messages import Messages
from hooksdk._transcript.trims import note, plain_name
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, HasArguments, Message, MessageFormat
from hooksdk.formats.content import size_of
from hooksdk.formats.kit import answered_ids, arguments_of

# The version of the facts. Raise it when a format finds other calls or results in the same message, or when sizes are
# estimated otherwise: facts that an earlier version kept are not used then.
FACTS_VERSION: Final = 5

OTHER, REPLY, USER, LOOSE = range(4)
"""The kinds of messages: `USER` is a person's message without results, `LOOSE` a reply that is a loose end."""


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


@final
class Words:
    """Interned strings: each text has a number."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def number(self, text: str) -> int:
        """The number of a text, which is added where it is new."""
        number = self._numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def find(self, text: str) -> int | None:
        """The number of a text that is there already."""
        return self._numbers.get(text)


@final
class Facts:
    """The parts of all messages so far, in columns. The calls of a message begin where those of the message before it
    end, and end at its `calls_end`; its results likewise, at its `results_end`.

    Attributes:
        argument_calls: By long argument: the number of its call. Most calls have none.
        ids: The ids of calls and results.
        names: The names of tools and of long arguments.
        reasons: The reasons why results cannot be shortened; number 0 means that a result can.
        summaries: By call: its arguments in one short line.
    """

    def __init__(self, message_format: MessageFormat | None) -> None:
        """Without a format a message counts, and nothing more is known of it."""
        self.kinds: array[int] = array("B")
        self.calls_end: array[int] = array("I")
        self.results_end: array[int] = array("I")
        self.call_ids: array[int] = array("I")
        self.call_names: array[int] = array("I")
        self.result_ids: array[int] = array("I")
        self.result_names: array[int] = array("I")
        self.characters: array[int] = array("q")
        self.tokens: array[int] = array("q")
        self.errors: array[int] = array("B")
        self.refusals: array[int] = array("I")
        self.argument_calls: array[int] = array("I")
        self.argument_names: array[int] = array("I")
        self.argument_characters: array[int] = array("q")
        self.argument_tokens: array[int] = array("q")
        self._columns = list(vars(self))
        self._format = message_format
        self.ids = Words()
        self.names = Words()
        self.reasons = Words([""])
        self.summaries: list[str] = []

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, message: Message) -> Sequence[ToolCall]:
        """Add a message. Answers its calls."""
        parts = _NOTHING if self._format is None else read_message(message, self._format)
        for call in parts.calls:
            self.call_ids.append(self.ids.number(call.id))
            self.call_names.append(self.names.number(call.name))
            self.summaries.append(summary_of(call))
            for name, text in long_arguments(call) if isinstance(self._format, HasArguments) else ():
                self.argument_calls.append(len(self.call_ids) - 1)
                self.argument_names.append(self.names.number(name))
                self.argument_characters.append(len(text))
                self.argument_tokens.append(schema.estimate_tokens(text))
        for result in parts.results:
            size = size_of(result.content)
            self.result_ids.append(self.ids.number(result.call_id))
            self.result_names.append(self.names.number(result.name))
            self.characters.append(size.characters)
            self.tokens.append(size.tokens)
            self.errors.append(result.is_error)
            self.refusals.append(self.reasons.number(result.why_not or ""))
        self.kinds.append(self._kind_of(message, parts))
        self.calls_end.append(len(self.call_ids))
        self.results_end.append(len(self.result_ids))
        return parts.calls

    def _kind_of(self, message: Message, parts: MessageParts) -> int:
        if parts.is_reply:
            return LOOSE if parts.is_loose else REPLY
        of_person = self._format is not None and not parts.results and message.get("role", "user") == "user"
        return USER if of_person else OTHER

    def calls_at(self, position: int) -> range:
        """The numbers of a message's calls."""
        return range(self.calls_end[position - 1] if position else 0, self.calls_end[position])

    def results_at(self, position: int) -> range:
        """The numbers of a message's results."""
        return range(self.results_end[position - 1] if position else 0, self.results_end[position])

    def arguments_of(self, call: int) -> range:
        """The numbers of a call's long arguments."""
        return range(bisect_left(self.argument_calls, call), bisect_right(self.argument_calls, call))

    def call_place(self, number: int) -> tuple[int, int]:
        """The position of the message that made a call, and the call's index in that message."""
        position = bisect_right(self.calls_end, number)
        return position, number - self.calls_at(position).start

    # As bytes

    def dump(self) -> bytes:
        """All facts as bytes, for `load`."""
        texts = [self.ids.texts, self.names.texts, self.reasons.texts, self.summaries]
        header = {**self._header(), "texts": texts, "columns": self._lengths()}
        return json.dumps(header).encode() + b"\n" + b"".join(self._column(name).tobytes() for name in self._columns)

    def _header(self) -> dict[str, Any]:
        name = self._format.name if self._format else None
        return {"facts": FACTS_VERSION, "format": name, "machine": [sys.byteorder, array("I").itemsize]}

    def _column(self, name: str) -> array[int]:
        return cast("array[int]", getattr(self, name))

    def _lengths(self) -> list[int]:
        return [len(self._column(name)) * self._column(name).itemsize for name in self._columns]

    @classmethod
    def load(cls, data: bytes, message_format: MessageFormat | None) -> Facts | None:
        """The facts that `dump` wrote; None for those of another version, format or kind of machine."""
        facts = cls(message_format)
        line, _, _ = data.partition(b"\n")
        try:
            header = json.loads(line)
            if any(header.get(key) != value for key, value in facts._header().items()):
                return None
            ids, names, reasons, facts.summaries = header["texts"]
            facts.ids, facts.names, facts.reasons = Words(ids), Words(names), Words(reasons)
            start, view = len(line) + 1, memoryview(data)
            for name, length in zip(facts._columns, header["columns"], strict=True):
                facts._column(name).frombytes(view[start : start + length])
                start += length
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return facts if start == len(data) else None


# The handle of a result, or of an argument of its call.
_HANDLE = re.compile(r"r([1-9][0-9]*)(?:\.(.+))?", re.DOTALL)


@dataclass(slots=True)
class Marks:
    """What the journal says of one result beside its text.

    Attributes:
        ran: The name of the tool that ran, where the call named a bridge.
        answer_hash: The hash of the run's own text, where the format may have stored it in other words.
        short_text: The text in its place once a trim is applied.
        queued_entry: Its last trim or restore that waits for the drain.
        missed_trim: The reason why the last drain of its trim changed nothing.
        labels: The labels of its text; None where nobody has labelled it, which counts as `untrusted`.
    """

    disposable: bool = False
    ran: str = ""
    answer_hash: str | None = None
    short_text: str | None = None
    queued_entry: Entry | None = None
    missed_trim: Literal["stale", "gone"] | None = None
    content_hash: str | None = None
    labels: Labels | None = None

    @classmethod
    def of(cls, entry: Entry) -> Marks:
        """The marks in an entry of the kind `staged` or `answered`."""
        labels = frozenset(map(str, entry["labels"])) if "labels" in entry else None
        return cls(bool(entry["disposable"]), str(entry.get("ran", "")), entry.get("said"), labels=labels)


_NONE = Marks()


@final
@dataclass(frozen=True, slots=True)
class ResultRow:
    """One result of the stored messages, or a long argument of the call that it answers: a row of the columns.

    Attributes:
        number: Its number among all results, from 0.
        argument: The number among all long arguments, from 0; -1 for the result itself.
    """

    table: ResultRows = field(repr=False)
    number: int
    argument: int = -1

    @property
    def handle(self) -> str:
        handle = f"r{self.number + 1}"
        return handle if self.argument < 0 else f"{handle}.{self.argument_name}"

    @property
    def argument_name(self) -> str:
        """The name of the argument; empty for a result."""
        facts = self.table.facts
        return "" if self.argument < 0 else facts.names.texts[facts.argument_names[self.argument]]

    @property
    def position(self) -> int:
        """The position of the message with the result, or with the call of the argument."""
        if self.argument < 0:
            return self.table.positions[self.number]
        return self.table.facts.call_place(self.table.facts.argument_calls[self.argument])[0]

    @property
    def index(self) -> int:
        """Its index among the results of its message."""
        return self.number - self.table.facts.results_at(self.position).start

    @property
    def occurrence(self) -> int:
        """The number of earlier results with the same call id."""
        return self.table.occurrences[self.number]

    @property
    def call_id(self) -> str:
        return self.table.facts.ids.texts[self.table.ids[self.number]]

    @property
    def characters(self) -> int:
        facts = self.table.facts
        return facts.characters[self.number] if self.argument < 0 else facts.argument_characters[self.argument]

    @property
    def tokens(self) -> int:
        facts = self.table.facts
        return facts.tokens[self.number] if self.argument < 0 else facts.argument_tokens[self.argument]

    @property
    def is_error(self) -> bool:
        return self.argument < 0 and bool(self.table.facts.errors[self.number])

    @property
    def refusal(self) -> str | None:
        """The reason why it cannot be shortened."""
        facts = self.table.facts
        return None if self.argument >= 0 else facts.reasons.texts[facts.refusals[self.number]] or None

    @property
    def turn(self) -> int:
        """The number of replies before it."""
        return self.table.turns[self.number]

    @property
    def call(self) -> int | None:
        """The number of the call that it answers."""
        number = self.table.calls[self.number]
        return None if number < 0 else number

    @property
    def tool(self) -> str:
        """The name of the tool that ran; empty where no call is known."""
        facts, call = self.table.facts, self.call
        ran = self.table.marks.get(self.number, _NONE).ran
        return ran or ("" if call is None else facts.names.texts[facts.call_names[call]])

    @property
    def labels(self) -> Labels:
        """The labels of the text. An argument is the model's own text, for which nobody vouches."""
        if self.argument >= 0:
            return frozenset()
        labels = self.table.marks.get(self.number, _NONE).labels
        return UNLABELLED if labels is None else labels

    @property
    def summary(self) -> str:
        """The call's arguments in one short line."""
        return "" if self.call is None else self.table.facts.summaries[self.call]

    @property
    def note(self) -> str:
        """The shortest text that a trim puts in its place."""
        what, in_session = "Result" if self.argument < 0 else "Argument", self.table.in_session
        return note(self.handle, self.tool, self.characters, is_error=self.is_error, in_session=in_session, what=what)

    @property
    def marks(self) -> Marks:
        """Its marks, to read."""
        return self.table.marks.get(self._key, _NONE)

    @property
    def own_marks(self) -> Marks:
        """Its marks, to write."""
        return self.table.marks.setdefault(self._key, Marks())

    @property
    def _key(self) -> int:
        return self.number if self.argument < 0 else ~self.argument

    @property
    def short_text(self) -> str | None:
        """The text that stands in its place, once a trim is applied."""
        return self.marks.short_text

    @property
    def will_be_trimmed(self) -> bool:
        """True when a drain would leave it trimmed."""
        marks = self.marks
        return marks.queued_entry["kind"] == "trim" if marks.queued_entry else marks.short_text is not None


@final
class ResultRows(Sequence[ResultRow]):
    """All results, oldest first.

    Attributes:
        in_session: False for the results of a plain list: no tool gets one back whole.
        ids: The ids of the calls that they answer, as numbers of `facts.ids`: a result may name no id itself.
        marks: By the number of a result, or by `~number` of an argument.
        answers: By the number of a call with long arguments: the result that answers it.
    """

    in_session = True

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.ids: array[int] = array("I")
        self.positions: array[int] = array("I")
        self.occurrences: array[int] = array("I")
        self.turns: array[int] = array("I")
        self.calls: array[int] = array("i")
        self.marks: dict[int, Marks] = {}
        self.answers: dict[int, int] = {}
        # By the number of an id: the last result with it, or -1.
        self._newest: array[int] = array("i")
        # By result: the one before it with the same id, or -1.
        self._before: array[int] = array("i")

    def add(self, position: int, call_id: int, turn: int, call: int) -> ResultRow:
        """Add a result, by the numbers of its id and of the call that it answers, or -1."""
        number = len(self)
        missing = len(self.facts.ids.texts) - len(self._newest)
        if missing > 0:
            self._newest.extend([-1] * missing)
        before = self._newest[call_id]
        self.positions.append(position)
        self.ids.append(call_id)
        self.turns.append(turn)
        self.calls.append(call)
        self.occurrences.append(0 if before < 0 else self.occurrences[before] + 1)
        self._before.append(before)
        self._newest[call_id] = number
        if call >= 0 and self.facts.arguments_of(call):
            self.answers.setdefault(call, number)
        return ResultRow(self, number)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> ResultRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ResultRow]: ...
    def __getitem__(self, index: int | slice) -> ResultRow | list[ResultRow]:
        numbers = range(len(self))[index]
        return (
            [ResultRow(self, number) for number in numbers] if isinstance(numbers, range) else ResultRow(self, numbers)
        )

    def __iter__(self) -> Iterator[ResultRow]:
        return (ResultRow(self, number) for number in range(len(self)))

    def at(self, position: int) -> list[ResultRow]:
        """The results of one stored message, in order."""
        return [ResultRow(self, number) for number in self.facts.results_at(position)]

    def with_arguments(self, record: ResultRow) -> list[ResultRow]:
        """The long arguments of the call that a result answers, and the result."""
        call = record.call
        is_answer = call is not None and self.answers.get(call) == record.number
        arguments = self.facts.arguments_of(call) if call is not None and is_answer else ()
        return [*(ResultRow(self, record.number, argument) for argument in arguments), record]

    def arguments_at(self, position: int) -> list[tuple[int, list[ResultRow]]]:
        """The long arguments in one stored message, by the index of their call in the message."""
        numbers = self.facts.calls_at(position)
        calls = ((index, self.answers[number]) for index, number in enumerate(numbers) if number in self.answers)
        return [(index, self.with_arguments(ResultRow(self, result))[:-1]) for index, result in calls]

    def by_handle(self, handle: str) -> ResultRow | None:
        """The result or argument with this handle, which may be written as its note has it."""
        match = _HANDLE.fullmatch(handle)
        number = int(match[1]) - 1 if match and len(match[1]) < 20 else len(self)
        if match is None or number >= len(self):
            return None
        record, name = ResultRow(self, number), match[2] or ""
        rows = self.with_arguments(record)
        named = [row for row in rows if row.argument_name == name] or [
            row for row in rows if plain_name(row.handle) == handle
        ]
        return named[0] if len(named) == 1 else None

    def by_id(self, call_id: str) -> list[ResultRow]:
        """The results whose call has this id, oldest first."""
        id_number = self.facts.ids.find(call_id)
        if id_number is None or id_number >= len(self._newest):
            return []
        number = self._newest[id_number]
        numbers: list[int] = []
        while number >= 0:
            numbers.append(number)
            number = self._before[number]
        return [ResultRow(self, number) for number in reversed(numbers)]


# A result whose call is not recorded yet.
Orphan = tuple[ToolCall, ToolResult, Marks]


@dataclass(slots=True, eq=False)
class Slot:
    """One call of the newest reply, and its result as far as there is one.

    Attributes:
        number: Its number among all calls of the session.
        read_call: Reads the call of a number.
        marks: The marks of its result, until the result is stored and has them.
        by_run: True for a call that the run answered, not a message that the host recorded.
    """

    number: int
    id: str
    name: str
    order: int
    read_call: Callable[[int], ToolCall]
    staged: ToolResult | None = None
    record: ResultRow | None = None
    marks: Marks | None = None
    by_run: bool = False
    known_call: ToolCall | None = None

    @property
    def call(self) -> ToolCall:
        if self.known_call is None:
            self.known_call = self.read_call(self.number)
        return self.known_call

    @property
    def open(self) -> bool:
        return self.staged is None and self.record is None

    def take(self, result: ToolResult, marks: Marks) -> None:
        self.staged, self.marks, self.by_run = result, marks, True


class Turns:
    """The turns of a conversation. Without a format the messages are kept, and nothing is known of them.

    Attributes:
        count: The number of messages gone through.
        upto: The number of messages at the beginning that a compaction stands for.
    """

    def __init__(
        self, message_format: MessageFormat | None, messages: Messages | None = None, facts: Facts | None = None
    ) -> None:
        """`facts` are those of the messages that are stored already, which `take_until` goes through."""
        self.format = message_format
        self.messages = Messages() if messages is None else messages
        self.facts = Facts(message_format) if facts is None else facts
        self.records = ResultRows(self.facts)
        self.slots: list[Slot] = []
        self.orphans: list[Orphan] = []
        self.count = 0
        self.upto = 0
        self.replies = 0
        self.last_reply = -1
        self.first_user: int | None = None
        self.loose_ends = LooseEnds()
        # By the number of an id: the last call with it, or -1.
        self._newest_call: array[int] = array("i")
        # The message whose results were read last, by its position, and these results.
        self._results_read: tuple[int, list[FoundResult]] = (-1, [])

    def use(self, message_format: MessageFormat) -> None:
        """Take a format, while there are no messages."""
        self.format, self.facts = message_format, Facts(message_format)
        self.records = ResultRows(self.facts)

    def need_format(self) -> MessageFormat:
        """The format, where there are results: without one none is ever added."""
        assert self.format is not None
        return self.format

    # Messages

    def add(self, message: Message) -> None:
        """Add a stored message."""
        if type(message) is EncodedMessage:
            self.messages.append(message.plain, len(message.line))
        else:
            self.messages.append(message)
        self._take(self.facts.add(message))

    def take_until(self, count: int) -> None:
        """Go through the stored messages, up to `count` of them."""
        while self.count < count:
            self._take(None)

    def _take(self, calls: Sequence[ToolCall] | None) -> None:
        """Go through the next message. Its calls are read when asked for, unless they are given."""
        position, facts = self.count, self.facts
        kind = facts.kinds[position]
        if kind == LOOSE or self.loose_ends.newest:
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
        ids = [facts.ids.texts[facts.result_ids[number]] for number in numbers]
        if not all(ids):
            names = [facts.names.texts[facts.result_names[number]] for number in numbers]
            open_slots = [slot for slot in self.slots if slot.record is None]
            ids = answered_ids(zip(ids, names, strict=True), open_slots)
        for call_id in ids:
            slot = next((slot for slot in self.slots if slot.record is None and slot.id == call_id), None)
            id_number = facts.ids.number(call_id)
            call = slot.number if slot else self._newest_call[id_number] if id_number < len(self._newest_call) else -1
            record = self.records.add(self.count, id_number, self.replies, call)
            if slot:
                slot.record = record
                if slot.marks is not None:
                    self.records.marks[record.number] = slot.marks

    def reply_goes_on(self) -> bool:
        """True when a reply that came now would be a part of the newest reply."""
        joined = self.format is not None and self.format.joined
        return joined and self.count > self.upto and self.facts.kinds[self.count - 1] in (REPLY, LOOSE)

    def leaves_turn(self, message: Message) -> bool:
        """True for a message that is neither a result nor a part of the newest reply."""
        parts = read_message(message, self.need_format())
        return not self.reply_goes_on() if parts.is_reply else not parts.results

    # Calls

    def call_at(self, number: int) -> ToolCall:
        """The call of this number among all."""
        position, index = self.facts.call_place(number)
        return self.need_format().calls(self.messages[position])[index]

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
        if record.argument >= 0:
            call = self.call_at(self.facts.argument_calls[record.argument])
            value: object = (arguments_of(call.arguments) or {})[record.argument_name]
            text = value if isinstance(value, str) else encode(value).decode()
            return FoundResult(call_id=call.id, index=0, text=text, content=value, is_error=False, why_not=None)
        if self._results_read[0] != position:  # one message may hold hundreds of results
            self._results_read = position, self.need_format().results(self.messages[position])
        return self._results_read[1][record.index]

    def address(self, record: ResultRow) -> dict[str, Any]:
        """The place and content of a result, by which a trim finds it again. The call id alone would not do: ids
        repeat."""
        marks = record.own_marks
        if marks.content_hash is None:
            marks.content_hash = schema.fingerprint(self.body(record).content)
        place: dict[str, Any] = {"position": record.position, "call_id": record.call_id}
        if record.argument >= 0:
            place["argument"] = record.argument_name
        return {**place, "occurrence": record.occurrence, "hash": marks.content_hash}

    def addressed(self, address: dict[str, Any]) -> ResultRow | None:
        """The result that a trim was made for, if it still stands there with the same content."""
        same_id, occurrence = self.records.by_id(str(address["call_id"])), int(address["occurrence"])
        rows = self.records.with_arguments(same_id[occurrence]) if occurrence < len(same_id) else ()
        record = next((row for row in rows if row.argument_name == address.get("argument", "")), None)
        return record if record and self.address(record) == address else None
