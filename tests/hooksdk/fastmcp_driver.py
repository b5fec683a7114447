"""The conformance suite's driver for FastMCP: a server in front of which hooksdk stands, and a client whose agent asks the script."""

from __future__ import annotations

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
from hooksdk.testing import Program
from tests.hooksdk.client_loop import AT_A_CLIENT, ClientLoop


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


class FastMCPDriver(ClientLoop):
    """Each conversation is a client of its own, of the protocol that has sessions."""

    cannot: Mapping[str, str] = {
        **AT_A_CLIENT,
        "plain_code_passes_the_same_hooks": "FastMCP serves in an event loop, for plain code, too",
    }

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

    async def listed(self, conversation: str) -> Sequence[Tool]:
        client = await self._client(conversation)
        return [
            Tool(name=one.name, description=one.description or "", parameters=one.input_schema)
            for one in await client.list_tools()
        ]

    async def called(self, conversation: str, name: str, arguments: dict[str, Any]) -> Sequence[Any]:
        client = await self._client(conversation)
        return (await client.call_tool(name, arguments, raise_on_error=False)).content
