"""Conformance, third part: how runs end, and what lives beside and beyond them."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from hooksdk import hooks
from hooksdk.errors import RunAlreadyOpen, RunBlocked
from hooksdk.hooks import (
    AddContext,
    AfterToolCall,
    AgentStart,
    BeforeAnswer,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    Continue,
    Replace,
)
from hooksdk.state import PluginState
from hooksdk.testing._conformance import Answer, Driver, Stage
from hooksdk.testing._conformance_calls import DELETE, WEATHER, Denies, Town
from hooksdk.testing._model import call


class Signal:
    """An event for whatever loops and threads a framework has."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        wait = partial(self._event.wait, 60.0)
        assert await anyio.to_thread.run_sync(wait, abandon_on_cancel=True), "what should come within a minute did not"


async def cancelled(driver: Driver, reached: Signal) -> None:
    """A run that is cancelled where it has reached something."""
    async with anyio.create_task_group() as group:
        group.start_soon(driver.ask, "go")
        await reached.wait()
        group.cancel_scope.cancel()


async def a_cancelled_tool_is_seen_before_the_runs_end(stage: Stage) -> None:
    reached = Signal()

    async def wait(arguments: dict[str, Any]) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    slow = Town().make("get_weather", "Tell the weather.").copy(execute=wait)
    async with stage.open(script=[WEATHER], tools=[slow]) as driver:
        await cancelled(driver, reached)
    assert (stage.statuses, stage.ends) == ({"get_weather": "error"}, ["cancelled"])
    fired = stage.seen.fired()
    assert fired.index("after_tool_call") < fired.index("agent_end")


async def a_run_cancelled_in_the_model_ends_as_cancelled(stage: Stage) -> None:
    reached = Signal()

    async def script(_turn: object) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    async with stage.open(script=script) as driver:
        await cancelled(driver, reached)
    assert stage.ends == ["cancelled"]


async def an_error_of_the_model_ends_the_run_as_error(stage: Stage) -> None:
    class Down(Exception):
        pass

    def script(_turn: object) -> str:
        raise Down("the provider is down")

    raised: Exception | None = None
    async with stage.open(script=script, tools=Town().tools) as driver:
        try:
            await driver.ask("go")
        except Exception as error:
            raised = error
    assert "the provider is down" in repr(raised)
    assert stage.ends == ["error"]


async def streaming_passes_the_same_hooks(stage: Stage) -> None:
    town = Town()
    async with stage.open(Denies, script=[[DELETE, WEATHER], "done"], tools=town.tools) as driver:
        answer = await driver.stream("go")
    assert (answer.text, [one["tool"] for one in town.ran]) == ("done", ["get_weather"])
    assert (stage.statuses, stage.ends) == ({"delete_city": "blocked", "get_weather": "ok"}, ["completed"])


class OnceASession:
    """A budget: one call in each conversation."""

    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        if self.state.get("spent"):
            return Block("the budget is spent")
        self.state["spent"] = True
        return None


async def state_lasts_over_the_runs_of_a_conversation(stage: Stage) -> None:
    town = Town()
    async with stage.open(OnceASession, script=[WEATHER, "one", WEATHER, "two"], tools=town.tools) as driver:
        await driver.ask("first")
        await driver.ask("second")
    assert [one.status for one in stage.calls] == ["ok", "blocked"]


async def two_conversations_at_once_do_not_mix(stage: Stage) -> None:
    town = Town()
    started: list[str] = []
    both = Signal()

    def script(turn: Any) -> Any:
        return "done" if turn.results else call("get_weather", city=turn.prompt)

    async def wait(arguments: dict[str, Any]) -> str:
        started.append(arguments["city"])
        if len(started) == 2:
            both.set()
        await both.wait()
        return f"weather of {arguments['city']}"

    tools = [town.tools[0].copy(execute=wait)]
    async with stage.open(OnceASession, script=script, tools=tools) as driver, anyio.create_task_group() as group:
        group.start_soon(driver.ask, "Rome", "a")
        group.start_soon(driver.ask, "Oslo", "b")
    assert sorted((one.info.session_id != "", one.call.arguments["city"], one.status) for one in stage.calls) == [
        (True, "Oslo", "ok"), (True, "Rome", "ok"),
    ]  # fmt: skip
    assert len({one.info.session_id for one in stage.calls}) == 2


async def a_second_run_while_one_is_open_is_refused(stage: Stage) -> None:
    reached, leave = Signal(), Signal()
    refused: list[BaseException] = []

    async def wait(arguments: dict[str, Any]) -> str:
        reached.set()
        await leave.wait()
        return "sun"

    slow = Town().make("get_weather", "Tell the weather.").copy(execute=wait)
    async with stage.open(script=[WEATHER, "done"], tools=[slow]) as driver, anyio.create_task_group() as group:
        group.start_soon(driver.ask, "go")
        await reached.wait()
        try:
            await driver.ask("again")
        except RunAlreadyOpen as error:
            refused.append(error)
        leave.set()
    assert len(refused) == 1, "the second run should be refused"
    assert stage.ends == ["completed"]


async def plain_code_passes_the_same_hooks(stage: Stage) -> None:
    town = Town()
    async with stage.open(Denies, script=[[DELETE, WEATHER], "done"], tools=town.tools) as driver:
        answer: Answer = await anyio.to_thread.run_sync(driver.ask_plainly, "go")
    assert (answer.text, [one["tool"] for one in town.ran]) == ("done", ["get_weather"])
    assert stage.statuses == {"delete_city": "blocked", "get_weather": "ok"}


