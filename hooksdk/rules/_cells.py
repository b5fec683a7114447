"""The texts that the patterns of a proof can tell apart, each by one example.

A *cell* is a set of languages (see `_languages`) that some text is in while it is in no other: to the rules all its
texts are the same, so that a proof need look at one of them alone, the shortest. Cells are found by a breadth-first
walk over all texts: `moves` gives the characters that can make a difference next, and `ends` tells which languages the
text so far is in.

What a reader must check is that no difference is left out: each function below offers every character that patterns
name, one for all others of each kind, and what is read otherwise than it looks (capitals, wide letters, marks, letters
that become several). A proof that says *never* is only as good as that; the tests compare proofs with what the rules
say of single calls.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeVar

from hooksdk.errors import HookSDKError
from hooksdk.patterns import char_kind, name_piece, readable
from hooksdk.rules._languages import Languages

S = TypeVar("S")
# By the languages, as the bits of a number: the shortest text that is in these and in no others.
Cells = Mapping[int, str]


class Unknown(HookSDKError):
    """The question was too much for the budget."""


class Budget:
    """The steps that are left of a question: counted, so that an answer does not depend on how fast a machine is."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Raises `Unknown`."""
        self.left -= steps
        if self.left < 0:
            raise Unknown("it takes more steps than the budget allows")


def _walk(
    start: S, moves: Callable[[S], Iterable[tuple[str, S]]], ends: Callable[[S], int | None], budget: Budget
) -> dict[int, str]:
    """Walk from state to state, the shortest texts first, and keep the first text of each cell. Raises `Unknown`."""
    cells: dict[int, str] = {}
    seen, waiting = {start}, deque([(start, "")])
    while waiting:
        state, text = waiting.popleft()
        if (languages := ends(state)) is not None:
            cells.setdefault(languages, text)
        for char, following in moves(state):
            budget.spend()
            if following not in seen:
                seen.add(following)
                waiting.append((following, text + char))
    return cells


def _other_than(chars: Iterable[str], candidates: str) -> str:
    """A character that no pattern names, of the candidates' kind: it stands for all of that kind."""
    found = next((char for char in candidates if char not in chars), None)
    return found or next(char for char in _of_kind(char_kind(candidates[0], "")) if char not in chars)


@cache
def _of_kind(kind: str) -> list[str]:
    """Characters of a kind of `char_kind` that are read as they are written."""
    plain = (char for char in map(chr, range(0x100, 0x10000)) if unicodedata.category(char)[0] in "LNPSZ")
    return [
        char for char in plain if char_kind(char, "") == kind and readable(char) == char and len(char.casefold()) == 1
    ]


_SMALL, _CAPITAL = "xaeioubcdfghjklmnpqrstvwyzжшø", "XAEIOUBCDFGHJKLMNPQRSTVWYZЖШØ"
# Further characters that are these letters once case is folded.
_SAME_IN_SMALL = {"k": "\N{KELVIN SIGN}", "s": "\N{LATIN SMALL LETTER LONG S}"}


def _folded_to_several() -> Mapping[str, str]:
    several: dict[str, str] = defaultdict(str)
    for char in map(chr, range(0x80, 0x10000)):
        if len(char.casefold()) > 1:
            several[char.casefold()[0]] += char
    return several


# Characters that case folding makes several of, by the first of these: `ß` by `s`.
_FOLDED = _folded_to_several()


def text_cells(expressions: Sequence[Sequence[re.Pattern[str]]], budget: Budget, *, empty: bool = True) -> Cells:
    """The cells of texts that are compared as they are written, such as an agent's id; with `empty` a text may be
    empty."""
    languages = Languages(expressions)

    def moves(state: tuple[bool, int]) -> Iterator[tuple[str, tuple[bool, int]]]:
        expected = languages.expected(state[1])
        for char in [*sorted(expected), _other_than(expected, _SMALL)]:
            yield char, (True, languages.step(state[1], char))

    def ends(state: tuple[bool, int]) -> int | None:
        return languages.accepted(state[1]) if state[0] else None

    cells = _walk((False, languages.start), moves, ends, budget)
    if empty:  # shown only where no other text is in the same languages: people would not see it
        cells.setdefault(languages.accepted(languages.start), "")
    return cells


