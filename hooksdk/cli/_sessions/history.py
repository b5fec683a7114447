"""Files of histories, as the commands read them that do not store them."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from hooksdk.formats import FORMATS
from hooksdk.histories import History, read_history


def read_as_sent(file: Path, source: str | None = None) -> History:
    """The history in a file, or on stdin (`-`), in the format that it was sent in, where that is one of ours. Raises
    `HistoryError`."""
    content = sys.stdin.buffer.read() if str(file) == "-" else None

    def read(into: str | None) -> History:
        return read_history(file if content is None else BytesIO(content), source, into=into)

    history = read(None)
    return read(history.source) if history.source in FORMATS else history
