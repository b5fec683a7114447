"""A worker of DBOS with an agent that pays: its effects are lines of a file, and it dies where it is told to.

python dbos_worker.py STORE_URL DBOS_URL FOLDER [NUMBER_OF_RUNS]

FOLDER/paid has a line for each payment, FOLDER/asked one for each question to the model. Where FOLDER/die-at holds the name of
a point, the first worker that comes there takes it away and dies. It ends once FOLDER/stop is there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from hooksdk import Host, tool
from hooksdk.adapters.dbos import DurableAgent, Worker
from hooksdk.desk import ApprovalDesk
from hooksdk.stores import SqlStore
from hooksdk.testing import Call, ScriptedModel


class Till:
    """Where money is paid out of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, file: str, line: str) -> None:
        fd = os.open(self.folder / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, f"{line}\n".encode())
        os.close(fd)

    def reach(self, point: str) -> None:
        """Die here, if that is what is asked for."""
        order = self.folder / "die-at"
        if order.exists() and order.read_text() == point:
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def agent_of(till: Till, *, calls: int = 1, polling: float = 0.05, at_once: int = 50) -> DurableAgent:
    """An agent that makes so many payments, one after the other, and says so."""

    def reply(turn: Any) -> Any:
        till.note("asked", turn.prompt)
        till.reach("model")
        done = len(turn.results)
        return f"Done: {turn.results[-1].text}" if done >= calls else Call("pay", {"to": f"{turn.prompt}-{done}"})

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        till.reach("entered")
        till.note("paid", to)
        till.reach("paid")
        await asyncio.sleep(0.01)
        return f"paid {to}"

    return DurableAgent("till", ScriptedModel(reply), tools=[pay], at_once=at_once, polling=polling)


async def main(store_url: str, database: str, folder: Path, schema: str) -> None:
    store = SqlStore(store_url, lease=5)
    config: Any = {"name": "shop", "system_database_url": database, "log_level": "WARNING", "run_admin_server": False}
    if schema:
        config["dbos_system_schema"] = schema
    agent = agent_of(Till(folder), calls=int(os.environ.get("CALLS", "1")))
    async with Host(store=store, approver=ApprovalDesk(wait=0)) as host, Worker(host, [agent], config, look=0.5, drain=2):
        (folder / f"ready-{os.getpid()}").touch()
        while not (folder / "stop").exists():
            await asyncio.sleep(0.05)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else ""))
