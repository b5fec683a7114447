"""hooksdk in the OpenAI Agents SDK."""

from __future__ import annotations

import pytest

pytest.importorskip("agents", reason="hooksdk[openai-agents] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from dataclasses import replace
from typing import Any

from agents import Agent, FunctionTool, RunConfig, SQLiteSession, function_tool
from pydantic import BaseModel

from hooksdk import hooks
from hooksdk.adapters.openai_agents import HookSDK
from hooksdk.errors import ConfigError, RunBlocked
from hooksdk.hooks import (
    AfterToolCall,
    AgentEnd,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    ReplaceMessages,
    Rewrite,
    RewriteToolCall,
)
from hooksdk.testing import Call, ConformanceCase, Script, ScriptedModel, call, conformance_cases, open_host, recorder
from tests.hooksdk.finishing import NeedsProof, Redacts
from tests.hooksdk.openai_agents_driver import OpenAIAgentsDriver, Scripted
from tests.hooksdk.strangers_words import EVE, SAYS, OnlyToThePersons
from tests.hooksdk.test_conformance import hold, in_ci_a_few


@in_ci_a_few
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, OpenAIAgentsDriver(), request)


class Finding(BaseModel):
    """What an agent answers."""

    claim: str


PLAIN = RunConfig(tracing_disabled=True)


def made(script: Script, *tools: Any, **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    """An agent with these functions as tools, and the model that it asks."""
    model = ScriptedModel(script)
    given: list[Any] = [one if isinstance(one, FunctionTool) else function_tool(one) for one in tools]
    return Agent[Any](name=options.pop("name", "agent"), model=Scripted(model), tools=given, **options), model


def weather(city: str, unit: str = "C") -> str:
    """Tell the weather.

    Args:
        city: Where.
        unit: In which unit.
    """
    if city == "Rome":
        raise ValueError("no sun in Rome")
    return f"sun in {city}, {unit}"


async def test_an_error_that_the_sdk_puts_into_words_is_an_error_to_observers():
    seen = recorder("after_tool_call")
    agent, model = made(
        [call("weather", city="Rome", unit="C"), call("weather", city="Oslo", unit="F"), "done"], weather
    )
    async with open_host(seen) as host:
        assert (await HookSDK(host).run(agent, "go", run_config=PLAIN)).final_output == "done"
    assert [one.status for one in seen.of(AfterToolCall)] == ["error", "ok"]
    assert "An error occurred while running the tool" in str(model.turns[1].messages[-1])


async def test_what_a_rewrite_says_is_what_the_tool_gets():
    class Rewrites:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"city": "Bern"})  # `unit` has a default, though the SDK's strict schema requires it

    agent, model = made([call("weather", city="Oslo", unit="F"), "done"], weather)
    async with open_host(Rewrites) as host:
        await HookSDK(host).run(agent, "go", run_config=PLAIN)
    assert "sun in Bern, C" in str(model.turns[1].messages[-1])


async def test_a_call_is_judged_once():
    judged: list[str] = []

    class Counts:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None:
            judged.append(event.call.name)

    agent, _ = made([call("weather", city="Oslo", unit="C"), "done"], weather)
    async with open_host(Counts) as host:
        await HookSDK(host).run(agent, "go", run_config=PLAIN)
    assert judged == ["weather"]


async def test_a_tool_that_asks_for_an_approval_itself_pauses_and_goes_on():
    seen = recorder("after_tool_call", "agent_end")
    agent, _ = made([call("weather", city="Oslo", unit="C"), "done"], function_tool(weather, needs_approval=True))
    async with open_host(seen) as host:
        hooked = HookSDK(host)
        paused = await hooked.run(agent, "go", conversation="c", run_config=PLAIN)
        assert seen.of(AfterToolCall) == []
        state = paused.to_state()
        state.approve(paused.interruptions[0])
        assert (await hooked.run(agent, state, conversation="c", run_config=PLAIN)).final_output == "done"
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok"]
    assert [one.reason for one in seen.of(AgentEnd)] == ["paused", "completed"]


async def test_the_agent_to_which_one_hands_off_is_judged_as_well():
    class Denies:
        @hooks.before_tool_call(tools="weather")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no weather today")

    seen = recorder("after_tool_call")
    first, model = made([call("transfer_to_other"), call("weather", city="Oslo", unit="C"), "handed"], name="first")
    other = Agent[Any](name="other", model=Scripted(model), tools=[function_tool(weather)])
    first.handoffs = [other]
    async with open_host(seen, Denies) as host:
        result = await HookSDK(host).run(first, "go", run_config=PLAIN)
    assert (result.final_output, result.last_agent.name) == ("handed", "other")
    assert "no weather today" in str(model.turns[2].messages[-1])
    assert [(one.call.name, one.status) for one in seen.of(AfterToolCall)] == [("weather", "blocked")]


