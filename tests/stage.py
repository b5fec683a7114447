"""One run on a host of the public kit, with the test in the model's place."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from hooksdk import Host, MemoryStore, Run, Session, Tool, ToolCall, ToolContext, ToolResult
from hooksdk.approvals import Approver
from hooksdk.formats import Message, get_format
from hooksdk.testing import open_host
from hooksdk.tools import Source
from hooksdk.transcript import Store

FORMAT = get_format("openai-chat")
USER: Message = FORMAT.user("hello")
MAY_HAVE = " It may have taken effect: look before you call it again."
"""What is said of a call that was cut off, unless it only reads."""


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


def reply(*calls: ToolCall, text: str = "") -> Message:
    """A model's message with these calls."""
    return FORMAT.reply(text, calls)


class OwnStore:
    """A host's own store: a memory store, in which a test replaces what it is about."""

    wait = 5.0
    """Seconds to wait for a session that is open."""

    def __init__(self) -> None:
        self.memory = MemoryStore()

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
        return await self.memory.open_session(session_id, wait=self.wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


@dataclass
class Stage:
    """A run whose tools are resolved. Its calls have the ids `c1`, `c2` and so on."""

    host: Host
    session: Session
    run: Run
    executed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The arguments with which the stage's own tool `act` ran."""
    _calls: int = 0

    def new(self, name: str, arguments: object = None) -> ToolCall:
        """A call with an id of its own."""
        self._calls += 1
        return ToolCall(f"c{self._calls}", name, {} if arguments is None else arguments)

    async def reply(self, *calls: tuple[str, object]) -> list[ToolCall]:
        """The model asks for these calls."""
        made = [self.new(name, arguments) for name, arguments in calls]
        await self.run.record(reply(*made))
        return made

    async def call(self, name: str = "act", arguments: object = None) -> ToolResult:
        """The model asks for one call, and it is run."""
        (call,) = await self.reply((name, arguments))
        return await self.run.call_tool(call)

    async def call_all(self, calls: Sequence[tuple[str, object]]) -> list[ToolResult]:
        """The model asks for several calls at once, and they run in parallel."""
        results: dict[str, ToolResult] = {}

        async def one(call: ToolCall) -> None:
            results[call.id] = await self.run.call_tool(call)

        made = await self.reply(*calls)
        async with anyio.create_task_group() as group:
            for call in made:
                group.start_soon(one, call)
        return [results[call.id] for call in made]

    async def observed(self) -> None:
        """Wait until the observers have seen everything so far."""
        await self.dispatcher.flush(60)
        await self.dispatcher.flush_trace(60)

    @property
    def dispatcher(self) -> Any:
        return self.session._dispatcher  # pyright: ignore[reportPrivateUsage]

    @property
    def results(self) -> list[tuple[str, str]]:
        """Call id and text of each result in the transcript; the format puts "Error: " before an error's text."""
        return [
            (result.call_id, result.text.removeprefix("Error: "))
            for message in self.session.messages
            for result in FORMAT.results(message)
        ]


@asynccontextmanager
async def playing(
    *plugins: Any,
    tools: Sequence[Tool] | None = None,
    config: Mapping[str, Any] | None = None,
    store: Store | None = None,
    approver: Approver | None = None,
    **run: Any,
) -> AsyncGenerator[Stage]:
    """A stage with these tools. By default they are `act`, which notes its arguments, `ask_other`, which calls `act` with
    its own, and `read_file`. `run` are the run's options."""
    executed: list[dict[str, Any]] = []

    async def act(arguments: dict[str, Any]) -> str:
        executed.append(arguments)
        return "done"

    async def ask_other(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", arguments)

    if tools is None:
        tools = [make("act", act, properties={}), make("ask_other", ask_other, properties={}), make()]
    async with (
        open_host(*plugins, config=config, store=store, approver=approver) as host,
        host.session("s") as session,
        session.run(**run) as opened,
    ):
        await opened.resolve_tools(tools)
        yield Stage(host, session, opened, executed)
