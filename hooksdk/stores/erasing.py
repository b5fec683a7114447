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
from hooksdk.stores._names import file_name
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
# Spaces of which a key is a session's id, or begins with one and a slash.
BY_SESSION = (
    "hooksdk.sessions", "hooksdk.room", "hooksdk.dbos", "hooksdk.gateway.results", "hooksdk.gateway.left", "hooksdk.gateway.calls",
)  # fmt: skip
FAMILIES, CLIENTS, LIMITS, REMEMBERED = (
    "hooksdk.families",
    "hooksdk.gateway.sessions",
    "tool_policy",
    "hooksdk.approvals",
)
FAMILY_STATE = "hooksdk.family"
DESK, OPEN_QUESTIONS, QUESTIONS = "hooksdk.desk", "open", "hooksdk.desk.questions"
# What a limit counts for, in the key of its count.
COUNTED_FOR = re.compile(r"/(session|requester):(.*?)(?=/(?:family|requester|tool):|$)")
FORMATS = """
SELECT hooksdk_sessions.name, session, position, body FROM hooksdk_journal
JOIN hooksdk_sessions ON hooksdk_sessions.id = session WHERE kind = 'format'"""
CHANGED = "SELECT name, changed, expires IS NOT NULL AND expires > {now} FROM hooksdk_sessions"
STATES = "SELECT session, position, body FROM hooksdk_journal WHERE session = :id AND kind = 'state'"
# Sessions that are held at the same time, of those that are removed by age.
BATCH = 100
OLD_ROWS = [
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

    @property
    def key(self) -> str:
        """Stands for it, and tells nothing of it."""
        return hashlib.sha256(repr((sorted(self.sessions), self.requester, self.before)).encode()).hexdigest()


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
    """Whose values are meant."""

    sessions: set[str]
    requester: str
    families: set[str] = field(default_factory=set[str])
    # Tool, arguments and requester of the questions about these sessions.
    asked: set[tuple[Any, ...]] = field(default_factory=set[tuple[Any, ...]])

    def has(self, record: Mapping[str, Any]) -> bool:
        return record.get("session") in self.sessions or record.get("requester") == (self.requester or ())


def _beginnings(key: str) -> Iterator[str]:
    """The key itself, and what stands before each slash in it, and before a tilde, by which parts of the gateway's
    sessions are named."""
    yield key
    marks = "[/~]" if key.startswith("gateway-") else "/"
    yield from (key[: found.start()] for found in re.finditer(marks, key))


async def find(store: SqlStore, erasure: Erasure) -> list[str]:
    """The ids of all stored sessions that an erasure means. Sub-agents' stand before those that they work for; those
    that are only old by their age, and what is held last."""
    stored = await _rows(store, CHANGED)
    changed = {json.loads(name): time for name, time, _ in stored}
    if erasure.before is not None:
        old = {one: time for one, time in changed.items() if time is not None and time < erasure.before}
        newer = {above for one in changed if one not in old for above in _beginnings(one)}
        held = {json.loads(name) for name, _, is_held in stored if is_held}
        return sorted(old.keys() - newer, key=lambda one: (one in held, old[one], -len(one)))
    parents, found = dict[str, str](), set(erasure.sessions)
    for name, *row in await _rows(store, FORMATS):
        for entry in _entries(store, [row]):
            parents.setdefault(json.loads(name), str(entry.get("parent") or ""))
            if erasure.requester and entry.get("requester") == erasure.requester:
                found.add(json.loads(name))
    if erasure.requester:
        found |= {session async for session in _asked_for(store, erasure.requester)}
    order = [*found]
    for above in order:  # which grows
        order += [
            one for one in changed if one not in found and (parents.get(one) == above or above in _beginnings(one))
        ]
        found.update(order)
    return [one for one in reversed(order) if one in changed]


async def _rows(store: SqlStore, statement: str, **row: object) -> list[Any]:
    def look(transaction: Transaction) -> list[Any]:
        return transaction.execute(statement, row).fetchall()

    return await store.database.transaction(look, writes=False)


def _entries(store: SqlStore, rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Journal entries, without those that cannot be read."""
    for session, position, body in rows:
        with suppress(StoreError, ValueError):
            yield as_object(json.loads(store.database.seal.open(body, session, "journal", position)))


async def _asked_for(store: SqlStore, requester: str) -> AsyncIterator[str]:
    """The sessions in which a person was asked something for this requester."""
    scope = _Scope(set(), requester)
    open_in = {one["place"]: one["session"] for one in (await _open_questions(store)).values()}
    for space in (QUESTIONS, REMEMBERED):
        for key in await store.list_keys(space):
            record = _record(await store.get_value(space, key))
            if scope.has(record) and (session := open_in.get(key) or record.get("session")):
                yield str(session)


async def _open_questions(store: SqlStore) -> dict[str, Any]:
    return as_object(as_object(await store.get_value(DESK, OPEN_QUESTIONS)).get("open"))


def _record(value: object) -> dict[str, Any]:
    """A stored question, which is a text, or a remembered answer."""
    with suppress(ValueError):
        return as_object(json.loads(value) if isinstance(value, str) else value)
    return {}


async def erase(
    store: SqlStore, erasure: Erasure, *, wait: float = 1.0, limit: int | None = None, scrub: bool = True
) -> Receipt | None:
    """Erase at most `limit` sessions; None where there is nothing, and no such erasure to finish. Without `scrub` the
    receipt waits. Raises `SessionBusy`, and has removed nothing then, where one of the named sessions, or one of the
    requester's, is held and not let go in time; those that are only old stay while they are held."""
    if await store.database.is_absent() and not store.old_files:
        return None
    session_ids = (await find(store, erasure))[:limit]
    is_begun = await store.get_value(UNFINISHED, erasure.key) is not None
    is_by_age = erasure.before is not None
    size = BATCH if is_by_age else len(session_ids) or 1
    erased, values, files, held = list[str](), set[tuple[str, str]](), list[str](), dict[str, str]()
    for start in range(0, len(session_ids) or 1, size):
        async with AsyncExitStack() as stack:
            logs: list[SqlLog] = []
            for session_id in session_ids[start : start + size]:
                try:
                    logs.append(await store.open_session(session_id, wait=0 if is_by_age else wait))
                    stack.push_async_callback(logs[-1].close)
                except SessionBusy as error:
                    if not is_by_age:
                        raise
                    held[session_id] = error.holder
            still = set(await find(store, erasure)) if is_by_age else set(session_ids)
            logs = [log for log in logs if log.session_id in still]
            scope = _Scope({*(log.session_id for log in logs), *erasure.sessions}, erasure.requester)
            await store.set_value(UNFINISHED, erasure.key, True)
            await _erase_held(store, logs, scope, values, files)
        erased += [log.session_id for log in logs]
    is_nothing = not (erased or values or files or is_begun)
    waits = "" if is_nothing else await store.database.scrub() if scrub else "what was removed is not overwritten yet"
    if not waits:
        await store.delete_value(UNFINISHED, erasure.key)
    if is_nothing and not held:
        return None
    left = [*NOT_REACHED, OF_A_FILE if store.file else OF_A_SERVER]
    left += [f"questions of version 0.2.0: {old}" for old in [state_folder() / "approvals.db"] if old.exists()]
    return Receipt(sessions=erased, values=len(values), files=files, held=held, waits=waits, not_reached=left)


async def _erase_held(
    store: SqlStore, logs: Sequence[SqlLog], scope: _Scope, values: set[tuple[str, str]], files: list[str]
) -> None:
    """Erase sessions that are held here. What was removed is added to `values` and `files`."""
    for log in logs:
        for entry in _entries(store, await _rows(store, STATES, id=log.row["id"])):
            if entry.get("plugin") == FAMILY_STATE:
                state = as_object(entry.get("state") or as_object(entry.get("change")).get("set"))
                scope.families.add(str(state.get("id")))
    await _remove_questions(store, scope, values)
    async for space, key in _values_of(store, scope):
        await store.delete_value(space, key)
        values.add((space, key))
    files += await in_thread(_remove_files, store, scope.sessions, values)
    await _remove_old_rows(store, scope.sessions, values)
    for log in logs:
        await log.delete()


async def _values_of(store: SqlStore, scope: _Scope) -> AsyncIterator[tuple[str, str]]:
    owners = {**dict.fromkeys(BY_SESSION, scope.sessions), FAMILIES: scope.families | scope.sessions}
    for space, ids in owners.items():
        for key in await store.list_keys(space):
            if not ids.isdisjoint(_beginnings(key)):
                yield space, key
    for key in await store.list_keys(LIMITS):
        counted = dict(COUNTED_FOR.findall(key))
        if scope.has(counted):
            yield LIMITS, key
    for key in await store.list_keys(CLIENTS):
        if as_object(await store.get_value(CLIENTS, key)).get("id") in scope.sessions:
            yield CLIENTS, key
    for key in await store.list_keys(REMEMBERED):
        record = _record(await store.get_value(REMEMBERED, key))
        if scope.has(record) or _call_of(record) in scope.asked:
            yield REMEMBERED, key
    files = {f"{file_name(session_id)}.journal.jsonl" for session_id in scope.sessions}
    for key in files.intersection(await store.list_keys(TAKEN)):
        yield TAKEN, key


def _call_of(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record.get("tool"), record.get("digest"), record.get("requester"), record.get("workspace")


async def _remove_questions(store: SqlStore, scope: _Scope, values: set[tuple[str, str]]) -> None:
    """Remove the questions of these sessions and requesters, open or answered: first what they ask, then their places
    in the list, by which they are found again after a crash."""
    open_in = {one["place"]: one["session"] for one in (await _open_questions(store)).values()}
    for key in await store.list_keys(QUESTIONS):
        record = _record(await store.get_value(QUESTIONS, key))
        if scope.has({"session": open_in.get(key), **record}):
            scope.asked.add(_call_of(record))
            await store.delete_value(QUESTIONS, key)
            values.add((QUESTIONS, key))
    gone = {key for _, key in values}
    while True:
        stored = await store.get_value(DESK, OPEN_QUESTIONS)
        listed = as_object(as_object(stored).get("open"))
        rest = {
            number: one
            for number, one in listed.items()
            if one["place"] not in gone and one["session"] not in scope.sessions
        }
        if rest == listed:
            return
        values.add((DESK, OPEN_QUESTIONS))
        if await store.change_value(DESK, OPEN_QUESTIONS, stored, {**as_object(stored), "open": rest}):
            return


def _remove_files(store: SqlStore, session_ids: set[str], values: set[tuple[str, str]]) -> list[str]:
    """Remove the files that earlier versions have left of these sessions, and what they have left of these values."""
    changed: list[Path] = []
    for folder in [store.old_files, store.old_files / KEPT] if store.old_files else []:
        changed += [path for one in session_ids for path in folder.glob(f"{file_name(one)}.*")]
    for path in (state_folder() / "guard" / "sessions").glob("*.json"):
        about = _record(path.read_text("utf-8"))
        changed += [path] if f"guard-{about.get('agent')}-{about.get('session')}" in session_ids else []
    for path in changed:
        path.unlink(missing_ok=True)
    for path in (store.old_files / KEPT).glob("*.json") if store.old_files else ():
        kept = _record(path.read_text("utf-8"))
        all_of_it = as_object(kept.get("values"))
        rest = {key: value for key, value in all_of_it.items() if (kept.get("space"), key) not in values}
        if rest != all_of_it:
            replace_file(path, json.dumps({**kept, "values": rest}).encode())
            changed.append(path)
    return list(map(str, changed))


async def _remove_old_rows(store: SqlStore, session_ids: set[str], values: set[tuple[str, str]]) -> None:
    """Remove the same from the tables of earlier versions, where nobody has dropped them yet."""
    try:
        await _rows(store, "SELECT 1 FROM hooksdk_old_sessions WHERE 1 = 0")
    except StoreError:
        return
    sessions = [{"name": json.dumps(session_id)} for session_id in session_ids]
    places = [{"space": file_name(space), "key": file_name(key)} for space, key in values]

    def remove(transaction: Transaction) -> None:
        for statement in OLD_ROWS if sessions else ():
            transaction.execute(statement, sessions)
        if places:
            transaction.execute(OLD_VALUE, places)

    await store.database.transaction(remove)
