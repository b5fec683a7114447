"""A model finds a tool behind the bridge, reads how to call it, and calls it."""

from __future__ import annotations

from typing import Any

import pytest
from reading_transcripts import assert_sendable

from hooksdk import Tool, hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import Call, Turn, call, open_session, play

pytestmark = pytest.mark.anyio
TEXT = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


def run(arguments: dict[str, Any]) -> str:
    return f"made {arguments['title']}"


FILLERS = [
    Tool(
        name=f"report_{number}",
        description=f"Read report number {number}.",
        source="mcp",
        owner="archive",
        parameters=TEXT,
    )
    for number in range(200)
]
CREATE = Tool(
    name="create_issue", description="Create an issue in the tracker.", source="mcp", owner="github", parameters=TEXT,
    execute=run,
)  # fmt: skip


def script(turn: Turn) -> Call | str:
    if turn.number == 1:
        assert "create_issue" not in turn.offered
        return call("tool_search", queries=["create an issue"])
    if turn.number == 2:
        assert "create_issue" in turn.result.text
        return call("tool_call", name="create_issue", arguments={"title": "Broken"})
    return turn.result.text


async def test_a_script_searches_reads_the_hit_and_calls_it(form: str):
    async with open_session("tool_search", tools=[*FILLERS, CREATE]) as session:
        played = await play(session, script, format=form, context_window=20_000)
    assert played.text == "made Broken"
    assert (played.call("create_issue").call.origin, played.outcome.turns) == ("bridge", 3)
    assert_sendable(form, played.messages)


async def test_a_policy_judges_the_real_tool_behind_the_bridge(form: str):
    class NoIssues:
        @hooks.before_tool_call(tools="mcp:github:*")
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block(f"{event.tool.id} with {event.arguments} is off")

    async with open_session("tool_search", NoIssues, tools=[*FILLERS, CREATE]) as session:
        played = await play(session, script, format=form, context_window=20_000)
    assert "mcp:github:create_issue with {'title': 'Broken'} is off" in played.text
    assert played.call("create_issue").status == "blocked"
