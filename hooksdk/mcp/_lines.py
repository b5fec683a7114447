"""UTF-8 that is read by whole lines.

The SDK puts each piece of 64 kB that comes from a server behind what it has of the line so far, and looks for its end in all of
it: the time for a line grows with the square of its length, and one of 50 MB takes longer than a call may. It reads with an
encoding of its caller's choice; this one gives it nothing until the line has ended.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

ENCODING = "hooksdk-lines"
"""What this is called where an encoding is named."""


class LineDecoder(codecs.IncrementalDecoder):
    """Keeps what has come of a line until the rest of it comes. A line that never ends is never read."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._parts: list[bytes] = []

    def decode(self, input: ReadableBuffer, final: bool = False) -> str:  # noqa: A002, ARG002 - as the base class has it
        """The lines that are whole now."""
        data = bytes(input)
        end = data.rfind(b"\n") + 1
        if not end:
            self._parts.append(data)
            return ""
        lines = b"".join((*self._parts, data[:end]))
        self._parts = [data[end:]]
        return lines.decode("utf-8", self.errors)


def _find(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ENCODING:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=LineDecoder, name=ENCODING)


codecs.register(_find)
