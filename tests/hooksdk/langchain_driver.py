"""The driver of the conformance suite for LangChain's agents."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from langchain import agents
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from hooksdk import Host, Tool
from hooksdk.adapters.langchain import HookSDK
from hooksdk.formats import Message
from hooksdk.sync import LazyHost
from hooksdk.testing import Answer, Program, ScriptedModel


class Provider(BaseChatModel):
    """A chat model of LangChain's, over the script."""

    script: Any
    definitions: list[dict[str, Any]] = []

    def bind_tools(self, tools: Sequence[Any], **_options: Any) -> Any:
        return Provider(script=self.script, definitions=[convert_to_openai_tool(one) for one in tools])

    async def _agenerate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        script: ScriptedModel = self.script
        given = convert_to_openai_messages(messages)
        reply = dict((await script.reply(given, self.definitions)).message)
        right: list[Any] = []
        wrong: list[Any] = []
        for call in reply.get("tool_calls") or ():
            made = {"id": call["id"], "name": call["function"]["name"], "args": call["function"]["arguments"]}
            try:
                right.append({**made, "args": json.loads(made["args"])})
            except ValueError:
                wrong.append({**made, "error": "it is no JSON"})
        message = AIMessage(str(reply.get("content") or ""), tool_calls=right, invalid_tool_calls=wrong)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages: list[BaseMessage], *_args: Any, **_options: Any) -> ChatResult:
        import anyio

        return anyio.run(self._agenerate, messages)

    @property
    def _llm_type(self) -> str:
        return "scripted"


def native(tool: Tool) -> StructuredTool:
    """The same tool, as LangChain has it."""
    execute: Any = tool.execute

    async def act(**arguments: Any) -> str:
        value = execute(arguments)
        return str(await value if inspect.isawaitable(value) else value)

    def plainly(**arguments: Any) -> str:
        import anyio

        return anyio.run(lambda: act(**arguments))

    return StructuredTool.from_function(  # pyright: ignore[reportUnknownMemberType] - its overloads are partly untyped
        plainly, coroutine=act, name=tool.name, description=tool.description, args_schema=tool.parameters
    )


class LangChainDriver:
    """An agent of `create_agent`."""

    cannot: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.saver = InMemorySaver()

    def _agent(self, host: Any) -> Any:
        given = {tool.name: tool for tool in self.program.tools}

        def owner_of(tool: BaseTool) -> tuple[str, str]:
            return given[tool.name].source, given[tool.name].owner

        core = [name for name, tool in given.items() if tool.core]
        middleware = HookSDK(host, core=core, owner_of=owner_of, context_window=self.program.model.context_window)
        tools = [*map(native, self.program.tools)]
        make = cast("Any", agents).create_agent
        return make(Provider(script=self.program.model), tools, middleware=[middleware], checkpointer=self.saver)

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as host:
            self.agent = self._agent(host)
            yield

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return self._answer(await self.agent.ainvoke({"messages": [HumanMessage(prompt)]}, _thread(conversation)))

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        state = await self.agent.aget_state(_thread(conversation))
        decisions = {
            one.id: {"decisions": [{"type": "approve" if granted[_call_of(one)] else "reject"}]}
            for one in state.interrupts
        }
        return self._answer(await self.agent.ainvoke(Command(resume=decisions), _thread(conversation)))

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        given, last = {"messages": [HumanMessage(prompt)]}, {}
        async for values in self.agent.astream(given, _thread(conversation), stream_mode="values"):
            last = values
        return self._answer(last)

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        lazy = LazyHost(**self.program.host)
        try:
            given = {"messages": [HumanMessage(prompt)]}
            return self._answer(self._agent(lazy).invoke(given, _thread(conversation)))
        finally:
            lazy.plain.__exit__(None, None, None)

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return [str(one.text) for one in await self._messages(conversation) if isinstance(one, ToolMessage)]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        await self._put(convert_to_messages([*messages]), conversation)

    async def cut(self, turns: int, conversation: str = "c") -> None:
        messages = await self._messages(conversation)
        await self._put(messages[: _begin(messages, turns)], conversation)

    async def forget(self, turns: int, conversation: str = "c") -> None:
        messages = await self._messages(conversation)
        await self._put(messages[_begin(messages, turns) :], conversation)

    async def _messages(self, conversation: str) -> list[BaseMessage]:
        return (await self.agent.aget_state(_thread(conversation))).values["messages"]

    async def _put(self, messages: Sequence[BaseMessage], conversation: str) -> None:
        whole = [RemoveMessage(id="__remove_all__"), *messages]
        await self.agent.aupdate_state(_thread(conversation), {"messages": whole}, as_node="model")

    @staticmethod
    def _answer(state: Any) -> Answer:
        if paused := state.get("__interrupt__"):
            return Answer(waiting=[*map(_call_of, paused)])
        return Answer(text=str(state["messages"][-1].text))


def _thread(conversation: str) -> Any:
    return {"configurable": {"thread_id": conversation}}


def _call_of(paused: Any) -> str:
    return paused.value["action_requests"][0]["id"]


def _begin(messages: Sequence[BaseMessage], turns: int) -> int:
    """Where the turn after so many begins."""
    return [place for place, one in enumerate(messages) if isinstance(one, HumanMessage)][turns]
