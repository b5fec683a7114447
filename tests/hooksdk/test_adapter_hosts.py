"""Sub-agents whose hosts are others than their callers': every host judges, in every nesting, and nothing is asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="hooksdk[pydantic-ai] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai import Tool as NativeTool

from hooksdk import Approval, ApprovalRequest, Config, Host, hooks
from hooksdk.adapters.pydantic_ai import HookSDK
from hooksdk.hooks import (
    AfterToolCall,
    AgentStart,
    Ask,
    BeforeToolCall,
    Block,
    Replace,
    Rewrite,
    RewriteToolCall,
    TransformToolResult,
)
from hooksdk.stores import SqlStore
from hooksdk.sync import LazyHost
from hooksdk.testing import Script, ScriptedModel, Turn, call
from tests.hooksdk.pydantic_ai_driver import model_of

AnyHost = Host | LazyHost


def blocks(*cities: str) -> type:
    class Blocks:
        @hooks.before_tool_call(tools="delete")
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block(f"not {event.arguments['city']}") if event.arguments["city"] in cities else None

    return Blocks


class Asks:
    @hooks.before_tool_call(tools="delete")
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask(f"Delete {event.arguments['city']}?", "It cannot be undone.")


class Sees:
    """Notes every call that ends, and who asked."""

    seen: list[tuple[str, str]]
    requesters: list[Any]

    @hooks.after_tool_call
    def see(self, event: AfterToolCall) -> None:
        self.seen.append((event.call.name, event.status))

    @hooks.agent_start
    def start(self, event: AgentStart) -> None:
        self.requesters.append(event.requester)


def observer() -> Any:
    return type("Sees", (Sees,), {"seen": [], "requesters": []})


def limited(calls: int) -> Config:
    rule = {"action": "deny", "tools": ["delete"], "limit": {"calls": calls}}
    return Config.model_validate({"allow": ["tool_policy"], "plugins": {"tool_policy": {"config": {"rules": [rule]}}}})


class World:
    """Agents that delete cities, and agents that others call."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.models: list[ScriptedModel] = []

    async def delete(self, city: str) -> str:
        """Delete a city."""
        self.deleted.append(city)
        return f"{city} is gone"

    def agent(self, host: AnyHost, script: Script, *tools: Any, **options: Any) -> Agent[None, Any]:
        self.models.append(ScriptedModel(script))
        return Agent(
            model_of(self.models[-1]), output_type=[str, DeferredToolRequests], tools=[NativeTool(self.delete), *tools],
            capabilities=[HookSDK(host, **options)],
        )  # fmt: skip

    def deletes(self, host: AnyHost, *cities: str, **options: Any) -> Agent[None, Any]:
        return self.agent(host, [[call("delete", city=one) for one in cities], "done"], **options)

    def caller(self, host: AnyHost, *agents: Agent[None, Any], **options: Any) -> Agent[None, Any]:
        """One whose reply calls each of these at once."""

        async def consult(number: int) -> str:
            """Ask another agent."""
            return str((await agents[number].run("go")).output)

        script = [[call("consult", number=number) for number in range(len(agents))], "done"]
        return self.agent(host, script, NativeTool(consult), **options)


@pytest.fixture
def world() -> World:
    return World()


def lazy(*plugins: Any, **options: Any) -> LazyHost:
    return LazyHost(plugins, folder="/nowhere", **options)


@pytest.mark.parametrize(("outer", "inner"), [((), ("a",)), (("a",), ()), (("a",), ("a",)), (("a",), ("b",)), ((), ())])
async def test_a_call_that_either_host_blocks_does_not_run(world: World, outer: Sequence[str], inner: Sequence[str]):
    child = world.deletes(lazy(blocks(*inner)), "a", "b", "c")
    await world.caller(lazy(blocks(*outer)), child).run("go")
    assert sorted(world.deleted) == [one for one in "abc" if one not in {*outer, *inner}]


async def test_three_hosts_in_one_another_judge_each(world: World):
    innermost = world.deletes(lazy(blocks("a")), "a", "b", "c", "d")
    middle = world.caller(lazy(blocks("b")), innermost)
    await world.caller(lazy(blocks("c")), middle).run("go")
    assert world.deleted == ["d"]


async def test_a_host_that_stands_twice_in_the_chain_judges_once(world: World):
    sees = observer()
    shared = lazy(sees, blocks("a"))
    innermost = world.deletes(shared, "a", "d")
    await world.caller(shared, world.caller(lazy(blocks("b")), innermost)).run("go")
    assert world.deleted == ["d"]
    assert sorted(sees.seen) == [("consult", "ok"), ("consult", "ok"), ("delete", "blocked"), ("delete", "ok")]


