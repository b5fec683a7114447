"""A host with one session and one run, for tests that play a few tool calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from hooksdk import Host, MemoryStore, Run, Session, Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.hooks import BeforeToolCall, Block

LIMIT = 0.05
"""Seconds that a handler under test may take."""
Body = Callable[[], Awaitable[Any]]
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


def on_asyncio(anyio_backend: str) -> None:
    if anyio_backend != "asyncio":
        pytest.skip("native asyncio cancellation")


def policy(body: Body, timeout: float = LIMIT) -> type:
    """A policy that does this before it lets the call through."""

    class Policy:
        @hooks.before_tool_call(timeout=timeout)
        async def judge(self, event: BeforeToolCall) -> Block | None:
            return await body()

    return Policy


async def blocked_by(body: Body, caplog: pytest.LogCaptureFixture, **options: Any) -> str:
    """Play one call, and give the log's line about the handler that let it not through."""
    async with playing(policy(body), **options) as stage:
        result = await stage.call()
        assert stage.executed == []
        assert result.text == "Blocked: plugin 'policy' failed while it judged this call, so it was not run."
        assert (await stage.call("no_such_tool")).is_error, "the run goes on"
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    return record.getMessage()
