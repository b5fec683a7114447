"""A worker of DBOS that a test deploys and kills: python deploy_child.py URL OPTIONS, where the options are JSON.

- `version`: the application's version; without it, the worker's own choice.
- `model`: the model's name.
- `turns`: the most turns of a run.
- `start`: sessions, each with a run that asks to pay.
- `workflow`: the code of a workflow beside the agent's.
- `database`, `schema`: where DBOS's tables are, if not at URL.
- `name`: the application's.
- `agent`: the agent's name.

It runs until stdin ends. What it logs goes to stderr, and "ready VERSION" to stdout.
"""

from __future__ import annotations

import asyncio
import json
import linecache
import logging
import sys
from typing import Any

from dbos import DBOS

from hooksdk import Host, hooks, tool
from hooksdk.adapters.dbos import DurableAgent, Worker
from hooksdk.agent import Limits
from hooksdk.desk import ApprovalDesk
from hooksdk.hooks import Ask, BeforeToolCall
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, Turn, call


class AskFirst:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("Pay?")


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def reply(turn: Turn) -> Any:
    return "Done." if any(one["role"] == "tool" for one in turn.messages) else call("pay", to="ann")


def register(code: str) -> None:
    """Make a workflow of this code, which can be read like that of a file."""
    linecache.cache["<app>"] = (len(code), None, code.splitlines(keepends=True), "<app>")
    names: dict[str, Any] = {"__name__": "app"}
    exec(compile(code, "<app>", "exec"), names)
    DBOS.workflow(name="own")(names["own"])


async def main(url: str, options: dict[str, Any]) -> None:
    model = ScriptedModel(reply, name=options.get("model", "scripted"))
    limits = Limits(turns=options.get("turns", 5))
    agent = DurableAgent(options.get("agent", "till"), model, tools=[pay], polling=0.05, limits=limits)
    if code := options.get("workflow"):
        register(code)
    config: Any = {
        "name": options.get("name", "shop"),
        "system_database_url": options.get("database", url),
        "dbos_system_schema": options.get("schema", "dbos"),
        "application_version": options.get("version"),
        "log_level": "ERROR",
        "notification_listener_polling_interval_sec": 0.05,
    }
    store = SqlStore(url)
    async with (
        Host(store=store, plugins=[AskFirst], approver=ApprovalDesk(wait=0)) as host,
        Worker(host, [agent], config, look=0.05, drain=1),
    ):
        for session in options.get("start", ()):
            await agent.start(session, "Pay Ann.", workflow_id=f"run-{session}", requester={"id": f"by-{session}"})
        print("ready", DBOS.application_version, flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await store.aclose()


logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
