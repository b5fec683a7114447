"""Removing for good what is stored of sessions and of people, with a receipt that says what is gone from the files.

A session goes with the sessions of its sub-agents, the questions of approvals about it, the answers that are remembered
about them, what plugins and gateways keep for it, and the copies that earlier versions have left. All of it is held
first, so that nothing is half removed where somebody else has a part of it; the session itself goes last, so that after
a crash the same erasure finds it again.
"""

# ruff: noqa: S608 - the tables' names are fixed
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from hooksdk.config import state_folder
from hooksdk.errors import SessionBusy, StoreError
from hooksdk.stores._names import file_name, name_in
from hooksdk.stores._old_files import KEPT, TAKEN
from hooksdk.stores.files import replace_file
from hooksdk.tasks import in_thread
from hooksdk.values import as_object

if TYPE_CHECKING:
    from hooksdk.stores._sql_log import SqlLog
    from hooksdk.stores._transaction import Transaction
    from hooksdk.stores.sql import SqlStore

__all__ = ["Erasure", "Receipt", "erase", "find"]

# The space that says which erasures are not finished: their words are removed, and may still be in the files.
UNFINISHED = "hooksdk.erasing"
# Spaces with a record for each key that names a session, a requester or both. Questions come first: they say which
# calls answers are remembered about.
QUESTIONS, REMEMBERED, CLIENTS = "hooksdk.desk.questions", "hooksdk.approvals", "hooksdk.gateway.sessions"
DESK, LIST = "hooksdk.desk", "open"
# Spaces of which a key is a session's id, or begins with one and a slash; of families it is also that of a run.
FAMILIES = "hooksdk.families"
BY_SESSION = f"{FAMILIES} hooksdk.sessions hooksdk.room hooksdk.dbos hooksdk.gateway.results hooksdk.gateway.left"
SPACES = (QUESTIONS, REMEMBERED, CLIENTS, LIMITS := "tool_policy", TAKEN, *BY_SESSION.split(), "hooksdk.gateway.calls")
# What a limit counts for, in the key of its count.
COUNTED_FOR = re.compile(r"/(session|requester):(.*?)(?=/(?:family|requester|tool):|$)")
FORMATS = """
SELECT hooksdk_sessions.name, session, position, body FROM hooksdk_journal
JOIN hooksdk_sessions ON hooksdk_sessions.id = session WHERE kind = 'format'"""
SESSIONS = "SELECT name, changed, expires IS NOT NULL AND expires > {now} FROM hooksdk_sessions"
STATES = "SELECT session, position, body FROM hooksdk_journal WHERE session = :id AND kind = 'state'"
FAMILY_STATE = "hooksdk.family"
# Sessions that are held at the same time, of those that are removed by age.
BATCH = 100
OLD_SESSION = [
    f"DELETE FROM hooksdk_old_{table} WHERE key IN (SELECT key FROM hooksdk_old_sessions WHERE name = :name)"
    for table in ("messages", "journal", "sessions")
]
OLD_VALUE = "DELETE FROM hooksdk_old_values WHERE space = :space AND key = :key"
NOT_REACHED = (
    "backups, and what was exported or printed",
    "traces, logs and the audit chain, which keeps digests and names",
    "what frameworks, tools and the model's provider keep",
    "what plugins keep under keys of their own",
)
OF_A_FILE = "the disk's freed blocks, and snapshots of the file system"
OF_A_SERVER = "the server's archived log, its replicas and its base backups"
OF_A_REQUESTER = "sessions whose runs were made before hooksdk stored who asked for them"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What is to be erased.

    Attributes:
        sessions: Ids.
        requester: The id of somebody who asked: every session with a run of theirs, and what is kept for them.
        before: Sessions that were not written since then, in seconds since 1970.
    """

    sessions: Sequence[str] = ()
    requester: str = ""
    before: float | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was removed, and whether it is gone from the database's files.

    Attributes:
        sessions: Their ids, sub-agents' among them.
        values: The number of values that went with them.
        files: Copies of earlier versions that were removed, or written anew without them.
        held: Who holds sessions that were not written for so long, by their ids: they stay.
        waits: Why the words may still be in the database's files; empty where they are not.
        not_reached: Where copies may be that nobody here can remove.
    """

    sessions: Sequence[str]
    values: int
    files: Sequence[str]
    held: Mapping[str, str]
    waits: str
    not_reached: Sequence[str]


