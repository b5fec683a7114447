"""What a session knows of its messages without their texts: a row for each message and for each tool result.

The newest rows are in memory. Older ones are read where the store has them (`RowSource`), when somebody asks for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol, final

from hooksdk._origins.labels import UNLABELLED, Labels
from hooksdk._transcript.encoding import Entry, encode
from hooksdk._transcript.trims import note

# The version of the rows. Raise it when a format finds other calls or results in the same message, or when sizes are
# estimated otherwise: rows that an earlier version kept are not used then.
ROWS_VERSION: Final = 6

OTHER, REPLY, USER, LOOSE = range(4)
"""The kinds of messages: `USER` is a person's message without results, `LOOSE` a reply that is a loose end."""

# The handle of a result, or of an argument of its call.
HANDLE = re.compile(r"r([1-9][0-9]*)(?:\.(.+))?", re.DOTALL)
RowKind = Literal["message", "result", "shown", "prompt"]
"""The kinds of rows in a store: of messages (their tag is the fingerprint), of results (the call's id), of each other
form in which the view has shown a message (its fingerprint), and of each prompt of a user (the fingerprint of its folded
text)."""


class StoredRow(NamedTuple):
    """A row as a store keeps it: a number has one row of each kind, and a tag may have many. The tag need not come
    back from the store."""

    number: int
    tag: str
    body: str


class RowSource(Protocol):
    """Where older rows are stored. All methods wait for the store in the caller's thread."""

    def read_rows(self, kind: RowKind, start: int, stop: int) -> list[StoredRow]:
        """The rows from `start` to before `stop`, by number. Raises `StoreError` where one is not what was stored."""
        ...

    def find_rows(self, kind: RowKind, tag: str) -> list[StoredRow]:
        """The rows with this tag, by number."""
        ...

    def read_entries(self, kind: str) -> list[Entry]:
        """All entries of this kind in the journal."""
        ...


class MessageRow(NamedTuple):
    """What is known of one message.

    Attributes:
        kind: One of `OTHER`, `REPLY`, `USER` and `LOOSE`.
        turn: The number of replies up to it, itself counted.
        results: The number of results up to it, its own counted.
    """

    kind: int
    turn: int
    results: int


@final
class CallRow(NamedTuple):
    """A call of a stored reply.

    Attributes:
        position: The position of the message that made it.
        at: Its index among the calls of that message.
        summary: Its arguments in one short line.
        arguments: Its long arguments: name, characters, tokens.
    """

    position: int
    at: int
    id: str
    name: str
    summary: str = ""
    arguments: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def load(cls, body: Sequence[Any]) -> CallRow:
        """The call of a JSON list."""
        return cls(*body[:5], arguments=tuple((name, size, tokens) for name, size, tokens in body[5]))


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
    content_hash: str | None = field(default=None, repr=False)
    labels: Labels | None = None

    @classmethod
    def of(cls, entry: Entry) -> Marks:
        """The marks in an entry of the kind `staged` or `answered`."""
        labels = frozenset(map(str, entry["labels"])) if "labels" in entry else None
        return cls(bool(entry["disposable"]), str(entry.get("ran", "")), entry.get("said"), labels=labels)

    def dump(self) -> dict[str, Any]:
        """As JSON. A queued entry is not in it: rows are stored while none waits."""
        values: dict[str, Any] = {name: value for name in _STORED_MARKS if (value := getattr(self, name))}
        return values if self.labels is None else {**values, "labels": sorted(self.labels)}

    @classmethod
    def load(cls, values: dict[str, Any]) -> Marks:
        """The marks of `dump`."""
        labels = values.pop("labels", None)
        return cls(**values, labels=None if labels is None else frozenset(labels))


_STORED_MARKS = ("disposable", "ran", "answer_hash", "short_text", "missed_trim", "content_hash")


@final
@dataclass(slots=True, eq=False)
class ResultRow:
    """One result of the stored messages, or a long argument of the call that it answers.

    Attributes:
        number: Its number among all results, from 0.
        position: The position of the message with the result, or with the call of the argument.
        index: Its index among the results of its message.
        turn: The number of replies before it.
        refusal: The reason why it cannot be shortened.
        call: The call that it answers; None where no call is known.
        argument_name: The name of the argument; empty for a result.
        arguments: The long arguments of its call, if it is the first result of that call.
    """

    number: int
    position: int
    index: int
    call_id: str
    turn: int
    characters: int
    tokens: int
    is_error: bool = False
    refusal: str | None = None
    call: CallRow | None = None
    argument_name: str = ""
    arguments: list[ResultRow] = field(default_factory=list["ResultRow"], repr=False)
    marks: Marks = field(default_factory=Marks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResultRow) and (self.number, self.argument_name) == (
            other.number,
            other.argument_name,
        )

    def __hash__(self) -> int:
        return hash((self.number, self.argument_name))

    def add_arguments(self) -> None:
        """Add the long arguments of its call, which it is the first to answer."""
        assert self.call is not None
        for name, characters, tokens in self.call.arguments:
            row = ResultRow(self.number, self.call.position, -1, self.call_id, self.turn, characters, tokens)
            row.call, row.argument_name = self.call, name
            self.arguments.append(row)

    @property
    def with_arguments(self) -> list[ResultRow]:
        """The long arguments of its call, and the result."""
        return [*self.arguments, self]

    @property
    def handle(self) -> str:
        handle = f"r{self.number + 1}"
        return f"{handle}.{self.argument_name}" if self.argument_name else handle

    @property
    def tool(self) -> str:
        """The name of the tool that ran; empty where no call is known."""
        return self.marks.ran or (self.call.name if self.call else "")

    @property
    def labels(self) -> Labels:
        """The labels of the text. An argument is the model's own text, for which nobody vouches."""
        if self.argument_name:
            return frozenset()
        return UNLABELLED if self.marks.labels is None else self.marks.labels

    @property
    def summary(self) -> str:
        """The call's arguments in one short line."""
        return self.call.summary if self.call else ""

    def note(self, *, in_session: bool) -> str:
        """The shortest text that a trim puts in its place."""
        what = "Argument" if self.argument_name else "Result"
        return note(self.handle, self.tool, self.characters, is_error=self.is_error, in_session=in_session, what=what)

    @property
    def short_text(self) -> str | None:
        """The text that stands in its place, once a trim is applied."""
        return self.marks.short_text

    @property
    def will_be_trimmed(self) -> bool:
        """True when a drain would leave it trimmed."""
        marks = self.marks
        return marks.queued_entry["kind"] == "trim" if marks.queued_entry else marks.short_text is not None

    def dump(self) -> StoredRow:
        """As a store keeps it."""
        own = [self.position, self.index, self.turn, self.characters, self.tokens, self.is_error, self.refusal]
        arguments = {row.argument_name: row.marks.dump() for row in self.arguments}
        body = [self.call_id, *own, self.call, arguments if self.arguments else None, self.marks.dump()]
        return StoredRow(self.number, self.call_id, encode(body).decode())

    @classmethod
    def load(cls, row: StoredRow) -> ResultRow:
        """The row of `dump`."""
        *own_values, call, arguments, marks = json.loads(row.body)
        call_id, position, index, *others = own_values
        own = cls(row.number, position, index, call_id, *others)
        own.marks = Marks.load(marks)
        if call is not None:
            own.call = CallRow.load(call)
            if arguments is not None:
                own.add_arguments()
                for argument in own.arguments:
                    argument.marks = Marks.load(arguments[argument.argument_name])
        return own


def load_message_row(row: StoredRow) -> MessageRow:
    """The row of a message that a store has kept."""
    return MessageRow(*json.loads(row.body))