async def test_sub_agents_at_once_are_judged_each(world: World):
    children = [world.deletes(lazy(blocks(one)), "a", "b", "c") for one in "ab"]
    await world.caller(lazy(blocks("c")), *children).run("go")
    assert sorted(world.deleted) == ["a", "b"]


async def test_several_agents_that_one_tool_runs_at_once_are_judged_each(world: World):
    first, second = (world.deletes(lazy(blocks(one)), "a", "b", "c") for one in "ab")

    async def consult() -> str:
        """Ask two agents."""
        return str(len(await asyncio.gather(first.run("go"), second.run("go"))))

    await world.agent(lazy(blocks("c")), [call("consult"), "done"], NativeTool(consult)).run("go")
    assert sorted(world.deleted) == ["a", "b"]


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("hosts", ["one", "the agents' own", "each its own"])
@pytest.mark.parametrize("stored", [False, True])
async def test_agents_of_one_host_that_one_tool_runs_at_once_have_a_session_each(
    world: World, tmp_path: Path, hosts: str, depth: int, *, stored: bool
):
    def made(name: str, *cities: str) -> LazyHost:
        return lazy(blocks(*cities), store=SqlStore(tmp_path / name) if stored else None)

    outer = made("outer", "c")
    inner = {"one": [outer] * 2, "the agents' own": [made("inner", "b")] * 2}.get(
        hosts, [made(one, "b") for one in "xy"]
    )
    agents = [world.deletes(one, "a", "b", "c") for one in inner]
    for _ in range(1, depth):
        agents = [world.caller(lazy(), one) for one in agents]

    async def consult() -> str:
        """Ask two agents."""
        return str(len(await asyncio.gather(*(one.run("go") for one in agents))))

    await world.agent(outer, [call("consult"), "done"], NativeTool(consult)).run("go")
    assert sorted(world.deleted) == (["a", "a", "b", "b"] if hosts == "one" else ["a", "a"])


async def test_one_agent_that_one_tool_runs_twice_at_once_is_judged_twice(world: World):
    def script(turn: Turn) -> Any:
        return "done" if turn.results else [call("delete", city=one) for one in "abc"]

    agent = world.agent(lazy(blocks("b")), script)

    async def consult() -> str:
        """Ask an agent twice."""
        return str(len(await asyncio.gather(agent.run("go"), agent.run("go"))))

    await world.agent(lazy(blocks("c")), [call("consult"), "done"], NativeTool(consult)).run("go")
    assert world.deleted == ["a", "a"]


@pytest.mark.parametrize("begins", ["in the tool", "after the run"])
@pytest.mark.parametrize("one_host", [False, True])
async def test_an_agent_that_outlives_the_tool_that_ran_it_is_held_to_both(
    world: World, begins: str, *, one_host: bool
):
    begun, over = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[Any]] = []
    sees = observer()

    async def wait() -> str:
        """Wait until the caller's run is over."""
        begun.set()
        await over.wait()
        return "waited"

    async def consult() -> str:
        """Ask an agent, and do not wait for it."""

        async def play() -> None:
            if begins == "after the run":
                await over.wait()
            await agent.run("go")

        tasks.append(asyncio.create_task(play()))
        if begins == "in the tool":
            await begun.wait()
        return "begun"

    outer = lazy(blocks("b"))
    inner = outer if one_host else lazy(blocks("c"), sees)
    agent = world.agent(inner, [call("wait"), [call("delete", city=one) for one in "abc"], "done"], NativeTool(wait))
    tools = [NativeTool(consult), NativeTool(wait)]
    await world.agent(outer, [call("consult"), "done"], *tools, requester={"id": "ann"}).run("go")
    over.set()
    await asyncio.gather(*tasks)
    assert world.deleted == (["a", "c"] if one_host else ["a"])
    assert [one["id"] for one in sees.requesters] == ([] if one_host else ["ann"])


@pytest.mark.parametrize(("outer", "inner", "left"), [(2, 9, 2), (9, 2, 2), (1, 1, 1)])
async def test_the_limits_of_both_hosts_count(world: World, outer: int, inner: int, left: int):
    child = world.deletes(lazy(config=limited(inner)), "a", "b", "c", "d")
    await world.caller(lazy(config=limited(outer)), child).run("go")
    assert len(world.deleted) == left


async def test_the_requester_is_the_callers(world: World):
    sees, around = observer(), observer()
    child = world.deletes(lazy(sees), "a")
    await world.caller(lazy(around), child, requester={"id": "ann"}).run("go")
    assert {one["id"] for one in (*sees.requesters, *around.requesters)} == {"ann"}


