"""hooksdk in pydantic-ai's agents."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai", reason="hooksdk[pydantic-ai] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from datetime import date
from typing import Any

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    AgentRunResultEvent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.messages import ModelRequest

from hooksdk import Host, hooks
from hooksdk.adapters.pydantic_ai import HookSDK
from hooksdk.errors import RunBlocked
from hooksdk.hooks import AfterToolCall, AgentEnd, AgentStart, BeforeModelCall, ReplaceMessages
from hooksdk.testing import Call, ConformanceCase, Script, ScriptedModel, call, conformance_cases, open_host, recorder
from tests.hooksdk.finishing import NeedsProof, Redacts
from tests.hooksdk.pydantic_ai_driver import PydanticAIDriver, model_of
from tests.hooksdk.test_conformance import hold


def made(host: Host, script: Script, *tools: Any) -> tuple[Agent[None, Any], ScriptedModel]:
    """An agent with these functions as tools, and the model that it asks."""
    model = ScriptedModel(script)
    output: Any = [str, DeferredToolRequests]
    return Agent(model_of(model), output_type=output, tools=tools, capabilities=[HookSDK(host)]), model


@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, PydanticAIDriver(), request)


async def test_a_tools_own_retry_reaches_the_model_and_is_an_error_to_observers():
    def moody(city: str) -> str:
        """Tell the weather."""
        if city == "Rome":
            raise ModelRetry("ask about Oslo")
        return f"sun in {city}"

    seen = recorder("after_tool_call")
    script = [call("moody", city="Rome"), call("moody", city="Oslo"), "done"]
    async with open_host(seen) as host:
        agent, model = made(host, script, moody)
        assert (await agent.run("go")).output == "done"
    assert "ask about Oslo" in str(model.turns[1].messages[-1])
    assert [(one.status, one.result.text) for one in seen.of(AfterToolCall)] == [
        ("error", "ask about Oslo"), ("ok", "sun in Oslo"),
    ]  # fmt: skip


async def test_a_tool_that_asks_for_an_approval_itself_pauses_and_goes_on():
    def pay(ctx: RunContext[None], amount: int) -> str:
        """Pay."""
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return f"paid {amount}"

    seen = recorder("after_tool_call", "agent_end")
    async with open_host(seen) as host:
        agent, _ = made(host, [call("pay", amount=3), "done"], pay)
        paused = await agent.run("go", conversation_id="c")
        assert isinstance(paused.output, DeferredToolRequests)
        assert seen.of(AfterToolCall) == []
        answers = DeferredToolResults(approvals={paused.output.approvals[0].tool_call_id: True})
        done = await agent.run(
            message_history=paused.all_messages(), deferred_tool_results=answers, conversation_id="c"
        )
    assert done.output == "done"
    assert [(one.status, one.result.text) for one in seen.of(AfterToolCall)] == [("ok", "paid 3")]
    assert [one.reason for one in seen.of(AgentEnd)] == ["paused", "completed"]


async def test_what_a_tool_returns_stays_as_it_is():
    def position() -> ToolReturn[dict[str, int]]:
        """Tell the position."""
        return ToolReturn({"x": 1}, metadata={"kept": True})

    async with open_host() as host:
        agent, _ = made(host, [call("position"), "done"], position)
        result = await agent.run("go")
    (part,) = [
        part for one in result.all_messages() if isinstance(one, ModelRequest) for part in one.parts if part.part_kind == "tool-return"
    ]  # fmt: skip
    assert (part.content, part.metadata) == ({"x": 1}, {"kept": True})


async def test_arguments_are_validated_by_the_tools_own_types():
    seen: list[object] = []

    def note(day: date) -> str:
        """Note a day."""
        seen.append(day)
        return "noted"

    async with open_host() as host:
        agent, _ = made(host, [call("note", day="2026-11-23"), "done"], note)
        await agent.run("go")
    assert seen == [date(2026, 11, 23)]


async def test_the_prompt_is_what_a_run_begins_with():
    seen = recorder("agent_start")
    async with open_host(seen) as host:
        agent, _ = made(host, ["done"])
        await agent.run("hello there", conversation_id="talk")
    (start,) = seen.of(AgentStart)
    assert (start.input, start.info.session_id) == ("hello there", "talk")


async def test_messages_that_a_plugin_puts_in_the_place_of_all_are_sent():
    class Replaces:
        @hooks.before_model_call
        def replace(self, event: BeforeModelCall) -> ReplaceMessages:
            return ReplaceMessages([{"role": "system", "content": "be brief"}, {"role": "user", "content": "other"}])

    async with open_host(Replaces) as host:
        agent, model = made(host, ["done"])
        result = await agent.run("secret plan")
    assert [one["content"] for one in model.turns[0].messages] == ["be brief", "other"]
    assert "secret plan" in str(result.all_messages())


async def test_an_agent_that_a_tool_runs_is_a_sub_agent_with_no_more_than_its_parent():
    def ping() -> str:
        """Ping."""
        return "pong"

    def other() -> str:
        """Nobody gave it to the parent."""
        return "ran"

    seen = recorder("after_tool_call")
    async with open_host(seen) as host:
        inner, _ = made(host, [[call("ping"), call("other")], "inner is done"], ping, other)

        async def delegate() -> str:
            """Ask the other agent."""
            return (await inner.run("ping")).output

        outer, _ = made(host, [call("delegate"), "done"], delegate, ping)
        assert (await outer.run("go", conversation_id="top")).output == "done"
    statuses = {one.call.name: (one.status, one.info.session_id.startswith("top/")) for one in seen.of(AfterToolCall)}
    assert statuses == {"ping": ("ok", True), "other": ("blocked", True), "delegate": ("ok", False)}


async def test_the_events_of_a_stream_go_on_where_a_finish_is_refused():
    async with open_host(NeedsProof) as host:
        agent, model = made(host, ["It holds.", "A proof."])
        async with agent.run_stream_events("go", conversation_id="c") as stream:
            outputs = [one.result.output async for one in stream if isinstance(one, AgentRunResultEvent)]
    assert (outputs, len(model.turns)) == (["A proof."], 2)


async def test_run_stream_hands_an_answer_out_before_it_can_be_refused(caplog: pytest.LogCaptureFixture):
    seen = recorder("agent_end")
    async with open_host(NeedsProof, seen) as host:
        agent, model = made(host, ["It holds.", "A proof."])
        async with agent.run_stream("go", conversation_id="c") as result:
            assert await result.get_output() == "It holds."
    assert ([one.reason for one in seen.of(AgentEnd)], len(model.turns)) == (["completed"], 1)
    assert "its limit of 0 is used up: Show the proof." in caplog.text


class Finding(BaseModel):
    """What the agent answers."""

    claim: str


def finding(claim: str) -> Call:
    return call("final_result", claim=claim)


async def test_a_structured_answer_is_judged_as_json_and_asked_for_again():
    model = ScriptedModel([finding("It holds."), finding("a proof")])
    async with open_host(NeedsProof) as host:
        agent = Agent(model_of(model), output_type=Finding, capabilities=[HookSDK(host)])
        result = await agent.run("go", conversation_id="c")
        assert result.output == Finding(claim="a proof")
    assert "Show the proof." in str(model.turns[1].messages)


async def test_a_text_takes_no_structured_answers_place():
    seen = recorder("agent_end")
    async with open_host(Redacts, seen) as host:
        agent = Agent(model_of(ScriptedModel([finding("Ada")])), output_type=Finding, capabilities=[HookSDK(host)])
        with pytest.raises(RunBlocked, match="in the place of a structured answer"):
            await agent.run("go", conversation_id="c")
    assert [one.reason for one in seen.of(AgentEnd)] == ["blocked"]
