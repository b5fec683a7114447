"""Payments at the sync twin and in frameworks' agents, as effects_child.py kills them: how they are made, and how the next
process looks at what was left. A framework's own list is lost with its process, so that hooksdk alone knows of a call."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio.to_thread
from durability_child import MakeStore
from effects_child import CHAT, MAY_HAVE, Bank, nobody

from hooksdk import ToolCall
from hooksdk.sync import Host
from hooksdk.testing import Call, Program, ScriptedModel, Turn

# What is said of a call that ran to its end, and whose result the framework has lost.
RAN = "ran to its end"


async def work_plainly(make: MakeStore, bank: Bank, session_id: str, keys: Sequence[str], writer: int) -> None:
    await anyio.to_thread.run_sync(_work_plainly, make, bank, session_id, keys, writer)


def _work_plainly(make: MakeStore, bank: Bank, session_id: str, keys: Sequence[str], writer: int) -> None:
    with (
        Host(plugins=[bank.plugin], store=make()) as host,
        host.session(session_id) as session,
        session.run() as run,
        ThreadPoolExecutor() as pool,
    ):
        run.resolve_tools(bank.tools)
        calls = [ToolCall(f"c{number}", "pay", {"path": key}) for number, key in enumerate(keys)]
        run.record([CHAT.user("Pay."), CHAT.reply("", calls)])
        os.write(writer, b"begins\n")

        def pay(call: ToolCall) -> None:
            key = call.arguments["path"]
            if run.call_tool(call).text == f"paid {key}":
                os.write(writer, f"{key}\n".encode())
                bank.reach("answered", key)

        list(pool.map(pay, calls))


class Agent:
    """An agent of a framework, with a model that asks for these payments once and reads what became of them."""

    def __init__(self, framework: str, bank: Bank, keys: Sequence[str], attempt: str) -> None:
        names = {
            "langchain": "LangChainDriver",
            "openai_agents": "OpenAIAgentsDriver",
            "pydantic_ai": "PydanticAIDriver",
        }
        self.driver: Any = getattr(importlib.import_module(f"{framework}_driver"), names[framework])()
        self.bank, self.keys, self.attempt = bank, keys, attempt
        self.texts: dict[str, str] = {}

    async def play(self, host: dict[str, Any], session_id: str, writer: int | None = None) -> None:
        def script(turn: Turn) -> Any:
            if turn.number == 1:
                if writer is not None:
                    os.write(writer, b"begins\n")
                return [Call("pay", {"path": key}, id=f"{self.attempt}-{key}") for key in self.keys]
            self.texts = read_texts(turn.messages)
            for key, text in self.texts.items():
                if writer is not None and text == f"paid {key}":
                    os.write(writer, f"{key}\n".encode())
                    self.bank.reach("answered", key)
            return "Done."

        model = ScriptedModel(script)
        options: Any = {**host, "approver": nobody}
        program = Program(host=options, tools=self.bank.tools, model=model)
        async with self.driver.start(program):
            await self.driver.ask(f"Pay {' '.join(self.keys)}.", session_id)


def read_texts(messages: Sequence[Any]) -> dict[str, str]:
    """By what was to be paid: the text that the model reads of it."""
    paid_for: dict[str, str] = {}
    texts: dict[str, str] = {}
    for message in messages:
        for call in CHAT.calls(message) if CHAT.is_reply(message) else ():
            given = call.arguments
            paid_for[call.id] = (given if isinstance(given, dict) else json.loads(given))["path"]
        for result in CHAT.results(message):
            if result.call_id in paid_for:
                texts[paid_for[result.call_id]] = result.text.removeprefix("Error: ")
    return texts


def worker(framework: str) -> Any:
    async def work(make: MakeStore, bank: Bank, session_id: str, keys: Sequence[str], writer: int) -> None:
        store = make()
        await Agent(framework, bank, keys, "c").play({"plugins": [bank.plugin], "store": store}, session_id, writer)
        await store.aclose()

    return work


def looker(framework: str) -> Any:
    async def look(
        make: MakeStore, bank: Bank, session_id: str, keys: Sequence[str], told: Sequence[str]
    ) -> Counter[str]:
        """What is stored first; then another process, without anybody to ask, makes all payments again."""
        seen = Counter[str]()
        store, before = make(), bank.count()
        stored = (await store.read_session(session_id))[0] if await store.session_exists(session_id) else []
        texts = read_texts(stored)
        seen["lost"] += sum(texts.get(key) != f"paid {key}" for key in keys if key in told)
        if stored and CHAT.is_reply(stored[-1]) and keys[0] in texts and not CHAT.calls(stored[-1]):
            seen["came to its end"] += 1  # whoever asks anew then may want to pay anew
            await store.aclose()
            return seen
        agent = Agent(framework, bank, keys, "again")
        await agent.play({"store": store}, session_id)
        for key in keys:
            text = agent.texts[key]
            is_done, is_doubt = text == f"paid {key}", MAY_HAVE in text
            seen["effects twice"] += bank.count()[key] > 1
            seen["false not run"] += bool(before[key] and "not run" in text)
            seen["lost"] += bool(before[key] and not is_done and not is_doubt and RAN not in text)
            seen["refused for nothing"] += not before[key] and not is_done and not is_doubt
            seen["in doubt"] += is_doubt or (RAN in text)
            seen["ran again"] += not before[key] and is_done
        await store.aclose()
        return seen

    return look
