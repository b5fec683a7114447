"""The conformance suite's driver for pydantic-ai: a real agent, and a model that asks the script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ExternalToolset
from pydantic_ai import Tool as NativeTool
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from hooksdk import Host, Tool
from hooksdk.adapters.pydantic_ai import HookSDK
from hooksdk.adapters.pydantic_ai import _definition as definition_of  # pyright: ignore[reportPrivateUsage]
from hooksdk.adapters.pydantic_ai import _native as native_message  # pyright: ignore[reportPrivateUsage]
from hooksdk.adapters.pydantic_ai import _plain as plain_messages  # pyright: ignore[reportPrivateUsage]
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.sync import LazyHost
from hooksdk.testing import Answer, Program, ScriptedModel

CHAT = OpenAIChat()


def native_tool(tool: Tool) -> NativeTool[Any]:
    execute: Any = tool.execute

    async def run(**arguments: Any) -> Any:
        value = execute(arguments)
        return await value if hasattr(value, "__await__") else value

    return NativeTool.from_schema(run, tool.name, tool.description, tool.parameters or {})


class Acme(FunctionModel):
    """Whose prices the suite has."""

    @property
    def system(self) -> str:
        return "acme"


def model_of(scripted: ScriptedModel) -> FunctionModel:
    async def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools = [
            Tool(name=one.name, description=one.description or "", parameters=one.parameters_json_schema)
            for one in info.function_tools
        ]
        answer = await scripted.reply(plain_messages(messages), CHAT.tools(tools))
        message = native_message(answer.message)
        assert isinstance(message, ModelResponse)
        return message

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for number, part in enumerate((await reply(messages, info)).parts):
            if isinstance(part, TextPart):
                yield part.content
            elif isinstance(part, ToolCallPart):
                yield {number: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    return Acme(reply, stream_function=stream, model_name=scripted.name)


class PydanticAIDriver:
    """Its store is a list of messages for each conversation, as pydantic-ai's users keep it."""

    cannot: Mapping[str, str] = {
        "streaming_goes_on_as_well": "run_stream hands the answer out before it is whole; run_stream_events goes on",
    }

    def __init__(self) -> None:
        self.lists: dict[str, list[ModelMessage]] = {}

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as host:
            self.agent = self._agent(host)
            yield

    def _agent(self, host: Any) -> Agent[None, Any]:
        owners = {tool.name: (tool.source, tool.owner) for tool in self.program.tools}
        core = [tool.name for tool in self.program.tools if tool.core]
        hooked = HookSDK(
            host, core=core, owner_of=lambda tool: owners[tool.name], context_window=self.program.model.context_window
        )
        return Agent(
            model_of(self.program.model), output_type=[str, DeferredToolRequests], capabilities=[hooked],
            tools=[native_tool(one) for one in self.program.tools if one.execute],
            toolsets=[ExternalToolset([definition_of(one) for one in self.program.tools if not one.execute])],
        )  # fmt: skip

    def _taken(self, result: Any, conversation: str) -> Answer:
        self.lists[conversation] = result.all_messages()
        output = result.output
        if isinstance(output, DeferredToolRequests):
            return Answer(waiting=[call.tool_call_id for call in (*output.approvals, *output.calls)])
        return Answer(text=output)

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        history = self.lists.get(conversation)
        result = await self.agent.run(prompt, message_history=history, conversation_id=conversation)
        return self._taken(result, conversation)

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        return await self._go_on(DeferredToolResults(approvals={**granted}), conversation)

    async def supply(self, results: Mapping[str, str], conversation: str = "c") -> Answer:
        return await self._go_on(DeferredToolResults(calls={**results}), conversation)

    async def _go_on(self, answers: DeferredToolResults, conversation: str) -> Answer:
        result = await self.agent.run(
            message_history=self.lists[conversation], deferred_tool_results=answers, conversation_id=conversation
        )
        return self._taken(result, conversation)

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        async with self.agent.run_stream(prompt, conversation_id=conversation) as result:
            text = "".join([piece async for piece in result.stream_text(delta=True)])
        return Answer(text=text)

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        agent = self._agent(LazyHost(**self.program.host))
        try:
            return self._taken(agent.run_sync(prompt, conversation_id=conversation), conversation)
        finally:  # it leaves its thread a loop, which would be collected open in a later test
            asyncio.get_event_loop().close()

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        requests = [one for one in self.lists[conversation] if isinstance(one, ModelRequest)]
        parts = [part for one in requests for part in one.parts if isinstance(part, ToolReturnPart)]
        return [part.model_response_str() for part in parts]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        self.lists[conversation] = [*map(native_message, messages)]

    def _turn(self, turns: int, conversation: str) -> int:
        prompts = [
            at for at, one in enumerate(self.lists[conversation])
            if isinstance(one, ModelRequest) and one.parts[0].part_kind == "user-prompt"
        ]  # fmt: skip
        return prompts[turns]

    async def cut(self, turns: int, conversation: str = "c") -> None:
        del self.lists[conversation][self._turn(turns, conversation) :]

    async def forget(self, turns: int, conversation: str = "c") -> None:
        del self.lists[conversation][: self._turn(turns, conversation)]
