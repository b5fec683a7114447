"""The conformance suite's driver for FastMCP: a server in front of which hooksdk stands, and a client whose agent asks the script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import anyio
from fastmcp import Client, FastMCP
from fastmcp.tools import Tool as NativeTool
from fastmcp.tools import ToolResult as NativeResult
from pydantic import PrivateAttr

from hooksdk import Host, Tool
from hooksdk.adapters.fastmcp import HookSDK
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.testing import Answer, Program

CHAT = OpenAIChat()
NO_CONVERSATION = "a server sees calls alone: the conversation, and with it trims and contexts, is the client's"
NO_PAUSE = "the person at the client is asked while the call waits: nothing pauses"
NO_MODEL = "the model is the client's, and so is the end of its turns"


class ServedTool(NativeTool):
    """A tool of a FastMCP server, with a schema that somebody else wrote."""

    _given: Tool = PrivateAttr()

    @classmethod
    def of(cls, given: Tool) -> ServedTool:
        tool = cls(name=given.name, description=given.description, parameters=given.parameters or {})
        tool._given = given
        return tool

    async def run(self, arguments: dict[str, Any]) -> NativeResult:
        execute: Any = self._given.execute
        value = execute(arguments)
        return NativeResult(content=await value if hasattr(value, "__await__") else value)


class FastMCPDriver:
    """The agent is a plain loop at the client: each conversation is a client of its own, of the protocol that has sessions."""

    cannot: Mapping[str, str] = {
        "a_revealed_tool_is_offered_from_the_next_request_on": "a client is listed the same tools as long as it stays",
        "a_prefetched_tool_is_offered": "a server is not told what the user has asked",
        "a_trim_shows_from_the_next_run_on": NO_CONVERSATION,
        "a_trim_lasts_in_the_frameworks_store": NO_CONVERSATION,
        "a_result_can_be_trimmed_within_the_run": NO_CONVERSATION,
        "a_trimmed_result_keeps_its_bytes": NO_CONVERSATION,
        "a_history_from_before_is_taken_over": NO_CONVERSATION,
        "a_fork_keeps_its_trims": NO_CONVERSATION,
        "a_filtered_history_keeps_its_trims": NO_CONVERSATION,
        "a_program_that_starts_again_keeps_the_trims": NO_CONVERSATION,
        "context_that_a_plugin_adds_is_read_and_not_stored": NO_CONVERSATION,
        "an_approved_call_runs_asked_once": NO_PAUSE,
        "a_refused_call_does_not_run_and_is_seen": NO_PAUSE,
        "an_approval_outlives_the_program": NO_PAUSE,
        "two_calls_wait_at_once": NO_PAUSE,
        "a_policy_that_was_tightened_meanwhile_holds": NO_PAUSE,
        "a_cancelled_tool_is_seen_before_the_runs_end": "the run is the client's session: a cancelled call does not end it",
        "a_run_cancelled_in_the_model_ends_as_cancelled": NO_MODEL,
        "an_error_of_the_model_ends_the_run_as_error": NO_MODEL,
        "streaming_passes_the_same_hooks": NO_MODEL,
        "a_second_run_while_one_is_open_is_refused": "a client may make any number of calls at once, all in its one run",
        "plain_code_passes_the_same_hooks": "FastMCP serves in an event loop, for plain code, too",
        "a_run_that_a_plugin_blocks_does_not_begin": "the client is told so by the protocol's own error",
    }

    def __init__(self) -> None:
        self.lists: dict[str, list[Message]] = {}

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        owners = {tool.name: (tool.source, tool.owner) for tool in program.tools}
        core = [tool.name for tool in program.tools if tool.core]
        async with Host(**program.host) as host:
            hooked = HookSDK(
                host, core=core, owner_of=lambda tool: owners[tool.name], context_window=program.model.context_window
            )
            self.server = FastMCP("driven", middleware=[hooked], tools=[*map(ServedTool.of, program.tools)])
            async with aclosing(hooked), AsyncExitStack() as self.clients:
                self.open: dict[str, Client[Any]] = {}
                self.lock = anyio.Lock()
                yield

    async def _client(self, conversation: str) -> Client[Any]:
        async with self.lock:
            if conversation not in self.open:
                client = Client(self.server, mode="legacy")
                self.open[conversation] = await self.clients.enter_async_context(client)
            return self.open[conversation]

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        client, messages = await self._client(conversation), self.lists.setdefault(conversation, [])
        messages.append(CHAT.user(prompt))
        while True:
            tools = [
                Tool(name=one.name, description=one.description or "", parameters=one.input_schema)
                for one in await client.list_tools()
            ]
            reply = (await self.program.model.reply(messages, CHAT.tools(tools))).message
            messages.append(dict(reply))
            if not (calls := CHAT.calls(reply)):
                return Answer(text=CHAT.text(reply))
            for call in calls:
                arguments: Any = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
                result = await client.call_tool(call.name, arguments, raise_on_error=False)
                text = "\n".join(one.text for one in result.content if one.type == "text")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return [str(one["content"]) for one in self.lists[conversation] if one["role"] == "tool"]

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        self.lists[conversation] = [dict(one) for one in messages]

    async def cut(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError

    async def forget(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError
