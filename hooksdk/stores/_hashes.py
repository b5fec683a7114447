"""Hashes by which a row that somebody else has changed is found."""

from __future__ import annotations

import hashlib

# The end of a chain that has no row yet.
NO_ROWS = b""


def chain(before: bytes, body: str, kind: str = "") -> bytes:
    """The hash of a row of a sequence: over the hash of the row before it, its kind, if rows have kinds, and its
    body."""
    return hashlib.sha256(b"%b%b\0%b" % (before, kind.encode(), body.encode())).digest()


def digest(*parts: object) -> bytes:
    """The hash of a row that stands for itself."""
    whole = b"".join(b"%d:%b" % (len(part), part) for part in map(_encoded, parts))
    return hashlib.sha256(whole).digest()[:16]


def tag_of(tag: str) -> bytes:
    """A tag of any text as a key of an index."""
    return hashlib.sha256(_encoded(tag)).digest()[:16]


def session_key(session_id: str) -> int:
    """The number of a session in the tables: the first 64 bits of the hash of its id."""
    return int.from_bytes(hashlib.sha256(_encoded(session_id)).digest()[:8], "big", signed=True)


def _encoded(part: object) -> bytes:
    return part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
