"""A plugin that brings tools: notes that outlive the session, and a tool that calls another tool.

`ToolContext` is filled in by the run, and no parameter of the tool. What a tool calls passes every policy."""

from __future__ import annotations

from typing import Annotated

import anyio
from pydantic import Field

from hooksdk import Host, MemoryStore, ToolContext, hooks, tool
from hooksdk.agent import run_agent
from hooksdk.hooks import AfterToolCall
from hooksdk.testing import Reply, ScriptedModel, Turn, call, say


class Notes:
    """Notes that all sessions of a host share."""

    @tool
    async def write_note(self, title: str, text: str, context: ToolContext) -> str:
        """Keep a note."""
        await context.storage.set(title, text)
        return f"kept as '{title}'"

    @tool
    async def read_note(self, title: str, context: ToolContext) -> str:
        """Read one note."""
        return await context.storage.get(title, "there is no such note")

    @tool(label="All notes")
    async def read_all(self, most: Annotated[int, Field(ge=1)], context: ToolContext) -> dict[str, str]:
        """Read several notes at once."""
        titles = (await context.storage.keys())[:most]
        return {title: (await context.call_tool("read_note", {"title": title})).text for title in titles}

    @hooks.after_tool_call
    async def tell(self, event: AfterToolCall) -> None:
        print(f"  {event.call.name}{event.arguments} -> {event.status}, asked for by a {event.call.origin}")


def script(turn: Turn) -> Reply:
    if turn.number == 1:
        return say("", call("write_note", title="a", text="buy milk"), call("write_note", title="b", text="call Ann"))
    if turn.number == 2:
        return say("", call("read_all", most=0))  # does not fit the schema; the model reads why
    return say("", call("read_all", most=5)) if turn.result.is_error else say(f"I have {turn.result.json()}")


async def main() -> None:
    async with (
        Host(plugins=[Notes], store=MemoryStore(), config={"allow": []}) as host,
        host.session("example") as session,
    ):
        print((await run_agent(session, ScriptedModel(script), "Keep two notes.")).text)


if __name__ == "__main__":
    anyio.run(main)
