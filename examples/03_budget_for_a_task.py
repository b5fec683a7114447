"""A budget for a task and all its sub-agents: configuration, what a family shares, and a tool that tells what is left."""

from __future__ import annotations

import anyio
from pydantic import BaseModel, PositiveInt

from hooksdk import FamilyState, hooks, tool
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import call, open_host, play


class CallBudget:
    """Stop a task after so many tool calls, those of its sub-agents among them."""

    class Config(BaseModel):
        calls: PositiveInt = 50

    def __init__(self, config: Config, family: FamilyState) -> None:
        self.calls, self.family = config.calls, family

    @hooks.before_tool_call(tools="look_up")
    async def spend(self, event: BeforeToolCall) -> Block | None:
        def count(state: dict[str, int]) -> bool:
            state["used"] = state.get("used", 0) + 1
            return state["used"] <= self.calls

        # One that was judged before was counted before it waited for a person.
        fits = event.again or await self.family.update(count)
        return None if fits else Block(f"the {self.calls} calls of this task are spent")

    @tool
    async def calls_left(self) -> int:
        """How many tool calls this task may still make."""
        return max(0, self.calls - await self.family.get("used", 0))


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word}: see elsewhere"


async def main() -> None:
    settings = {"plugins": {"call_budget": {"config": {"calls": 5}}}}
    async with open_host(CallBudget, config=settings) as host, host.session("ann") as session:

        async def ask_helper(words: str) -> str:
            """Let a helper look words up."""
            async with session.child() as child:
                await play(child, [[call("look_up", word=word) for word in words.split()], "Done."], tools=[look_up])
                return "; ".join(child.results.read(info.handle) for info in child.results.list())

        helpers = [call("ask_helper", words=words) for words in ("plugin hook", "session run", "tool call")]
        await play(session, [*helpers, call("calls_left"), "Done."], tools=[look_up, ask_helper])
        for info in session.results.list():
            print(f"{info.tool}: {session.results.read(info.handle)}")


if __name__ == "__main__":
    anyio.run(main)
