"""Where values of secrets stand in a text, however it is escaped. A text is decoded as often as it has escapes, and searched
for all values each time: the work grows with the text, and no more with what it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

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
from hooksdk._masking.parts import Parts
from hooksdk._masking.sieve import Sieve


class Hit(NamedTuple):
    """A value in a text."""

    start: int
    end: int
    name: str


class _Form(NamedTuple):
    name: str
    before: str = ""
    """What of the value stands in front of that which is looked for: blanks and quotes."""
    after: str = ""


class Matcher:
    """Finds the values that it is made of. It never changes, so threads may share it."""

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        self._exact: dict[str, _Form] = {}
        self._loose: dict[str, _Form] = {}
        self._parts = Parts()
        self._depth = MAX_DEPTH
        kept: set[frozenset[str]] = set()
        for name, value in sorted(values):
            self._depth = max(self._depth, MAX_DEPTH + len(unescaped(value)))  # its own escapes are undone as well
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
        """All values in the text, in their order, none within another."""
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
    """Where the forms stand, of which `reading` is looked through as `searched`."""
    placed = [(span, known[form]) for form in forms for span in _occurrences(searched.text, form)]
    spans = searched.origin([span for span, _ in placed], reading)
    # With its blanks and quotes at both ends, where all of them are there.
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
    """One after the other; of several in one place the longest, grown by what sticks out of it."""
    ordered: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        if not ordered or hit.start >= ordered[-1].end:
            ordered.append(hit)
        elif hit.end > ordered[-1].end:
            ordered[-1] = ordered[-1]._replace(end=hit.end)
    return ordered
