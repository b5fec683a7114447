"""The records of questions to people, in the store's key-value space: every process with the store reads and answers
them.

The list of open questions is one value, and it decides: an answer is written into it once, and a call takes it out
once. Each step is one atomic change of that value, and is repeated if another process was quicker. What a question asks
never changes: it is a value of its own, which is stored before the list names it.
"""

from __future__ import annotations

import contextlib
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, final

import anyio

from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.config import state_folder
from hooksdk.desk import _list as listing
from hooksdk.desk._list import Listed, OpenQuestion, take_over
from hooksdk.desk._record import ApprovalRecord, record_of
from hooksdk.errors import HostError, StoreError
from hooksdk.stores import MemoryStore, Store
from hooksdk.values import canonical, clone

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
FILE_NAME = "approvals.db"
DAY = 24 * 3600.0
# Seconds for which a record can be read after its expiry.
KEPT = 7 * DAY
# Questions of one session that may wait: a person must be able to read the list.
MAX_WAITING = 100
# Seconds by which a clock may be set back. If it is set back by more, all waiting questions expire.
DRIFT = 60.0
# Seconds for which a step is repeated because others are quicker.
BUSY = 10.0
# Seconds at most before a step is repeated.
PAUSE = 0.02
# The longest time that a record is kept: a later expiry has no date.
CENTURY = 100 * 365 * DAY
OPEN = ("pending", "granted", "denied")
# Says of a session's id whether that session is over; may be async.
IsOver = Callable[[str], bool | Awaitable[bool]]


@dataclass(eq=False)
class NotWaiting(HostError):
    """There is no question of this number, or it was answered or has expired."""

    number: int
    problem: str

    def __str__(self) -> str:
        return f"approval {self.number} {self.problem}"


