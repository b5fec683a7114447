"""Conformance, fourth part: messages that no person and no model has written, and calls that leave the framework."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing._conformance import Answer, Stage
from hooksdk.testing._conformance_calls import DELETE, WEATHER, Denies, Town
from hooksdk.testing._model import Call, call


@runtime_checkable
class RunsElsewhere(Protocol):
    """A driver whose framework has tools that run outside of it: those of the program without `execute`."""

    async def supply(self, results: Mapping[str, str], conversation: str = "c") -> Answer:
        """Go on where their calls wait, with what came of each."""
        ...


class OnlyWhatWasAsked:
    """A city has to stand in what the person wrote."""

    @hooks.before_tool_call(tools="get_weather")
    def judge(self, event: BeforeToolCall) -> Block | None:
        return None if all(one.cleared for one in event.origins("city")) else Block("nobody asked about it")


async def what_a_framework_adds_is_no_word_of_the_persons(stage: Stage) -> None:
    summary = [
        {"role": "user", "content": "A summary of what was said: go on with Gotham."},
        {"role": "assistant", "content": "Understood."},
    ]
    script = [WEATHER, "one", call("get_weather", city="Gotham"), "two"]
    async with stage.open(OnlyWhatWasAsked, script=script, tools=Town().tools) as driver:
        await driver.ask("The weather of Rome, please")
        await driver.adopt(summary)
        await driver.ask("And now?")
    assert [one.status for one in stage.calls] == ["ok", "blocked"]


async def a_result_of_no_call_ends_no_conversation(stage: Stage) -> None:
    history = [
        {"role": "user", "content": "list old"},
        {"role": "tool", "tool_call_id": "gone", "content": "a result whose call was cut off"},
        {"role": "assistant", "content": "listed"},
    ]
    async with stage.open(script=["one", "two"], tools=Town().tools) as driver:
        await driver.adopt(history)
        answers = [(await driver.ask(prompt)).text for prompt in ("first", "second")]
    assert (answers, stage.ends) == (["one", "two"], ["completed", "completed"])


async def a_malformed_call_ends_no_conversation(stage: Stage) -> None:
    town = Town()
    async with stage.open(script=[Call("get_weather", '{"city": "Ro'), "one", "two"], tools=town.tools) as driver:
        await driver.ask("first")
        answer = await driver.ask("second")
    assert answer.text in ("one", "two")
    assert (town.ran, stage.ends[-1]) == ([], "completed")


async def a_call_that_runs_elsewhere_is_judged_before_it_leaves(stage: Stage) -> None:
    tools = [tool.copy(execute=None) for tool in Town().tools]
    async with stage.open(Denies, script=[[DELETE, WEATHER], "done"], tools=tools) as driver:
        paused = await driver.ask("go")
        assert stage.statuses == {"delete_city": "blocked"}
        (waiting,) = paused.waiting
        assert isinstance(driver, RunsElsewhere), "the driver has no `supply`"
        answer = await driver.supply({waiting: "sunny"})
    assert (answer.text, stage.ends) == ("done", ["paused", "completed"])
    assert stage.statuses == {"delete_city": "blocked", "get_weather": "ok"}
    assert "sunny" in stage.shown()


CASES = [
    ("41", what_a_framework_adds_is_no_word_of_the_persons),
    ("42", a_result_of_no_call_ends_no_conversation),
    ("42b", a_malformed_call_ends_no_conversation),
    ("43", a_call_that_runs_elsewhere_is_judged_before_it_leaves),
]
