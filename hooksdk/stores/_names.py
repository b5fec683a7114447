"""Names of sessions, spaces and keys as files and tables have them."""

from __future__ import annotations

import hashlib
import re


def file_name(name: str) -> str:
    """A safe file name for any text: its readable part, and a hash by which no two texts share a name in any file
    system."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name[:200])[:40].strip("_") or "session"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
