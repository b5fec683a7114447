"""What the ledger needs to know of each message, without its body: a pure function of the messages, held in columns.

As bytes it can be kept beside the messages, so that the next opening need not read them again.
"""

from __future__ import annotations

import json
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast, final

from hooksdk._transcript.encoding import summary_of
from hooksdk._transcript.loose_ends import is_loose_end
from hooksdk.calls import ToolCall
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.content import size_of

FACTS_VERSION: Final = 2
"""Of what is said about a message. Raise it when a format finds other calls or results in the same message, or when sizes are
estimated otherwise: what an earlier version kept is not used then."""

OTHER, REPLY, USER, LOOSE = range(4)
"""What a message is: `USER` is one of the person without results, `LOOSE` a reply that is a loose end."""


@final
class Words:
    """Texts that are told by numbers, each once."""

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
    """What a format says of the messages so far. A message has the calls and results before its `calls_end` and `results_end`,
    from where those of the message before it end."""

    def __init__(self, message_format: MessageFormat | None) -> None:
        """Without a format nothing is said of a message, except that it is there."""
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
        self._columns = list(vars(self))
        self._format = message_format
        self.ids = Words()
        """Of calls and results."""
        self.names = Words()
        """Of tools."""
        self.reasons = Words([""])
        """Why results cannot be shortened; number 0 of those that can."""
        self.summaries: list[str] = []
        """Of the calls' arguments."""

    def __len__(self) -> int:
        return len(self.kinds)

    def add(self, message: Message) -> Sequence[ToolCall]:
        """One more message. Answers its calls."""
        calls, results, kind = self._read(message)
        for call in calls:
            self.call_ids.append(self.ids.number(call.id))
            self.call_names.append(self.names.number(call.name))
            self.summaries.append(summary_of(call))
        for result in results:
            size = size_of(result.content)
            self.result_ids.append(self.ids.number(result.call_id))
            self.result_names.append(self.names.number(result.name))
            self.characters.append(size.characters)
            self.tokens.append(size.tokens)
            self.errors.append(result.is_error)
            self.refusals.append(self.reasons.number(result.why_not or ""))
        self.kinds.append(kind)
        self.calls_end.append(len(self.call_ids))
        self.results_end.append(len(self.result_ids))
        return calls

    def _read(self, message: Message) -> tuple[Sequence[ToolCall], Sequence[FoundResult], int]:
        if self._format is None:
            return (), (), OTHER
        results = self._format.results(message)
        if self._format.is_reply(message):
            return self._format.calls(message), results, LOOSE if is_loose_end(message, self._format) else REPLY
        return (), results, OTHER if results or message.get("role", "user") != "user" else USER

    def calls_at(self, position: int) -> range:
        """The numbers of a message's calls."""
        return range(self.calls_end[position - 1] if position else 0, self.calls_end[position])

    def results_at(self, position: int) -> range:
        """The numbers of a message's results."""
        return range(self.results_end[position - 1] if position else 0, self.results_end[position])

    def call_place(self, number: int) -> tuple[int, int]:
        """The position of the message that made a call, and which of its calls it is."""
        position = bisect_right(self.calls_end, number)
        return position, number - self.calls_at(position).start

    # As bytes

    def dump(self) -> bytes:
        """Everything, for `load`."""
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
        """What was dumped; None where it is of another version, format or kind of machine."""
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
