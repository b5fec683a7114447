"""What is said about settings that do not count."""

from __future__ import annotations

import shlex
from pathlib import Path

from hooksdk._config.merge import Merged


def why_untrusted(merged: Merged) -> str:
    """Why some settings do not count."""
    changed = merged.trust.state == "changed"
    reason = "it has changed since you trusted it" if changed else "you have not trusted this folder"
    return f"not used, since {reason}"


def trust_advice(folder: Path) -> str:
    """What to type."""
    name = str(folder)
    return f"Look at it and type: hooksdk trust {shlex.quote(name) if name.isprintable() else repr(name)}"


def printable_entry(entry: str) -> str:
    """The entry's name, which a stranger may have written."""
    return entry if entry.isprintable() else repr(entry)
