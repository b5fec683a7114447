"""Conformance, fourth part: what a crash has lost, whose agent a tool runs, and which model is asked."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from hooksdk import hooks
from hooksdk.hooks import BeforeModelCall
from hooksdk.stores import JsonlStore
from hooksdk.testing._conformance import Stage
from hooksdk.testing._conformance_calls import DELETE, WEATHER, Denies, Town
from hooksdk.testing._conformance_ends import Signal, cancelled
from hooksdk.testing._model import Call, call


async def _asked_again(stage: Stage, name: str, *, lost: bool) -> None:
    """A run is cut off while the city is deleted; the model repeats one of its calls, and the person says no."""
    town, reached = Town(), Signal()

    async def hang(arguments: dict[str, Any]) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    tools = [town.tools[0], town.tools[1].copy(execute=hang)]
    with TemporaryDirectory() as folder:
        stage.store = JsonlStore(Path(folder))
        async with stage.open(script=[WEATHER, DELETE], tools=tools) as driver:
            await cancelled(driver, reached)
            for _ in range(1000):  # some frameworks tell late that a run was cancelled
                await anyio.sleep(0 if stage.ends else 0.01)
        async with stage.open(script=[Call(name, {"city": "Rome"}, "again"), "done"], tools=tools) as driver:
            if lost:
                with suppress(IndexError, KeyError):  # it has stored nothing of a run that was cut off
                    await driver.cut(0)
            answer = await driver.ask("Go on.")
            assert len(answer.waiting) == 1, "an equal call ran unasked"
            answer = await driver.answer(dict.fromkeys(answer.waiting, False))
            stored = await driver.stored()
    assert (answer.text, [one["tool"] for one in town.ran]) == ("done", ["get_weather"])
    words = "has lost its result" if lost else "may have taken effect"
    assert [words in text for text in (stage.shown()[-1], stored[-1])] == [True, True], "it is told of the first call"


async def a_call_whose_reply_the_framework_has_lost_is_asked_about(stage: Stage) -> None:
    await _asked_again(stage, "get_weather", lost=True)


async def a_refused_call_in_doubt_is_told_as_such(stage: Stage) -> None:
    await _asked_again(stage, "delete_city", lost=False)


async def _in_a_tool(stage: Stage, *, outer: list[Any], inner: list[Any]) -> None:
    """An agent with plugins and a host of its own, which a tool of another agent runs: no call gets past either's policies."""
    town = Town()
    sub = Stage(type(stage.driver)())

    async def consult(arguments: dict[str, Any]) -> str:
        async with sub.open(*inner, script=[[DELETE, WEATHER], "deleted"], tools=town.tools) as driver:
            return (await driver.ask(f"Delete {arguments['city']}.")).text

    asks = town.make("consult", "Consult the city's agent.").copy(execute=consult)
    async with stage.open(*outer, script=[call("consult", city="Rome"), "done"], tools=[*town.tools, asks]) as driver:
        answer = await driver.ask("go")
    assert (answer.text, sub.statuses) == ("done", {"delete_city": "blocked", "get_weather": "ok"})
    assert [one["tool"] for one in town.ran] == ["get_weather"]
    assert any("nothing is deleted here" in text for text in sub.shown())


async def a_sub_agents_own_policies_hold(stage: Stage) -> None:
    await _in_a_tool(stage, outer=[], inner=[Denies])


async def policies_hold_for_a_sub_agent_with_a_host_of_its_own(stage: Stage) -> None:
    await _in_a_tool(stage, outer=[Denies], inner=[])


async def the_frameworks_model_is_known(stage: Stage) -> None:
    asked: list[str | None] = []

    class Models:
        @hooks.before_model_call
        def note(self, event: BeforeModelCall) -> None:
            asked.append(event.model)

    rule = {"action": "deny", "limit": {"dollars": 5.0}}
    config = {
        "prices": {"acme:scripted": {"input": 1.0, "output": 4.0}},
        "plugins": {"tool_policy": {"config": {"rules": [rule]}}},
    }
    async with stage.open(
        Models, script=[WEATHER, "done"], tools=Town().tools, allow=["tool_policy"], config=config
    ) as driver:
        answer = await driver.ask("go")
    assert (answer.text, asked) == ("done", [stage.model.name] * 2)


CASES = [
    ("32", a_call_whose_reply_the_framework_has_lost_is_asked_about),
    ("32b", a_refused_call_in_doubt_is_told_as_such),
    ("33", a_sub_agents_own_policies_hold),
    ("33b", policies_hold_for_a_sub_agent_with_a_host_of_its_own),
    ("34", the_frameworks_model_is_known),
]
