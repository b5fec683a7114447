"""A gateway in front of tools that note what runs, and the official client at it in both protocols."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from hooksdk import Annotations, Host, Tool, ToolResult
from hooksdk.gateway import Gateway, GatewayConfig

ERAS = ("legacy", "auto")
"""How the client connects: by the handshake of 2025-11-25, or as 2026-07-28 has it."""


@dataclass
class Source:
    """Tools as two servers have them, whose list a test may change."""

    executed: list[tuple[str, dict[str, Any]]] = field(default_factory=list[tuple[str, dict[str, Any]]])
    listed: list[Tool] = field(default_factory=list[Tool])
    files: Sequence[str] = ()

    def add(self, owner: str, name: str, *, reads: bool | None = None, result: ToolResult | None = None) -> None:
        async def execute(arguments: dict[str, Any]) -> ToolResult | str:
            self.executed.append((f"{owner}:{name}", arguments))
            return result or f"{name} of {owner} ran with {json.dumps(arguments)}"

        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        description = f"Do {name.replace('_', ' ')} for somebody, and say how it went."
        self.listed = [
            *self.listed,
            Tool(
                name=name, source="mcp", owner=owner, description=description, parameters=parameters, execute=execute,
                annotations=Annotations(read_only=reads),
            ),
        ]  # fmt: skip

    def tools(self) -> Sequence[Tool]:
        return self.listed


def source(count: int = 0) -> Source:
    """`read_note` and `delete_note` of `notes`, `read_mail` of `mail`, and so many more of `bulk`."""
    made = Source()
    made.add("notes", "read_note", reads=True)
    made.add("notes", "delete_note", reads=False)
    made.add("mail", "read_mail", reads=True)
    for number in range(count):
        made.add("bulk", f"task_{number}")
    return made


SEARCH_ON = {"plugins": {"tool_search": {"config": {"enabled": "on"}}}}


@asynccontextmanager
async def gateway(
    tools: Source,
    *plugins: Any,
    config: Mapping[str, Any] | None = None,
    search: bool = False,
    approver: Any = None,
    folder: Path | None = None,
) -> AsyncGenerator[Gateway]:
    """A gateway; `config` is its `[gateway]`."""
    settings = GatewayConfig.model_validate(config or {})
    async with (
        Host(plugins=plugins, config=SEARCH_ON if search else None) as host,
        Gateway(host, tools, config=settings, approver=approver, folder=folder) as made,
    ):
        yield made


@asynccontextmanager
async def client(
    gateway: Gateway, era: str = "auto", profile: str | None = None, **options: Any
) -> AsyncGenerator[Client]:
    """The official client at it, in this process."""
    async with Client(gateway.server(profile), mode=era, **options) as connected:
        yield connected


@asynccontextmanager
async def http_client(
    url: str, era: str, token: str = "", verify: ssl.SSLContext | bool = True, **options: Any
) -> AsyncGenerator[Client]:
    """The official client at a gateway that listens there."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, verify=verify) as http,
        Client(streamable_http_client(url, http_client=http), mode=era, **options) as connected,
    ):
        yield connected


def text_of(result: types.CallToolResult) -> str:
    """The text of the first block."""
    (block, *_) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def names(connected: Client) -> list[str]:
    """The names that are listed, without the tool for long results."""
    return [tool.name for tool in (await connected.list_tools()).tools if tool.name != "recall-tool-result"]


async def size(connected: Client) -> int:
    """Bytes of the listing."""
    tools = [
        tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in (await connected.list_tools()).tools
    ]
    return len(json.dumps(tools, separators=(",", ":")).encode())
