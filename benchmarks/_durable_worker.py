"""A worker of DBOS with an agent that pays: its effects are lines of a file, and it dies where it is told to.

    python _durable_worker.py STORE_URL DBOS_URL FOLDER [--schema dbos] [--calls 1] [--at-once 50] [--polling 0.05] [--lease 5]

FOLDER/paid has a line for each payment. Where FOLDER/die-at holds the name of a point, the first worker that comes there takes
the file away and dies. FOLDER/ready-PID says that it works, and in the end what CPU it took; it ends once FOLDER/stop is there.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from hooksdk import Host, hooks, tool
from hooksdk.adapters.dbos import DurableAgent, Worker
from hooksdk.desk import ApprovalDesk
from hooksdk.stores import SqlStore
from hooksdk.testing import Call, ScriptedModel, Turn

NAME = "till"
"""The agent's, and so that of its workflow and of its queue."""
POINTS = ("began", "asked", "replied", "judged", "entered", "paid", "recorded", "ended")
"""Where a worker may be told to die, in their order: once the run is open, while the model is asked, once its reply is recorded
and the workflow does not know of it, before the tool, in it before and after its effect, once its result is recorded, and when
the run ends."""


class Till:
    """Where money is paid out of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pay(self, to: str) -> None:
        """The effect."""
        fd = os.open(self.folder / "paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, f"{to}\n".encode())
        os.close(fd)

    def reach(self, point: str) -> None:
        """Die here, if that is what is asked for."""
        order = self.folder / "die-at"
        try:
            if order.read_text(encoding="utf-8") != point:
                return
            order.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def mortal(till: Till) -> type:
    """A plugin by which a worker dies at the points between its steps."""

    class Mortal:
        @hooks.agent_start
        def begin(self, event: hooks.AgentStart) -> None:
            till.reach("began")

        @hooks.before_tool_call
        def judge(self, event: hooks.BeforeToolCall) -> None:
            till.reach("judged")

        @hooks.after_model_call
        def replied(self, event: hooks.AfterModelCall) -> None:
            till.reach("replied")

        @hooks.after_tool_call
        def recorded(self, event: hooks.AfterToolCall) -> None:
            till.reach("recorded")

        @hooks.agent_end
        def end(self, event: hooks.AgentEnd) -> None:
            till.reach("ended")

    return Mortal


def paying(till: Till, *, calls: int) -> tuple[ScriptedModel, list[Any]]:
    """A model that makes so many payments, one after the other, and says so; and its tool."""

    def reply(turn: Turn) -> Any:
        till.reach("asked")
        done = sum(message["role"] == "tool" for message in turn.messages)
        return "Done." if done >= calls else Call("pay", {"to": f"{turn.prompt}-{done}"})

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        till.reach("entered")
        till.pay(to)
        till.reach("paid")
        await asyncio.sleep(0.01)
        return f"paid {to}"

    return ScriptedModel(reply), [pay]


async def work(options: argparse.Namespace) -> None:
    """Serve until somebody says stop."""
    till = Till(options.folder)
    store = SqlStore(options.store, lease=options.lease)
    model, tools = paying(till, calls=options.calls)
    agent = DurableAgent(NAME, model, tools=tools, at_once=options.at_once, polling=options.polling)
    config: Any = {"name": "shop", "system_database_url": options.database, "dbos_system_schema": options.schema,
                   "sys_db_pool_size": options.pool, "log_level": options.log_level}  # fmt: skip
    if options.wait:
        (options.folder / f"ready-{os.getpid()}").touch()
        while not (options.folder / "go").exists():  # noqa: ASYNC110 - another process says so
            await asyncio.sleep(0.01)
    host = Host(store=store, approver=ApprovalDesk(wait=0), plugins=[] if options.immortal else [mortal(till)])
    async with host, Worker(host, [agent], config, look=options.look, drain=5):
        (options.folder / f"ready-{os.getpid()}").touch()
        while not (options.folder / "stop").exists():  # noqa: ASYNC110 - another process says so
            await asyncio.sleep(0.05)
        (options.folder / f"ready-{os.getpid()}").write_text(f"{time.process_time():.1f}", encoding="utf-8")
    await store.aclose()


def parser() -> argparse.ArgumentParser:
    """Its options."""
    known = argparse.ArgumentParser()
    known.add_argument("store")
    known.add_argument("database")
    known.add_argument("folder", type=Path)
    known.add_argument("--schema", default="dbos")
    known.add_argument("--calls", type=int, default=1)
    known.add_argument("--at-once", type=int, default=50)
    known.add_argument("--polling", type=float, default=0.05)
    known.add_argument("--lease", type=float, default=5.0)
    known.add_argument("--look", type=float, default=0.5)
    known.add_argument("--pool", type=int, default=8)
    known.add_argument("--log-level", default="ERROR")
    known.add_argument("--immortal", action="store_true", help="no plugin by which it dies")
    known.add_argument("--wait", action="store_true", help="begin once FOLDER/go is there")
    return known


if __name__ == "__main__":
    asyncio.run(work(parser().parse_args()))
