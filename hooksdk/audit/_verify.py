"""Verifying a chain: whether it is whole, in order, and signed by one key; and if not, which record is the first wrong
one.

A record's signature covers the hash of the record before, which covers that record's signature, and so on: the last
signature of an unbroken row vouches for the whole row. So one signature is checked for some thousand records. More are
checked only to find the first wrong one, by halving: in an unbroken row every record before a genuine one is genuine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, final

from hooksdk.audit import _chain as chain
from hooksdk.audit._chain import ChainRecord, Head, is_genuine, public_text
from hooksdk.audit._exported import file_lines, read_line, record_in

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Records for which one signature is checked; so many are in memory at a time.
ROW = 10_000

_BEGINNINGS = frozenset({chain.CHAIN_BEGUN, chain.FILE_BEGUN})
# Seconds by which the time of a record may be before that of the one before: clocks of several writers differ.
CLOCK_TOLERANCE = 1.0

# What is wrong, in this order: a record is not as it was signed, or not signed with this key; one is missing; one is at
# a place where it was not written; the chain ends before a head; it is another chain than the head's; there is no
# record.
DamageKind = Literal["changed", "left_out", "added", "cut", "anew", "empty"]


@dataclass(frozen=True, kw_only=True)
class Damage:
    """The first thing that is wrong with a chain.

    Attributes:
        text: The damage in a sentence.
        record: The number of the first record that was changed, left out or added, if it is known.
        line: The line at which the damage shows, from 1, in `source`.
    """

    kind: DamageKind
    text: str
    record: int | None = None
    source: str = ""
    line: int | None = None


@dataclass(kw_only=True)
class Report:
    """The outcome of verifying a chain.

    Attributes:
        records: How many records were read, up to the damage.
        first: The number of the first one.
        head: The last verified record.
        damage: None if the chain is whole.
        notes: What a person should know, and is no damage.
    """

    records: int = 0
    first: int | None = None
    head: Head | None = None
    damage: Damage | None = None
    notes: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Source:
    """A part of the chain: a file, or a space of a store.

    Attributes:
        lines: Its lines without their ends, and whether each has one.
    """

    name: str
    lines: Callable[[], Iterable[tuple[bytes, bool]]]


def file_source(path: Path) -> Source:
    """A file of the chain, or an export of it."""
    return Source(str(path), lambda: file_lines(path))


def verify(sources: Sequence[Source], key: Ed25519PublicKey, heads: Iterable[Head] = ()) -> Report:
    """Verify the chain in these sources, given in any order, by a public key and by heads that were kept elsewhere.
    Raises `OSError`."""
    check = _Check(key, list(heads))
    try:
        check.read(_in_order(sources))
        check.compare_heads()
    except _Found as found:
        check.report.damage = found.damage
    return check.report


def _in_order(sources: Sequence[Source]) -> list[Source]:
    """The sources by the number of their first record; those without a record last."""
    firsts: list[tuple[float, int, Source]] = []
    for place, source in enumerate(sources):
        records = (record for line, _ in source.lines() if (record := record_in(line)) is not None)
        first = next(records, None)
        firsts.append((float("inf") if first is None else first.number, place, source))
    return [source for _, _, source in sorted(firsts, key=lambda one: one[:2])]


class _Found(Exception):
    def __init__(self, damage: Damage) -> None:
        self.damage = damage


@dataclass(frozen=True, slots=True)
class _Placed:
    """A line of a source, with its record if it is one.

    Attributes:
        is_first: True for the first record of a file.
        exported: True for an event of an export, which has all files of a chain as one, without unfinished lines.
        problem: What is wrong where it is no record.
    """

    source: str
    line: int
    record: ChainRecord | None
    raw: bytes
    ended: bool
    is_first: bool
    exported: bool
    problem: str


@final
class _Check:
    def __init__(self, key: Ed25519PublicKey, heads: Sequence[Head]) -> None:
        self.report = Report()
        self._key = key
        self._heads = heads
        self._asked = {head.number for head in heads}
        # The hashes of the records of heads.
        self._seen: dict[int, str] = {}
        self._last: ChainRecord | None = None
        # Records with fitting hashes, whose signatures are not checked yet.
        self._row: list[_Placed] = []
        self._torn: _Placed | None = None
        # The numbers of records whose time is before that of the one before, and by how many seconds.
        self._set_back: list[tuple[int, float]] = []
        # The last records of removed files, by number, with their hashes.
        self._removed: dict[int, str] = {}
        self._before = Head(0, chain.NO_HASH)

    def read(self, sources: Sequence[Source]) -> None:
        """Read all sources. Raises `_Found`."""
        for placed in _placed(sources, public_text(self._key)):
            self._take(placed)
        self._check_row()
        if self._torn is not None:
            if self._torn.exported and not self._torn.ended:
                self._say("cut", self._torn, "ends in the middle of an event", number=self._next)
            if self._torn.ended or self._torn.source != sources[-1].name:
                self._say("changed", self._torn, self._torn.problem, number=self._next)
            where = f"{self._torn.source}, line {self._torn.line}"
            words = "bytes without an end, which a writer did not finish, or which are left of a cut"
            self.report.notes.append(f"{where}: {len(self._torn.raw)} {words}")
        if self._set_back:
            number, seconds = self._set_back[0]
            times = f"{len(self._set_back)} times, first" if len(self._set_back) > 1 else "once,"
            text = f"time runs backwards {times} by {seconds:,.0f} s at record {number}: a clock was set back, or the writers' clocks differ"
            self.report.notes.append(text)
        if self._last is None:
            raise _Found(Damage(kind="empty", text="there is no record"))
        self._check_beginning()

    @property
    def _next(self) -> int:
        return self._last.number + 1 if self._last is not None else 1

    def _take(self, placed: _Placed) -> None:
        record = placed.record
        if record is None:
            if self._torn is not None:
                self._say("changed", self._torn, self._torn.problem, number=self._next)
            self._torn = placed
            return
        if self._torn is not None:
            self._check_torn(self._torn, placed, record)
        elif record.kind == chain.LINE_TORN and not placed.exported:
            self._check_signature(placed)
            text = "tells of an unfinished line, which should stand before it"
            self._say("left_out", placed, text, number=record.number)
        if self._last is None:
            self._begin(placed, record)
        elif record.number != self._next or record.previous != self._last.hash:
            self._tell_break(placed, record)
        elif (begins := record.kind in _BEGINNINGS) is not placed.is_first and not (begins and placed.exported):
            self._check_signature(placed)
            within, first = "begins a file, and stands within one", "does not begin a file, and stands first in one"
            self._say("added", placed, first if placed.is_first else within, number=record.number)
        else:
            self._compare_times(self._last, record)
        self._last = record
        self._row.append(placed)
        self.report.records += 1
        if record.number in self._asked:
            self._seen[record.number] = record.hash
        if record.kind == chain.FILES_REMOVED:
            through, last_hash = record.fields.get("through"), record.fields.get("hash")
            if isinstance(through, int) and isinstance(last_hash, str):
                self._removed[through] = last_hash
        if len(self._row) >= ROW:
            self._check_row()

    def _compare_times(self, before: ChainRecord, record: ChainRecord) -> None:
        """Note a time that runs backwards. It is no damage: clocks are set back, and those of several writers differ."""
        if record.written and before.written - record.written > CLOCK_TOLERANCE:
            self._set_back.append((record.number, before.written - record.written))

    def _begin(self, placed: _Placed, record: ChainRecord) -> None:
        expected = chain.CHAIN_BEGUN if record.number == 1 else chain.FILE_BEGUN
        wrong_hash = record.number == 1 and record.previous != chain.NO_HASH
        if record.kind != expected or wrong_hash:
            self._check_signature(placed)
            text = "does not begin a file: what stood before it is missing"
            self._say("left_out", placed, text, number=max(record.number - 1, 1))
        self.report.first = record.number
        self._before = Head(record.number - 1, record.previous)

    def _check_torn(self, torn: _Placed, placed: _Placed, record: ChainRecord) -> None:
        """Accept a line that is no record if the record after it says that it is unfinished."""
        fields = record.fields
        if (
            record.kind != chain.LINE_TORN
            or fields.get("sha256") != chain.hash_of(torn.raw)
            or torn.source != placed.source
        ):
            self._say("changed", torn, torn.problem, number=self._next)
        self.report.notes.append(f"{torn.source}, line {torn.line}: {len(torn.raw)} bytes that a writer did not finish")
        self._torn = None

    def _tell_break(self, placed: _Placed, record: ChainRecord) -> None:
        """Tell of a record that does not follow the one before, after the records before it are checked."""
        self._check_row()
        self._check_signature(placed)
        number, expected = record.number, self._next
        if number > expected:
            missing = f"record {expected}" if number == expected + 1 else f"records {expected} to {number - 1}"
            self._say("left_out", placed, f"is record {number}, and {missing} should stand before it", number=expected)
        if number < expected:
            self._say("added", placed, f"is record {number}, which should stand before, or once", number=number)
        self._say("added", placed, f"is a record {number} that was not written after the one before", number=number)

    def _is_genuine(self, placed: _Placed) -> bool:
        return placed.record is not None and is_genuine(self._key, placed.record)

    def _check_signature(self, placed: _Placed) -> None:
        if not self._is_genuine(placed):
            assert placed.record is not None
            expected = self._next if self._last is not None else placed.record.number
            self._say("changed", placed, "is not as it was signed, or not signed with this key", number=expected)

    def _check_row(self) -> None:
        row, self._row = self._row, []
        if not row or self._is_genuine(row[-1]):
            self.report.head = row[-1].record.head if row and row[-1].record else self.report.head
            return
        first = bisect_left(row, True, key=lambda one: not self._is_genuine(one))
        self.report.records -= len(row) - first
        if first and (before := row[first - 1].record) is not None:
            self.report.head = before.head
        wrong = row[first].record
        assert wrong is not None
        self._say("changed", row[first], "is not as it was signed, or not signed with this key", number=wrong.number)

    def _check_beginning(self) -> None:
        """Check a chain whose first files are missing: a record must say that they were removed, or a head be of their
        last."""
        before = self._before
        if before.number == 0:
            return
        missing = f"records 1 to {before.number} are not here"
        # A writer that died while it removed files has left the newer ones of them.
        was_removed = any(
            before.number < through or (before.number == through and before.hash == last_hash)
            for through, last_hash in self._removed.items()
        )
        if was_removed:
            self.report.notes.append(f"{missing}: a record of the chain says that `keep` removed them")
        elif before in self._heads:
            self.report.notes.append(f"{missing}: a head that was given is of the last of them")
        else:
            text = f"{missing}, and no record says that they were removed. Give their files, too, or the head before the first file"
            raise _Found(Damage(kind="left_out", text=text, record=1))

    def compare_heads(self) -> None:
        """Compare the chain with the heads. Raises `_Found`."""
        last = self._last
        assert last is not None
        for head in sorted(self._heads, key=lambda one: one.number):
            if head.number > last.number:
                first = last.number + 1
                text = f"the chain ends with record {last.number}, and the head is of record {head.number}: its end was cut"
                raise _Found(Damage(kind="cut", text=text, record=first))
            known = self._before.hash if head.number == self._before.number else self._seen.get(head.number)
            if known is None:
                text = f"the head is of record {head.number}, which is not here, so nothing can be said by it. Keep newer heads"
                raise _Found(Damage(kind="left_out", text=text, record=head.number))
            if known != head.hash:
                text = f"record {head.number} is another one than the head's: the chain was made anew, up to there at least"
                raise _Found(Damage(kind="anew", text=text, record=head.number))

    def _say(self, kind: DamageKind, placed: _Placed, text: str, *, number: int | None = None) -> None:
        if self._row:
            self._check_row()
        where = f"{placed.source}, {'event' if placed.exported else 'line'} {placed.line}"
        raise _Found(Damage(kind=kind, text=f"{where} {text}", record=number, source=placed.source, line=placed.line))


def _placed(sources: Iterable[Source], key: str) -> Iterator[_Placed]:
    for source in sources:
        is_first = True
        for number, (raw, ended) in enumerate(source.lines(), 1):
            record, exported, problem = read_line(raw, key)
            yield _Placed(source.name, number, record, raw, ended, is_first, exported, problem)
            is_first = is_first and record is None
