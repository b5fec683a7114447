"""Run by test_effects_killed.py in a process of its own: payments whose process is killed, and what is said of them then.

python effects_child.py LOOP STORE FOLDER TIMES SEED [random]
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from durability_child import MakeStore, maker
from gateways import Source, client, text_of

from hooksdk import Approval, ApprovalRequest, Host, Session, Tool, ToolCall, hooks
from hooksdk.formats import get_format
from hooksdk.gateway import Gateway

CHAT = get_format("openai-chat")
POINTS = ("judged", "entered", "paid", "transformed", "answered", "any time")
"""Where a payment dies: before its tool, in it before and after its effect, after it, once its result is out; or the parent
decides."""
MAY_HAVE = "may have taken effect"


class Bank:
    """A tool whose effects are lines of a file, and dies where it is told to."""

    def __init__(self, folder: Path, dies_at: str = "", victim: str = "") -> None:
        self.file = folder / "paid"
        self.dies_at, self.victim = dies_at, victim

    def reach(self, point: str, key: str) -> None:
        if (point, key) == (self.dies_at, self.victim):
            os.kill(os.getpid(), signal.SIGKILL)

    async def pay(self, arguments: dict[str, Any]) -> str:
        key = str(arguments["path"])
        self.reach("entered", key)
        await anyio.sleep(0)
        fd = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(fd, f"{key}\n".encode())
        os.close(fd)
        self.reach("paid", key)
        await anyio.sleep(0.002)
        return f"paid {key}"

    def count(self) -> Counter[str]:
        return Counter(self.file.read_text().split() if self.file.exists() else ())

    @property
    def tools(self) -> list[Tool]:
        parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
        return [Tool(name="pay", source="host", owner="bank", parameters=parameters, execute=self.pay)]

    @property
    def plugin(self) -> type:
        bank = self

        class Watches:
            @hooks.before_tool_call
            async def judge(self, event: hooks.BeforeToolCall) -> None:
                bank.reach("judged", str(event.arguments["path"]))

            @hooks.transform_tool_result
            async def transform(self, event: hooks.TransformToolResult) -> None:
                bank.reach("transformed", str(event.arguments["path"]))

        return Watches


def kills(loop: str, place: str, folder: Path, times: int, seed: int, points: Sequence[str] = POINTS) -> dict[str, int]:
    """Fork a worker for each round, let it die, and look at what it left."""
    work, look = roles(loop)
    chance = random.Random(seed)
    seen = Counter[str]()
    for number in range(times):
        point = points[number % len(points)]
        keys = [f"p{number}{letter}" for letter in "abc"[: chance.choice([1, 1, 3])]]
        bank = Bank(folder, point, chance.choice(keys))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            anyio.run(work, maker(place, lease=0.5), bank, f"s{number // 20}", keys, writer)
            os._exit(0)
        os.close(writer)
        if point == "any time":
            select.select([reader], [], [])  # it is about to begin
            time.sleep(chance.uniform(0, 0.04))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader) as pipe:
            told = pipe.read().split()
        seen["kills"] += 1
        seen.update(anyio.run(look, maker(place, lease=60), Bank(folder), f"s{number // 20}", keys, told))
    return dict(seen)


@asynccontextmanager
async def hosted(make: MakeStore, *plugins: Any) -> AsyncGenerator[Host]:
    store = make()
    async with Host(plugins=plugins, store=store) as host:
        yield host
    await store.aclose()


def judge(seen: Counter[str], bank: Bank, key: str, text: str, *, is_told: bool) -> None:
    """What is said of a payment that was cut off, beside what became of it."""
    paid = bank.count()[key]
    seen["false not run"] += bool(paid and "not run" in text)
    seen["lost"] += bool((is_told or (paid and MAY_HAVE not in text)) and text != f"paid {key}")
    seen["in doubt"] += MAY_HAVE in text
    seen["not run"] += "not run" in text


# The own loop


async def work(make: MakeStore, bank: Bank, session_id: str, keys: Sequence[str], writer: int) -> None:
    async with hosted(make, bank.plugin) as host, host.session(session_id) as session, session.run() as run:
        await run.resolve_tools(bank.tools)
        calls = [ToolCall(f"c{number}", "pay", {"path": key}) for number, key in enumerate(keys)]
        await run.record([CHAT.user("Pay."), CHAT.reply("", calls)])
        os.write(writer, b"begins\n")

        async def pay(call: ToolCall) -> None:
            key = call.arguments["path"]
            if (await run.call_tool(call)).text == f"paid {key}":
                os.write(writer, f"{key}\n".encode())
                bank.reach("answered", key)

        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(pay, call)


async def look(make: MakeStore, bank: Bank, session_id: str, keys: Sequence[str], told: Sequence[str]) -> Counter[str]:
    """Open the session again without anybody to ask. The model reads what became of its calls, and makes those again that it
    takes for not done."""
    seen = Counter[str]()
    async with hosted(make) as host, host.session(session_id) as session, session.run() as run:
        await run.resolve_tools(bank.tools)
        texts = results_of(session, await run.prepare_messages())
        for key in keys:
            if key not in texts:  # its reply was not recorded
                seen["lost"] += bank.count()[key]
                continue
            judge(seen, bank, key, texts[key], is_told=key in told)
        again = [key for key in keys if texts.get(key) != f"paid {key}"]
        before = bank.count()
        calls = [ToolCall(f"again-{key}", "pay", {"path": key}) for key in again]
        if calls:
            await run.record(CHAT.reply("", calls))
        for call, key in zip(calls, again, strict=True):
            result = await run.call_tool(call)
            seen["effects twice"] += bank.count()[key] > 1
            seen["refused for nothing"] += bool(
                result.is_error and not before[key] and MAY_HAVE not in texts.get(key, "")
            )
            seen["ran again"] += result.text == f"paid {key}"
        for call in session.in_doubt:
            await session.settle(call.effect_id, "looked after")
    return seen


def results_of(session: Session, messages: Sequence[Any]) -> dict[str, str]:
    """By what was to be paid: the text of the result that the model reads, without the word that says that it is an error."""
    texts: dict[str, str] = {}
    open_calls: list[ToolCall] = []
    for message in messages:
        if CHAT.is_reply(message):
            open_calls = list(CHAT.calls(message))
        for result in CHAT.results(message):
            call = next(call for call in open_calls if call.id == result.call_id)
            texts[json.loads(call.arguments)["path"]] = result.text.removeprefix("Error: ")
    return texts


# The gateway


async def work_at_gateway(make: MakeStore, bank: Bank, _session: str, keys: Sequence[str], writer: int) -> None:
    async with (
        hosted(make, bank.plugin) as host,
        Gateway(host, Source(listed=bank.tools), folder=bank.file.parent) as gateway,
        client(gateway) as connected,
    ):
        await connected.list_tools()
        os.write(writer, b"begins\n")

        async def pay(key: str) -> None:
            if text_of(await connected.call_tool("pay", {"path": key})) == f"paid {key}":
                os.write(writer, f"{key}\n".encode())
                bank.reach("answered", key)

        async with anyio.create_task_group() as group:
            for key in keys:
                group.start_soon(pay, key)


async def nobody(request: ApprovalRequest) -> Approval:
    return Approval(False, "nobody is here")


async def look_at_gateway(
    make: MakeStore, bank: Bank, _session: str, keys: Sequence[str], told: Sequence[str]
) -> Counter[str]:
    """Start another gateway without anybody to ask. The client, which got no answer, makes its calls again."""
    seen = Counter[str]()
    async with (
        hosted(make) as host,
        Gateway(host, Source(listed=bank.tools), folder=bank.file.parent, approver=nobody) as gateway,
        client(gateway) as connected,
    ):
        for key in keys:
            if key in told:
                continue
            before = bank.count()[key]
            text = text_of(await connected.call_tool("pay", {"path": key}))
            seen["false not run"] += bool(before and "not run" in text)
            seen["effects twice"] += bank.count()[key] > 1
            seen["in doubt"] += MAY_HAVE in text
            seen["ran again"] += text == f"paid {key}"
            seen["lost"] += bool(MAY_HAVE not in text and text != f"paid {key}")
    return seen


def roles(loop: str) -> tuple[Any, Any]:
    """Who pays in this loop, and who looks at what was left."""
    if loop == "own":
        return work, look
    if loop == "gateway":
        return work_at_gateway, look_at_gateway
    import effects_elsewhere as elsewhere

    if loop == "sync":
        return elsewhere.work_plainly, look
    return elsewhere.worker(loop), elsewhere.looker(loop)


if __name__ == "__main__":
    sys.modules["effects_child"] = sys.modules["__main__"]
    _, loop, place, folder, times, seed, *random_alone = sys.argv
    points = ("any time",) if random_alone else POINTS
    print(json.dumps(kills(loop, place, Path(folder), int(times), int(seed), points)))