async def test_what_is_trimmed_is_short_in_the_list_that_the_next_run_begins_with():
    class Trims:
        @hooks.agent_end
        async def shorten(self, event: AgentEnd) -> None:
            for one in event.transcript.results.list():
                if one.trimmable:
                    await event.transcript.results.trim(one.handle, "read already")

    agent, _ = made([call("weather", city="Oslo" * 500, unit="C"), "done"], weather)
    async with open_host(Trims) as host:
        result = await HookSDK(host).run(agent, "go", conversation="c", run_config=PLAIN)
    outputs: list[Any] = [one for one in result.to_input_list() if one.get("type") == "function_call_output"]
    assert "read already" in outputs[0]["output"]
    assert "sun in Oslo" not in outputs[0]["output"]


async def test_messages_that_a_plugin_puts_in_the_place_of_all_are_sent():
    class Replaces:
        @hooks.before_model_call
        def replace(self, event: BeforeModelCall) -> ReplaceMessages:
            return ReplaceMessages([{"role": "user", "content": "other"}])

    agent, model = made(["done"])
    async with open_host(Replaces) as host:
        await HookSDK(host).run(agent, "secret plan", run_config=PLAIN)
    assert [one["content"] for one in model.turns[0].messages] == ["other"]


async def test_an_agent_that_a_tool_runs_is_a_sub_agent_with_no_more_than_its_parent():
    def ping() -> str:
        """Ping."""
        return "pong"

    def other() -> str:
        """Nobody gave it to the parent."""
        return "ran"

    seen = recorder("after_tool_call")
    inner, _ = made([[call("ping"), call("other")], "inner is done"], ping, other)
    async with open_host(seen) as host:
        hooked = HookSDK(host)

        async def delegate() -> str:
            """Ask the other agent."""
            return (await hooked.run(inner, "ping", run_config=PLAIN)).final_output

        outer, _ = made([call("delegate"), "done"], delegate, ping)
        assert (await hooked.run(outer, "go", conversation="top", run_config=PLAIN)).final_output == "done"
    statuses = {one.call.name: (one.status, one.info.session_id.startswith("top/")) for one in seen.of(AfterToolCall)}
    assert statuses == {"ping": ("ok", True), "other": ("blocked", True), "delegate": ("ok", False)}


async def test_a_stream_that_is_left_ends_the_run():
    seen = recorder("agent_end")
    agent, _ = made(["done"])
    async with open_host(seen) as host:
        with pytest.raises(RuntimeError, match="enough"):
            async with HookSDK(host).run_streamed(agent, "go", run_config=PLAIN):
                raise RuntimeError("enough")
        async with HookSDK(host).run_streamed(agent, "go", run_config=PLAIN):
            pass
    assert [one.reason for one in seen.of(AgentEnd)] == ["error", "cancelled"]


async def test_plain_code_needs_a_lazy_host():
    agent, _ = made(["done"])
    async with open_host() as host:
        with pytest.raises(ConfigError, match="LazyHost"):
            HookSDK(host).run_sync(agent, "go")


async def test_without_a_session_the_input_list_has_what_was_refused_and_why():
    agent, _ = made(["It holds.", call("weather", city="Oslo"), "Ada's proof"], weather)
    async with open_host(NeedsProof, Redacts) as host:
        result = await HookSDK(host).run(agent, "go", run_config=PLAIN)
    items: list[Any] = result.to_input_list()
    texts = [one.get("content") or one.get("output") or one["name"] for one in items]
    said = [one if isinstance(one, str) else one[0]["text"] for one in texts]
    assert said == ["go", "It holds.", "Show the proof.", "weather", "sun in Oslo, C", "[name]'s proof"]
    assert (result.final_output, len(result.raw_responses)) == ("[name]'s proof", 3)


async def test_a_structured_answer_is_judged_as_json_and_asked_for_again():
    seen = recorder("agent_end")
    agent, _ = made(
        ['{"claim": "It holds."}', '{"claim": "a proof"}', '{"claim": "proof by Ada"}'], output_type=Finding
    )
    async with open_host(NeedsProof, Redacts, seen) as host:
        result = await HookSDK(host).run(agent, "go", run_config=PLAIN)
        assert result.final_output == Finding(claim="a proof")
        with pytest.raises(RunBlocked, match="in the place of a structured answer"):
            await HookSDK(host).run(agent, "go", run_config=PLAIN)
    assert [one.reason for one in seen.of(AgentEnd)] == ["completed", "blocked"]


