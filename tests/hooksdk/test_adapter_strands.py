"""hooksdk in Strands Agents."""

from __future__ import annotations

import pytest

pytest.importorskip("strands", reason="hooksdk[strands] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

import asyncio
import logging
from collections.abc import AsyncIterable
from typing import Any

from pydantic import BaseModel
from strands import Agent, ToolContext, tool  # pyright: ignore[reportUnknownVariableType] - not whole in Strands
from strands.hooks import BeforeInvocationEvent
from strands.session import FileSessionManager

from hooksdk import hooks
from hooksdk import tool as plugin_tool
from hooksdk.adapters.strands import HookSDK
from hooksdk.approvals import Later
from hooksdk.errors import RunBlocked
from hooksdk.hooks import (
    AfterToolCall,
    AfterToolsResolved,
    AgentEnd,
    Ask,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    ReplaceMessages,
)
from hooksdk.sync import LazyHost
from hooksdk.testing import ConformanceCase, ScriptedApprover, ScriptedModel, conformance_cases, open_host, recorder
from hooksdk.testing import call as calls
from tests.hooksdk.finishing import NeedsProof, Redacts
from tests.hooksdk.strands_driver import Scripted, StrandsDriver
from tests.hooksdk.test_conformance import hold, in_ci_a_few


@in_ci_a_few
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, StrandsDriver(), request)


def model_of(*script: Any, context_window: int = 200_000) -> Scripted:
    return Scripted(ScriptedModel(script, context_window=context_window))


def agent_of(hooked: HookSDK, model: Scripted, *tools: Any, **options: Any) -> Agent:
    return Agent(model, tools=[*tools], plugins=[hooked], callback_handler=None, **options)


def answers(result: Any, answer: object) -> Any:
    return [{"interruptResponse": {"interruptId": one.id, "response": answer}} for one in result.interrupts]


def results(agent: Agent) -> list[Any]:
    return [block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block]


@tool
def weather(city: str) -> dict[str, Any]:
    """Tell the weather."""
    return {"status": "success", "content": [{"text": f"sun in {city}"}, {"json": {"degrees": 20}}]}


WEATHER = calls("weather", city="Rome")


class AsksFirst:
    @hooks.before_tool_call(tools=["weather", "archive_7"])
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("Look at it?", "It costs.")


async def test_what_a_tool_returns_stays_as_it_is():
    async with open_host() as host:
        agent = agent_of(HookSDK(host), model_of(WEATHER, "done"), weather)
        await agent.invoke_async("go")
    (result,) = results(agent)
    assert result["content"] == [{"text": "sun in Rome"}, {"json": {"degrees": 20}}]


async def test_what_a_tool_streams_passes_while_it_runs():
    heard = asyncio.Event()

    @tool
    async def slow(city: str) -> AsyncIterable[str]:
        """Tell slowly."""
        yield f"looking at {city}"
        await heard.wait()
        yield "sun"

    seen: list[Any] = []
    async with open_host() as host:
        agent = agent_of(HookSDK(host), model_of(calls("slow", city="Rome"), "done"), slow)
        async for event in agent.stream_async("go"):
            if "tool_stream_event" in event:
                seen.append(event["tool_stream_event"]["data"])
                heard.set()
    assert seen[0] == "looking at Rome"
    assert results(agent)[0]["content"] == [{"text": "sun"}]


@pytest.mark.parametrize(
    ("answer", "statuses"), [(True, "ok"), ("yes", "ok"), (False, "blocked"), ("never", "blocked")]
)
async def test_a_question_is_an_interrupt_and_its_answer_counts(answer: object, statuses: str):
    seen = recorder("after_tool_call")
    async with open_host(seen, AsksFirst, approver=ScriptedApprover(Later())) as host:
        agent = agent_of(HookSDK(host), model_of(WEATHER, "done"), weather)
        result = await agent.invoke_async("go")
        (interrupt,) = result.interrupts or [None]
        assert interrupt is not None
        assert interrupt.name == "hooksdk"
        assert interrupt.reason == {
            "title": "Look at it?", "description": "It costs.", "tool": "weather", "arguments": {"city": "Rome"},
        }  # fmt: skip
        assert str(await agent.invoke_async(answers(result, answer))).strip() == "done"
    assert [one.status for one in seen.of(AfterToolCall)] == [statuses]


@pytest.mark.parametrize("answer", [{}, [], 3, " "])
async def test_an_answer_that_is_none_is_nobodys_refusal(answer: object):
    async with open_host(AsksFirst, approver=ScriptedApprover(Later())) as host:
        agent = agent_of(HookSDK(host), model_of(WEATHER, "done"), weather)
        await agent.invoke_async(answers(await agent.invoke_async("go"), answer))
    assert "the answer was neither an approval nor a refusal" in results(agent)[0]["content"][0]["text"]