def folder_cells(expressions: Sequence[Sequence[re.Pattern[str]]], budget: Budget) -> Cells:
    """The cells of folders: of those from the root as `os.path.normpath` writes them, and of other texts where no such
    folder is in the same languages."""
    languages = Languages(expressions)
    root = ("/", languages.step(languages.start, "/"))

    def moves(state: tuple[str, int]) -> Iterator[tuple[str, tuple[str, int]]]:
        name, inner = state  # of the last folder's name so far only the dots count: `.` and `..` are no names
        expected = languages.expected(inner)
        slash = [] if name in ("/", ".") else ["/"]
        for char in [*sorted({*expected} - {"/", "\0"}), _other_than([*expected, "."], _SMALL), *slash]:
            dots = "." if char == "." and name in ("/", ".") else "x"
            yield char, ("/" if char == "/" else dots, languages.step(inner, char))

    def ends(state: tuple[str, int]) -> int | None:
        return languages.accepted(state[1]) if state == root or state[0] == "x" else None

    absolute = {key: f"/{text}" for key, text in _walk(root, moves, ends, budget).items()}
    return {**text_cells(expressions, budget, empty=False), **absolute}


def owner_cells(
    written: Sequence[Sequence[re.Pattern[str]]], folded: Sequence[Sequence[re.Pattern[str]]], budget: Budget
) -> Cells:
    """The cells of owners: first the languages of patterns that are compared as `written`, then of those in folded
    case."""
    exact, small = Languages(written), Languages(folded)

    def moves(state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
        expected = exact.expected(state[0])
        chars = dict.fromkeys(sorted(expected))
        for char in sorted(small.expected(state[1])):
            several = _FOLDED.get(char, "")
            chars.update(dict.fromkeys((char, char.upper(), _SAME_IN_SMALL.get(char, char), *several)))
        for char in [*chars, _other_than(chars, _SMALL)]:
            inner = state[1]
            for one in char.casefold():
                inner = small.step(inner, one)
            yield char, (exact.step(state[0], char), inner)

    def ends(state: tuple[int, int]) -> int:
        return exact.accepted(state[0]) | (small.accepted(state[1]) << len(written))

    return _walk((exact.start, small.start), moves, ends, budget)


# How far a tool's name was read: whether it has a character; the kind of its last visible one; that one itself while
# the next one decides how it is read (the last of several capitals); and three states: of the name as it is written, by
# its words, and by its words with `_` for every joint.
_Name = tuple[bool, str | None, str, int, int, int]


def name_cells(
    written: Sequence[Sequence[re.Pattern[str]]],
    words: Sequence[Sequence[re.Pattern[str]]],
    budget: Budget,
    may_be: Callable[[Callable[[int], bool]], bool] | None = None,
) -> Cells:
    """The cells of tools' names: first the languages of patterns that are compared as `written`, then of those by their
    `words`. `may_be` may cut the walk short: it gets a function that tells of each language whether the name may still
    come to be in it, and answers whether names that begin so are of interest."""
    exact, by_words = Languages(written), Languages(words)
    marks = [char for char in exact.named if unicodedata.category(char)[0] == "M"]

    def read(state: _Name, char: str, before: str | None, after: str) -> tuple[int, int]:
        """The two states by words after a character that stands between these two kinds."""
        joined, parted = state[4:]
        for one in name_piece(char, before, char_kind(char, before or ""), after):
            joined = by_words.step(joined, one)
            parted = by_words.step(parted, "_" if one == "-" else one)
        return joined, parted

    def settled(state: _Name, after: str) -> _Name:
        """The name with its last character read, since a character of this kind follows or none does."""
        _, kind, waiting, raw, *_ = state
        return (True, kind, "", raw, *read(state, waiting, "upper", after)) if waiting else state

    def after(state: _Name, text: str) -> _Name:
        """The name with one more character, which may be written as several."""
        raw = state[3]
        for char in text:
            raw = exact.step(raw, char)
        for char in readable(text):
            kind = char_kind(char, state[1] or "")
            state = settled(state, kind)
            if state[1] == kind == "upper":
                state = (True, kind, char, raw, *state[4:])
            else:
                state = (True, kind, "", raw, *read(state, char, state[1], ""))
        _, kind, waiting, _, joined, parted = state
        return (True, kind, waiting, raw, joined, parted)

    def moves(state: _Name) -> Iterator[tuple[str, _Name]]:
        inner = {one for kind in ("lower", "") for one in settled(state, kind)[4:]}
        expected = dict.fromkeys(sorted({char for one in inner for char in by_words.expected(one)}))
        raw, alive = sorted(exact.expected(state[3])), not exact.is_decided(state[3])
        if state[0] and not alive and all(map(by_words.is_decided, inner)):
            return
        chars = dict.fromkeys(raw)
        for char in expected:
            if char_kind(char, "lower"):
                chars.update(dict.fromkeys((char, char.upper())))
            if alive:
                chars.update(dict.fromkeys(_WIDE.get(one, one) for one in (char, char.upper())))
        small = _other_than(chars, _SMALL)
        chars.update(dict.fromkeys((small, _other_than(chars, _CAPITAL), _other_than(chars, "1234567890٣"), "_")))
        chars.setdefault(_other_than(chars, "中文"))
        if alive:  # what looks otherwise than it is read
            chars.update(
                dict.fromkeys((_other_than(chars, " .~"), "\N{COMBINING ENCLOSING CIRCLE}", "\N{ZERO WIDTH SPACE}"))
            )
            chars.update(dict.fromkeys(one + mark for one in raw if (mark := _composing(one))))
            chars.update(dict.fromkeys(text for char in expected for text in (*_parted(char), *_parted(char.upper()))))
            bases = [one for one in chars if len(one) == 1]
            chars.update(dict.fromkeys(one + mark for one in bases for mark in marks))
        for text in chars:
            following = after(state, text)
            if may_be is None or may_be(_open(following, settled(following, ""))):
                yield text, following

    def _open(*states: _Name) -> Callable[[int], bool]:
        def is_open(language: int) -> bool:
            if language < len(written):
                return exact.is_open(states[0][3], language)
            return any(by_words.is_open(one, language - len(written)) for state in states for one in state[4:])

        return is_open

    def ends(state: _Name) -> int | None:
        if not state[0]:
            return None
        *_, raw, joined, parted = settled(state, "")
        return exact.accepted(raw) | (by_words.accepted(joined) | by_words.accepted(parted)) << len(written)

    return _walk((False, None, "", exact.start, by_words.start, by_words.start), moves, ends, budget)


def _composing(char: str) -> str:
    """A mark that, written after this character, makes another one of it; empty where there is none."""
    return next((mark for mark in _MARKS if not readable(char + mark).startswith(readable(char))), "")


def _parted(char: str) -> Iterator[str]:
    """The other ways of writing a character: a plain one with marks after it."""
    parts = unicodedata.normalize("NFD", char)
    for at in range(1, len(parts)):
        yield unicodedata.normalize("NFC", parts[:at]) + parts[at:]


_MARKS = (
    "\N{COMBINING ACUTE ACCENT}\N{COMBINING DOT BELOW}\N{COMBINING DOT ABOVE}\N{COMBINING CIRCUMFLEX ACCENT}"
    "\N{HANGUL JUNGSEONG A}\N{HANGUL JONGSEONG KIYEOK}"
)
# Full-width characters, by those that they look like.
_WIDE = {chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)}
