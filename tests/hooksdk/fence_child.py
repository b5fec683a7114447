"""Run by test_fences.py in a process of its own: a worker whose tool stops it before the effect, where it is told to.

python fence_child.py LOOP STORE FOLDER ANSWER [stops]
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from hooksdk import Approval, ApprovalRequest, Host, Tool, ToolContext
from hooksdk.agent import run_agent
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, Turn, call

sys.path.append(str(Path(__file__).parents[2] / "examples"))

fenced: Any = import_module("fenced_bank")
LEASE = 0.5


class Worker:
    """A host with a tool that pays at the bank with fences, and at one that only knows effects."""

    def __init__(self, store: str, folder: Path, answer: str, *, stops: bool) -> None:
        self.folder, self.answer, self.stops = folder, answer, stops
        self.bank, self.other = fenced.Bank(folder / "bank.db"), folder / "paid"
        self.store = SqlStore(store, lease=LEASE)
        self.host = Host([fenced.announcing(self.bank)], store=self.store, approver=self.person)
        self.tools = [Tool.from_function(self.pay, source="host")]
        self.model = ScriptedModel(self.reply)

    async def pay(self, payee: str, context: ToolContext) -> str:
        """Pay somebody."""
        seen: dict[str, Any] = {"fence": context.fence, "before": await context.still_held()}
        if self.stops:
            os.kill(os.getpid(), signal.SIGSTOP)
            while not (self.folder / "go").exists():
                await anyio.sleep(0.02)
        seen["held"] = await context.still_held()
        with self.other.open("a") as file:
            file.write(f"{payee}\n")
        try:
            self.bank.accept(context.fences, (context.effect_id, payee))
            seen["bank"] = "paid"
        except Exception as refusal:
            seen["bank"] = str(refusal)
            raise
        finally:
            self.tell("stopped" if self.stops else "heir", seen)
        return "paid"

    async def person(self, request: ApprovalRequest) -> Approval:
        self.tell("asked", request.title)
        return Approval(self.answer == "yes", "ann looks herself")

    def reply(self, turn: Turn) -> Any:
        return turn.result.text if turn.results else call("pay", payee="ann")

    def tell(self, name: str, value: object) -> None:
        (self.folder / f"{name}.part").write_text(json.dumps(value))
        (self.folder / f"{name}.part").replace(self.folder / f"{name}.json")

    async def run(self) -> None:
        """One run of the own loop."""
        prompt = "Pay Ann." if self.stops else None
        async with self.host as host, host.session("s") as session:
            self.tell("end", (await run_agent(session, self.model, prompt, tools=self.tools)).text)
        await self.store.aclose()

    async def serve(self, url: str) -> None:
        """A worker of DBOS, until the run has ended."""
        from dbos import DBOS

        from hooksdk.adapters.dbos import DurableAgent
        from hooksdk.adapters.dbos import Worker as DBOSWorker

        agent = DurableAgent("till", self.model, tools=self.tools, polling=0.05)
        schema = f"dbos_{url.rpartition('place')[2]}" if url.startswith("postgres") else None  # one for each test
        config: Any = {"name": "shop", "system_database_url": url, "dbos_system_schema": schema, "log_level": "ERROR",
                       "notification_listener_polling_interval_sec": 0.05}  # fmt: skip
        async with self.host as host, DBOSWorker(host, [agent], config, look=0.1, drain=1):
            if self.stops:
                await agent.start("s", "Pay Ann.", workflow_id="w")
            handle: Any = await DBOS.retrieve_workflow_async("w")
            outcome = await handle.get_result(polling_interval_sec=0.05)
            self.tell("end", outcome["text"])
        await self.store.aclose()


if __name__ == "__main__":
    _, loop, url, place, answer, *stops = sys.argv
    worker = Worker(url, Path(place), answer, stops=bool(stops))
    if loop == "own":
        anyio.run(worker.run)
    else:
        asyncio.run(worker.serve(url))