@dataclass
class _Scope:
    """Whose records are meant, and what was removed of them so far.

    Attributes:
        families: Runs for whose families something is kept.
        asked: The calls about which a person was asked.
        values: The spaces and keys that were removed.
    """

    sessions: set[str]
    requester: str
    families: set[str] = field(default_factory=set[str])
    asked: set[tuple[Any, ...]] = field(default_factory=set[tuple[Any, ...]])
    values: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def has(self, record: Mapping[str, Any]) -> bool:
        """True for a record of one of the sessions, or of the requester."""
        return record.get("session") in self.sessions or record.get("requester") == (self.requester or ())


async def find(store: SqlStore, erasure: Erasure) -> list[str]:
    """The ids of all stored sessions that an erasure means. Sub-agents' stand before those that they work for; those
    that are only old by their age, and what is held last."""
    if not await store.list_sessions():  # which makes no file
        return []
    stored = {name_in(name): more for name, *more in await store.fetch(SESSIONS)}
    if erasure.before is not None:
        old = {one: (held, time) for one, (time, held) in stored.items() if time is not None and time < erasure.before}
        newer = {above for one in stored if one not in old for above in _beginnings(one)}
        return sorted(old.keys() - newer, key=lambda one: (*old[one], -len(one)))
    parents, order = dict[str, str](), [*erasure.sessions]
    for name, *row in await store.fetch(FORMATS):
        for entry in _entries(store, [row]):
            parents.setdefault(name_in(name), str(entry.get("parent")))
            order += [name_in(name)] if entry.get("requester") == (erasure.requester or ()) else []
    below = dict[str, list[str]]()
    for one in stored:
        for above in (*_beginnings(one), parents.get(one, "")):
            below.setdefault(above, []).append(one)
    found = dict.fromkeys(order)
    for above in order:  # which grows
        order += [one for one in below.get(above, ()) if one not in found]
        found.update(dict.fromkeys(order[len(found) :]))
    return [one for one in reversed(found) if one in stored]


def _beginnings(key: str) -> Iterator[str]:
    """The key itself, and what stands before each slash in it, and each tilde, by which parts of a session that several
    workers have open are named."""
    yield from (key, *(key[: found.start()] for found in re.finditer("[/~]", key)))


