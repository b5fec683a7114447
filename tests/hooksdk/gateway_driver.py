"""The conformance suite's driver for the gateway: the official client at it, whose agent asks the script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp import Client

from hooksdk import Host, Tool
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.testing import Program
from tests.hooksdk.client_loop import AT_A_CLIENT, ClientLoop
from tests.hooksdk.gateways import Source


class GatewayDriver(ClientLoop):
    """Each conversation is a client of its own, of the protocol that has sessions."""

    cannot: Mapping[str, str] = {**AT_A_CLIENT, "plain_code_passes_the_same_hooks": "it serves clients, of any kind"}

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        config = GatewayConfig(context_window=program.model.context_window, max_result_chars=0)
        async with (
            Host(**program.host) as host,
            Gateway(host, Source(listed=[*program.tools]), config=config) as self.gateway,
            anyio.create_task_group() as self.clients,
        ):
            self.open: dict[str, Client] = {}
            self.lock = anyio.Lock()
            yield
            self.clients.cancel_scope.cancel()

    async def _client(self, conversation: str) -> Client:
        async with self.lock:
            if conversation not in self.open:
                self.open[conversation] = await self.clients.start(self._connect)
            return self.open[conversation]

    async def _connect(self, *, task_status: TaskStatus[Client]) -> None:
        async with Client(self.gateway.server(), mode="legacy") as client:
            task_status.started(client)
            await anyio.sleep_forever()

    async def listed(self, conversation: str) -> Sequence[Tool]:
        listing = await (await self._client(conversation)).list_tools()
        return [
            Tool(name=one.name, description=one.description or "", parameters=one.input_schema) for one in listing.tools
        ]

    async def called(self, conversation: str, name: str, arguments: dict[str, Any]) -> Sequence[Any]:
        return (await (await self._client(conversation)).call_tool(name, arguments)).content
