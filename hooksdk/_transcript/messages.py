"""The stored messages and the rows about them: the newest are in memory, the others are read where the store has them
when somebody asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar, final, overload

from hooksdk import schema
from hooksdk._origins.labels import UNLABELLED, Labels
from hooksdk._transcript.rows import HANDLE, Marks, ResultRow, RowKind, RowSource, StoredRow
from hooksdk._transcript.trims import plain_name
from hooksdk.formats import Message

R = TypeVar("R")

# How much of the newest messages stays in memory as objects, by its stored size; they take about six times that. A
# session that is smaller is read once.
KEPT_BYTES = 1_000_000
# Rows of one page that is read from the store, and pages that are kept.
PAGE = 256
MOST_PAGES = 64
# The newest rows that stay in memory once the store has them.
KEPT_ROWS = 2_000


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


class Rows(Sequence[R], Generic[R]):
    """Rows of one kind, by number: the newest in memory, the others in the store.

    Attributes:
        newest: The rows in memory: more are appended to this list.
        stored: The number of rows that the store has.
        changed: By number: older rows that have changed since they were stored.
    """

    def __init__(self, kind: RowKind, load: Callable[[StoredRow], R]) -> None:
        self.source: RowSource | None = None
        self.kind: RowKind = kind
        self._load = load
        # The number of rows that are in the store alone.
        self._first = 0
        self.newest: list[R] = []
        self.stored = 0
        # Pages of the older rows, by their first number, those read last at the end.
        self._pages: dict[int, list[R]] = {}
        self.changed: dict[int, R] = {}

    def begin_after(self, count: int, source: RowSource) -> None:
        """Take the first `count` rows from a source."""
        self.source, self._first, self.stored = source, count, count

    def __len__(self) -> int:
        return self._first + len(self.newest)

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        if number >= self._first:
            return self.newest[number - self._first]
        changed = self.changed.get(number)
        return self._page(number - number % PAGE)[number % PAGE] if changed is None else changed

    def _page(self, start: int) -> list[R]:
        page = self._pages.pop(start, None)
        if page is None:
            assert self.source is not None
            stop = min(start + PAGE, self._first)
            page = [self._load(row) for row in self.source.read_rows(self.kind, start, stop)]
            if len(self._pages) >= MOST_PAGES:
                del self._pages[next(iter(self._pages))]
        self._pages[start] = page
        return page

    def __iter__(self) -> Iterator[R]:
        return (self[number] for number in range(len(self)))

    def find(self, tag: str) -> list[R]:
        """The rows with this tag that the store alone has, oldest first."""
        if self.source is None:
            return []
        found = [row.number for row in self.source.find_rows(self.kind, tag)] if self._first else []
        return [self[number] for number in found if number < self._first]

    def mark(self, number: int, row: R) -> None:
        """Note that a row has changed."""
        if number < self.stored:
            self.changed[number] = row

    def unstored(self) -> Iterator[tuple[int, R]]:
        """What the store does not have as it is now: changed rows, and new ones."""
        yield from self.changed.items()
        for number in range(self.stored, len(self)):
            yield number, self[number]

    def note_stored(self, count: int, source: RowSource) -> None:
        """The first `count` rows are stored now as they are. Of them only the newest stay in memory."""
        self.source, self.stored = source, count
        if self.changed:
            self.changed.clear()
            self._pages.clear()
        let_go = max(0, min(count, len(self) - KEPT_ROWS) - self._first)
        if let_go:
            del self.newest[:let_go]
            self._pages.clear()
            self._first += let_go


@final
class ResultRows(Rows[ResultRow]):
    """All results, oldest first."""

    def __init__(self) -> None:
        super().__init__("result", ResultRow.load)
        # By call id: the numbers of the results in memory, as far as they were gone through.
        self._by_id: dict[str, list[int]] = {}
        self._handle_ids: set[str] = set()
        self._labels: set[Labels] = set()
        self._known = 0

    def begin_with(self, handle_ids: Iterable[str], labels: Iterable[Labels]) -> None:
        """Take what is known of the results that the source has."""
        self._handle_ids, self._labels, self._known = {*handle_ids}, {*labels}, len(self)

    def _read(self) -> None:
        for row in self.newest[self._known - self._first :]:
            self._by_id.setdefault(row.call_id, []).append(row.number)
            self._labels.add(UNLABELLED if row.marks.labels is None else row.marks.labels)
            if HANDLE.fullmatch(row.call_id):
                self._handle_ids.add(row.call_id)
        self._known = len(self)

    @property
    def handle_ids(self) -> set[str]:
        """The ids of calls that read like the handle of a result."""
        self._read()
        return self._handle_ids

    @property
    def labels(self) -> set[Labels]:
        """The labels of results, each set once."""
        self._read()
        return self._labels

    def forget_labels(self) -> None:
        """Read the labels of all results anew: those of old ones have changed."""
        self._labels = {row.labels for row in self}

    def own_marks(self, row: ResultRow) -> Marks:
        """The marks of a result or an argument, to write."""
        whole = row if not row.argument_name else self[row.number]
        self.mark(row.number, whole)
        return row.marks

    def with_id(self, call_id: str) -> list[ResultRow]:
        """The results whose call has this id, oldest first."""
        self._read()
        newest = [self[number] for number in self._by_id.get(call_id, ())]
        return [*self.find(call_id), *newest]

    def by_handle(self, handle: str) -> ResultRow | None:
        """The result or argument with this handle, which may be written as its note has it."""
        match = HANDLE.fullmatch(handle)
        number = int(match[1]) - 1 if match and len(match[1]) < 20 else len(self)
        if match is None or number >= len(self):
            return None
        rows, name = self[number].with_arguments, match[2] or ""
        named = [row for row in rows if row.argument_name == name] or [
            row for row in rows if plain_name(row.handle) == handle
        ]
        return named[0] if len(named) == 1 else None

    def note_stored(self, count: int, source: RowSource) -> None:
        """The first `count` results are stored now as they are."""
        self._read()
        super().note_stored(count, source)
        by_id = self._by_id.items()
        kept = {call_id: [number for number in each if number >= self._first] for call_id, each in by_id}
        self._by_id = {call_id: each for call_id, each in kept.items() if each}
