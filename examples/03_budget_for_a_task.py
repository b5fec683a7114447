"""A budget for a task and all its sub-agents: configuration, what a family shares, and a tool that tells what is left."""

from __future__ import annotations

from typing import Any

import anyio
from pydantic import BaseModel, PositiveInt

from hooksdk import FamilyState, Host, Session, Tool, hooks, tool
from hooksdk.agent import run_agent
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import ScriptedModel, call, say


class CallBudget:
    """Stop a task after so many tool calls, those of its sub-agents among them."""

    class Config(BaseModel):
        calls: PositiveInt = 50

    def __init__(self, config: Config, family: FamilyState) -> None:
        self.config = config
        self.family = family

    @hooks.before_tool_call(tools="host:words:*")
    async def spend(self, event: BeforeToolCall) -> Block | None:
        def count(state: dict[str, int]) -> bool:
            used = state.get("used", 0)
            state["used"] = min(used + 1, self.config.calls)
            return used < self.config.calls

        # One that was judged before was counted before it waited for a person.
        if event.again or await self.family.update(count):
            return None
        return Block(f"the {self.config.calls} calls of this task are spent")

    @tool
    async def calls_left(self) -> int:
        """How many tool calls this task may still make."""
        return self.config.calls - await self.family.get("used", 0)


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: see elsewhere"


LOOK_UP = Tool.from_function(look_up, source="host", owner="words")


def ask_helper_in(session: Session) -> Tool:
    async def ask_helper(words: str) -> str:
        """Let a helper look words up."""
        async with session.child() as child:
            model = ScriptedModel([[call("look_up", word=word) for word in words.split()], say("Done.")])
            await run_agent(child, model, words, tools=[LOOK_UP], agent_id="helper")
            return "; ".join(child.results.read(info.handle) for info in child.results.list())

    return Tool.from_function(ask_helper, source="host", owner="helpers")


async def main() -> None:
    settings: dict[str, Any] = {"allow": [], "plugins": {"call_budget": {"config": {"calls": 5}}}}
    async with Host(plugins=[CallBudget], config=settings) as host, host.session("ann") as session:
        helpers = [call("ask_helper", words=words) for words in ("plugin hook", "session run", "tool call")]
        model = ScriptedModel([*helpers, call("calls_left"), say("Done.")])
        await run_agent(session, model, "Look them all up.", tools=[LOOK_UP, ask_helper_in(session)])
        for info in session.results.list():
            print(f"{info.tool}: {session.results.read(info.handle)}")


if __name__ == "__main__":
    anyio.run(main)
