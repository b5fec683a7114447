"""Values of which something was cut off, where a server or a log shortens what it tells."""

from __future__ import annotations

import re

from hooksdk._masking.escapes import Span

MIN_PART = 15
"""Characters of the shortest part that is masked: half of `hunter2-password` is a usual word."""
ENOUGH = 48
"""Characters of a part that are enough to mask it; of a value of fewer than twice as many it is half. The first ones of a
key or a token are often the same for all of its kind."""
_MARKS = ("\0", "…", "...", "[truncated", "(truncated", "<truncated", "truncated]", "truncated)", "truncated>")
"""What stands where something was cut off, in a text without case and blanks; the first where it ends altogether."""
_HALF_ESCAPE = re.compile("(?:[%&]#?[0-9a-z]{0,7}|[ux][0-9a-f]{0,3})?")
_OTHER_HALF = re.compile("(?:[0-9a-f]{1,3}|[0-9a-z]{0,7};)?")
_LONGEST_HALF = 9


class Parts:
    """Finds them. For each place at which a cut leaves enough of a value, the fifteen characters beside it are known."""

    def __init__(self) -> None:
        self.least: set[str] = set()
        """The shortest parts: where none of them is there is nothing to find."""
        self._ends: dict[str, list[tuple[str, str]]] = {}
        self._begins: dict[str, list[tuple[str, str]]] = {}

    def add(self, value: str, name: str) -> None:
        """Find parts of this value, too."""
        least = max(MIN_PART, min((len(value) + 1) // 2, ENOUGH))
        if least < len(value):
            self.least |= {value[:least], value[-least:]}
        for size in range(least, len(value)):
            self._ends.setdefault(value[size - MIN_PART : size], []).append((value[:size], name))
            self._begins.setdefault(value[-size:][:MIN_PART], []).append((value[-size:], name))

    def find(self, text: str) -> list[tuple[Span, str]]:
        """Where the text, or what is told in it, ends with the most of a value or begins with that; and its name."""
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
