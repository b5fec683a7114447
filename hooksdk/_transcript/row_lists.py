"""Lists of rows, of which the newest are in memory and the others in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, final, overload

from hooksdk._origins.labels import Labels
from hooksdk._transcript.rows import HANDLE, Marks, ResultRow, RowKind, RowSource, StoredRow
from hooksdk._transcript.trims import plain_name

R = TypeVar("R")

# Rows of one page that is read from the store, and pages that are kept.
PAGE = 256
MOST_PAGES = 64
# The newest rows that stay in memory once the store has them.
KEPT_ROWS = 2_000


class Rows(Sequence[R], Generic[R]):
    """Rows of one kind, by number: the newest in memory, the others in the store."""

    def __init__(self, kind: RowKind, load: Callable[[StoredRow], R]) -> None:
        self.source: RowSource | None = None
        self.kind: RowKind = kind
        self._load = load
        # The number of rows that are in the store alone, and the rows after them.
        self._first = 0
        self._kept: list[R] = []
        # How many of all rows the store has.
        self.stored = 0
        # Pages of the older rows, by their first number, those read last at the end.
        self._pages: dict[int, list[R]] = {}
        # Older rows that have changed since they were stored, by number.
        self.changed: dict[int, R] = {}

    def begin_after(self, count: int, source: RowSource) -> None:
        """Take the first `count` rows from a source."""
        self.source, self._first, self.stored = source, count, count

    def append(self, row: R) -> None:
        """Add the next row."""
        self._kept.append(row)

    def __len__(self) -> int:
        return self._first + len(self._kept)

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
            return self._kept[number - self._first]
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

    @property
    def kept(self) -> tuple[int, Sequence[R]]:
        """The number of the first row in memory, and the rows from there on."""
        return self._first, self._kept

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
            del self._kept[:let_go]
            self._pages.clear()
            self._first += let_go


@final
class ResultRows(Rows[ResultRow]):
    """All results, oldest first.

    Attributes:
        handle_ids: The ids of calls that read like the handle of a result.
        labels: The labels of results, each set once.
    """

    def __init__(self) -> None:
        super().__init__("result", ResultRow.load)
        self.handle_ids: set[str] = set()
        self.labels: set[Labels] = set()
        # By call id: the numbers of the results in memory.
        self._by_id: dict[str, list[int]] = {}

    def append(self, row: ResultRow) -> None:
        """Add the next result."""
        super().append(row)
        self._by_id.setdefault(row.call_id, []).append(row.number)
        self.labels.add(row.labels)
        if HANDLE.fullmatch(row.call_id):
            self.handle_ids.add(row.call_id)

    def own_marks(self, row: ResultRow) -> Marks:
        """The marks of a result or an argument, to write."""
        whole = row if not row.argument_name else self[row.number]
        self.mark(row.number, whole)
        return row.marks

    def label(self, row: ResultRow, labels: Labels | None) -> None:
        """Give a result its labels, before anybody has read it."""
        self.own_marks(row).labels = labels
        self.labels.add(row.labels)

    def with_id(self, call_id: str) -> list[ResultRow]:
        """The results whose call has this id, oldest first."""
        first, kept = self.kept
        older = self.find(call_id)
        return [*older, *(kept[number - first] for number in self._by_id.get(call_id, ()) if number >= first)]

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
        super().note_stored(count, source)
        first, _ = self.kept
        kept = {call_id: [number for number in each if number >= first] for call_id, each in self._by_id.items()}
        self._by_id = {call_id: each for call_id, each in kept.items() if each}