async def test_a_question_outlasts_the_process(tmp_path: Any):
    seen = recorder("after_tool_call")
    options: Any = {"store": f"jsonl:{tmp_path / 'store'}", "approver": ScriptedApprover(Later(), Later())}

    def files() -> FileSessionManager:
        return FileSessionManager("s", storage_dir=str(tmp_path / "strands"))

    async with open_host(seen, AsksFirst, **options) as host:
        agent = agent_of(HookSDK(host), model_of(WEATHER), weather, session_manager=files())
        result = await agent.invoke_async("go")
    async with open_host(seen, AsksFirst, **options) as host:
        agent = agent_of(HookSDK(host), model_of("done"), weather, session_manager=files())
        await agent.invoke_async(answers(result, True))
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok"]


async def test_a_tool_that_interrupts_itself_pauses_and_goes_on():
    @tool(context=True)
    def pay(amount: int, tool_context: ToolContext) -> str:
        """Pay."""
        return f"paid {amount}: {tool_context.interrupt('sure', reason='it is much')}"

    seen = recorder("after_tool_call", "agent_end")
    async with open_host(seen) as host:
        agent = agent_of(HookSDK(host), model_of(calls("pay", amount=3), "done"), pay)
        result = await agent.invoke_async("go")
        assert [one.name for one in result.interrupts or ()] == ["sure"]
        assert seen.of(AfterToolCall) == []
        await agent.invoke_async(answers(result, "yes"))
    assert results(agent)[0]["content"] == [{"text": "paid 3: yes"}]
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok"]
    assert [one.reason for one in seen.of(AgentEnd)] == ["paused", "completed"]


async def test_a_deferred_tool_that_asks_is_answered_as_well():
    def made(number: int) -> Any:
        @tool(name=f"archive_{number}", description=f"Archive report number {number} of a city. " * 20)
        def archive(city: str) -> str:
            return f"archived {city}"

        return archive

    seen = recorder("after_tool_call")
    bridged = calls("tool_call", name="archive_7", arguments={"city": "Rome"})
    model = model_of(bridged, "done", context_window=8_000)
    async with open_host(seen, AsksFirst, "tool_search", approver=ScriptedApprover(Later())) as host:
        agent = agent_of(HookSDK(host, context_window=8_000), model, *[made(one) for one in range(60)])
        result = await agent.invoke_async("go")
        await agent.invoke_async(answers(result, True))
    assert [(one.call.name, one.status) for one in seen.of(AfterToolCall)] == [("archive_7", "ok")]
    assert "archive_7" not in model.scripted.turns[0].offered
    assert results(agent)[0]["content"] == [{"text": "archived Rome"}]


class Offers:
    @plugin_tool
    def note(self) -> str:
        """Note it."""
        return "noted"


async def test_a_plugins_tool_is_not_told_of_as_missing(caplog: pytest.LogCaptureFixture):
    async with open_host(Offers) as host:
        agent = agent_of(HookSDK(host), model_of(calls("note"), "done"), weather)
        with caplog.at_level(logging.WARNING, logger="strands"):
            await agent.invoke_async("go")
    assert (results(agent)[0]["content"], caplog.messages) == ([{"text": "noted"}], [])


async def test_an_agent_that_a_tool_runs_is_a_sub_agent_with_no_more_than_its_parent():
    @tool
    def ping() -> str:
        """Ping."""
        return "pong"

    @tool
    def other() -> str:
        """Nobody gave it to the parent."""
        return "ran"

    seen = recorder("after_tool_call")
    async with open_host(seen) as host:
        hooked = HookSDK(host)
        model = model_of(calls("inner", input="ping"), calls("ping"), calls("other"), "inner is done", "done")
        inner = agent_of(hooked, model, ping, other, name="inner", agent_id="inner")
        await agent_of(hooked, model, inner.as_tool(name="inner"), ping).invoke_async("go")
    statuses = {one.call.name: (one.status, "/" in one.info.session_id) for one in seen.of(AfterToolCall)}
    assert statuses == {"ping": ("ok", True), "other": ("blocked", True), "inner": ("ok", False)}


async def test_a_question_in_a_sub_agent_pauses_the_whole_and_is_answered():
    seen = recorder("after_tool_call", "agent_end")
    async with open_host(seen, AsksFirst, approver=ScriptedApprover(Later())) as host:
        hooked = HookSDK(host)
        model = model_of(calls("inner", input="look"), WEATHER, "inner is done", "done")
        inner = agent_of(hooked, model, weather, name="inner", agent_id="inner")
        outer = agent_of(hooked, model, inner.as_tool(name="inner"), weather)
        result = await outer.invoke_async("go")
        assert seen.of(AfterToolCall) == []
        assert str(await outer.invoke_async(answers(result, True))).strip() == "done"
    assert [(one.call.name, one.status) for one in seen.of(AfterToolCall)] == [("weather", "ok"), ("inner", "ok")]
    assert [one.reason for one in seen.of(AgentEnd)] == ["paused", "paused", "completed", "completed"]


