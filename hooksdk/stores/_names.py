"""Names of sessions, spaces and keys as files and tables have them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

# The journals of sessions, and the files of values, that earlier versions have written into a folder.
OLD_FILES = ("*.journal.jsonl", "values/*.json")


def file_name(name: str) -> str:
    """A safe file name for any text: its readable part, and a hash by which no two texts share a name in any file
    system."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name[:200])[:40].strip("_") or "session"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def journal_of(folder: Path, session_id: str) -> Path:
    """The journal that a session of this id has, if it has files."""
    return folder / f"{file_name(session_id)}.journal.jsonl"


def name_in(name: str) -> str:
    """The text in a column of JSON."""
    try:
        return str(json.loads(name))
    except (ValueError, TypeError):
        return str(name)