@final
class ApprovalRecords:
    """The questions that wait for a person in a store, and their answers. Every process with the store sees them.

    An answer counts for one call: of the same session and requester, to the same tool with the same arguments and the
    same questions, before it expires. `clock` gives seconds since the epoch. `before` is the file in which hooksdk
    0.2.0 kept questions, by default `$HOOKSDK_HOME/approvals.db` or `~/.local/state/hooksdk/approvals.db`: the open
    ones of this store's sessions are taken over. Raises `StoreError` for a store without `change_value`.

    ```python
    from pathlib import Path

    import anyio

    from hooksdk.approvals import Approval
    from hooksdk.desk import ApprovalRecords
    from hooksdk.stores import SqlStore

    async def grant_all(records: ApprovalRecords) -> None:
        for record in await records.list(waiting=True):
            await records.answer(record.number, Approval(True, by="ann"))

    anyio.run(grant_all, ApprovalRecords(SqlStore(Path("sessions"))))
    ```
    """

    def __init__(
        self, store: Store, *, clock: Callable[[], float] = time.time, before: str | Path | None = None
    ) -> None:
        if not callable(getattr(store, "change_value", None)):
            problem = "records of approvals need a store with change_value(space, key, old, new), and this has none"
            raise StoreError(
                type(store).__name__, f'{problem}. Give them another: ApprovalRecords(open_store("jsonl"))'
            )
        self.store = store
        self._clock = clock
        self._turn = anyio.Lock()
        self._before = None if isinstance(store, MemoryStore) else Path(before or state_folder() / FILE_NAME)

    async def list(self, *, waiting: bool = False) -> Sequence[ApprovalRecord]:
        """All records, by number, used and expired ones for a week; or only those that are `waiting` for an answer. A
        damaged one is left out and logged. Raises `StoreError`."""
        questions = (await self._look())["open"]
        known = [await self._read(int(number), one) for number, one in questions.items() if not waiting or _waits(one)]
        keys = [] if waiting else await self.store.list_keys(listing.QUESTIONS)
        known += [await self._read_closed(key) for key in keys if _number(key) and str(_number(key)) not in questions]
        return sorted(filter(None, known), key=lambda one: one.number)

    async def get(self, number: int) -> ApprovalRecord | None:
        """The record of this number; None if there is none, or it is damaged. Raises `StoreError`."""
        if (question := (await self._look())["open"].get(str(number))) is not None:
            return await self._read(number, question)
        keys = [key for key in await self.store.list_keys(listing.QUESTIONS) if _number(key) == number]
        return await self._read_closed(keys[0]) if keys else None

    async def answer(self, number: int, answer: Approval) -> ApprovalRecord:
        """Write an answer into a record that has none. Raises `NotWaiting` and `StoreError`."""

        async def work(listed: Listed, now: float) -> ApprovalRecord:
            question = listed["open"].get(str(number))
            record = await (self.get(number) if question is None else self._read(number, question))
            if record is None:
                raise NotWaiting(number, "is none that waits here")
            if question is None or not _waits(question):
                raise NotWaiting(number, "has expired" if record.state == "expired" else "was answered already")
            state = "granted" if answer.granted else "denied"
            question.update(state=state, answer=asdict(answer), answered=now)
            return replace(record, state=state, answer=answer, answered=now)

        return await self._step(work)

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        keep: float = DAY,
        waited_for: int | None = None,
        is_over: IsOver | None = None,
    ) -> tuple[ApprovalRecord, Approval | None]:
        """The record of this question, and its answer if there is one: the answer is used then. Without an open record
        one is made that expires in `keep` seconds. A caller that has `waited_for` a record gets its no, even if another
        call has taken it. The question of another session counts for this one if that session `is_over`, and asks for
        the same requester and call. Raises `ValueError` for a question that nobody can be asked, and `StoreError`."""
        asked = record_of(request, made=0.0, expires=0.0)
        place = ""

        async def work(listed: Listed, now: float) -> tuple[ApprovalRecord, Approval | None]:
            nonlocal asked, place
            own = await self._own(listed, asked, is_over)
            if own is not None:
                if own.answer is None:
                    return own, None
                listed["open"][str(own.number)]["state"] = "used"
                return replace(own, state="used"), own.answer
            before = None if waited_for is None else await self.get(waited_for)
            if before and before.key == asked.key and before.answer and not before.answer.granted:
                return before, before.answer
            if sum(one["session"] == asked.session and _waits(one) for one in listed["open"].values()) >= MAX_WAITING:
                raise ValueError(f"{MAX_WAITING} calls of this session wait for an approval already")
            if not place:
                asked = replace(asked, made=now, expires=now + min(keep, CENTURY))
                place = await listing.store_question(self.store, asked)
            return listing.enter(listed, asked, place), None

        return await self._step(work)

    async def find(self, request: ApprovalRequest) -> ApprovalRecord | None:
        """The record of this question, if it waits for an answer. Raises `ValueError` and `StoreError`."""
        asked = record_of(request, made=0.0, expires=0.0)
        record = await self._own(await self._look(), asked)
        return record if record is not None and record.state == "pending" else None

    async def is_pending(self, number: int) -> bool:
        """True while the record waits for an answer. Reads one small value. Raises `StoreError`."""
        question = _listed(await self.store.get_value(listing.SPACE, listing.LIST))["open"].get(str(number))
        return question is not None and _waits(question) and question["expires"] > self._clock()

    async def set_ticket(self, number: int, ticket: str) -> None:
        """Make this the ticket with which an answer counts, instead of an earlier one. Raises `StoreError`."""

        async def work(listed: Listed, _now: float) -> None:
            if (question := listed["open"].get(str(number))) is not None:
                question["ticket"] = ticket

        await self._step(work)

    async def take_ticket(self, number: int, ticket: str) -> ApprovalRecord | None:
        """The record that waits for an answer with this ticket, which counts once; None if there is none. Raises
        `StoreError`."""

        async def work(listed: Listed, _now: float) -> ApprovalRecord | None:
            question = listed["open"].get(str(number))
            if question is None or not _waits(question) or question["ticket"] != ticket:
                return None
            question["ticket"] = None
            return await self._read(number, question)

        return await self._step(work)

    async def key(self) -> bytes:
        """The secret that signs tickets for these records. Raises `StoreError`."""
        await self._catch_up()
        while (key := await self.store.get_value(listing.SPACE, listing.SIGNING)) is None:
            await self.store.change_value(listing.SPACE, listing.SIGNING, None, secrets.token_hex(32))
        return bytes.fromhex(key)

    async def _own(self, listed: Listed, asked: ApprovalRecord, is_over: IsOver | None = None) -> ApprovalRecord | None:
        """The oldest open record of this question. One of a session that is over becomes this session's."""
        questions = [(int(number), one) for number, one in listed["open"].items() if one["state"] in OPEN]
        for number, question in questions:
            if question["key"] == asked.key and (record := await self._read(number, question)) is not None:
                return record
        if is_over is None:
            return None
        over = {one: await says(is_over, one) for one in dict.fromkeys(one["session"] for _, one in questions)}
        for number, question in questions:
            if over[question["session"]] and (left := await self._read(number, question)) is not None:
                record = replace(left, session=asked.session)
                if record.key == asked.key:
                    question.update(session=record.session, key=record.key)
                    return record
        return None

    async def _read(self, number: int, question: OpenQuestion) -> ApprovalRecord | None:
        """The record of a question; None for a damaged one, which is logged."""
        text = await self.store.get_value(listing.QUESTIONS, question["place"])
        if text is None:  # another process has closed it meanwhile
            return await self._read_closed(_closed(number, question))
        record = listing.parse(number, text, question)
        if record is not None and (record.key, record.expires) != (question["key"], question["expires"]):
            logger.warning(listing.DAMAGED, number, "it is not the question that it was made for")
            return None
        return record

    async def _read_closed(self, key: str) -> ApprovalRecord | None:
        return listing.parse(_number(key), await self.store.get_value(listing.QUESTIONS, key), {})

    # The list

    async def _look(self) -> Listed:
        """The list as it is now, with expired questions marked. Nothing is stored."""
        await self._catch_up()
        listed = clone(_listed(await self.store.get_value(listing.SPACE, listing.LIST)))
        _expire(listed, self._clock())
        return listed

    async def _step(self, work: Callable[[Listed, float], Awaitable[T]]) -> T:
        await self._catch_up()
        return await self._change(work)

    async def _catch_up(self) -> None:
        if self._before is not None:
            await take_over(self._before, self.store, self._change)
            self._before = None

    async def _change(self, work: Callable[[Listed, float], Awaitable[T]]) -> T:
        """Change the list, and begin again if another process has changed it meanwhile. In this process one change
        follows the other: a hundred at once, such as calls that a worker has left in doubt, would delay each other."""
        async with self._turn:
            until = time.monotonic() + BUSY
            while True:
                stored = await self.store.get_value(listing.SPACE, listing.LIST)
                listed = clone(_listed(stored))
                now = _expire(listed, self._clock())
                result = await work(listed, now)
                away = [number for number, one in _listed(stored)["open"].items() if one["state"] not in OPEN]
                places = [await self._put_away(int(number), listed["open"].pop(number)) for number in away]
                if listed == stored:
                    return result
                if await self.store.change_value(listing.SPACE, listing.LIST, stored, listed):
                    break
                if time.monotonic() > until:
                    raise StoreError(
                        f"storage '{listing.SPACE}'", f"others have changed the approvals without end for {BUSY:g} s"
                    )
                await anyio.sleep(random.uniform(0, PAUSE))  # noqa: S311 - so that two processes do not collide again
            if stored is None or listed["latest"] != stored["latest"]:
                places += [key for key in await self.store.list_keys(listing.QUESTIONS) if _expiry(key) <= now - KEPT]
            for place in places:
                await self.store.delete_value(listing.QUESTIONS, place)
            return result

    async def _put_away(self, number: int, question: OpenQuestion) -> str:
        """Store a closed record whole, beside the list, and answer the key that is of no use then. Several processes
        may do this: the result is the same."""
        text = await self.store.get_value(listing.QUESTIONS, question["place"])
        if text is not None and (record := listing.parse(number, text, question)) is not None:
            await self.store.set_value(listing.QUESTIONS, _closed(number, question), canonical(record.as_dict()))
        return question["place"]


