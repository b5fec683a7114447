"""Which texts patterns match, for all patterns of a proof at once.

A *language* is the set of texts that one of several expressions matches: a rule lists several patterns, and one is
enough. All languages are read together. Each place of an expression (a character, a set, a wildcard) is one bit of a
number, the *row*: it is set where a text may stand so far. One more character of the text moves the set bits along.
This is the shift-and way of matching (Baeza-Yates and Gonnet, Communications of the ACM 35(10), 1992).

Only what hooksdk compiles its own patterns to is read: characters, sets, `.`, `?`, `*`, and an optional group at the
end. Proofs rest on this file; the tests compare it with what `re` matches.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final


@dataclass(frozen=True)
class _Place:
    """One place in an expression, and which character may stand there.

    Attributes:
        chars: These characters; or with `others` all but these.
        ends: The text may end before it: an optional group begins here.
    """

    chars: frozenset[str]
    others: bool
    optional: bool = False
    loops: bool = False
    ends: bool = False


_ELEMENT = re.compile(
    r"(?P<skip>\(\?>|\)\??)|(?P<group>\()|(?P<set>\[\^?(?:\\.|[^\]])+\])|(?P<any>\.)|\\(?P<escaped>[\s\S])|(?P<char>[\s\S])"
)
_REPEAT = re.compile(r"\*\??|\?")


def _places(expression: str) -> Iterator[_Place]:
    """The places of an expression, in their order."""
    at, ends = 0, False
    while at < len(expression):
        match = _ELEMENT.match(expression, at)
        assert match is not None
        at = match.end()
        if match["skip"]:
            continue
        if match["group"]:
            ends = True
            continue
        inner = (match["set"] or "[]")[1:-1]
        others = bool(match["any"]) or inner.startswith("^")
        listed = re.sub(r"\\(.)", r"\1", inner.removeprefix("^")) or match["escaped"] or match["char"] or ""
        repeat = _REPEAT.match(expression, at)
        at = repeat.end() if repeat else at
        word = repeat[0] if repeat else ""
        yield _Place(frozenset(listed), others, optional=word == "?", loops=word[:1] == "*", ends=ends)
        ends = False


@final
class Languages:
    """Reads a text against several languages, character by character.

    A state stands for a row of bits, and is its number in `_rows`: equal rows are one state, so that a walk over all
    texts ends. `start` is the state before the first character. Ask `accepted` which languages the text of a state is
    in.
    """

    def __init__(self, languages: Sequence[Sequence[re.Pattern[str]]]) -> None:
        self._positive: dict[str, int] = defaultdict(int)
        self._negative: dict[str, int] = defaultdict(int)
        self._places = self._others = self._loops = self._skips = self._ends = self._settled = 0
        # Of each language, the bits of its places.
        self._whole: list[int] = []
        # By the bit of a settled place, all bits of its language.
        self._of_settled: dict[int, int] = {}
        self._rows: list[int] = []
        self._state_of: dict[int, int] = {}
        self._steps: dict[tuple[int, str], int] = {}
        self._expected: dict[int, list[str]] = {}
        self._language_at: dict[int, int] = {}
        self.start = 0
        bit = 0
        for patterns in languages:
            first = bit
            for pattern in dict.fromkeys(one.pattern for one in patterns):
                bit = self._add(list(_places(pattern)), bit)
            self._whole.append(((1 << bit) - 1) >> first << first)
            self._language_at.update(dict.fromkeys(range(first, bit), len(self._whole) - 1))
            settled = self._settled & self._whole[-1]
            while settled:
                lowest = settled & -settled
                self._of_settled[lowest] = self._whole[-1]
                settled ^= lowest
        self.start = self._state(self.start)

    def _state(self, row: int) -> int:
        """The number of a row; a new one is kept."""
        row = self._closed(row)
        if (state := self._state_of.get(row)) is None:
            state = self._state_of[row] = len(self._rows)
            self._rows.append(row)
        return state

    def _add(self, places: Sequence[_Place], bit: int) -> int:
        """Give the places of one expression the bits from here on; answers the next free one."""
        self.start |= 1 << bit
        for number, place in enumerate(places):
            here = 1 << (bit + number)
            self._places |= here
            for char in place.chars:
                (self._negative if place.others else self._positive)[char] |= here
            self._others |= here if place.others else 0
            self._loops |= here if place.loops else 0
            self._skips |= here if place.loops or place.optional else 0
            self._ends |= here if place.ends else 0
        end = bit + len(places)
        self._ends |= 1 << end
        for number in range(len(places) - 1, -1, -1):
            place = places[number]
            if not (place.loops or place.optional):
                break
            if place.loops and place.others and not place.chars:  # `*` at the end: whatever follows matches
                self._settled |= 1 << (bit + number)
        return end + 1

    @cached_property
    def named(self) -> dict[str, int]:
        """The characters that patterns name, each with its places."""
        chars = sorted({*self._positive, *self._negative})
        return {char: self._positive.get(char, 0) | self._negative.get(char, 0) for char in chars}

    def expected(self, state: int) -> list[str]:
        """The characters that lead from here elsewhere than others do."""
        if (known := self._expected.get(state)) is None:
            row = self._rows[state]
            known = [char for char, places in self.named.items() if row & places]
            self._expected[state] = known
        return known

    def is_decided(self, state: int) -> bool:
        """True where no further characters change which languages the text is in."""
        return not self._rows[state] & (self._places | self._ends) & ~self._settled  # what has ended ends no later

    def step(self, state: int, char: str) -> int:
        """The state after one more character of the text."""
        if (known := self._steps.get((state, char))) is not None:
            return known
        fits = (self._others & ~self._negative.get(char, 0)) | self._positive.get(char, 0)
        fitting = self._rows[state] & fits
        following = self._state(((fitting & ~self._loops) << 1) | (fitting & self._loops))
        self._steps[state, char] = following
        return following

    def _closed(self, row: int) -> int:
        """The row with the places that need no character, and of a language that holds whatever comes only the bit that
        says so."""
        while (more := row | ((row & self._skips) << 1)) != row:
            row = more
        settled = row & self._settled
        while settled:
            lowest = settled & -settled
            whole = self._of_settled[lowest]
            row = (row & ~whole) | lowest
            settled &= ~whole
        return row

    def is_open(self, state: int, language: int) -> bool:
        """True where the text is in this language, or may come to be with more characters."""
        return bool(self._rows[state] & self._whole[language])

    def accepted(self, state: int) -> int:
        """The languages that the text is in: bit 0 for the first, bit 1 for the second, and so on."""
        ends, languages = self._rows[state] & (self._ends | self._settled), 0
        while ends:
            last = ends.bit_length() - 1
            languages |= 1 << self._language_at[last]
            ends ^= 1 << last
        return languages
