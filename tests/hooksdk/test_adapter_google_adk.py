"""hooksdk in Google's ADK."""

from __future__ import annotations

import pytest

pytest.importorskip("google.adk", reason="hooksdk[google-adk] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from hooksdk import Host, hooks
from hooksdk.adapters._adk_forms import GO_ON
from hooksdk.adapters.google_adk import HookSDK
from hooksdk.approvals import Later
from hooksdk.hooks import AfterToolCall, AgentEnd, Ask, BeforeModelCall, BeforeToolCall, Block, ReplaceMessages
from hooksdk.testing import ConformanceCase, ScriptedApprover, conformance_cases, open_host, recorder
from tests.hooksdk.finishing import NeedsProof
from tests.hooksdk.google_adk_driver import CONFIRMATION, GoogleADKDriver
from tests.hooksdk.test_conformance import hold, in_ci_a_few


@in_ci_a_few
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, GoogleADKDriver(), request)


class Replies(BaseLlm):
    """Says what it is given, and keeps what it was sent."""

    model: str = "replies"
    replies: list[types.Content]
    requests: list[Any] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(llm_request.model_copy(deep=True, update={"tools_dict": {}}))
        yield LlmResponse(content=self.replies.pop(0), partial=False)


def says(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def calls(name: str, /, **arguments: Any) -> types.Content:
    """A call as Gemini makes it: without an id."""
    return types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name=name, args=arguments))])


async def play(runner: InMemoryRunner, *parts: types.Part) -> list[Any]:
    """A turn of the one conversation: its events."""
    runner.auto_create_session = True
    given = [*parts] or [types.Part(text="go")]
    content = types.Content(role="user", parts=given)
    return [one async for one in runner.run_async(user_id="ann", session_id="s", new_message=content)]


def answers(events: list[Any]) -> list[Any]:
    return [one.response for event in events for one in event.get_function_responses()]


def runner_of(host: Host, model: Replies, *tools: Any, **options: Any) -> InMemoryRunner:
    agent = LlmAgent(name="agent", model=model, tools=[*tools], **options)
    return InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=[HookSDK(host)]))


def weather(city: str, unit: str = "C") -> dict[str, str]:
    """Tell the weather."""
    return {"sky": f"sun in {city * 500}", "unit": unit}


class Trims:
    @hooks.agent_end
    async def shorten(self, event: AgentEnd) -> None:
        for one in event.transcript.results.list():
            if one.trimmable:
                await event.transcript.results.trim(one.handle, "read already")


async def test_calls_without_ids_are_told_apart_and_their_results_trimmed():
    model = Replies(replies=[calls("weather", city="Rome"), calls("weather", city="Oslo"), says("done"), says("again")])
    seen = recorder("after_tool_call")
    async with open_host(seen, Trims) as host:
        runner = runner_of(host, model, weather)
        await play(runner)
        await play(runner)
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok", "ok"]
    assert len({one.call.id for one in seen.of(AfterToolCall)}) == 2
    sent = [part for content in model.requests[-1].contents for part in content.parts]
    assert [one.function_response.response for one in sent if one.function_response] != []
    assert all("read already" in str(one.function_response.response) for one in sent if one.function_response)
    assert {one.function_call.id for one in sent if one.function_call} == {None}


async def test_what_a_tool_returns_stays_as_it_is():
    def nothing() -> None:
        """Do it."""

    model = Replies(replies=[calls("weather", city="Rome"), calls("nothing"), says("done")])
    async with open_host() as host:
        events = await play(runner_of(host, model, weather, nothing))
    assert answers(events) == [{"sky": "sun in " + "Rome" * 500, "unit": "C"}, {"result": None}]


async def test_arguments_are_checked_by_the_schema_that_adk_makes_of_a_function():
    model = Replies(replies=[calls("weather", city=["Rome"]), calls("weather", town="Rome"), says("done")])
    seen = recorder("after_tool_call")
    async with open_host(seen) as host:
        await play(runner_of(host, model, weather))
    assert [one.status for one in seen.of(AfterToolCall)] == ["invalid", "invalid"]


