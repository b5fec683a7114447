"""What a sub-agent's session takes over from the run that it works for."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hooksdk import Run, Session, Tool, ToolCall, hooks
from hooksdk.hooks import AgentStart, BeforeToolCall, Block, NarrowTools, Withhold
from hooksdk.testing import open_host
from tests.stage import make, playing

pytestmark = pytest.mark.anyio


def tools() -> list[Tool]:
    return [make("read_file"), make("write_file")]


@asynccontextmanager
async def child_run(session: Session, **options: Any) -> AsyncGenerator[Run]:
    """A run of a new child, with its tools resolved."""
    async with session.child() as child, child.run(**options) as run:
        await run.resolve_tools(tools())
        yield run


async def write(run: Run) -> str:
    """What the model reads when the run calls `write_file`."""
    return (await run.call_tool(ToolCall("c", "write_file", {"path": "a"}))).text


def policy(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"allow": ["tool_policy"], "plugins": {"tool_policy": {"config": {"rules": list(rules)}}}}


@pytest.mark.parametrize(
    ("condition", "run"),
    [
        ({"triggers": "schedule"}, {"trigger": "schedule"}),
        ({"requester": {"id": "eve"}}, {"requester": {"id": "eve"}}),
        ({"agents": "main"}, {"agent_id": "main"}),
    ],
)
async def test_a_rule_about_a_run_holds_in_its_sub_agents(condition: dict[str, Any], run: dict[str, Any]) -> None:
    arguments = {"properties": {"path": {"const": "a"}}}  # so that it is judged when the call is made
    rule = {"action": "deny", "tools": "write_*", "reason": "not from here", "arguments": arguments, **condition}
    async with (
        playing(tools=tools(), config=policy(rule), **run) as stage,
        child_run(stage.session, agent_id="h") as one,
    ):
        assert "not from here" in await write(one)
    async with playing(tools=tools(), config=policy(rule), agent_id="x") as stage, child_run(stage.session) as one:
        assert ("ran with" in await write(one)) is ("agents" not in condition)


async def test_a_policy_that_reads_the_chain_of_triggers_holds_in_a_grandchild() -> None:
    class ReadOnly:
        @hooks.before_tool_call(tools="write_*")
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("a scheduled run only reads") if "schedule" in event.triggers else None

    async with (
        playing(ReadOnly, tools=tools(), trigger="schedule") as stage,
        stage.session.child() as child,
        child.run() as run,
    ):
        await run.resolve_tools(tools())
        async with child_run(child) as grandchild:
            assert "only reads" in await write(grandchild)
            assert grandchild.info.triggers == ("schedule", "subagent", "subagent")


async def test_a_childs_run_has_the_requester_the_workspace_and_the_chains_of_its_parents() -> None:
    seen: list[Any] = []

    class Watch:
        @hooks.agent_start
        def start(self, event: AgentStart) -> None:
            seen.append((event.requester, event.workspace_dir, event.trigger, event.triggers, event.agents))

    eve = {"id": "eve", "roles": ["guest"]}
    run: dict[str, Any] = {"requester": eve, "workspace_dir": "/work", "trigger": "schedule"}
    async with playing(Watch, tools=tools(), **run) as stage:
        async with child_run(stage.session, agent_id="helper"):
            pass
        async with child_run(stage.session, requester={"id": "bot"}, workspace_dir="/tmp", trigger="other"):
            pass
    chain = ("schedule", "subagent")
    assert seen[1:] == [
        (eve, "/work", "subagent", chain, ("main", "helper")),
        ({"id": "bot"}, "/tmp", "other", ("schedule", "other"), ("main", "main")),
    ]


async def test_a_run_of_its_own_is_the_whole_chain() -> None:
    async with playing(trigger="schedule", agent_id="night") as stage:
        assert (stage.run.info.triggers, stage.run.info.agents) == (("schedule",), ("night",))


async def test_a_child_does_not_get_what_its_parents_run_may_not_use() -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            return Withhold(["write_file"], "not for main") if event.agent_id == "main" else None

    async with playing(Narrow, tools=tools()) as stage, child_run(stage.session, agent_id="helper") as run:
        assert [tool.name for tool in run.tools] == ["read_file"]
        assert "the run that this sub-agent belongs to does not have it" in await write(run)


@pytest.mark.parametrize("given", [[make("read_file")], [], None], ids=["another one", "none", "never resolved"])
async def test_a_child_does_not_get_a_tool_that_its_parents_run_never_had(given: list[Tool] | None) -> None:
    async with open_host() as host, host.session("s") as session, session.run() as parent:
        if given is not None:
            await parent.resolve_tools(given)
        async with child_run(session) as run:
            assert [tool.name for tool in run.tools] == [tool.name for tool in given or ()]
            assert "does not have it" in await write(run)


async def test_a_child_loses_what_its_parents_run_loses_meanwhile() -> None:
    async with playing(tools=tools()) as stage, child_run(stage.session) as run:
        assert "ran with" in await write(run)
        await stage.run.retry()
        await stage.run.resolve_tools([make("read_file")])
        assert "withheld from this run meanwhile" in await write(run)


async def test_a_child_that_outlives_its_parents_run_is_held_to_it_all_the_same() -> None:
    async with open_host() as host, host.session("s") as session:
        async with session.run(trigger="schedule") as first:
            await first.resolve_tools([make("read_file")])
            child = session.child()
        async with session.run(trigger="user") as second:
            await second.resolve_tools(tools())
            async with child, child.run() as run:
                await run.resolve_tools(tools())
                assert [tool.name for tool in run.tools] == ["read_file"]
                assert run.info.triggers == ("schedule", "subagent")


async def test_the_patterns_of_a_child_count_as_they_are_written() -> None:
    near = ["Read_*", "host:Core:*"]
    async with open_host() as host, host.session() as session, session.child(tools=near) as child, child.run() as run:
        await run.resolve_tools(tools())
        assert [tool.name for tool in run.tools] == []


async def test_a_child_of_a_session_without_a_run_is_held_to_its_patterns_alone() -> None:
    async with open_host() as host, host.session("s") as session, child_run(session) as run:
        assert "ran with" in await write(run)
        assert run.info.triggers == ("subagent",)
