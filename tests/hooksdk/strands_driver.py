"""The conformance suite's driver for Strands Agents: a real agent, and a model that asks the script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from strands import Agent
from strands.models.model import Model
from strands.session import SnapshotSessionManager
from strands.storage import InMemoryStorage
from strands.tools.tools import PythonAgentTool

from hooksdk import Host, Tool
from hooksdk.adapters.strands import HookSDK
from hooksdk.adapters.strands import _native as native_messages  # pyright: ignore[reportPrivateUsage]
from hooksdk.adapters.strands import _plain as plain_messages  # pyright: ignore[reportPrivateUsage]
from hooksdk.adapters.strands import _spec as spec_of  # pyright: ignore[reportPrivateUsage]
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.sync import LazyHost
from hooksdk.testing import Answer, Program, ScriptedModel

CHAT = OpenAIChat()


class Scripted(Model):
    """Asks the script of the program."""

    def __init__(self, scripted: ScriptedModel) -> None:
        self.scripted = scripted

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": self.scripted.name}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, tool_specs: Any = None, *args: Any, **kwargs: Any) -> AsyncIterable[Any]:
        offered = [
            Tool(name=one["name"], description=one["description"], parameters=one["inputSchema"]["json"])
            for one in tool_specs or ()
        ]
        reply = await self.scripted.reply(plain_messages(messages), CHAT.tools(offered))
        (message,) = native_messages([reply.message])
        yield {"messageStart": {"role": "assistant"}}
        for block in message["content"]:
            async for event in pieces(block):
                yield event
        has_calls = any("toolUse" in block for block in message["content"])
        yield {"messageStop": {"stopReason": "tool_use" if has_calls else "end_turn"}}


async def pieces(block: Any) -> AsyncIterable[Any]:
    """A block as a provider streams it."""
    use = block.get("toolUse")
    start = {"toolUse": {"name": use["name"], "toolUseId": use["toolUseId"]}} if use else {}
    delta = {"toolUse": {"input": json.dumps(use["input"])}} if use else {"text": block["text"]}
    yield {"contentBlockStart": {"start": start}}
    yield {"contentBlockDelta": {"delta": delta}}
    yield {"contentBlockStop": {}}


def native_tool(tool: Tool) -> PythonAgentTool:
    execute: Any = tool.execute

    async def run(use: Any, **_: Any) -> Any:
        value = execute(use["input"])
        value = await value if hasattr(value, "__await__") else value
        block = {"text": value} if isinstance(value, str) else {"json": value}
        return {"toolUseId": use["toolUseId"], "status": "success", "content": [block]}

    return PythonAgentTool(tool.name, spec_of(tool), run)


class StrandsDriver:
    """Its store is that of Strands' session manager; each turn is a new agent, as in a server."""

    cannot: Mapping[str, str] = {
        "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
    }

    def __init__(self) -> None:
        self.storage = InMemoryStorage()

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as host:
            self.hooked = self._hooked(host)
            yield

    def _hooked(self, host: Any) -> HookSDK:
        owners = {tool.name: (tool.source, tool.owner) for tool in self.program.tools}
        core = [tool.name for tool in self.program.tools if tool.core]
        window = self.program.model.context_window
        return HookSDK(host, core=core, owner_of=lambda tool: owners[tool.tool_name], context_window=window)

    def _agent(self, conversation: str, hooked: HookSDK) -> Agent:
        return Agent(
            Scripted(self.program.model), tools=[*map(native_tool, self.program.tools)], plugins=[hooked],
            session_manager=SnapshotSessionManager(conversation, storage=self.storage), callback_handler=None,
        )  # fmt: skip

    @staticmethod
    def _taken(result: Any) -> Answer:
        if result.stop_reason == "interrupt":
            return Answer(waiting=[one.id.split(":")[2] for one in result.interrupts])
        return Answer(text=str(result).strip())

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return self._taken(await self._agent(conversation, self.hooked).invoke_async(prompt))

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        agent = self._agent(conversation, self.hooked)
        waiting: Any = agent.take_snapshot(preset="session").to_dict()["data"]["interrupt_state"]["interrupts"]
        answers: Any = [
            {"interruptResponse": {"interruptId": one, "response": granted[one.split(":")[2]]}}
            for one in waiting if one.split(":")[2] in granted
        ]  # fmt: skip
        return self._taken(await agent.invoke_async(answers))

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        events = [one async for one in self._agent(conversation, self.hooked).stream_async(prompt)]
        return self._taken(events[-1]["result"])

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        return self._taken(self._agent(conversation, self._hooked(LazyHost(**self.program.host)))(prompt))

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        messages = plain_messages(self._agent(conversation, self.hooked).messages)
        return [str(one["content"]) for one in messages if one["role"] == "tool"]

    async def _keep(self, messages: Sequence[Any], conversation: str) -> None:
        agent = self._agent(conversation, self.hooked)
        agent.messages[:] = messages
        session: Any = SnapshotSessionManager(conversation, storage=self.storage)
        await session.save_snapshot(agent, is_latest=True)

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        await self._keep(native_messages(messages), conversation)

    def _turns(self, conversation: str) -> tuple[Sequence[Any], Sequence[int]]:
        messages = self._agent(conversation, self.hooked).messages
        prompts = [at for at, one in enumerate(messages) if "text" in one["content"][0] and one["role"] == "user"]
        return messages, prompts

    async def cut(self, turns: int, conversation: str = "c") -> None:
        messages, prompts = self._turns(conversation)
        await self._keep(messages[: prompts[turns]], conversation)

    async def forget(self, turns: int, conversation: str = "c") -> None:
        messages, prompts = self._turns(conversation)
        await self._keep(messages[prompts[turns] :], conversation)
