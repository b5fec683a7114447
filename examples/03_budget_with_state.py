"""A budget that survives a restart: configuration, state in the session's store, and a tool that tells what is left."""

from __future__ import annotations

from typing import Any

import anyio
from pydantic import BaseModel, PositiveInt

from hooksdk import Host, MemoryStore, PluginState, hooks, tool
from hooksdk.agent import run_agent
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import ScriptedModel, call, say


class CallBudget:
    """Stop a session after so many tool calls."""

    class Config(BaseModel):
        calls: PositiveInt = 50

    def __init__(self, config: Config, state: PluginState) -> None:
        self.config = config
        self.state = state

    @hooks.before_tool_call(tools="host:*:*")
    def spend(self, event: BeforeToolCall) -> Block | None:
        if event.again:  # it was counted before it waited for a person
            return None
        spent = self.state.get("spent", 0)
        if spent >= self.config.calls:
            return Block(f"the {self.config.calls} calls of this session are spent")
        self.state["spent"] = spent + 1
        return None

    @tool
    def calls_left(self) -> int:
        """How many tool calls this session may still make."""
        return self.config.calls - self.state.get("spent", 0)


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: see elsewhere"


async def main() -> None:
    store = MemoryStore()  # JsonlStore("sessions") outlives the process, too
    settings: dict[str, Any] = {"allow": [], "plugins": {"call_budget": {"config": {"calls": 3}}}}
    for day in ("Monday", "Tuesday"):
        async with Host(plugins=[CallBudget], store=store, config=settings) as host, host.session("ann") as session:
            words = [call("look_up", word=word) for word in ("plugin", "hook")]
            model = ScriptedModel([words, call("calls_left"), say("Done.")])
            outcome = await run_agent(session, model, "Look both up.", tools=[look_up])
            answer = session.results.read(session.results.list()[-1].handle)
            print(f"{day}: resumed={session.resumed}, calls {outcome.stats['tool_calls']}, left {answer}")


if __name__ == "__main__":
    anyio.run(main)
