"""A plugin as a class, with configuration, state, a tool, and handlers of both kinds."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, PositiveInt

from hooksdk import Host, PluginState, ToolContext, hooks, tool
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Block


class CallBudget:
    """Stop a session after so many tool calls."""

    class Config(BaseModel):
        calls: PositiveInt = 50

    def __init__(self, config: Config, state: PluginState) -> None:
        self.left = config.calls
        self.state = state

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        yield

    @hooks.before_tool_call
    def spend(self, event: BeforeToolCall) -> Block | None:
        self.left -= 1
        return Block("budget spent") if self.left < 0 else None

    @hooks.before_tool_call.first(timeout=3)
    async def look(self, event: BeforeToolCall) -> Block | None:
        return None

    @hooks.after_tool_call
    async def see(self, event: AfterToolCall) -> None:
        self.state["last"] = event.call.name

    @tool
    def calls_left(self) -> int:
        """How many tool calls this session may still make."""
        return self.left

    @tool(name="spend_some", core=True)
    async def spend_some(self, amount: int, context: ToolContext) -> str:
        """Spend some."""
        await context.progress("spending", 0.5)
        return (await context.call_tool("calls_left", {})).text


host = Host(plugins=[CallBudget])
