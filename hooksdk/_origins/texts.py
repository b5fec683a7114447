"""Texts in which values are looked for, quickly though there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from hooksdk._origins.folding import find_whole, fold_result
from hooksdk._origins.labels import TRUSTED, UNTRUSTED, Labels
from hooksdk._origins.origin import in_one_line

# When something was said: how many results the transcript had then, and the order among what no transcript has.
Moment = tuple[int, float]
NEVER: Final[Moment] = (1 << 62, 0)
# Characters of a quote on each side of the value.
AROUND = 60


class _Blanks(dict[int, int]):
    """For `str.translate`: a blank for all that is no letter or digit of ASCII."""

    def __missing__(self, char: int) -> int:
        self[char] = is_word = char if chr(char).isascii() and (chr(char).isalnum() or chr(char) == "_") else ord(" ")
        return is_word


_BLANKS = _Blanks()
# Of a text's filter: few of the words that a text of 10 kB does not have look as if it had them.
_BYTES = 1 << 13


@dataclass(frozen=True, slots=True)
class Place:
    """A value in a text."""

    handle: str
    tool: str
    label: str
    quote: str


@final
@dataclass(frozen=True, slots=True)
class _Text:
    folded: str
    # A bit for each word that it may have.
    words: bytes
    # When it was answered. It vouches for nothing that a call of these `tools` has said before: tools repeat that.
    moment: Moment
    tools: Sequence[str]
    handle: str
    tool: str
    label: str


@final
class Texts:
    """What was read, to look for values in."""

    def __init__(self) -> None:
        self._trusted: list[_Text] = []
        self._others: list[_Text] = []

    def add(
        self,
        text: str,
        labels: Labels,
        *,
        moment: Moment = (0, 0),
        handle: str = "",
        tool: str = "",
        repeats: Sequence[str] = (),
    ) -> None:
        """One more text, and the tools whose results it may repeat beside its own. One that nobody vouches for and no
        outsider wrote tells nothing of where a value comes from, and is left out."""
        label = next((one for one in (TRUSTED, UNTRUSTED) if one in labels), "")
        if label and text:
            folded = fold_result(text)
            known = self._trusted if label == TRUSTED else self._others
            known.append(_Text(folded, _filter_of(folded), moment, (tool, *repeats), handle, tool, label))

    def find(self, value: str, first_said: Callable[[str], Moment] = lambda _tool: NEVER) -> Place | None:
        """The first trusted text in which the folded value stands whole, else the first other one; None where there is
        none. `first_said`: when a call of a tool first said what the value may be made of."""
        for text, place in self._places(self._trusted, value):
            if all(text.moment < first_said(tool) for tool in text.tools):
                return _place_of(text, place, value)
        return next((_place_of(text, place, value) for text, place in self._places(self._others, value)), None)

    @staticmethod
    def _places(texts: list[_Text], value: str) -> Iterator[tuple[_Text, int]]:
        words = sorted(_words(value), key=len)[-2:]  # the longest are the rarest
        bits = [_bit_of(word) for word in words] * 2
        if not bits:
            candidates = texts
        else:
            (one, its_bit), (other, other_bit) = bits[0], bits[1]
            candidates = [text for text in texts if text.words[one] & its_bit and text.words[other] & other_bit]
        for text in candidates:
            if (place := find_whole(text.folded, value)) >= 0:
                yield text, place


def _words(folded: str) -> set[str]:
    """Its words of ASCII: where a value stands whole, none of its own is a part of a longer one."""
    return set(folded.translate(_BLANKS).split())


def _filter_of(folded: str) -> bytes:
    words = bytearray(_BYTES)
    for number in map(hash, _words(folded)):
        words[(number >> 3) % _BYTES] |= 1 << (number & 7)
    return bytes(words)


def _bit_of(word: str) -> tuple[int, int]:
    number = hash(word)
    return (number >> 3) % _BYTES, 1 << (number & 7)


def _place_of(text: _Text, place: int, value: str) -> Place:
    return Place(text.handle, text.tool, text.label, quote_around(text.folded, place, len(value)))


def quote_around(text: str, place: int, length: int) -> str:
    """What stands around a place, in one line."""
    start, end = max(0, place - AROUND), min(len(text), place + min(length, AROUND) + AROUND)
    before, after = "…" if start else "", "…" if end < len(text) else ""
    return f"{before}{in_one_line(text[start:end])}{after}"