async def without_plugins_definitions_and_messages_are_as_given(stage: Stage) -> None:
    town = Town()
    async with stage.open(script=[WEATHER, "done"], tools=town.tools) as driver:
        await driver.ask("go")
    first, second = stage.model.turns
    assert sorted(first.offered) == ["delete_city", "get_weather"]
    given = first.definitions["get_weather"]
    assert (given["description"], given["parameters"]["required"]) == ("Tell the weather.", ["city"])
    assert [message["role"] for message in second.messages if message["role"] != "system"] == [
        "user",
        "assistant",
        "tool",
    ]
    assert stage.shown() == ["get_weather of Rome"]


async def context_that_a_plugin_adds_is_read_and_not_stored(stage: Stage) -> None:
    class Adds:
        @hooks.before_model_call
        def add(self, event: BeforeModelCall) -> AddContext:
            return AddContext(f"This is request {len(event.messages)}.")

    async with stage.open(Adds, script=["one", "two"]) as driver:
        await driver.ask("first")
        await driver.ask("second")
    assert ["This is request" in str(turn.messages) for turn in stage.model.turns] == [True, True]
    assert str(stage.model.turns[1].messages).count("This is request") == 1


async def a_run_that_a_plugin_blocks_does_not_begin(stage: Stage) -> None:
    class Closed:
        @hooks.agent_start
        def judge(self, event: AgentStart) -> Block:
            return Block("closed today")

    raised: BaseException | None = None
    async with stage.open(Closed, script=["hello"]) as driver:
        try:
            await driver.ask("go")
        except RunBlocked as error:
            raised = error
    assert "closed today" in str(raised)
    assert stage.model.turns == []


class Unfinished:
    """Sends the model on until it has looked at the weather."""

    def __init__(self) -> None:
        self._looked = False

    @hooks.after_tool_call(tools="get_weather")
    def note(self, event: AfterToolCall) -> None:
        self._looked = True

    @hooks.before_answer
    def judge(self, event: BeforeAnswer) -> Continue | None:
        return None if self._looked else Continue(LOOK)


LOOK = "Look at the weather first."


def _told(stage: Stage, turn: int) -> list[str]:
    """What the model reads that no tool and no system has written, in one of its turns."""
    messages = stage.model.turns[turn].messages
    return [
        str(one.get("content")) for one in messages if one.get("role") in ("user", "assistant") and one.get("content")
    ]


async def a_finish_that_is_refused_goes_on_with_the_reason(stage: Stage) -> None:
    town = Town()
    async with stage.open(Unfinished, script=["Done.", WEATHER, "Sunny.", "Bye."], tools=town.tools) as driver:
        answer = await driver.ask("go")
        await driver.ask("thanks")
    assert (answer.text, stage.statuses, stage.ends) == ("Sunny.", {"get_weather": "ok"}, ["completed", "completed"])
    assert _told(stage, 1) == ["go", "Done.", LOOK]
    assert _told(stage, 3) == ["go", "Done.", LOOK, "Sunny.", "thanks"], "the framework's own history has it"


async def streaming_goes_on_as_well(stage: Stage) -> None:
    town = Town()
    async with stage.open(Unfinished, script=["Done.", WEATHER, "Sunny."], tools=town.tools) as driver:
        answer = await driver.stream("go")
    assert (answer.text, stage.statuses, stage.ends) == ("Sunny.", {"get_weather": "ok"}, ["completed"])


async def a_finish_that_is_refused_too_often_goes_through(stage: Stage) -> None:
    async with stage.open(Unfinished, script=["one", "two", "three", "four", "five"]) as driver:
        answer = await driver.ask("go")
    assert (answer.text, len(stage.model.turns), stage.ends) == ("four", 4, ["completed"])


async def an_answer_that_a_plugin_replaces_is_the_answer(stage: Stage) -> None:
    class Redacts:
        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> Replace:
            return Replace(event.text.replace("Rome", "[city]"))

    async with stage.open(Redacts, script=["It is Rome.", "Bye."]) as driver:
        answer = await driver.ask("go")
        await driver.ask("thanks")
    assert (answer.text, _told(stage, 1)[-2:]) == ("It is [city].", ["It is [city].", "thanks"])


async def an_answer_that_a_plugin_blocks_reaches_nobody(stage: Stage) -> None:
    class Blocks:
        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> Block:
            return Block("not for outsiders")

    text = ""
    async with stage.open(Blocks, script=["It is Rome."]) as driver:
        with contextlib.suppress(RunBlocked):  # `run_agent` has an outcome for it
            text = (await driver.ask("go")).text
    assert (text, stage.ends) == ("", ["blocked"])


CASES = [
    ("19", a_cancelled_tool_is_seen_before_the_runs_end),
    ("19b", a_run_cancelled_in_the_model_ends_as_cancelled),
    ("20", an_error_of_the_model_ends_the_run_as_error),
    ("21", streaming_passes_the_same_hooks),
    ("24", state_lasts_over_the_runs_of_a_conversation),
    ("24b", two_conversations_at_once_do_not_mix),
    ("25", a_second_run_while_one_is_open_is_refused),
    ("26", plain_code_passes_the_same_hooks),
    ("28", without_plugins_definitions_and_messages_are_as_given),
    ("29", context_that_a_plugin_adds_is_read_and_not_stored),
    ("30", a_run_that_a_plugin_blocks_does_not_begin),
    ("31", a_finish_that_is_refused_goes_on_with_the_reason),
    ("31b", streaming_goes_on_as_well),
    ("31c", a_finish_that_is_refused_too_often_goes_through),
    ("31d", an_answer_that_a_plugin_replaces_is_the_answer),
    ("31e", an_answer_that_a_plugin_blocks_reaches_nobody),
]
