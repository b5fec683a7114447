"""How a text is streamed."""

from __future__ import annotations

from collections.abc import Iterator

_PIECES = 3


def pieces(text: str) -> Iterator[str]:
    """A text in three pieces, if it has as many characters."""
    size = max(1, -(-len(text) // _PIECES))
    yield from (text[at : at + size] for at in range(0, len(text), size))