async def says(question: Callable[[str], bool | Awaitable[bool]], about: str) -> bool:
    """The answer of a function that may be async."""
    answer = question(about)
    return await answer if isinstance(answer, Awaitable) else answer


def _waits(question: OpenQuestion) -> bool:
    return question["state"] == "pending"


def _closed(number: int, question: OpenQuestion) -> str:
    """The key of a closed record; keys of open questions begin with a letter."""
    return f"{number}.{question['expires']:.0f}"


def _number(key: str) -> int:
    """The number of a closed record; 0 for any other key."""
    number = key.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _expiry(key: str) -> float:
    return float(key.rpartition(".")[2])


def _listed(stored: Any) -> Listed:
    """The stored list, or a new one. Raises `StoreError` for a damaged one."""
    if stored is None:
        return {"id": secrets.token_hex(8), "next": 1, "latest": 0.0, "open": {}, "before": []}
    with contextlib.suppress(AttributeError, TypeError):
        is_whole = Listed.__required_keys__ <= stored.keys()
        if is_whole and all(OpenQuestion.__required_keys__ <= one.keys() for one in stored["open"].values()):
            return stored
    problem = f"the list of approvals is damaged, so nothing was approved: {str(stored)[:80]!r}"
    raise StoreError(
        f"storage '{listing.SPACE}'", f"{problem}. Delete it ('{listing.LIST}'): what waits is asked anew then"
    )


def _expire(listed: Listed, now: float) -> float:
    """Mark expired questions, and answer the time, which never goes back by a little."""
    latest = listed["latest"]
    if set_back := now < latest - DRIFT:
        logger.warning("the clock was set back by %.0f s, so every approval that waits has expired", latest - now)
    else:
        now = max(now, latest)
    for question in listed["open"].values():
        if question["state"] in OPEN and (set_back or question["expires"] <= now):
            question["state"] = "expired"
    if set_back or now > latest + DRIFT / 2:
        listed["latest"] = now
    return now