def _entries(store: SqlStore, rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Journal entries, without those that cannot be read."""
    for session, position, body in rows:
        with suppress(StoreError, ValueError):
            yield as_object(json.loads(store.seal.open(body, session, "journal", position)))


async def erase(
    store: SqlStore, erasure: Erasure, *, wait: float = 1.0, limit: int | None = None, scrub: bool = True
) -> Receipt | None:
    """Erase at most `limit` sessions; None where there is nothing, and no such erasure to finish. Without `scrub` the
    receipt waits. Raises `SessionBusy` before anything is removed where one of the named sessions, or one of the
    requester's, is held and not let go in time; those that are only old stay while they are held. Whatever it raises
    later, the same erasure finishes it."""
    session_ids = (await find(store, erasure))[:limit]
    if not session_ids and await store.database.is_absent():
        return None
    key = hashlib.sha256(repr((sorted(erasure.sessions), erasure.requester, erasure.before)).encode()).hexdigest()
    is_begun, by_age = await store.get_value(UNFINISHED, key) is not None, erasure.before is not None
    size = BATCH if by_age else len(session_ids) or 1
    erased, values, files, held = list[str](), 0, list[str](), dict[str, str]()
    for start in range(0, len(session_ids) or 1, size):
        async with AsyncExitStack() as stack:
            logs: list[SqlLog] = []
            for session_id in session_ids[start : start + size]:
                try:
                    logs.append(await store.open_session(session_id, wait=0 if by_age else wait))
                    stack.push_async_callback(logs[-1].close)
                except SessionBusy as error:
                    if not by_age:
                        raise
                    held[session_id] = error.holder
            still = set(await find(store, erasure) if by_age else session_ids)  # some may have been written meanwhile
            logs = [log for log in logs if log.session_id in still]
            scope = _Scope({*(log.session_id for log in logs), *erasure.sessions}, erasure.requester)
            await store.set_value(UNFINISHED, key, True)
            files += await _erase_held(store, logs, scope)
        erased += [log.session_id for log in logs]
        values += len(scope.values)
    is_nothing = not (erased or values or files or is_begun)
    waits = "" if is_nothing else await store.database.scrub() if scrub else "what was removed is not overwritten yet"
    if not waits:
        await store.delete_value(UNFINISHED, key)
    if is_nothing and not held:
        return None
    left = [*NOT_REACHED, OF_A_FILE if store.file else OF_A_SERVER, *([OF_A_REQUESTER] if erasure.requester else [])]
    left += [f"questions of version 0.2.0: {old}" for old in [state_folder() / "approvals.db"] if old.exists()]
    return Receipt(sessions=erased, values=values, files=files, held=held, waits=waits, not_reached=left)


async def _erase_held(store: SqlStore, logs: Sequence[SqlLog], scope: _Scope) -> list[str]:
    """Erase sessions that are held here; answers the files that went or were changed."""
    for log in logs:
        for entry in _entries(store, await store.fetch(STATES, id=log.row["id"])):
            if entry.get("plugin") == FAMILY_STATE:
                state = as_object(entry.get("state") or as_object(entry.get("change")).get("set"))
                scope.families.add(str(state.get("id")))
    async for space, key in _values_of(store, scope):
        await store.delete_value(space, key)
        scope.values.add((space, key))
    await _shorten_list(store, scope)
    files = await in_thread(_remove_files, store.old_files, scope)
    await _remove_old_rows(store, scope)
    for log in logs:
        await log.delete()
    return files


async def _values_of(store: SqlStore, scope: _Scope) -> AsyncIterator[tuple[str, str]]:
    listed = as_object(as_object(await store.get_value(DESK, LIST)).get("open"))
    asked_in = {one["place"]: one["session"] for one in listed.values()}
    files = {f"{file_name(session_id)}.journal.jsonl" for session_id in scope.sessions}
    for space in SPACES:
        for key in await store.list_keys(space):
            record: dict[str, Any] = {}
            if space in (QUESTIONS, REMEMBERED, CLIENTS):
                stored = _record(await store.get_value(space, key))
                record = {"session": asked_in.get(key, stored.get("id")), **stored}
            elif space == LIMITS:
                record = dict(COUNTED_FOR.findall(key))
            owners = scope.sessions | scope.families if space == FAMILIES else scope.sessions
            call = tuple(record.get(name) for name in ("tool", "digest", "requester", "workspace"))
            if space == TAKEN:
                is_theirs = key in files
            elif record:
                is_theirs = scope.has(record) or (space == REMEMBERED and call in scope.asked)
            else:
                is_theirs = not owners.isdisjoint(_beginnings(key))
            if is_theirs:
                scope.asked |= {call} if space == QUESTIONS else set()
                yield space, key


def _record(value: object) -> dict[str, Any]:
    """A stored record; a question is a text."""
    with suppress(ValueError):
        return as_object(json.loads(value) if isinstance(value, str) else value)
    return {}


async def _shorten_list(store: SqlStore, scope: _Scope) -> None:
    """Take the sessions' questions from the list of the open ones, and those that have no text any more."""
    while True:
        stored = as_object(await store.get_value(DESK, LIST))
        listed, texts = as_object(stored.get("open")), await store.list_keys(QUESTIONS)
        gone = [
            number for number, one in listed.items() if one["session"] in scope.sessions or one["place"] not in texts
        ]
        rest = {number: one for number, one in listed.items() if number not in gone}
        if not gone or await store.change_value(DESK, LIST, stored, {**stored, "open": rest}):
            scope.values |= {(DESK, LIST)} if gone else set()
            return


def _remove_files(old_files: Path | None, scope: _Scope) -> list[str]:
    """Remove the files that earlier versions have left of these sessions, and what they have left of these values."""
    folders = [old_files, old_files / KEPT] if old_files else []
    changed = [path for folder in folders for one in scope.sessions for path in folder.glob(f"{file_name(one)}.*")]
    for path in (state_folder() / "guard" / "sessions").glob("*.json"):
        about = _record(path.read_text("utf-8"))
        changed += [path] if f"guard-{about.get('agent')}-{about.get('session')}" in scope.sessions else []
    for path in changed:
        path.unlink(missing_ok=True)
    for path in folders[-1].glob("*.json") if folders else ():
        kept = _record(path.read_text("utf-8"))
        values = as_object(kept.get("values"))
        rest = {key: value for key, value in values.items() if (kept.get("space"), key) not in scope.values}
        if rest != values:
            replace_file(path, json.dumps({**kept, "values": rest}).encode())
            changed.append(path)
    return list(map(str, changed))


async def _remove_old_rows(store: SqlStore, scope: _Scope) -> None:
    """Remove the same from the tables of earlier versions, where nobody has dropped them yet."""
    try:
        await store.fetch("SELECT 1 FROM hooksdk_old_sessions WHERE 1 = 0")
    except StoreError:
        return

    def remove(transaction: Transaction) -> None:
        for statement in OLD_SESSION:
            for session_id in scope.sessions:
                transaction.execute(statement, {"name": json.dumps(session_id)})
        for space, key in scope.values:
            transaction.execute(OLD_VALUE, {"space": file_name(space), "key": file_name(key)})

    await store.database.transaction(remove)
