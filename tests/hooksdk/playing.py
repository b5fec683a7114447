"""Shared by the tests of runs, sessions and hosts: a host whose model is the test."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hooksdk import Host, MemoryStore, Run, Session, Tool, ToolCall, ToolResult
from hooksdk.approvals import Approver
from hooksdk.tools import Source
from hooksdk.transcript import Store

USER = {"role": "user", "content": "hello"}


async def echo(arguments: dict[str, Any]) -> str:
    """A tool that answers its arguments."""
    return "ran with " + json.dumps(arguments, sort_keys=True)


def make(
    name: str = "read_file",
    execute: Callable[..., Any] | None = echo,
    *,
    source: Source = "host",
    owner: str = "core",
    required: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Tool:
    """A tool that takes text under `path`, unless told otherwise."""
    taken = {"path": {"type": "string"}} if properties is None else dict(properties)
    parameters = {"type": "object", "properties": taken, "required": list(required)}
    return Tool(name=name, source=source, owner=owner, parameters=parameters, execute=execute, **fields)


def bare(*plugins: Any, config: Mapping[str, Any] | None = None, store: Store | None = None, **more: Any) -> Host:
    """A host with these plugins and nothing that is installed."""
    return Host(plugins, store=store or MemoryStore(), config={"allow": [], **(config or {})}, **more)


def reply(*calls: ToolCall, text: str | None = None) -> dict[str, Any]:
    """A model's message with these calls."""
    written = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in calls
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": written} if written else {})}


class MemoryStoreLike:
    """A memory store that waits less long for a session."""

    wait = 5.0

    def __init__(self) -> None:
        self._store = MemoryStore()

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
        return await self._store.open_session(session_id, wait=self.wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Play:
    """A run, played by the test in the model's place."""

    def __init__(self, host: Host, session: Session, run: Run) -> None:
        self.host = host
        self.session = session
        self.run = run
        self._calls = 0

    def new(self, name: str, arguments: object = None) -> ToolCall:
        """A call with an id of its own."""
        self._calls += 1
        return ToolCall(f"c{self._calls}", name, {} if arguments is None else arguments)

    async def reply(self, *calls: tuple[str, object]) -> list[ToolCall]:
        """Record a reply with these calls."""
        made = [self.new(name, arguments) for name, arguments in calls]
        await self.run.record(reply(*made))
        return made

    async def call(self, name: str = "read_file", arguments: object = None) -> ToolResult:
        """One reply with one call, and its result."""
        (call,) = await self.reply((name, {} if arguments is None else arguments))
        return await self.run.call_tool(call)

    @property
    def results(self) -> list[tuple[str, str]]:
        """Call id and text of each result in the transcript; the format puts "Error: " before an error's text."""
        return [
            (one["tool_call_id"], one["content"].removeprefix("Error: "))
            for one in self.session.messages
            if one["role"] == "tool"
        ]


@asynccontextmanager
async def playing(
    *plugins: Any,
    tools: Sequence[Tool] = (make(),),
    config: Mapping[str, Any] | None = None,
    store: Store | None = None,
    approver: Approver | None = None,
    **run: Any,
) -> AsyncGenerator[Play, None]:
    """A host, a session and a run whose tools are resolved."""
    async with (
        bare(*plugins, config=config, store=store, approver=approver) as host,
        host.session("s") as session,
        session.run(**run) as opened,
    ):
        await opened.resolve_tools(tools)
        yield Play(host, session, opened)
