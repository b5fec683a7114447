"""How many rows of each kind are kept of a session, and the sum of their hashes, by which a missing or older one is found."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hooksdk.stores import _digests

if TYPE_CHECKING:
    from hooksdk.stores._transaction import Transaction

SUMS = "SELECT sums FROM hooksdk_states WHERE session = :id"
# Numbers between two rows that are looked at together.
NEAR = 200
HASHES = """
SELECT number, hash FROM hooksdk_rows WHERE session = :id AND kind = :kind AND number >= :first AND number <= :last"""


def sums_in(transaction: Transaction, row: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """By kind: how many rows of a session are kept, and the sum of their hashes, as its state has them."""
    state: Any = transaction.execute(SUMS, row).fetchone()
    return {kind: (number, total) for kind, (number, total) in json.loads(state[-1]).items()} if state else {}


def is_whole(transaction: Transaction, row: dict[str, Any], kind: str) -> bool:
    """True where the rows of this kind are those that were kept last: none is missing, and none is an older one."""
    place = {"id": row["id"], "kind": kind, "first": 0, "last": 1 << 62}
    hashes = [stored for _, stored in transaction.execute(HASHES, place).fetchall()]
    return _digests.sum_of(hashes) == sums_in(transaction, row).get(kind, (0, 0))


def place_of(row: dict[str, Any]) -> tuple[str, int]:
    """Where a row stands: by kind, then by number."""
    return row["kind"], row["number"]


def sum_with(transaction: Transaction, rows: Sequence[dict[str, Any]], before: tuple[int, int]) -> tuple[int, int]:
    """The sum after these rows of one kind, by number, were stored, with others in the place of which they come."""
    numbers = {row["number"] for row in rows}
    replaced: list[bytes] = []
    for part in _runs(rows):
        place = {**part[0], "first": part[0]["number"], "last": part[-1]["number"]}
        stored = transaction.execute(HASHES, place).fetchall()
        replaced += [own for number, own in stored if number in numbers]
    return _digests.sum_of((row["hash"] for row in rows), _digests.sum_of(replaced, before, sign=-1))


def _runs(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows by number, parted where many numbers are between two of them."""
    runs: list[list[dict[str, Any]]] = []
    for row in rows:
        if runs and row["number"] - runs[-1][-1]["number"] <= NEAR:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs
