"""An approver that records each question, so that the answer may come from anywhere, and later."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import final

import anyio

from hooksdk.approvals import MAX_TIMEOUT, Approval, ApprovalRequest, Later, plain_answer
from hooksdk.desk._record import ApprovalRecord
from hooksdk.desk._records import DAY, ApprovalRecords, IsOver, NotWaiting
from hooksdk.errors import check, check_number
from hooksdk.stores import MemoryStore, Store
from hooksdk.tasks import Attempt, describe

logger = logging.getLogger("hooksdk")

WAIT = 30.0
# Seconds between two looks at a record that waits: another process may have answered.
POLL = 0.25
# The share of a question's time limit that the desk waits for: at the limit the run takes silence for a no.
SHARE = 0.9

IN_MEMORY = (
    "nobody can answer them from another process, `hooksdk approvals` among them, and they end with this one. "
    'Host(store="jsonl") keeps them'
)

# A way to a person: `async def (record) -> Approval`, or None if the answer comes in another way, or not at all.
Channel = Callable[[ApprovalRecord], Awaitable[Approval | None]]


@final
class ApprovalDesk:
    """Records each question, asks over its channels, and waits `wait` seconds for an answer. Without one it answers
    `Later()`: the call waits without holding up its run, and the same call takes the answer when it is made again.
    Records expire `keep` seconds after they were made.

    All channels are asked at the same time. The first answer counts, whether it comes from a channel, from `hooksdk
    approvals` in a terminal or from another program. If a channel fails, the log says so, and the call waits.

    ```python
    from hooksdk import Host
    from hooksdk.desk import ApprovalDesk

    host = Host(approver=ApprovalDesk(wait=60))
    ```
    """

    def __init__(
        self,
        records: ApprovalRecords | None = None,
        *,
        channels: Sequence[Channel] = (),
        wait: float = WAIT,
        keep: float = DAY,
    ) -> None:
        check_number("ApprovalDesk(keep=...)", keep, "keep=3600")
        check("ApprovalDesk(wait=...)", wait, (int, float), "seconds")
        self.records = records
        self.channels = tuple(channels)
        self.wait = wait
        self.keep = keep
        self._memory = MemoryStore()
        self._last: ApprovalRecords | None = None

    async def __call__(self, request: ApprovalRequest) -> Approval | Later:
        """Ask about one call."""
        return await self.ask(request)

    async def ask(
        self,
        request: ApprovalRequest,
        *,
        channels: Sequence[Channel] = (),
        wait: float | None = None,
        is_over: IsOver | None = None,
    ) -> Approval | Later:
        """Ask about one call, over these channels as well, and wait `wait` seconds: with 0 until every channel was
        asked. `is_over` says of a session's id, also as an async function, whether the session is over: its questions
        and answers count for this one, too."""
        records = self.records_in(request.store)
        wait = self.wait if wait is None else wait
        longest = SHARE * min(request.timeout, MAX_TIMEOUT)
        until = anyio.current_time() + (min(wait, longest) if wait > 0 else longest)
        waited_for: int | None = None
        while True:
            try:
                record, answer = await records.ask(request, keep=self.keep, waited_for=waited_for, is_over=is_over)
            except ValueError as problem:
                return Approval(False, str(problem), unanswered="cannot_wait")
            if answer is not None:
                return answer
            if anyio.current_time() >= until:
                return Later()
            if not await self._wait(records, record, (*channels, *self.channels), until, patient=wait > 0):
                return Later()
            waited_for = record.number

    def records_in(self, store: Store | None) -> ApprovalRecords:
        """The records of a host's questions: the desk's own, else those in this store, the host's; without either in
        memory. Raises `StoreError` for a store that cannot keep them."""
        if self.records is not None:
            return self.records
        store = self._memory if store is None else store
        if self._last is None or self._last.store is not store:
            self._last = ApprovalRecords(store)
            if isinstance(store, MemoryStore):
                logger.warning("approvals that wait are in memory, like all that this host keeps: %s", IN_MEMORY)
        return self._last

    async def _wait(
        self,
        records: ApprovalRecords,
        record: ApprovalRecord,
        channels: Sequence[Channel],
        until: float,
        *,
        patient: bool,
    ) -> bool:
        """Ask over these channels; True once the record has an answer or has expired."""
        over = anyio.Event()

        async def watch() -> None:
            while not over.is_set():
                await anyio.sleep(POLL)
                if not await records.is_pending(record.number):
                    over.set()

        async def ask(channel: Channel) -> None:
            if await self._ask_over(channel, records, record):
                over.set()

        async def ask_all() -> None:
            async with anyio.create_task_group() as asking:
                for channel in channels:
                    asking.start_soon(ask, channel)
            if not patient:
                over.set()

        async with anyio.create_task_group() as group:
            group.start_soon(ask_all)
            if patient:
                group.start_soon(watch)
            with anyio.move_on_after(max(until - anyio.current_time(), 0)):
                await over.wait()
            group.cancel_scope.cancel()
        return not await records.is_pending(record.number)

    async def _ask_over(self, channel: Channel, records: ApprovalRecords, record: ApprovalRecord) -> bool:
        """True if the record has an answer, of this channel or an earlier one."""
        approval: Approval | None = None
        async with Attempt(MAX_TIMEOUT) as attempt:
            answer = await channel(record)
            approval = None if answer is None else plain_answer(answer, record.as_request())
        if attempt.error is not None:
            problem = describe(attempt.error)
            logger.warning("approval %d goes on waiting, since a way to ask failed: %s", record.number, problem)
        if approval is None or approval.unanswered:
            return False
        try:
            await records.answer(record.number, approval)
        except NotWaiting as late:
            logger.info("an answer came too late: %s", late)
        return True
