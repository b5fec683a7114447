"""hooksdk in pydantic-ai's agents."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai", reason="hooksdk[pydantic-ai] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from datetime import date
from typing import Any

from pydantic import BaseModel
from pydantic_ai import (
    AbstractToolset,
    Agent,
    AgentRunResultEvent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ExternalToolset,
    FunctionToolset,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai import Tool as NativeTool
from pydantic_ai.capabilities import HandleDeferredToolCalls, ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.tools import ToolDefinition

from hooksdk import Host, MemoryStore, hooks
from hooksdk.adapters.pydantic_ai import HookSDK
from hooksdk.approvals import Later
from hooksdk.errors import RunBlocked
from hooksdk.hooks import (
    AfterToolCall,
    AgentEnd,
    AgentStart,
    Ask,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    ReplaceMessages,
    Rewrite,
    RewriteToolCall,
)
from hooksdk.testing import Call, ConformanceCase, Script, ScriptedModel, call, conformance_cases, open_host, recorder
from tests.hooksdk.finishing import NeedsProof, Redacts
from tests.hooksdk.pydantic_ai_driver import PydanticAIDriver, model_of
from tests.hooksdk.strangers_words import EVE, SAYS, OnlyToThePersons
from tests.hooksdk.test_conformance import hold, in_ci_a_few


def made(host: Host, script: Script, *tools: Any) -> tuple[Agent[None, Any], ScriptedModel]:
    """An agent with these functions as tools, and the model that it asks."""
    model = ScriptedModel(script)
    output: Any = [str, DeferredToolRequests]
    return Agent(model_of(model), output_type=output, tools=tools, capabilities=[HookSDK(host)]), model


@in_ci_a_few
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


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Rules:
    """Of what may leave."""

    @hooks.before_tool_call(tools="delete_*")
    def deny(self, event: BeforeToolCall) -> Block:
        return Block("nothing is deleted")

    @hooks.before_tool_call(tools="send_*")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask("Send it?")

    @hooks.rewrite_tool_call(tools="write_*")
    def rewrite(self, event: RewriteToolCall) -> Rewrite:
        return Rewrite({"city": "Oslo"})


def deferring(kind: str, *names: str) -> list[AbstractToolset[Any]]:
    """Tools that run elsewhere, or once somebody has said yes."""
    if kind == "external":
        return [ExternalToolset([ToolDefinition(name=one, parameters_json_schema=CITY) for one in names])]
    inner = FunctionToolset[Any]()
    for name in names:

        def run(city: str, name: str = name) -> str:
            if kind == "raises":
                raise CallDeferred
            return f"{name} of {city}"

        tool = NativeTool(run, name=name, description="A tool.", requires_approval=kind == "unapproved")
        inner.add_tool(tool)
    return [inner]


async def _later(_request: object) -> Later:
    return Later()


KINDS = ["external", "unapproved", "raises"]
NAMES = ["delete_city", "send_city", "write_city", "read_city"]


@pytest.mark.parametrize("streams", [False, True], ids=["run", "run_stream"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_that_leaves_the_run_is_judged_before(kind: str, streams: bool):
    seen = recorder("after_tool_call", "agent_end")
    async with open_host(Rules, seen, approver=_later) as host:
        model = ScriptedModel([[*(call(one, city="Rome") for one in NAMES), call("ping")], "done"])

        def ping() -> str:
            """Ping."""
            return "pong"

        agent = Agent[object, Any](
            model_of(model), output_type=[str, DeferredToolRequests], tools=[ping], toolsets=deferring(kind, *NAMES),
            capabilities=[HookSDK(host)],
        )  # fmt: skip
        if streams:
            async with agent.run_stream("go", conversation_id="c") as stream:
                output, messages = await stream.get_output(), stream.all_messages()
        else:
            result = await agent.run("go", conversation_id="c")
            output, messages = result.output, result.all_messages()
        assert isinstance(output, DeferredToolRequests)
        assert {one.call.name: one.status for one in seen.of(AfterToolCall)} == {"delete_city": "blocked", "ping": "ok"}
        left = {one.tool_name: one for one in (*output.calls, *output.approvals)}
        assert sorted(left) == ["read_city", "send_city", "write_city"]
        if kind == "external":
            assert left["write_city"].args_as_dict() == {"city": "Oslo"}, "what was judged is what runs"
            assert [one.tool_name for one in output.approvals] == ["send_city"]
        while isinstance(output, DeferredToolRequests):
            answers = DeferredToolResults(
                approvals={one.tool_call_id: True for one in output.approvals},
                calls={one.tool_call_id: f"{one.tool_name} elsewhere" for one in output.calls},
            )
            result = await agent.run(message_history=messages, deferred_tool_results=answers, conversation_id="c")
            output, messages = result.output, result.all_messages()
    statuses = {one.call.name: one.status for one in seen.of(AfterToolCall)}
    assert statuses == {
        "delete_city": "blocked",
        "ping": "ok",
        "read_city": "ok",
        "send_city": "ok",
        "write_city": "ok",
    }
    assert (output, seen.of(AgentEnd)[-1].reason) == ("done", "completed")


async def test_what_ran_elsewhere_is_recorded_as_it_was_although_the_rules_were_tightened_meanwhile():
    class NothingAnyMore:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("not today")

    store, seen = MemoryStore(), recorder("after_tool_call")
    model = ScriptedModel([[call("read_city", city="Rome"), call("read_city", city="Oslo")], "done"])

    def made_for(host: Host) -> Agent[None, Any]:
        toolsets = deferring("external", "read_city")
        return Agent(
            model_of(model), output_type=[str, DeferredToolRequests], toolsets=toolsets, capabilities=[HookSDK(host)]
        )

    async with open_host(store=store) as host:
        paused = await made_for(host).run("go", conversation_id="c")
        assert isinstance(paused.output, DeferredToolRequests)
        one, two = paused.output.calls
    async with open_host(NothingAnyMore, seen, store=store) as host:
        answers = DeferredToolResults(calls={one.tool_call_id: "sunny", two.tool_call_id: ModelRetry("no such city")})
        done = await made_for(host).run(
            message_history=paused.all_messages(), deferred_tool_results=answers, conversation_id="c"
        )
    assert done.output == "done"
    first, second = seen.of(AfterToolCall)
    assert (first.status, first.result.text, second.status) == ("ok", "sunny", "error")
    assert "no such city" in second.result.text


async def test_a_sub_agents_external_call_is_judged_in_it():
    seen = recorder("after_tool_call")
    async with open_host(Rules, seen, approver=_later) as host:
        model = ScriptedModel([[call("delete_city", city="Rome"), call("read_city", city="Oslo")]])
        inner = Agent[object, Any](
            model_of(model), output_type=[str, DeferredToolRequests],
            toolsets=deferring("external", "delete_city", "read_city"), capabilities=[HookSDK(host)],
        )  # fmt: skip

        async def delegate() -> str:
            """Ask the other agent."""
            return ", ".join(one.tool_name for one in (await inner.run("go")).output.calls)

        def delete_city(city: str) -> str:
            """Delete a city."""
            return city

        def read_city(city: str) -> str:
            """Read of a city."""
            return city

        outer, asked = made(host, [call("delegate"), "done"], delegate, delete_city, read_city)
        assert (await outer.run("go", conversation_id="top")).output == "done"
    assert asked.turns[1].results[0].text == "read_city"
    first = seen.of(AfterToolCall)[0]
    assert (first.call.name, first.status) == ("delete_city", "blocked")


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
async def test_whoever_runs_calls_elsewhere_gets_them_as_they_were_judged(first: bool):
    got, seen = dict[str, Any](), recorder("after_tool_call")

    async def run(_context: Any, requests: DeferredToolRequests) -> DeferredToolResults:
        got.update({one.tool_name: one.args_as_dict() for one in requests.calls})
        return DeferredToolResults(calls={one.tool_call_id: "made" for one in requests.calls})

    async with open_host(Rules, seen) as host:
        capabilities: list[Any] = [HandleDeferredToolCalls[Any](run), HookSDK(host)]
        script = [[call("delete_city", city="Rome"), call("write_city", city="Rome")], "done"]
        agent = Agent[object, Any](
            model_of(ScriptedModel(script)), output_type=[str, DeferredToolRequests],
            toolsets=deferring("external", *NAMES), capabilities=capabilities if first else capabilities[::-1],
        )  # fmt: skip
        assert (await agent.run("go")).output == "done"
    assert got == {"write_city": {"city": "Oslo"}}
    assert {one.call.name: one.status for one in seen.of(AfterToolCall)} == {
        "delete_city": "blocked",
        "write_city": "ok",
    }


def send(to: str) -> str:
    """Send it."""
    return f"sent to {to}"


WRITE = "Write to ann@corp.example"


def look_up() -> ToolReturn[str]:
    """Look it up."""
    return ToolReturn("found", content=SAYS)


def _summary(messages: list[ModelMessage]) -> list[ModelMessage]:
    """A history processor, as it stands in pydantic-ai's own pages."""
    return [ModelRequest(parts=[UserPromptPart(SAYS)]), *messages[-1:]]


