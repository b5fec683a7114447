"""One plugin for every framework: a policy, an observer and a trimmer. It knows of none of them.

In your own loop it is `Host(plugins=[Keeper])`, in LangChain, the OpenAI Agents SDK, Google's ADK, Claude's SDK, Strands and pydantic-ai `HookSDK(LazyHost([Keeper]))`;
in front of a FastMCP server as well, where nothing is trimmed: the conversation is the client's.
"""

from __future__ import annotations

from hooksdk import hooks
from hooksdk.hooks import AfterToolCall, AgentEnd, Ask, BeforeToolCall, Block

LONG = 2000


class Keeper:
    """Keeps files: deletions are asked about, and those of settings refused. Long listings are short in later requests."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Ask | Block:
        path = str(event.arguments["path"])
        return Block("settings stay") if path.endswith(".toml") else Ask(f"Delete {path}?")

    @hooks.after_tool_call
    def tell(self, event: AfterToolCall) -> None:
        self.told.append(f"{event.call.name}: {event.status}")

    @hooks.agent_end
    async def shorten(self, event: AgentEnd) -> None:
        for result in event.transcript.results.list():
            if result.trimmable and result.characters > LONG:
                await event.transcript.results.trim(result.handle, f"{result.tool}, read already")
