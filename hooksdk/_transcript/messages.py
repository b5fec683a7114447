"""The stored messages: the newest as objects, the others read where the store has them when somebody asks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, final, overload

from hooksdk import schema
from hooksdk.formats import Message

# How much of the newest messages stays in memory as objects, by its stored size; they take about six times that. A
# session that is smaller is read once.
KEPT_BYTES = 1_000_000


class MessageSource(Protocol):
    """Where the messages are stored."""

    def scan(self, start: int, stop: int) -> Iterator[Message]:
        """The messages from `start` to before `stop`, each a fresh object. Raises `TranscriptChanged` where one is not
        what was stored, and `StoreError` where it cannot be read."""
        ...


@final
class EncodedMessages:
    """Messages as the lines of JSON that they are stored as: a fifth of what they take as objects."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines

    def scan(self, start: int, stop: int) -> Iterator[Message]:
        """The messages from `start` to before `stop`, each a fresh object."""
        return (json.loads(line) for line in self.lines[start:stop])


@final
class Messages(Sequence[Message]):
    """All stored messages. Those that are asked for may be shared with others: copy them before they are handed out."""

    def __init__(self, source: MessageSource | None = None, first: int = 0) -> None:
        """`first` is how many of them stay in the source. Without a source all that come later are kept."""
        self._source = source
        self._first = first
        self._kept: list[Message] = []
        self._sizes: list[int] = []
        self._bytes = 0
        # Older messages that a compaction has left in the view, by position.
        self._pinned: dict[int, Message] = {}

    def append(self, message: Message, size: int = 0) -> None:
        """One more, which is stored already, in `size` bytes."""
        self._kept.append(message)
        if self._source is not None:
            self._sizes.append(size)
            self._bytes += size
            if self._bytes > 2 * KEPT_BYTES:
                count = 0
                while self._bytes > KEPT_BYTES and count < len(self._kept) - 1:
                    self._bytes -= self._sizes[count]
                    count += 1
                del self._kept[:count], self._sizes[:count]
                self._first += count

    def pin(self, positions: Iterable[int]) -> None:
        """Keep these messages, and no others of the older ones."""
        self._pinned = {place: self[place] for place in positions} if self._source is not None else {}

    def __len__(self) -> int:
        return self._first + len(self._kept)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        if position >= self._first:
            return self._kept[position - self._first]
        return self._pinned[position] if position in self._pinned else next(self._read(position, position + 1))

    def _read(self, start: int, stop: int) -> Iterator[Message]:
        assert self._source is not None
        return self._source.scan(start, stop)

    def __iter__(self) -> Iterator[Message]:
        return self.since(0)

    def since(self, start: int, stop: int | None = None, *, copied: bool = False) -> Iterator[Message]:
        """The messages from `start` on, or to before `stop`; with `copied` they are the caller's own."""
        stop = len(self) if stop is None else stop
        if start < self._first:
            yield from self._read(start, min(stop, self._first))
        for message in self._kept[max(start - self._first, 0) : max(stop - self._first, 0)]:
            yield schema.clone(message) if copied else message
