"""What is said about settings that do not count."""

from __future__ import annotations

import shlex
from pathlib import Path


def trust_advice(folder: Path) -> str:
    """What to type so that a folder's settings count."""
    name = str(folder)
    return f"Look at it and type: hooksdk trust {shlex.quote(name) if name.isprintable() else repr(name)}"


def printable_entry(entry: str) -> str:
    """The entry's name, which a stranger may have written."""
    return entry if entry.isprintable() else repr(entry)
