"""The driver of the conformance suite for runs on DBOS."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dbos import DBOS

from hooksdk import Approval, ApprovalRequest, Host
from hooksdk.adapters.dbos import DurableAgent, Worker
from hooksdk.approvals import Later
from hooksdk.formats import Message
from hooksdk.stores import SqlStore
from hooksdk.testing import Answer, Program
from tests.hooksdk.loop_drivers import IN_SESSION, OWN_HOST, texts_of_results

TOPIC = "hooksdk.approvals"


class DBOSDriver:
    """`run_agent` as a workflow of DBOS, with all records in one SQLite file."""

    cannot: Mapping[str, str] = {
        **IN_SESSION,
        **OWN_HOST,
        "streaming_passes_the_same_hooks": "a workflow answers when it has ended",
        "streaming_goes_on_as_well": "a workflow answers when it has ended",
        "plain_code_passes_the_same_hooks": "its workers run on an event loop; plain code queues runs by DBOS's own client",
        "a_second_run_while_one_is_open_is_refused": "the second run waits in the queue until the first is over",
    }

    def __init__(self) -> None:
        self.url = f"sqlite:///{Path(tempfile.mkdtemp()) / 'one.db'}"
        self.granted: dict[str, bool] = {}
        self.later: list[str] = []
        self.runs: dict[str, str] = {}
        """By conversation: the workflow that waits."""

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        asked = program.host["approver"]
        assert asked is not None

        async def approver(request: ApprovalRequest) -> Any:
            if request.call.id in self.granted:
                return Approval(self.granted[request.call.id], by="ann")
            answer: Any = await asked(request)
            if isinstance(answer, Later):
                self.later.append(request.call.id)
            return answer

        store: Any = SqlStore(self.url)
        self.agent = DurableAgent("played", program.model, tools=program.tools, polling=0.05)
        config: Any = {"name": "played", "system_database_url": self.url, "log_level": "CRITICAL",
                       "notification_listener_polling_interval_sec": 0.05}  # fmt: skip
        options: Any = {**program.host, "store": store, "approver": approver}
        host = Host(**options)
        self.worker = Worker(host, [self.agent], config, look=0.05, drain=1)
        async with host as self.host, self.worker:
            yield
        await store.aclose()
        DBOS.destroy(destroy_registry=True)

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        handle = await DBOS.start_workflow_async(self.agent.workflow, conversation, prompt)
        return await self._outcome(handle.workflow_id, conversation)

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        self.granted.update(granted)
        self.later.clear()
        workflow_id = self.runs[conversation]
        await DBOS.send_async(workflow_id, None, TOPIC)
        return await self._outcome(workflow_id, conversation)

    async def _outcome(self, workflow_id: str, conversation: str) -> Answer:
        self.runs[conversation] = workflow_id
        try:
            while True:
                if self.later and self._waits(workflow_id):
                    # In the order of the calls: those of one reply are asked about at once, so in any order.
                    return Answer(waiting=sorted({*self.later}, key=lambda call: (len(call), call)))
                status = await DBOS.get_workflow_status_async(workflow_id)
                if status is not None and status.status not in {"PENDING", "ENQUEUED"}:
                    handle: Any = await DBOS.retrieve_workflow_async(workflow_id)
                    return Answer(text=(await handle.get_result(polling_interval_sec=0.05))["text"])
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.create_task(self._cancel(workflow_id, conversation)))
            raise

    async def _cancel(self, workflow_id: str, conversation: str) -> None:
        await DBOS.cancel_workflow_async(workflow_id)
        store: Any = self.host.store
        while conversation in await store.list_held():
            await asyncio.sleep(0.02)

    def _waits(self, workflow_id: str) -> bool:
        return workflow_id in self.worker._waiting  # pyright: ignore[reportPrivateUsage]

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return texts_of_results((await self.host.store.read_session(conversation))[0])

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        async with self.host.session(conversation) as session, session.run() as run:
            await run.record(messages)

    async def cut(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError

    async def forget(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError
