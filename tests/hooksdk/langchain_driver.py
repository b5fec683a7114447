"""The conformance suite's driver for LangChain: a real agent with a checkpointer, and a model that asks the script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from langchain import agents
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    RemoveMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.output_parsers.openai_tools import make_invalid_tool_call, parse_tool_call
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from hooksdk import Host, Tool
from hooksdk.adapters.langchain import HookSDK
from hooksdk.formats import Message
from hooksdk.sync import LazyHost
from hooksdk.testing import Answer, Program, ScriptedModel

create_agent = cast("Any", agents).create_agent


class Scripted(BaseChatModel):
    """Asks the script of the program."""

    scripted: Any
    tools: list[dict[str, Any]] = []

    def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Any:
        return Scripted(scripted=self.scripted, tools=[convert_to_openai_tool(one) for one in tools])

    async def _agenerate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        model: ScriptedModel = self.scripted
        reply = await model.reply(convert_to_openai_messages(messages), self.tools)
        return ChatResult(generations=[ChatGeneration(message=native_reply(reply.message))])

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        return anyio.run(self._agenerate, messages)

    def _get_ls_params(self, *_args: Any, **_options: Any) -> Any:
        return {"ls_provider": "acme", "ls_model_name": self.scripted.name}

    @property
    def _llm_type(self) -> str:
        return "scripted"


def native_reply(message: Message) -> AIMessage:
    """As the classes of the providers read an answer: a call whose arguments are no JSON is an invalid one."""
    made: list[Any] = []
    invalid: list[Any] = []
    for call in message.get("tool_calls") or ():
        try:
            made.append(parse_tool_call(call, return_id=True))
        except OutputParserException as error:
            invalid.append(make_invalid_tool_call(call, str(error)))
    return AIMessage(message.get("content") or "", tool_calls=made, invalid_tool_calls=invalid)


def native_tool(tool: Tool) -> StructuredTool:
    execute: Any = tool.execute

    async def run(**arguments: Any) -> Any:
        value = execute(arguments)
        return await value if hasattr(value, "__await__") else value

    def run_plainly(**arguments: Any) -> Any:
        async def call() -> Any:
            return await run(**arguments)

        return anyio.run(call)

    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.parameters or {}, coroutine=run, func=run_plainly
    )


class LangChainDriver:
    """Its store is a checkpointer."""

    cannot: Mapping[str, str] = {
        "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
    }

    def __init__(self) -> None:
        self.saver = InMemorySaver()

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as host:
            self.agent = self._agent(host)
            yield

    def _agent(self, host: Any) -> Any:
        owners = {tool.name: (tool.source, tool.owner) for tool in self.program.tools}
        core = [tool.name for tool in self.program.tools if tool.core]
        model = self.program.model
        hooked = HookSDK(host, core=core, owner_of=lambda tool: owners[tool.name], context_window=model.context_window)
        tools = [*map(native_tool, self.program.tools)]
        return create_agent(Scripted(scripted=model), tools, middleware=[hooked], checkpointer=self.saver)

    @staticmethod
    def _thread(conversation: str) -> dict[str, Any]:
        return {"configurable": {"thread_id": conversation}}

    @staticmethod
    def _taken(state: Mapping[str, Any]) -> Answer:
        if waiting := [one.id for one in state.get("__interrupt__", ())]:
            return Answer(waiting=waiting)
        return Answer(text=str(state["messages"][-1].text))

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return self._taken(await self.agent.ainvoke({"messages": prompt}, self._thread(conversation)))

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        decisions = {one: {"decisions": [{"type": "approve" if yes else "reject"}]} for one, yes in granted.items()}
        return self._taken(await self.agent.ainvoke(Command(resume=decisions), self._thread(conversation)))

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        states = self.agent.astream({"messages": prompt}, self._thread(conversation), stream_mode="values")
        return self._taken([state async for state in states][-1])

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        agent = self._agent(LazyHost(**self.program.host))
        return self._taken(agent.invoke({"messages": prompt}, self._thread(conversation)))

    async def _messages(self, conversation: str) -> list[BaseMessage]:
        return (await self.agent.aget_state(self._thread(conversation))).values["messages"]

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return [str(one.text) for one in await self._messages(conversation) if one.type == "tool"]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        given = [{**one, "content": one.get("content") or ""} for one in messages]
        await self.agent.aupdate_state(self._thread(conversation), {"messages": convert_to_messages(given)})

    async def _remove(self, conversation: str, turns: int, *, older: bool) -> None:
        messages = await self._messages(conversation)
        at = [place for place, one in enumerate(messages) if one.type == "human"][turns]
        gone = messages[:at] if older else messages[at:]
        removed = [RemoveMessage(one.id or "") for one in gone]
        await self.agent.aupdate_state(self._thread(conversation), {"messages": removed})

    async def cut(self, turns: int, conversation: str = "c") -> None:
        await self._remove(conversation, turns, older=False)

    async def forget(self, turns: int, conversation: str = "c") -> None:
        await self._remove(conversation, turns, older=True)
