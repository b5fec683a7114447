"""A host with one session and one run, for tests that play a few tool calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from hooksdk import Host, MemoryStore, Run, Session, Tool, ToolCall, ToolContext, ToolResult

ANY = {"type": "object"}
ACT: tuple[str, dict[str, Any]] = ("act", {})


@dataclass
class Stage:
    host: Host
    session: Session
    run: Run
    count: int = 0
    executed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def call(self, name: str = "act", arguments: object = None) -> ToolResult:
        """The model asks for one call, and it is run."""
        return (await self.call_all([(name, arguments if arguments is not None else {})]))[0]

    async def call_all(self, wanted: Sequence[tuple[str, object]]) -> list[ToolResult]:
        """The model asks for several calls at once, and they run in parallel."""
        calls: list[ToolCall] = []
        for name, arguments in wanted:
            self.count += 1
            calls.append(ToolCall(f"c{self.count}", name, arguments))
        written = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "{}"}} for call in calls
        ]
        await self.run.record({"role": "assistant", "content": None, "tool_calls": written})
        results: dict[str, ToolResult] = {}

        async def one(call: ToolCall) -> None:
            results[call.id] = await self.run.call_tool(call)

        if len(calls) == 1:
            await one(calls[0])
        else:
            async with anyio.create_task_group() as group:
                for call in calls:
                    group.start_soon(one, call)
        return [results[call.id] for call in calls]


def settings(config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A configuration in which no installed plugin is loaded."""
    return {"allow": [], **(config or {})}


@asynccontextmanager
async def playing(
    *plugins: Any,
    tools: Sequence[Tool] = (),
    config: Mapping[str, Any] | None = None,
    approver: Any = None,
    **run: Any,
) -> AsyncGenerator[Stage]:
    """A stage with the tools `act`, which notes its arguments, and `ask_other`, which calls `act` with its own."""
    executed: list[dict[str, Any]] = []

    async def act(arguments: dict[str, Any]) -> str:
        executed.append(arguments)
        return "done"

    async def ask_other(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", arguments)

    both = [
        Tool(name="act", description="Acts.", parameters=ANY, source="host", owner="core", execute=act),
        Tool(
            name="ask_other", description="Calls act.", parameters=ANY, source="host", owner="core", execute=ask_other
        ),
    ]
    host = Host(plugins=plugins, store=MemoryStore(), config=settings(config), approver=approver)
    async with host, host.session("s") as session, session.run(**run) as opened:
        await opened.resolve_tools([*both, *tools])
        yield Stage(host, session, opened, executed=executed)
