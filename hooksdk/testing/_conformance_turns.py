"""Conformance, second part: conversations, with their trims, histories and approvals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from hooksdk import hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.testing._conformance import DELETE, NO_DELETES, WEATHER, Answer, Driver, Stage, answering, case, handling
from hooksdk.testing._model import Call, call
from hooksdk.tools import Tool

LONG = "a line of a long listing\n" * 200


def _list_files(arguments: dict[str, Any]) -> str:
    return f"{arguments['folder']}: {LONG}"


FOLDER = {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]}
LISTING = Tool(name="list_files", description="List a folder.", source="host", parameters=FOLDER, execute=_list_files)
LIST_A, LIST_B = call("list_files", folder="a"), call("list_files", folder="b")
"""Calls whose results are long."""


class Trims:
    """Shortens every result at the end of its run."""

    @hooks.agent_end
    async def shorten(self, event: hooks.AgentEnd) -> None:
        for result in event.transcript.results.list():
            if result.trimmable and result.characters > 1000:
                await event.transcript.results.trim(result.handle, "a long listing")


def short(texts: Sequence[str]) -> list[bool]:
    """For each result whether it is trimmed."""
    return [len(text) < 1000 and "a long listing" in text for text in texts]


@case("11")
async def a_trim_shows_from_the_next_run_on(stage: Stage) -> None:
    await stage.play(Trims, script=[LIST_A, "one", "two"], tools=[LISTING], prompts=["first", "second"])
    assert [short(stage.shown(turn)) for turn in (1, 2)] == [[False], [True]]


@case("11b")
async def a_trim_lasts_in_the_frameworks_store(stage: Stage) -> None:
    async with stage.open(Trims, script=[LIST_A, "one", "two"], tools=[LISTING]) as driver:
        await _ask_twice(driver)
        assert short(await driver.stored()) == [True]


@case("11c")
async def a_result_can_be_trimmed_within_the_run(stage: Stage) -> None:
    def shorten(event: hooks.BeforeModelCall) -> hooks.Trim | None:
        found = [one.handle for one in event.results.list() if one.trimmable and one.characters > 1000]
        return hooks.Trim(found, "read already") if found else None

    await stage.play(
        handling("before_model_call", shorten), script=[LIST_A, WEATHER, "done"], tools=[LISTING, *stage.tools]
    )
    assert [len(text) < 1000 for text in stage.shown(1)] == [False]
    assert [len(text) < 1000 for text in stage.shown(2)] == [True, True]


@case("12")
async def a_trimmed_result_keeps_its_bytes(stage: Stage) -> None:
    prompts = ["first", "second", "third"]
    await stage.play(Trims, script=[LIST_A, "one", "two", "three"], tools=[LISTING], prompts=prompts)
    assert stage.shown(2) == stage.shown(3)
    assert short(stage.shown(3)) == [True]


@case("13")
async def a_history_from_before_is_taken_over(stage: Stage) -> None:
    function = {"name": "list_files", "arguments": '{"folder": "old"}'}
    asked = [{"id": "old1", "type": "function", "function": function}]
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "list old"},
        {"role": "assistant", "content": None, "tool_calls": asked},
        {"role": "tool", "tool_call_id": "old1", "content": f"old: {LONG}"},
        {"role": "assistant", "content": "listed"},
    ]
    async with stage.open(Trims, script=["one", "two"], tools=[LISTING]) as driver:
        await driver.adopt(history)
        await _ask_twice(driver)
    assert short(stage.shown(1)) == [True]


async def _ask_twice(driver: Driver) -> None:
    await driver.ask("first")
    await driver.ask("second")


@case("13b")
async def a_fork_keeps_its_trims(stage: Stage) -> None:
    async with stage.open(Trims, script=[LIST_A, "one", LIST_B, "two", "other"], tools=[LISTING]) as driver:
        await _ask_twice(driver)
        await driver.cut(1)
        await driver.ask("another second")
    assert short(stage.shown()) == [True]
    assert "before_compaction" not in stage.seen.fired()


@case("13c")
async def a_filtered_history_keeps_its_trims(stage: Stage) -> None:
    async with stage.open(Trims, script=[LIST_A, "one", LIST_B, "two", "three"], tools=[LISTING]) as driver:
        await _ask_twice(driver)
        await driver.forget(1)
        await driver.ask("third")
    assert short(stage.shown()) == [True]
    assert "before_compaction" not in stage.seen.fired()


@case("13d")
async def a_program_that_starts_again_keeps_the_trims(stage: Stage) -> None:
    await stage.play(Trims, script=[LIST_A, "one"], tools=[LISTING], prompts=["first"])
    await stage.play(Trims, script=["two"], tools=[LISTING], prompts=["second"])
    assert short(stage.shown()) == [True]


ASKS = answering("before_tool_call", hooks.Ask("Delete a city?"), tools="delete_*")


async def _asked(stage: Stage, driver: Driver, count: int = 1) -> Sequence[str]:
    """A person is asked about this many calls, and nothing has happened yet; the ids of the calls."""
    paused = await driver.ask("go")
    assert len(paused.waiting) == count, f"{count} calls should wait, and {paused.waiting} do"
    assert stage.ran == []
    assert [one for one in stage.calls if one.call.name == "delete_city"] == [], "observers were told before the answer"
    assert stage.ends == ["paused"]
    return paused.waiting


@case("15")
async def an_approved_call_runs_asked_once(stage: Stage) -> None:
    async with stage.open(ASKS, script=[DELETE, "done"]) as driver:
        (waiting,) = await _asked(stage, driver)
        answer = await driver.answer({waiting: True})
    assert answer.text == "done"
    assert not answer.waiting
    assert stage.ran == ["delete_city of Rome"]
    assert (stage.statuses, stage.ends) == ({"delete_city": "ok"}, ["paused", "completed"])


@case("15b")
async def a_refused_call_does_not_run_and_is_seen(stage: Stage) -> None:
    async with stage.open(ASKS, script=[DELETE, "done"]) as driver:
        (waiting,) = await _asked(stage, driver)
        answer = await driver.answer({waiting: False})
    assert (answer.text, stage.ran, stage.statuses) == ("done", [], {"delete_city": "blocked"})


async def _approved_after_a_restart(stage: Stage, *plugins: type) -> Answer:
    """The program ends while a call waits, and starts again with these plugins, too; then the person says yes."""
    async with stage.open(ASKS, script=[DELETE]) as driver:
        (waiting,) = await _asked(stage, driver)
    async with stage.open(ASKS, *plugins, script=["done"]) as driver:
        return await driver.answer({waiting: True})


@case("15c")
async def an_approval_outlives_the_program(stage: Stage) -> None:
    answer = await _approved_after_a_restart(stage)
    assert (answer.text, stage.statuses, stage.ran) == ("done", {"delete_city": "ok"}, ["delete_city of Rome"])


@case("15d")
async def two_calls_wait_at_once(stage: Stage) -> None:
    async with stage.open(ASKS, script=[[DELETE, call("delete_city", city="Oslo")], "done"]) as driver:
        first, second = await _asked(stage, driver, 2)
        answer = await driver.answer({first: True, second: False})
    assert (answer.text, stage.ran) == ("done", ["delete_city of Rome"])
    assert sorted(one.status for one in stage.calls) == ["blocked", "ok"]


@case("15e")
async def the_hosts_approver_answers_without_a_pause(stage: Stage) -> None:
    async def yes(request: ApprovalRequest) -> Approval:
        return Approval(True, by="ann")

    answer = await stage.play(ASKS, script=[DELETE, "done"], approver=yes)
    assert (answer.text, stage.statuses, len(stage.asked)) == ("done", {"delete_city": "ok"}, 1)


@case("16")
async def a_policy_that_was_tightened_meanwhile_holds(stage: Stage) -> None:
    await _approved_after_a_restart(stage, NO_DELETES)
    assert (stage.ran, stage.statuses) == ([], {"delete_city": "blocked"})


@case("41")
async def what_a_framework_adds_is_no_word_of_the_persons(stage: Stage) -> None:
    def judge(event: hooks.BeforeToolCall) -> hooks.Block | None:
        return None if all(one.cleared for one in event.origins("city")) else hooks.Block("nobody asked about it")

    only_what_was_asked = handling("before_tool_call", judge, tools="get_weather")
    summary = [
        {"role": "user", "content": "A summary of what was said: go on with Gotham."},
        {"role": "assistant", "content": "Understood."},
    ]
    script = [WEATHER, "one", call("get_weather", city="Gotham"), "two"]
    async with stage.open(only_what_was_asked, script=script) as driver:
        await driver.ask("The weather of Rome, please")
        await driver.adopt(summary)
        await driver.ask("And now?")
    assert [one.status for one in stage.calls] == ["ok", "blocked"]


@case("42")
async def a_result_of_no_call_ends_no_conversation(stage: Stage) -> None:
    history = [
        {"role": "user", "content": "list old"},
        {"role": "tool", "tool_call_id": "gone", "content": "a result whose call was cut off"},
        {"role": "assistant", "content": "listed"},
    ]
    async with stage.open(script=["one", "two"]) as driver:
        await driver.adopt(history)
        answers = [(await driver.ask(prompt)).text for prompt in ("first", "second")]
    assert (answers, stage.ends) == (["one", "two"], ["completed", "completed"])


@case("42b")
async def a_malformed_call_ends_no_conversation(stage: Stage) -> None:
    script = [Call("get_weather", '{"city": "Ro'), "one", "two"]
    answer = await stage.play(script=script, prompts=["first", "second"])
    assert answer.text in ("one", "two")
    assert (stage.ran, stage.ends[-1]) == ([], "completed")


@runtime_checkable
class RunsElsewhere(Protocol):
    """A driver whose framework has tools that run outside of it: those of the program without `execute`."""

    async def supply(self, results: Mapping[str, str], conversation: str = "c") -> Answer:
        """Go on where their calls wait, with what came of each."""
        ...


@case("43")
async def a_call_that_runs_elsewhere_is_judged_before_it_leaves(stage: Stage) -> None:
    tools = [tool.copy(execute=None) for tool in stage.tools]
    async with stage.open(NO_DELETES, script=[[DELETE, WEATHER], "done"], tools=tools) as driver:
        paused = await driver.ask("go")
        assert stage.statuses == {"delete_city": "blocked"}
        (waiting,) = paused.waiting
        assert isinstance(driver, RunsElsewhere), "the driver has no `supply`"
        answer = await driver.supply({waiting: "sunny"})
    assert (answer.text, stage.ends) == ("done", ["paused", "completed"])
    assert stage.statuses == {"delete_city": "blocked", "get_weather": "ok"}
    assert "sunny" in stage.shown()
