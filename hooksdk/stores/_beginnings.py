"""How every session of a database begins, read by the first rows of each."""

from __future__ import annotations

import json
from typing import Any, cast

from hooksdk.errors import StoreError
from hooksdk.stores._names import name_in
from hooksdk.stores._sealing import Seal
from hooksdk.stores._transaction import Transaction
from hooksdk.stores.summaries import FIRST_ENTRIES, FIRST_MESSAGES
from hooksdk.transcript import SessionBeginning

# Bytes of the longest of these rows that is read: instructions and pasted text may be long.
MOST_BYTES = 256 * 1024
# The decoder itself: `json.loads` takes twice as long for a short row.
DECODER = json.JSONDecoder()
SESSIONS = "SELECT id, name, changed FROM hooksdk_sessions"
FIRST = """
SELECT session, position, body FROM hooksdk_sessions JOIN hooksdk_{table} ON session = id AND position < {count}
WHERE length(body) <= {most} ORDER BY session, position"""


def read_beginnings(transaction: Transaction, seal: Seal) -> list[SessionBeginning]:
    """The first rows of every session, and when it was last written."""
    sessions = transaction.execute(SESSIONS).fetchall()
    first: dict[str, dict[int, list[dict[str, Any]]]] = {"messages": {}, "journal": {}}
    problems: dict[int, str] = {}
    for table, count in (("messages", FIRST_MESSAGES), ("journal", FIRST_ENTRIES)):
        statement = FIRST.format(table=table, count=count, most=MOST_BYTES)
        for key, position, body in transaction.execute(statement).fetchall():
            rows = first[table].setdefault(key, [])
            if rows and _tells_all(rows[-1]):
                continue
            try:
                text = seal.open(body, key, table, position)
                value, end = DECODER.raw_decode(text)
                value = value if end == len(text) else json.loads(text)
                if not isinstance(value, dict):
                    raise ValueError(f"it is a {type(value).__name__}, not an object")  # noqa: TRY004 - as json says it
                rows.append(cast("dict[str, Any]", value))
            except (StoreError, ValueError) as error:
                problems[key] = f"a row of it cannot be read: {error}"
    return [
        SessionBeginning(
            session_id=name_in(name),
            messages=first["messages"].get(key, ()) if key not in problems else (),
            journal=first["journal"].get(key, ()) if key not in problems else (),
            changed=None if key in problems else changed,
            problem=problems.get(key, ""),
        )
        for key, name, changed in sessions
    ]


def _tells_all(row: dict[str, Any]) -> bool:
    """True for the prompt and for the format: nobody who lists sessions needs the rows after it, and parsing them takes
    most of the time."""
    content = row.get("content")
    is_prompt = row.get("role") == "user" and isinstance(content, str) and content.strip()
    return bool(is_prompt) or row.get("kind") == "format"