async def test_whoever_leaves_a_stream_that_goes_on_cancels_the_run():
    seen = recorder("agent_end")
    agent, model = made(["It holds.", call("weather", city="Oslo"), "A proof."], weather)
    async with open_host(NeedsProof, seen) as host, HookSDK(host).run_streamed(agent, "go", run_config=PLAIN) as result:
        async for _ in result.stream_events():
            if len(model.turns) == 2:
                break
    assert [one.reason for one in seen.of(AgentEnd)] == ["cancelled"]


def send(to: str) -> str:
    """Send it."""
    return f"sent to {to}"


def _written(data: Any) -> Any:
    return replace(data.model_data, input=[{"role": "user", "content": SAYS}, *data.model_data.input])


def _filtered(data: Any) -> Any:
    return data.clone(input_history=({"role": "user", "content": SAYS},), pre_handoff_items=())


async def _recalled(history: Any, new: Any) -> Any:
    return [{"role": "user", "content": SAYS}, *history, *new]


@pytest.mark.parametrize(
    "options",
    [{"call_model_input_filter": _written}, {"handoff_input_filter": _filtered}, {"session_input_callback": _recalled}],
    ids=["an input filter", "a handoff's filter", "a session's callback"],
)
async def test_what_others_write_in_the_users_place_is_no_word_of_the_users(options: dict[str, Any]):
    seen = recorder("after_tool_call")
    sends = [Call("send", {"to": to}, id=to) for to in (EVE, "ann@corp.example")]
    other, _ = made([sends[0], "tried", sends[1], "sent"], send, name="other")
    agent, _ = made([call("transfer_to_other")], handoffs=[other])
    config = RunConfig(tracing_disabled=True, **options)
    async with open_host(OnlyToThePersons, seen) as host:
        hooked, session = HookSDK(host), SQLiteSession("c")
        await hooked.run(agent, "Write to ann@corp.example", session=session, run_config=config)
        await hooked.run(other, "Once more: to ann@corp.example", session=session, run_config=config)
    assert [(one.call.arguments["to"], one.status) for one in seen.of(AfterToolCall)] == [
        (EVE, "blocked"), ("ann@corp.example", "ok"),
    ]  # fmt: skip


class Keeps(Scripted):
    """The provider keeps what came before, and is sent what is new."""

    async def get_response(self, *args: Any, **options: Any) -> Any:
        self.ids = [*getattr(self, "ids", []), options.get("conversation_id") or options.get("previous_response_id")]
        return replace(await super().get_response(*args, **options), response_id=f"r{len(self.ids)}")


@pytest.mark.parametrize(
    "options",
    [{"conversation_id": "conv_1"}, {"previous_response_id": "r0"}, {"auto_previous_response_id": True}],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize("streams", [False, True], ids=["run", "run_streamed"])
async def test_a_history_that_the_provider_keeps_goes_on(
    options: dict[str, Any], streams: bool, caplog: pytest.LogCaptureFixture
):
    seen = recorder("after_tool_call", "agent_end")
    model = ScriptedModel(
        [[call("weather", city="Oslo"), call("weather", city="Rome")], "one", call("weather", city="Bonn"), "two"]
    )
    agent = Agent[Any](name="agent", model=Keeps(model), tools=[function_tool(weather)])
    async with open_host(seen) as host:
        hooked = HookSDK(host)
        for prompt, answer in (("first", "one"), ("second", "two")):
            if streams:
                async with hooked.run_streamed(agent, prompt, run_config=PLAIN, conversation="c", **options) as result:
                    async for _ in result.stream_events():
                        pass
            else:
                result = await hooked.run(agent, prompt, run_config=PLAIN, conversation="c", **options)
            assert result.final_output == answer
        session = await host.hold("c")
        roles = [one["role"] for one in session.view]
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok", "error", "ok"]
    assert [one.reason for one in seen.of(AgentEnd)] == ["completed", "completed"]
    before = ["user", "assistant", "tool", "tool", "assistant"] if "auto_previous_response_id" not in options else []
    assert roles == [*before, "user", "assistant", "tool", "assistant"]
    assert "unknown author" not in caplog.text
