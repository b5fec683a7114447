"""How questions are stored: the list of open questions, and what each asks. The questions that hooksdk 0.2.0 kept in a
file are taken over: each store takes those of its own sessions, once."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from hooksdk.desk._record import ApprovalRecord, read_stored
from hooksdk.stores import Store
from hooksdk.tasks import in_thread
from hooksdk.values import canonical

logger = logging.getLogger("hooksdk")

# The space of the list. No plugin can have it: `PluginStorage` refuses ids that begin like this.
SPACE = "hooksdk.desk"
LIST = "open"
SIGNING = "signing key"
# The space of the questions' texts and of closed records. Each key ends with a point and the second of its expiry.
QUESTIONS = "hooksdk.desk.questions"
# The fields of a record that are in the list: they change.
CHANGING = ("session", "state", "answer", "answered")
DAMAGED = "approval %s is damaged, and counts for nothing: %s"
# Seconds to wait for another process's transaction.
BUSY = 10.0
UNREADABLE = "%s: what waited there cannot be read, and is asked anew: %s"


class OpenQuestion(TypedDict):
    """An open question, or one that the last change of the list has closed.

    Attributes:
        place: The key of the question's text.
    """

    place: str
    key: str
    expires: float
    ticket: str | None
    session: str
    state: str
    answer: Mapping[str, Any] | None
    answered: float | None


class Listed(TypedDict):
    """The list.

    Attributes:
        id: The id of this store.
        next: The number of the next question.
        latest: About the latest time that was seen, by which a clock that is set back is noticed.
        before: The numbers of questions that were taken over from the file of 0.2.0.
    """

    id: str
    next: int
    latest: float
    open: dict[str, OpenQuestion]
    before: list[int]


async def store_question(store: Store, record: ApprovalRecord) -> str:
    """Store what a record asks, as a text that keeps each number as it is, and answer its key."""
    place = f"q{secrets.token_hex(8)}.{record.expires:.0f}"
    fields = {name: one for name, one in record.as_dict().items() if name not in CHANGING}
    await store.set_value(QUESTIONS, place, canonical(fields))
    return place


def enter(listed: Listed, record: ApprovalRecord, place: str, *, ticket: str | None = None) -> ApprovalRecord:
    """Put a record on the list, and answer it with its number: the next one, unless it has a higher one already."""
    numbered = replace(record, number=max(record.number, listed["next"]))
    listed["next"] = numbered.number + 1
    fields = numbered.as_dict()
    listed["open"][str(numbered.number)] = {
        "place": place,
        "key": numbered.key,
        "expires": numbered.expires,
        "ticket": ticket,
        "session": numbered.session,
        "state": numbered.state,
        "answer": fields["answer"],
        "answered": numbered.answered,
    }
    return numbered


def parse(number: int, text: str | None, entry: Mapping[str, Any]) -> ApprovalRecord | None:
    """The record of a question's text and its entry in the list. None for a damaged one, which is logged."""
    try:
        changing = {name: entry[name] for name in CHANGING if name in entry}
        return read_stored({**json.loads(text or ""), **changing, "number": number})
    except (ValueError, TypeError) as error:
        logger.warning(DAMAGED, number, error)
        return None


Change = Callable[[Callable[[Listed, float], Awaitable[Any]]], Awaitable[Any]]


class _Row(NamedTuple):
    number: int
    # Such as `granted`; followed by the id of a store that takes the row over.
    state: str
    session: str
    ticket: str | None
    record: str


async def take_over(file: Path, store: Store, change: Change) -> None:
    """Put the file's questions of this store's sessions on the store's list. A row is first marked with the store's id,
    so that no other process and no other store takes it, and a process that is killed in between goes on the next
    time."""
    rows, key, last = await in_thread(_read_rows, file)
    if not rows:
        return

    async def look(listed: Listed, _now: float) -> tuple[str, Sequence[int]]:
        return f" {listed['id']}", listed["before"]

    mark, taken = await change(look)
    free = [row for row in rows if " " not in row.state and await store.session_exists(row.session)]
    ours = [row for row in rows if row.state.endswith(mark) and row.number not in taken]
    ours += await in_thread(_mark, file, free, mark)
    records: list[tuple[ApprovalRecord, str, str | None]] = []
    for row in ours:
        record = parse(row.number, row.record, {"state": row.state.removesuffix(mark)})
        if record is not None:
            records.append((record, await store_question(store, record), row.ticket))

    async def work(listed: Listed, _now: float) -> None:
        for record, place, ticket in records:
            if record.number not in listed["before"]:
                enter(listed, record, place, ticket=ticket)
                listed["before"].append(record.number)
        listed["next"] = max(listed["next"], last + 1)

    if records:
        await store.change_value(SPACE, SIGNING, None, key)
        await change(work)


def _read_rows(file: Path) -> tuple[list[_Row], str, int]:
    """The open and answered questions, the secret of their tickets, and the last number that was given; nothing if the
    file cannot be read, which is logged."""
    import sqlite3

    if not file.is_file():
        return [], "", 0
    query = """select number, state, session, ticket, record from approvals
        where state in ('pending', 'granted', 'denied') or state like '% %' order by number"""
    try:
        with closing(sqlite3.connect(file, timeout=BUSY)) as database:
            rows = [_Row(*row) for row in database.execute(query)]
            (key,) = database.execute("select key from signing").fetchone()
            (last,) = database.execute("select max(seq) from sqlite_sequence").fetchone()
            return rows, bytes(key).hex(), last or 0
    except (sqlite3.Error, TypeError) as error:
        logger.warning(UNREADABLE, file, error)
        return [], "", 0


def _mark(file: Path, rows: Sequence[_Row], mark: str) -> list[_Row]:
    """Mark these rows in one step, and answer those that nobody has taken or answered meanwhile."""
    import sqlite3

    update = "update approvals set state = ? where number = ? and state = ?"
    try:
        with closing(sqlite3.connect(file, timeout=BUSY)) as database, database:
            return [row for row in rows if database.execute(update, [row.state + mark, row.number, row.state]).rowcount]
    except sqlite3.Error as error:
        logger.warning(UNREADABLE, file, error)
        return []