async def test_a_tool_that_requires_a_confirmation_itself_pauses_and_goes_on():
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    model = Replies(replies=[calls("pay", amount=3), says("done")])
    seen = recorder("after_tool_call", "agent_end")
    async with open_host(seen) as host:
        runner = runner_of(host, model, FunctionTool(pay, require_confirmation=True))
        events = await play(runner)
        assert (paid, seen.of(AfterToolCall)) == ([], [])
        (asked,) = [one for event in events for one in event.get_function_calls() if one.name == CONFIRMATION]
        answer = types.FunctionResponse(id=asked.id, name=CONFIRMATION, response={"confirmed": True})
        await play(runner, types.Part(function_response=answer))
    assert paid == [3]
    assert [one.status for one in seen.of(AfterToolCall)] == ["ok"]
    assert [one.reason for one in seen.of(AgentEnd)] == ["paused", "completed"]


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")  # AgentTool's own
async def test_an_agent_that_a_tool_runs_is_a_sub_agent_with_no_more_than_its_parent():
    def ping() -> str:
        """Ping."""
        return "pong"

    def other() -> str:
        """Nobody gave it to the parent."""
        return "ran"

    model = Replies(
        replies=[calls("inner", request="ping"), calls("ping"), calls("other"), says("inner is done"), says("done")]
    )
    seen = recorder("after_tool_call")
    inner = LlmAgent(name="inner", model=model, description="Pings.", tools=[ping, other])
    async with open_host(seen) as host:
        await play(runner_of(host, model, AgentTool(inner), ping))
    statuses = {one.call.name: (one.status, "/" in one.info.session_id) for one in seen.of(AfterToolCall)}
    assert statuses == {"ping": ("ok", True), "other": ("blocked", True), "inner": ("ok", False)}


async def test_the_agent_to_which_one_transfers_is_judged_as_well():
    class Denies:
        @hooks.before_tool_call(tools="weather")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no weather today")

    model = Replies(
        replies=[calls("transfer_to_agent", agent_name="other"), calls("weather", city="Rome"), says("done")]
    )
    seen = recorder("after_tool_call")
    other = LlmAgent(name="other", model=model, description="Tells the weather.", tools=[weather])
    async with open_host(seen, Denies) as host:
        events = await play(runner_of(host, model, sub_agents=[other]))
    assert [(one.call.name, one.status) for one in seen.of(AfterToolCall)] == [
        ("transfer_to_agent", "ok"), ("weather", "blocked"),
    ]  # fmt: skip
    assert "no weather today" in str(answers(events)[-1])


async def test_messages_that_a_plugin_puts_in_the_place_of_all_are_sent():
    class Replaces:
        @hooks.before_model_call
        def replace(self, event: BeforeModelCall) -> ReplaceMessages:
            return ReplaceMessages([{"role": "user", "content": "other"}])

    model = Replies(replies=[says("done")])
    async with open_host(Replaces) as host:
        await play(runner_of(host, model), types.Part(text="secret plan"))
    assert [part.text for content in model.requests[0].contents for part in content.parts] == ["other"]


async def test_a_deferred_tool_that_asks_is_answered_as_well():
    class Asks:
        @hooks.before_tool_call(tools="archive_7")
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("Archive it?")

    def made(number: int) -> Any:
        def archive(city: str) -> str:
            return f"archived {city}"

        archive.__name__, archive.__doc__ = f"archive_{number}", f"Archive report number {number} of a city. " * 20
        return archive

    bridged = {"name": "archive_7", "arguments": {"city": "Rome"}}
    model = Replies(replies=[calls("tool_call", **bridged), says("done")])
    seen = recorder("after_tool_call")
    async with open_host(seen, Asks, "tool_search", approver=ScriptedApprover(Later())) as host:
        agent = LlmAgent(name="agent", model=model, tools=[made(one) for one in range(60)])
        hooked = HookSDK(host, context_window=8_000)
        runner = InMemoryRunner(app=App(name="shop", root_agent=agent, plugins=[hooked]))
        events = await play(runner)
        (asked,) = [one for event in events for one in event.get_function_calls() if one.name == CONFIRMATION]
        answer = types.FunctionResponse(id=asked.id, name=CONFIRMATION, response={"confirmed": True})
        await play(runner, types.Part(function_response=answer))
    assert [(one.call.name, one.status) for one in seen.of(AfterToolCall)] == [("archive_7", "ok")]
    declared = [
        [one.name for tool in sent.config.tools for one in tool.function_declarations] for sent in model.requests
    ]
    assert [one.count("tool_call") for one in declared] == [1, 1]


async def test_the_model_reads_a_reason_as_a_message_and_never_the_call_that_stands_for_it():
    model = Replies(
        replies=[says("It holds."), calls("weather", city="Rome"), says("A proof."), says("Another proof.")]
    )
    async with open_host(NeedsProof) as host:
        runner = runner_of(host, model, weather)
        events = await play(runner)
        await play(runner)
    assert [call.name for event in events for call in event.get_function_calls()] == [GO_ON, "weather"]
    for request in model.requests:
        parts = [part for content in request.contents for part in content.parts]
        assert [one.function_call.name for one in parts if one.function_call] in ([], ["weather"])
        assert [one.name for tool in request.config.tools for one in tool.function_declarations] == ["weather"]
    said = [(content.role, part.text) for content in model.requests[-1].contents for part in content.parts if part.text]
    assert said[:3] == [("user", "go"), ("model", "It holds."), ("user", "Show the proof.")]