async def test_each_hosts_observers_see_the_call_once(world: World):
    sees, around = observer(), observer()
    await world.caller(lazy(around), world.deletes(lazy(sees), "a")).run("go")
    assert (sees.seen, around.seen) == ([("delete", "ok")], [("delete", "ok"), ("consult", "ok")])


async def test_what_one_host_rewrites_is_what_the_other_judges(world: World):
    class Rewrites:
        @hooks.rewrite_tool_call(tools="delete")
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"city": "b"})

    await world.caller(lazy(blocks("b")), world.deletes(lazy(Rewrites), "a")).run("go")
    assert world.deleted == []


async def test_results_pass_both_hosts(world: World):
    def says(word: str) -> type:
        class Says:
            @hooks.transform_tool_result(tools="delete")
            def say(self, event: TransformToolResult) -> Replace:
                return Replace(f"{event.result.text}, {word}")

        return Says

    await world.caller(lazy(says("outer")), world.deletes(lazy(says("inner")), "a")).run("go")
    (results,) = [[one.text for one in turn.results] for turn in world.models[0].turns if turn.results]
    assert results == ["a is gone, outer, inner"]


async def test_a_run_that_the_outer_host_blocks_does_not_begin(world: World):
    class NoSubAgents:
        @hooks.agent_start
        def judge(self, event: AgentStart) -> Block | None:
            return Block("no sub-agents") if event.info.trigger == "subagent" else None

    child = world.deletes(lazy(), "a")
    await world.caller(lazy(NoSubAgents), child).run("go")
    (results,) = [[one.text for one in turn.results] for turn in world.models[1].turns if turn.results]
    assert "no sub-agents" in results[0]
    assert (world.models[0].turns, world.deleted) == ([], [])


@pytest.mark.parametrize("granted", [True, False])
async def test_each_hosts_approver_answers_what_its_host_asks(world: World, *, granted: bool):
    asked: list[str] = []

    def person(name: str, answer: bool) -> Callable[[ApprovalRequest], Any]:
        async def approve(_request: ApprovalRequest) -> Approval:
            asked.append(name)
            return Approval(answer)

        return approve

    child = world.deletes(lazy(Asks, approver=person("inner", True)), "a")
    await world.caller(lazy(Asks, approver=person("outer", granted)), child).run("go")
    assert (asked, world.deleted) == (["inner", "outer"], ["a"] if granted else [])


@pytest.mark.parametrize("granted", [True, False])
async def test_where_the_framework_asks_one_question_has_what_both_hosts_ask(world: World, *, granted: bool):
    child = world.deletes(lazy(Asks), "a")
    paused: list[DeferredToolRequests] = []

    async def consult() -> str:
        """Ask another agent, and whoever answers for it."""
        result = await child.run("go", conversation_id="child")
        paused.append(result.output)
        answers = DeferredToolResults(approvals={one.tool_call_id: granted for one in result.output.approvals})
        result = await child.run(message_history=result.all_messages(), deferred_tool_results=answers)
        return str(result.output)

    await world.agent(lazy(Asks), [call("consult"), "done"], NativeTool(consult)).run("go")
    (request,) = paused
    (about,) = request.metadata.values()
    assert about["description"].count("It cannot be undone.") == 2
    assert world.deleted == (["a"] if granted else [])


async def test_a_host_in_the_callers_loop_judges_with_a_lazy_one(world: World):
    async with Host([blocks("a")], folder="/nowhere") as outer:
        await world.caller(outer, world.deletes(lazy(blocks("b")), "a", "b", "c")).run("go")
    assert world.deleted == ["c"]


def test_plain_code_has_the_same(world: World):
    agent = world.caller(lazy(blocks("a")), world.deletes(lazy(blocks("b")), "a", "b", "c"))
    try:
        agent.run_sync("go")
    finally:  # it leaves its thread a loop, which would be collected open in a later test
        asyncio.get_event_loop().close()
    assert world.deleted == ["c"]


async def test_an_agent_of_one_framework_in_a_tool_of_another_is_judged_by_both(world: World):
    pytest.importorskip("langchain", reason="hooksdk[langchain] is not installed")
    from langchain_core.tools import StructuredTool

    from hooksdk.adapters import langchain
    from tests.hooksdk.langchain_driver import Scripted, create_agent

    child = world.deletes(lazy(blocks("b")), "a", "b", "c")

    async def consult() -> str:
        """Ask another agent."""
        return str((await child.run("go")).output)

    tools = [StructuredTool.from_function(coroutine=one) for one in (consult, world.delete)]
    hooked = langchain.HookSDK(lazy(blocks("a")))
    agent = create_agent(Scripted(scripted=ScriptedModel([call("consult"), "done"])), tools, middleware=[hooked])
    await agent.ainvoke({"messages": "go"})
    assert world.deleted == ["c"]
