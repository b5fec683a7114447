"""The conformance suite's driver for Google's ADK: a real app and runner, and a model that asks the script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from hooksdk import Host, Tool
from hooksdk.adapters._adk_forms import native_content, plain_messages
from hooksdk.adapters.google_adk import REQUEST_CONFIRMATION as CONFIRMATION
from hooksdk.adapters.google_adk import HookSDK
from hooksdk.adapters.google_adk import _schema as schema_of  # pyright: ignore[reportPrivateUsage]
from hooksdk.errors import HookSDKError
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.sync import LazyHost
from hooksdk.testing import Answer, Program

CHAT = OpenAIChat()


class Scripted(BaseLlm):
    """Asks the script of the program."""

    model: str = "scripted"
    scripted: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        declared = [
            one for tool in llm_request.config.tools or () if isinstance(tool, types.Tool)
            for one in tool.function_declarations or ()
        ]  # fmt: skip
        offered = [
            Tool(name=one.name or "", description=one.description or "", parameters=schema_of(one)) for one in declared
        ]
        reply = await self.scripted.reply(plain_messages(llm_request.contents), CHAT.tools(offered))
        yield LlmResponse(content=native_content(reply.message), partial=False)


class Native(BaseTool):
    """A tool of the program."""

    def __init__(self, tool: Tool) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self.tool = tool

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.tool.parameters
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        execute: Any = self.tool.execute
        value = execute(args)
        return await value if hasattr(value, "__await__") else value


class GoogleADKDriver:
    """Its store is a session service, whose events nobody changes."""

    cannot: Mapping[str, str] = {
        "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
        "a_malformed_call_ends_no_conversation": "the arguments of a call are an object there, whatever the model wrote",
        "a_trim_lasts_in_the_frameworks_store": "ADK's events are only added to: adk-python #1013",
    }

    def __init__(self) -> None:
        self.service = InMemorySessionService()

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as host:
            self.runner = self._runner(host)
            yield

    def _runner(self, host: Any) -> Runner:
        owners = {tool.name: (tool.source, tool.owner) for tool in self.program.tools}
        core = [tool.name for tool in self.program.tools if tool.core]
        window = self.program.model.context_window
        hooked = HookSDK(host, core=core, owner_of=lambda tool: owners[tool.name], context_window=window)
        agent = LlmAgent(
            name="agent", model=Scripted(scripted=self.program.model), tools=[*map(Native, self.program.tools)]
        )
        app = App(name="shop", root_agent=agent, plugins=[hooked])
        return Runner(app=app, session_service=self.service)

    async def _session(self, conversation: str) -> Any:
        where: Any = {"app_name": "shop", "user_id": "ann", "session_id": conversation}
        return await self.service.get_session(**where) or await self.service.create_session(**where)

    async def _play(self, content: types.Content, conversation: str, *, streaming: bool = False) -> Answer:
        await self._session(conversation)
        mode: Any = "sse" if streaming else None
        events: list[Any] = []
        try:
            async for event in self.runner.run_async(
                user_id="ann", session_id=conversation, new_message=content, run_config=RunConfig(streaming_mode=mode)
            ):
                events.append(event)
        except RuntimeError as error:  # ADK puts what a plugin raises into words
            raise (error.__cause__ if isinstance(error.__cause__, HookSDKError) else error) from error
        return self._taken(events)

    @staticmethod
    def _taken(events: Sequence[Any]) -> Answer:
        asked = [one for event in events for one in event.get_function_calls() if one.name == CONFIRMATION]
        if asked:
            return Answer(waiting=[one.args["originalFunctionCall"]["id"] for one in asked])
        texts = [part.text for event in events if event.content for part in event.content.parts or () if part.text]
        return Answer(text=texts[-1] if texts else "")

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return await self._play(types.Content(role="user", parts=[types.Part(text=prompt)]), conversation)

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        asked = [
            one for event in (await self._session(conversation)).events for one in event.get_function_calls()
            if one.name == CONFIRMATION and one.args["originalFunctionCall"]["id"] in granted
        ]  # fmt: skip
        parts = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=one.id,
                    name=CONFIRMATION,
                    response={"confirmed": granted[one.args["originalFunctionCall"]["id"]]},
                )
            )
            for one in asked
        ]
        return await self._play(types.Content(role="user", parts=parts), conversation)

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        content = types.Content(role="user", parts=[types.Part(text=prompt)])
        return await self._play(content, conversation, streaming=True)

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        runner = self._runner(LazyHost(**self.program.host))
        runner.auto_create_session = True
        content = types.Content(role="user", parts=[types.Part(text=prompt)])
        return self._taken([*runner.run(user_id="ann", session_id=conversation, new_message=content)])

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        events = (await self._session(conversation)).events
        messages = plain_messages([event.content for event in events if event.content])
        return [str(one["content"]) for one in messages if one["role"] == "tool"]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        session = await self._session(conversation)
        for message in messages:
            content = native_content(message)
            author = "user" if message["role"] == "user" else "agent"
            await self.service.append_event(session, Event(author=author, content=content, invocation_id="before"))

    async def _keep(self, turns: int, conversation: str, *, first: bool) -> None:
        events = (await self._session(conversation)).events
        at = [at for at, one in enumerate(events) if one.author == "user" and not one.get_function_responses()][turns]
        await self.service.delete_session(app_name="shop", user_id="ann", session_id=conversation)
        session = await self._session(conversation)
        for event in events[:at] if first else events[at:]:
            await self.service.append_event(session, event)

    async def cut(self, turns: int, conversation: str = "c") -> None:
        await self._keep(turns, conversation, first=True)

    async def forget(self, turns: int, conversation: str = "c") -> None:
        await self._keep(turns, conversation, first=False)
