"""The stored messages: the newest as objects, the others read where the store has them when somebody asks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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

    def __init__(self, first: int = 0, *, lazy: bool = False) -> None:
        """`first` is how many of them stay in the store. Unless it is `lazy`, all that come later are kept."""
        self.source: MessageSource | None = None
        self._lazy = lazy
        self._first = first
        self._kept: list[Message] = []
        self._sizes: list[int] = []
        self._bytes = 0

    def append(self, message: Message, size: int = 0) -> None:
        """One more, which is stored already, in `size` bytes. While a long session is read none is kept: nearly all
        would be let go of again, and the garbage collector would look through them meanwhile."""
        if self._lazy and self.source is None and self._first:
            self._first += 1
            return
        self._kept.append(message)
        if self._lazy:
            self._sizes.append(size)
            self._bytes += size
            if self._bytes > (KEPT_BYTES if self.source is None else 2 * KEPT_BYTES):
                self._let_go()

    def _let_go(self) -> None:
        count = 0
        while self._bytes > KEPT_BYTES and count < len(self._kept) - 1:
            self._bytes -= self._sizes[count]
            count += 1
        if self.source is None:
            count, self._bytes = len(self._kept), 0
        del self._kept[:count], self._sizes[:count]
        self._first += count

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
        return (
            self._kept[position - self._first] if position >= self._first else next(self._read(position, position + 1))
        )

    def _read(self, start: int, stop: int) -> Iterator[Message]:
        assert self.source is not None
        return self.source.scan(start, stop)

    def __iter__(self) -> Iterator[Message]:
        return self.since(0)

    def since(self, start: int, stop: int | None = None, *, copied: bool = False) -> Iterator[Message]:
        """The messages from `start` on, or to before `stop`; with `copied` they are the caller's own."""
        stop = len(self) if stop is None else stop
        if start < self._first:
            yield from self._read(start, min(stop, self._first))
        for message in self._kept[max(start - self._first, 0) : max(stop - self._first, 0)]:
            yield schema.clone(message) if copied else message
