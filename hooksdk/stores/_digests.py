"""How many sessions and values there are, and a sum of their hashes: a row that somebody else has removed is found by it.

The sums are in many rows, so that workers which change different values seldom wait for each other. Who changes a
session or a value locks its own row first and that of the sum after it.
"""

# ruff: noqa: S608 - the number is fixed
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hooksdk.stores._hashes import digest, tag_of

if TYPE_CHECKING:
    from hooksdk.stores._transaction import Transaction

TABLE = """CREATE TABLE hooksdk_digests (
    kind TEXT NOT NULL, part BIGINT NOT NULL, number BIGINT NOT NULL, total BIGINT NOT NULL,
    PRIMARY KEY (kind, part))"""
# Sums are of so many bits: two of them fit into a number of the database.
MASK = (1 << 56) - 1
ADD = f"""
INSERT INTO hooksdk_digests VALUES (:kind, :part, :number, :total) ON CONFLICT (kind, part) DO UPDATE SET
number = hooksdk_digests.number + excluded.number, total = (hooksdk_digests.total + excluded.total) & {MASK}"""
SUMS = "SELECT kind, part, number, total FROM hooksdk_digests WHERE number <> 0 OR total <> 0"
SESSIONS, VALUES = "sessions", "values"


def note_session(transaction: Transaction, name: str, change: int) -> None:
    """A session was begun (1) or removed (-1). The name is that of its row."""
    own = digest(name)
    row = {"kind": SESSIONS, "part": own[0], "number": change, "total": change * _summand(own) & MASK}
    transaction.execute(ADD, row)


def note_value(transaction: Transaction, space: str, key: str, old: bytes | None, new: bytes | None) -> None:
    """The hash of a value has changed; None where there is no value."""
    number = (new is not None) - (old is not None)
    total = (_summand(new) - _summand(old)) & MASK
    transaction.execute(ADD, {"kind": VALUES, "part": _part(space, key), "number": number, "total": total})


def sums_of(names: Iterable[str], values: Iterable[tuple[str, str, bytes]]) -> dict[tuple[str, int], tuple[int, int]]:
    """What the table must say of these sessions, and of these values with space, key and hash."""
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    hashes = ((SESSIONS, own[0], own) for own in map(digest, names))
    for kind, part, own in [*hashes, *((VALUES, _part(space, key), own) for space, key, own in values)]:
        sums[kind, part] = sum_of([own], sums.get((kind, part), (0, 0)))
    return sums


def sum_of(hashes: Iterable[bytes], before: tuple[int, int] = (0, 0), *, sign: int = 1) -> tuple[int, int]:
    """How many rows there are, and the sum of their hashes, after these were added, or taken away."""
    number, total = before
    for own in hashes:
        number, total = number + sign, (total + sign * _summand(own)) & MASK
    return number, total


def _part(space: str, key: str) -> int:
    return tag_of(f"{space}/{key}")[0]


def _summand(own: bytes | None) -> int:
    return int.from_bytes(bytes(own[:7]), "big") if own else 0
