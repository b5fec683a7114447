"""Which of many texts may stand in a long one: looked up in one pass, however many they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

_SIZES: dict[int, Literal["Q", "I"]] = {8: "Q", 4: "I"}
"""Bytes of a block, and how `memoryview` calls a number of that size."""


class Sieve:
    """A text is read as a row of blocks. One of 15 bytes or more has a whole block of 8 in it wherever it begins, and that is
    one of 8 which are known beforehand; one of 7 or more has a block of 4."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._tables: dict[int, dict[int, list[str]]] = {}
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            size = next(size for size in _SIZES if len(raw) >= 2 * size - 1)
            middle = (len(raw) - 2 * size + 1) // 2  # its beginning is often that of others, too
            table = self._tables.setdefault(size, {})
            for start in range(middle, middle + size):
                table.setdefault(_blocks(raw[start : start + size], size)[0], []).append(text)

    def sift(self, raw: bytes) -> list[str]:
        """Those that may be in this text, given as UTF-8: all that are, and few others."""
        left: set[str] = set()
        for size, table in self._tables.items():
            blocks = _blocks(raw, size)
            if not table.keys().isdisjoint(blocks):
                left.update(*(table[block] for block in table.keys() & set(blocks)))
        return sorted(left)


def _blocks(raw: bytes, size: int) -> memoryview[int]:
    """The numbers that the text's bytes are, `size` of them at a time; what is left at its end is none."""
    return memoryview(raw)[: len(raw) // size * size].cast(_SIZES[size])