class City(BaseModel):
    """The answer."""

    name: str


async def test_a_structured_answer_is_no_tool_call():
    seen = recorder("before_tool_call", "after_tools_resolved")
    async with open_host(seen) as host:
        model = model_of(calls("City", name="Rome"), "more")
        agent = agent_of(HookSDK(host), model, weather)
        result = await agent.invoke_async("go", structured_output_model=City)
        await agent.invoke_async("again")
    assert result.structured_output == City(name="Rome")
    assert "City" in model.scripted.turns[0].offered
    assert [tool.name for tool in seen.of(AfterToolsResolved)[0].offered] == ["weather"]
    assert seen.of(BeforeToolCall) == []


async def test_an_agent_that_is_told_to_cancel_ends_its_run_as_cancelled():
    agents: list[Agent] = []

    @tool
    def stop() -> str:
        """Stop."""
        agents[0].cancel()
        return "stopped"

    seen = recorder("agent_end")
    async with open_host(seen) as host:
        agents.append(agent_of(HookSDK(host), model_of(calls("stop"), "done"), stop))
        assert (await agents[0].invoke_async("go")).stop_reason == "cancelled"
    assert [one.reason for one in seen.of(AgentEnd)] == ["cancelled"]


async def test_a_stream_that_is_left_early_ends_the_run_as_cancelled():
    seen = recorder("agent_end")
    async with open_host(seen) as host:
        stream: Any = agent_of(HookSDK(host), model_of("one", "two")).stream_async("go")
        await anext(stream)
        await stream.aclose()
    assert [one.reason for one in seen.of(AgentEnd)] == ["cancelled"]


async def test_an_agent_whose_begin_failed_in_another_hook_runs_again():
    seen = recorder("agent_end")
    async with open_host(seen) as host:
        agent = agent_of(HookSDK(host), model_of("done"))
        failures = [ValueError("not yet")]

        def fail(event: BeforeInvocationEvent) -> None:
            if failures:
                raise failures.pop()

        agent.add_hook(fail, BeforeInvocationEvent)
        with pytest.raises(ValueError, match="not yet"):
            await agent.invoke_async("go")
        await agent.invoke_async("go")
    assert [one.reason for one in seen.of(AgentEnd)] == ["error", "completed"]


class Denies:
    @hooks.before_tool_call(tools="weather")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("no weather today")


def test_a_tool_that_the_program_calls_itself_is_judged_as_well():
    agent = agent_of(HookSDK(LazyHost([Denies])), model_of(), weather)
    result = agent.tool.weather(city="Rome")
    assert result["status"] == "error"
    assert "no weather today" in result["content"][0]["text"]


async def test_a_tool_that_runs_in_the_background_is_judged_as_well():
    ran: list[str] = []

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        ran.append(city)
        return "sun"

    async with open_host(Denies) as host:
        background = calls("weather", city="Rome", _background_execution=True)
        agent = agent_of(HookSDK(host), model_of(background, "done", "more"), weather, background_tasks=True)
        await agent.invoke_async("go")
    assert ran == []


async def test_messages_that_a_plugin_puts_in_the_place_of_all_are_sent():
    class Replaces:
        @hooks.before_model_call
        def replace(self, event: BeforeModelCall) -> ReplaceMessages:
            return ReplaceMessages([{"role": "user", "content": "other"}])

    model = model_of("done")
    async with open_host(Replaces) as host:
        await agent_of(HookSDK(host), model).invoke_async("secret plan")
    assert [one["content"] for one in model.scripted.turns[0].messages] == ["other"]


class Finding(BaseModel):
    """What an agent answers."""

    claim: str


async def test_a_structured_answer_is_judged_as_json_and_asked_for_again():
    seen = recorder("agent_end")
    findings = [calls("Finding", claim=claim) for claim in ("It holds.", "a proof", "proof by Ada")]
    async with open_host(NeedsProof, Redacts, seen) as host:
        agent = agent_of(HookSDK(host), model_of(*findings), structured_output_model=Finding)
        result = await agent.invoke_async("go")
        assert result.structured_output == Finding(claim="a proof")
        with pytest.raises(RunBlocked, match="in the place of a structured answer"):
            await agent.invoke_async("go")
    assert [one.reason for one in seen.of(AgentEnd)] == ["completed", "blocked"]
