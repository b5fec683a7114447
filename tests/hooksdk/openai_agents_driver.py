"""The conformance suite's driver for the OpenAI Agents SDK: real agents and sessions, and a model that asks the script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from agents import Agent, FunctionTool, Model, RunConfig, RunState, SQLiteSession, Usage
from agents.items import ModelResponse
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from hooksdk import Host, Tool
from hooksdk.adapters._openai_forms import Handoffs, native_items, plain_messages
from hooksdk.adapters.openai_agents import HookSDK
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.sync import LazyHost
from hooksdk.testing import Answer, Program, ScriptedModel

CHAT = OpenAIChat()


class Scripted(Model):
    """Asks the script of the program."""

    def __init__(self, scripted: ScriptedModel) -> None:
        self.scripted = scripted
        self.model = scripted.name

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the SDK's own
        model_settings: Any,
        tools: Any,
        *args: Any,
        **_options: Any,
    ) -> ModelResponse:
        offered = [Tool(name=one.name, description=one.description, parameters=one.params_json_schema) for one in tools]
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        message = (await self.scripted.reply(plain_messages(items, Handoffs()), CHAT.tools(offered))).message
        output: list[Any] = []
        if text := CHAT.text(message):
            part = ResponseOutputText(text=text, type="output_text", annotations=[])
            output.append(
                ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")
            )
        for call in CHAT.calls(message):
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            output.append(
                ResponseFunctionToolCall(type="function_call", name=call.name, arguments=arguments, call_id=call.id)
            )
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        answer = await self.get_response(*args, **options)
        response = Response(
            id="r", created_at=0, model="scripted", object="response", output=answer.output, tool_choice="auto",
            tools=[], parallel_tool_calls=True,
        )  # fmt: skip
        yield ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def native_tool(tool: Tool) -> FunctionTool:
    execute: Any = tool.execute

    async def invoke(_context: Any, text: str) -> Any:
        value = execute(json.loads(text))
        return await value if hasattr(value, "__await__") else value

    return FunctionTool(
        name=tool.name, description=tool.description, params_json_schema=dict(tool.parameters or {}),
        on_invoke_tool=invoke, strict_json_schema=False,
    )  # fmt: skip


class OpenAIAgentsDriver:
    """Its store is a session for each conversation; what waits is a state, as JSON."""

    cannot: Mapping[str, str] = {
        "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
        "repeated_call_ids_are_told_apart": "the SDK refuses an id of a call that repeats",
    }

    def __init__(self) -> None:
        self.sessions: dict[str, SQLiteSession] = {}
        self.states: dict[str, dict[str, Any]] = {}

    def _session(self, conversation: str) -> SQLiteSession:
        return self.sessions.setdefault(conversation, SQLiteSession(conversation))

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        self.agent = Agent[Any](name="agent", model=Scripted(program.model), tools=[*map(native_tool, program.tools)])
        async with Host(**program.host) as host:
            self.hooked = self._hooked(host)
            yield

    def _hooked(self, host: Any) -> HookSDK:
        owners = {tool.name: (tool.source, tool.owner) for tool in self.program.tools}
        core = [tool.name for tool in self.program.tools if tool.core]
        window = self.program.model.context_window
        return HookSDK(host, core=core, owner_of=lambda tool: owners[tool.name], context_window=window)

    def _options(self, conversation: str) -> dict[str, Any]:
        return {"session": self._session(conversation), "run_config": RunConfig(tracing_disabled=True)}

    def _taken(self, result: Any, conversation: str) -> Answer:
        if result.interruptions:
            self.states[conversation] = result.to_state().to_json()
            return Answer(waiting=[one.raw_item.call_id for one in result.interruptions])
        return Answer(text=result.final_output)

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        result = await self.hooked.run(self.agent, prompt, **self._options(conversation))
        return self._taken(result, conversation)

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        state = await RunState.from_json(self.agent, self.states[conversation])
        for one in state.get_interruptions():
            raw: Any = one.raw_item
            (state.approve if granted[raw.call_id] else state.reject)(one)
        result = await self.hooked.run(self.agent, state, **self._options(conversation))
        return self._taken(result, conversation)

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        async with self.hooked.run_streamed(self.agent, prompt, **self._options(conversation)) as result:
            async for _ in result.stream_events():
                pass
        return self._taken(result, conversation)

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        hooked = self._hooked(LazyHost(**self.program.host))
        return self._taken(hooked.run_sync(self.agent, prompt, **self._options(conversation)), conversation)

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        items: list[Any] = await self._session(conversation).get_items()
        return [one["output"] for one in items if one.get("type") == "function_call_output"]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        items: list[Any] = [item for one in messages for item in native_items(one)]
        await self._session(conversation).add_items(items)

    async def _keep(self, turns: int, conversation: str, *, first: bool) -> None:
        session = self._session(conversation)
        items: list[Any] = await session.get_items()
        at = [at for at, one in enumerate(items) if one.get("role") == "user"][turns]
        await session.clear_session()
        await session.add_items(items[:at] if first else items[at:])

    async def cut(self, turns: int, conversation: str = "c") -> None:
        await self._keep(turns, conversation, first=True)

    async def forget(self, turns: int, conversation: str = "c") -> None:
        await self._keep(turns, conversation, first=False)
