"""What a reply that was cut off may end with, and a provider refuses: OpenAI's API takes no reasoning that nothing
follows. It stays stored, since the reply may go on with the next message, and is left out of what is sent until
then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hooksdk.formats import Message, MessageFormat


def is_loose_end(message: Message, message_format: MessageFormat) -> bool:
    """True for a message of the model that is refused where nothing else of its reply follows."""
    # An `isinstance` of `HasLooseEnds` for each reply took a third of the time in which a long session is opened.
    method = getattr(message_format, "is_loose_end", None)
    return method is not None and method(message)


def without_loose_ends(messages: Sequence[Message], message_format: MessageFormat) -> list[Message]:
    """The messages without the loose ends among them."""
    ends = LooseEnds()
    for position, message in enumerate(messages):
        is_reply = message_format.is_reply(message)
        ends.add(position, is_reply=is_reply, is_loose=is_reply and is_loose_end(message, message_format))
    return [messages[position] for position in ends.others(0, len(messages))]


@dataclass
class LooseEnds:
    """The positions of loose ends in a list that grows.

    Attributes:
        newest: Those that the next message may complete.
    """

    _positions: set[int] = field(default_factory=set[int])
    newest: list[int] = field(default_factory=list[int])

    def __contains__(self, position: int) -> bool:
        return position in self._positions

    def add(self, position: int, *, is_reply: bool, is_loose: bool) -> None:
        """One more message, or a part of a reply."""
        if is_loose:
            self.newest.append(position)
            self._positions.add(position)
            return
        if is_reply:
            self._positions.difference_update(self.newest)
        self.newest = []

    def others(self, start: int, end: int) -> list[int]:
        """The positions in this range that are none."""
        return [position for position in range(start, end) if position not in self._positions]

    def dump(self) -> list[list[int]]:
        """As JSON."""
        return [sorted(self._positions), self.newest]

    def load(self, values: list[list[int]]) -> None:
        """Take what `dump` gave."""
        self._positions, self.newest = set(values[0]), [*values[1]]
