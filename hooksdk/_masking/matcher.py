"""Find the values of secrets in a text with escapes of any kind, and parts of values that were cut off. The text is
decoded as many times as it has escapes in escapes, and searched for all values each time, so the work grows with the
length of the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from hooksdk._masking.escapes import (
    MAX_DEPTH,
    Reading,
    Span,
    ends_of,
    fold,
    fold_bytes,
    folded,
    own_families,
    readings,
    unescaped,
)
from hooksdk._masking.forms import in_base64, in_numbers, is_loose, quoted, texts_of

# Bytes of a block, and the code of a number of that size for `memoryview`.
_SIZES: dict[int, Literal["Q", "I"]] = {8: "Q", 4: "I"}


class Sieve:
    """Sifts out the few of many texts that may stand in another text. The other text is read as a row of blocks of 8
    bytes. A text of 15 bytes or more covers a whole block wherever it begins, and that is one of 8 blocks which are
    known beforehand; a text of 7 bytes or more covers a block of 4."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._tables: dict[int, dict[int, list[str]]] = {}
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            size = next(size for size in _SIZES if len(raw) >= 2 * size - 1)
            middle = (len(raw) - 2 * size + 1) // 2  # many values begin alike
            table = self._tables.setdefault(size, {})
            for start in range(middle, middle + size):
                table.setdefault(_blocks(raw[start : start + size], size)[0], []).append(text)

    def sift(self, raw: bytes) -> list[str]:
        """The texts that may stand in this one, given as UTF-8: all that do, and few others."""
        left: set[str] = set()
        for size, table in self._tables.items():
            blocks = _blocks(raw, size)
            if not table.keys().isdisjoint(blocks):
                left.update(*(table[block] for block in table.keys() & set(blocks)))
        return sorted(left)