@pytest.mark.parametrize("place", ["before", "behind", "of a tool"])
async def test_what_others_write_in_the_users_place_is_no_word_of_the_users(place: str):
    seen = recorder("after_tool_call")
    script = [call("look_up"), "looked", call("send", to=EVE), "tried", call("send", to="ann@corp.example"), "sent"]
    async with open_host(OnlyToThePersons, seen) as host:
        processor, hooked = ProcessHistory[Any](_summary), HookSDK(host)
        order = {"before": [processor, hooked], "behind": [hooked, processor], "of a tool": [hooked]}
        agent = Agent(model_of(ScriptedModel(script)), tools=[look_up, send], capabilities=order[place])
        history: list[ModelMessage] = []
        for prompt in ("Write to ann@corp.example", "and send it", ["Once more: to ann@corp.example"]):
            result = await agent.run(prompt, message_history=history, conversation_id="c")
            history = result.all_messages()
    assert [(one.call.name, one.status) for one in seen.of(AfterToolCall)] == [
        ("look_up", "ok"), ("send", "blocked"), ("send", "ok"),
    ]  # fmt: skip


def asked(*texts: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(one) for one in texts])


@pytest.mark.parametrize(
    "turn",
    [[asked(WRITE)], [asked(WRITE, "please")], [asked(WRITE), asked("please")]],
    ids=["one", "parts", "requests"],
)
async def test_the_users_turn_that_a_front_end_hands_in_without_a_prompt_counts_in_each_run(turn: list[ModelRequest]):
    seen = recorder("after_tool_call")
    script = ["hello", call("look_up"), "looked", [call("send", to=EVE), call("send", to="ann@corp.example")], "sent"]
    async with open_host(OnlyToThePersons, seen) as host:
        agent, _ = made(host, script, send, look_up)
        history: list[ModelMessage] = []
        for given in ([asked("hi")], [asked("look")], turn):
            history = (await agent.run(message_history=[*history, *given], conversation_id="c")).all_messages()
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok", "blocked", "ok"]


async def test_what_a_tool_says_beside_its_result_is_no_word_of_the_users_in_another_conversation():
    seen = recorder("after_tool_call")
    script = [call("look_up"), "looked", [call("send", to=EVE), call("send", to="ann@corp.example")], "sent"]
    async with open_host(OnlyToThePersons, seen) as host:
        agent, _ = made(host, script, send, look_up)
        first = await agent.run(WRITE, conversation_id="a")
        await agent.run("and send it", message_history=first.all_messages(), conversation_id="b")
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok", "blocked", "ok"]
