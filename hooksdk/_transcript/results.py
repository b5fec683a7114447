"""The results of the stored messages, without their bodies: what the messages say of each stands in columns, what the journal
says in marks, which few have."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, final, overload

from hooksdk._transcript.entries import Entry
from hooksdk._transcript.facts import Facts
from hooksdk._transcript.trims import note

_HANDLE = re.compile(r"r([1-9][0-9]*)")


@dataclass(slots=True)
class Marks:
    """What is known of one result besides its message."""

    disposable: bool = False
    ran: str = ""
    """The tool that ran, where the call named a bridge."""
    answer_hash: str | None = None
    """The hash of the text that the run answered, where the format may have put it in other words."""
    short_text: str | None = None
    """The text that stands in its place, once a trim is applied."""
    queued_entry: Entry | None = None
    """The last trim or restore of it that waits for the drain."""
    missed_trim: Literal["stale", "gone"] | None = None
    """Why the last drain of a trim of it changed nothing."""
    content_hash: str | None = None


_NONE = Marks()


@final
@dataclass(frozen=True, slots=True)
class Record:
    """One result of the stored messages: where its row is."""

    table: Records = field(repr=False)
    number: int
    """Among all results, from 0."""

    @property
    def handle(self) -> str:
        return f"r{self.number + 1}"

    @property
    def position(self) -> int:
        """Of its message."""
        return self.table.positions[self.number]

    @property
    def index(self) -> int:
        """Which result of its message it is."""
        return self.number - self.table.facts.results_at(self.position).start

    @property
    def occurrence(self) -> int:
        """How many results before it have its call id."""
        return self.table.occurrences[self.number]

    @property
    def call_id(self) -> str:
        return self.table.facts.ids.texts[self.table.ids[self.number]]

    @property
    def characters(self) -> int:
        return self.table.facts.characters[self.number]

    @property
    def tokens(self) -> int:
        return self.table.facts.tokens[self.number]

    @property
    def is_error(self) -> bool:
        return bool(self.table.facts.errors[self.number])

    @property
    def refusal(self) -> str | None:
        """Why it cannot be shortened."""
        facts = self.table.facts
        return facts.reasons.texts[facts.refusals[self.number]] or None

    @property
    def turn(self) -> int:
        """How many replies there were before it."""
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
        return self.marks.ran or ("" if call is None else facts.names.texts[facts.call_names[call]])

    @property
    def summary(self) -> str:
        """The call's arguments in one short line."""
        return "" if self.call is None else self.table.facts.summaries[self.call]

    @property
    def note(self) -> str:
        """What a trim puts in its place at least."""
        return note(self.handle, self.tool, self.characters, self.is_error)

    @property
    def marks(self) -> Marks:
        """What the journal says of it, to read."""
        return self.table.marks.get(self.number, _NONE)

    @property
    def own_marks(self) -> Marks:
        """The same, to write."""
        return self.table.marks.setdefault(self.number, Marks())

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
class Records(Sequence[Record]):
    """All results, oldest first."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.ids: array[int] = array("I")
        """Of the calls that they answer, as numbers of `facts.ids`: a result may name none itself."""
        self.positions: array[int] = array("I")
        self.occurrences: array[int] = array("I")
        self.turns: array[int] = array("I")
        self.calls: array[int] = array("i")
        self.marks: dict[int, Marks] = {}
        self._newest: array[int] = array("i")
        """By id, as its number: the last result with it, or -1."""
        self._before: array[int] = array("i")
        """By result: the one before it with the same id, or -1."""

    def add(self, position: int, call_id: int, turn: int, call: int) -> Record:
        """One more result: the number of its id, and of the call that it answers, or -1."""
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
        return Record(self, number)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        numbers = range(len(self))[index]
        return [Record(self, number) for number in numbers] if isinstance(numbers, range) else Record(self, numbers)

    def __iter__(self) -> Iterator[Record]:
        return (Record(self, number) for number in range(len(self)))

    def at(self, position: int) -> list[Record]:
        """The results of one stored message, in order."""
        return [Record(self, number) for number in self.facts.results_at(position)]

    def by_handle(self, handle: str) -> Record | None:
        """The result that goes by a handle."""
        match = _HANDLE.fullmatch(handle)
        number = int(match[1]) - 1 if match and len(handle) < 20 else len(self)
        return Record(self, number) if number < len(self) else None

    def by_id(self, call_id: str) -> list[Record]:
        """The results whose call has this id, oldest first."""
        id_number = self.facts.ids.find(call_id)
        if id_number is None or id_number >= len(self._newest):
            return []
        number = self._newest[id_number]
        numbers: list[int] = []
        while number >= 0:
            numbers.append(number)
            number = self._before[number]
        return [Record(self, number) for number in reversed(numbers)]