def _blocks(raw: bytes, size: int) -> memoryview[int]:
    """The bytes as numbers of `size` bytes each; a rest at the end is left out."""
    return memoryview(raw)[: len(raw) // size * size].cast(_SIZES[size])


# Characters of the shortest part that is masked: half of `hunter2-password` is a usual word.
MIN_PART = 15
# Characters of a part that is always masked; of a shorter value a half is masked. Keys and tokens of one kind often
# begin alike.
ENOUGH = 48
# Marks of a cut, in a folded text; the first one stands for the end of the text.
_MARKS = ("\0", "…", "...", "[truncated", "(truncated", "<truncated", "truncated]", "truncated)", "truncated>")
_HALF_ESCAPE = re.compile("(?:[%&]#?[0-9a-z]{0,7}|[ux][0-9a-f]{0,3})?")
_OTHER_HALF = re.compile("(?:[0-9a-f]{1,3}|[0-9a-z]{0,7};)?")
_LONGEST_HALF = 9


class Parts:
    """Finds parts of values beside a cut, by the fifteen characters before or after each place at which a cut leaves
    enough of a value.

    Attributes:
        least: The shortest parts: a text without any of them has no part of a value.
    """

    def __init__(self) -> None:
        self.least: set[str] = set()
        self._ends: dict[str, list[tuple[str, str]]] = {}
        self._begins: dict[str, list[tuple[str, str]]] = {}

    def add(self, value: str, name: str) -> None:
        """Find parts of this value from now on."""
        least = max(MIN_PART, min((len(value) + 1) // 2, ENOUGH))
        if least < len(value):
            self.least |= {value[:least], value[-least:]}
        for size in range(least, len(value)):
            self._ends.setdefault(value[size - MIN_PART : size], []).append((value[:size], name))
            self._begins.setdefault(value[-size:][:MIN_PART], []).append((value[-size:], name))

    def find(self, text: str) -> list[tuple[Span, str]]:
        """The places at which the text, or a passage beside a mark of a cut, ends or begins with the greater part of a
        value, each with the value's name."""
        places: list[tuple[Span, str]] = []
        ends, begins = [len(text)], [0]
        for mark in _MARKS:
            at = text.find(mark)
            while at >= 0:
                ends.append(at)
                begins.append(at + len(mark))
                at = text.find(mark, at + len(mark))
        for end in ends:
            for stop in range(max(end - _LONGEST_HALF, MIN_PART), end + 1):
                for part, name in self._ends.get(text[stop - MIN_PART : stop], ()):
                    if text.endswith(part, 0, stop) and _HALF_ESCAPE.fullmatch(text, stop, end):
                        places.append(((stop - len(part), stop), name))
        for begin in begins:
            for start in range(begin, begin + _LONGEST_HALF):
                for part, name in self._begins.get(text[start : start + MIN_PART], ()):
                    if text.startswith(part, start) and _OTHER_HALF.fullmatch(text, begin, start):
                        places.append(((start, start + len(part)), name))
        return places


class Hit(NamedTuple):
    """A value in a text."""

    start: int
    end: int
    name: str


class _Form(NamedTuple):
    name: str
    # Blanks and quotes of the value in front of the searched form.
    before: str = ""
    after: str = ""


class Matcher:
    """Finds certain values in texts. A matcher never changes, so threads may share it."""

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        self._exact: dict[str, _Form] = {}
        self._loose: dict[str, _Form] = {}
        self._parts = Parts()
        self._depth = MAX_DEPTH
        kept: set[frozenset[str]] = set()
        for name, value in sorted(values):
            self._depth = max(self._depth, MAX_DEPTH + len(unescaped(value)))  # the value's own escapes are undone, too
            kept.update(own_families(value))
            for text in filter(str.strip, texts_of(value)):
                if is_loose(text):
                    form = fold(text)
                    self._loose.setdefault(form, _Form(name, *ends_of(text)))
                    self._parts.add(form, name)
                else:
                    self._exact |= {spelling: _Form(name) for spelling in quoted(text) if spelling not in self._exact}
            for encoded in (*in_base64(value), *in_numbers(value)):
                forms, form = (self._loose, fold(encoded)) if is_loose(encoded) else (self._exact, encoded)
                forms.setdefault(form, _Form(name))
        self._kept = sorted(kept, key=len)
        self._sieve = Sieve({*self._loose, *self._parts.least})
        self._shortest = min(map(len, (*self._exact, *self._loose, *self._parts.least)), default=1)

    def find(self, text: str) -> list[Hit]:
        """All values in the text, in order, none within another."""
        if len(text) < self._shortest:
            return []
        hits: list[Hit] = []
        before = b""
        for reading in readings(text, self._depth, self._kept):
            if exact := [form for form in self._exact if form in reading.text]:
                hits += _search(reading, reading, exact, self._exact)
            raw = fold_bytes(reading.text)
            if raw != before and (there := self._sieve.sift(raw)):
                hits += self._loosely(reading, there)
            before = raw
        return _in_order(hits) if hits else hits

    def _loosely(self, reading: Reading, forms: list[str]) -> list[Hit]:
        plain = folded(reading)
        hits = _search(reading, plain, self._loose.keys() & set(forms), self._loose)
        if any(form in plain.text for form in self._parts.least & set(forms)):
            parts = self._parts.find(plain.text)
            spans = plain.origin([span for span, _ in parts])
            hits += [Hit(*span, name) for span, (_, name) in zip(spans, parts, strict=True)]
        return hits


def _search(reading: Reading, searched: Reading, forms: Iterable[str], known: Mapping[str, _Form]) -> list[Hit]:
    """The places of these forms in `reading`, which is searched in the form `searched`."""
    placed = [(span, known[form]) for form in forms for span in _occurrences(searched.text, form)]
    spans = searched.origin([span for span, _ in placed], reading)
    # With the value's blanks and quotes at both ends, if the text has all of them.
    spans = [
        (
            start - len(form.before) * reading.text.endswith(form.before, 0, start),
            end + len(form.after) * reading.text.startswith(form.after, end),
        )
        for (start, end), (_, form) in zip(spans, placed, strict=True)
    ]
    return [Hit(*span, form.name) for span, (_, form) in zip(reading.origin(spans), placed, strict=True)]


def _occurrences(text: str, form: str) -> Iterator[Span]:
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + len(form))


def _in_order(hits: list[Hit]) -> list[Hit]:
    """The hits in order, without overlaps: of several in one place the longest, extended to the end of those that begin
    in it."""
    ordered: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        if not ordered or hit.start >= ordered[-1].end:
            ordered.append(hit)
        elif hit.end > ordered[-1].end:
            ordered[-1] = ordered[-1]._replace(end=hit.end)
    return ordered
