"""How every session of a database begins, read by the first rows of each."""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import json
from typing import Any, cast

from hooksdk.errors import StoreError
from hooksdk.stores._sealing import Seal
from hooksdk.stores._transaction import Transaction
from hooksdk.stores.summaries import FIRST_ENTRIES, FIRST_MESSAGES
from hooksdk.transcript import SessionBeginning

# Bytes of the longest of these rows that is read: instructions and pasted text may be long.
MOST_BYTES = 256 * 1024
BEGINNINGS = (
    "SELECT id, name, changed"
    + "".join(
        f", (SELECT body FROM hooksdk_{table} AS line WHERE line.session = hooksdk_sessions.id AND position = {position}"
        f" AND length(body) <= {MOST_BYTES})"
        for table, count in (("messages", FIRST_MESSAGES), ("journal", FIRST_ENTRIES))
        for position in range(count)
    )
    + " FROM hooksdk_sessions"
)
"""Each body is looked up by its key: a condition on the position alone would go through all rows."""


def read_beginnings(transaction: Transaction, seal: Seal) -> list[SessionBeginning]:
    """The first rows of every session, and when it was last written."""
    return [_beginning(seal, *row) for row in transaction.execute(BEGINNINGS).fetchall()]


def _parsed(body: str) -> dict[str, Any]:
    value: object = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError(f"a row is a {type(value).__name__}, not an object")  # noqa: TRY004 - as json says of what it cannot read
    return cast("dict[str, Any]", value)


def _beginning(seal: Seal, key: int, name: str, changed: float | None, *bodies: str | None) -> SessionBeginning:
    session_id: str = json.loads(name)
    parts = (("messages", bodies[:FIRST_MESSAGES]), ("journal", bodies[FIRST_MESSAGES:]))
    try:
        messages, journal = (
            [_parsed(seal.open(body, key, table, at)) for at, body in enumerate(part) if body is not None]
            for table, part in parts
        )
    except (StoreError, ValueError) as error:
        return SessionBeginning(session_id=session_id, problem=f"a row of it cannot be read: {error}")
    return SessionBeginning(session_id=session_id, messages=messages, journal=journal, changed=changed)
