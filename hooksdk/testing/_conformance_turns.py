"""Conformance, second part: what happens to a conversation: trims, histories, approvals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooksdk import hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.hooks import AgentEnd, Ask, BeforeModelCall, BeforeToolCall, Block, Trim
from hooksdk.testing._conformance import Driver, Stage
from hooksdk.testing._conformance_calls import DELETE, WEATHER, Town
from hooksdk.testing._model import Call, call
from hooksdk.tools import Tool

LONG = "a line of a long listing\n" * 200


def _list_files(arguments: dict[str, Any]) -> str:
    return f"{arguments['folder']}: {LONG}"


FOLDER = {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]}
LISTING = Tool(name="list_files", description="List a folder.", source="host", parameters=FOLDER, execute=_list_files)


def listing(folder: str) -> Call:
    """A call whose result is long."""
    return call("list_files", folder=folder)


class Trims:
    """Shortens every result at the end of its run."""

    @hooks.agent_end
    async def shorten(self, event: AgentEnd) -> None:
        for result in event.transcript.results.list():
            if result.trimmable and result.characters > 1000:
                await event.transcript.results.trim(result.handle, "a long listing")


def short(texts: Sequence[str]) -> list[bool]:
    """Which results are trimmed."""
    return [len(text) < 1000 and "a long listing" in text for text in texts]


async def a_trim_shows_from_the_next_run_on(stage: Stage) -> None:
    async with stage.open(Trims, script=[listing("a"), "one", "two"], tools=[LISTING]) as driver:
        await driver.ask("first")
        await driver.ask("second")
    assert short(stage.shown(1)) == [False]
    assert short(stage.shown(2)) == [True]


async def a_trim_lasts_in_the_frameworks_store(stage: Stage) -> None:
    async with stage.open(Trims, script=[listing("a"), "one", "two"], tools=[LISTING]) as driver:
        await driver.ask("first")
        await driver.ask("second")
        assert short(await driver.stored()) == [True]


async def a_result_can_be_trimmed_within_the_run(stage: Stage) -> None:
    class TrimsAtOnce:
        @hooks.before_model_call
        def shorten(self, event: BeforeModelCall) -> Trim | None:
            found = [one.handle for one in event.results.list() if one.trimmable and one.characters > 1000]
            return Trim(found, "read already") if found else None

    async with stage.open(
        TrimsAtOnce, script=[listing("a"), WEATHER, "done"], tools=[LISTING, *Town().tools]
    ) as driver:
        await driver.ask("go")
    assert [len(text) < 1000 for text in stage.shown(1)] == [False]
    assert [len(text) < 1000 for text in stage.shown(2)] == [True, True]


async def a_trimmed_result_keeps_its_bytes(stage: Stage) -> None:
    async with stage.open(Trims, script=[listing("a"), "one", "two", "three"], tools=[LISTING]) as driver:
        for prompt in ("first", "second", "third"):
            await driver.ask(prompt)
    assert stage.shown(2) == stage.shown(3)
    assert short(stage.shown(3)) == [True]


def _history() -> list[dict[str, Any]]:
    function = {"name": "list_files", "arguments": '{"folder": "old"}'}
    return [
        {"role": "user", "content": "list old"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "old1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "old1", "content": f"old: {LONG}"},
        {"role": "assistant", "content": "listed"},
    ]


async def a_history_from_before_is_taken_over(stage: Stage) -> None:
    async with stage.open(Trims, script=["one", "two"], tools=[LISTING]) as driver:
        await driver.adopt(_history())
        await driver.ask("first")
        await driver.ask("second")
    assert short(stage.shown(1)) == [True]


async def _two_turns(driver: Driver) -> None:
    await driver.ask("first")
    await driver.ask("second")


async def a_fork_keeps_its_trims(stage: Stage) -> None:
    script = [listing("a"), "one", listing("b"), "two", "other"]
    async with stage.open(Trims, script=script, tools=[LISTING]) as driver:
        await _two_turns(driver)
        await driver.cut(1)
        await driver.ask("another second")
    assert short(stage.shown()) == [True]
    assert "before_compaction" not in stage.seen.fired()


async def a_filtered_history_keeps_its_trims(stage: Stage) -> None:
    script = [listing("a"), "one", listing("b"), "two", "three"]
    async with stage.open(Trims, script=script, tools=[LISTING]) as driver:
        await _two_turns(driver)
        await driver.forget(1)
        await driver.ask("third")
    assert short(stage.shown()) == [True]
    assert "before_compaction" not in stage.seen.fired()


async def a_program_that_starts_again_keeps_the_trims(stage: Stage) -> None:
    async with stage.open(Trims, script=[listing("a"), "one"], tools=[LISTING]) as driver:
        await driver.ask("first")
    async with stage.open(Trims, script=["two"], tools=[LISTING]) as driver:
        await driver.ask("second")
    assert short(stage.shown()) == [True]


class Asks:
    """A person is asked about each deletion."""

    @hooks.before_tool_call(tools="delete_*")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask(f"Run {event.tool.name}?")


async def _asked(stage: Stage, driver: Driver, town: Town, count: int = 1) -> Sequence[str]:
    paused = await driver.ask("go")
    assert len(paused.waiting) == count, f"{count} calls should wait, and {paused.waiting} do"
    assert town.ran == []
    assert [one for one in stage.calls if one.call.name == "delete_city"] == [], "observers were told before the answer"
    assert stage.ends == ["paused"]
    return paused.waiting


async def an_approved_call_runs_asked_once(stage: Stage) -> None:
    town = Town()
    async with stage.open(Asks, script=[DELETE, "done"], tools=town.tools) as driver:
        (waiting,) = await _asked(stage, driver, town)
        answer = await driver.answer({waiting: True})
    assert answer.text == "done"
    assert not answer.waiting
    assert town.ran == [{"tool": "delete_city", "city": "Rome"}]
    assert (stage.statuses, stage.ends) == ({"delete_city": "ok"}, ["paused", "completed"])


async def a_refused_call_does_not_run_and_is_seen(stage: Stage) -> None:
    town = Town()
    async with stage.open(Asks, script=[DELETE, "done"], tools=town.tools) as driver:
        (waiting,) = await _asked(stage, driver, town)
        answer = await driver.answer({waiting: False})
    assert (answer.text, town.ran, stage.statuses) == ("done", [], {"delete_city": "blocked"})


async def an_approval_outlives_the_program(stage: Stage) -> None:
    town = Town()
    async with stage.open(Asks, script=[DELETE], tools=town.tools) as driver:
        (waiting,) = await _asked(stage, driver, town)
    async with stage.open(Asks, script=["done"], tools=town.tools) as driver:
        answer = await driver.answer({waiting: True})
    assert (answer.text, stage.statuses) == ("done", {"delete_city": "ok"})
    assert town.ran == [{"tool": "delete_city", "city": "Rome"}]


async def two_calls_wait_at_once(stage: Stage) -> None:
    town = Town()
    script = [[DELETE, call("delete_city", city="Oslo")], "done"]
    async with stage.open(Asks, script=script, tools=town.tools) as driver:
        first, second = await _asked(stage, driver, town, 2)
        answer = await driver.answer({first: True, second: False})
    assert (answer.text, town.ran) == ("done", [{"tool": "delete_city", "city": "Rome"}])
    assert sorted(one.status for one in stage.calls) == ["blocked", "ok"]


async def a_policy_that_was_tightened_meanwhile_holds(stage: Stage) -> None:
    class Forbids:
        @hooks.before_tool_call(tools="delete_*")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("forbidden since today")

    town = Town()
    async with stage.open(Asks, script=[DELETE], tools=town.tools) as driver:
        (waiting,) = await _asked(stage, driver, town)
    async with stage.open(Asks, Forbids, script=["done"], tools=town.tools) as driver:
        await driver.answer({waiting: True})
    assert (town.ran, stage.statuses) == ([], {"delete_city": "blocked"})


async def the_hosts_approver_answers_without_a_pause(stage: Stage) -> None:
    async def yes(request: ApprovalRequest) -> Approval:
        return Approval(True, by="ann")

    town = Town()
    async with stage.open(Asks, script=[DELETE, "done"], tools=town.tools, approver=yes) as driver:
        answer = await driver.ask("go")
    assert (answer.text, stage.statuses, len(stage.asked)) == ("done", {"delete_city": "ok"}, 1)


CASES = [
    ("11", a_trim_shows_from_the_next_run_on),
    ("11b", a_trim_lasts_in_the_frameworks_store),
    ("11c", a_result_can_be_trimmed_within_the_run),
    ("12", a_trimmed_result_keeps_its_bytes),
    ("13", a_history_from_before_is_taken_over),
    ("13b", a_fork_keeps_its_trims),
    ("13c", a_filtered_history_keeps_its_trims),
    ("13d", a_program_that_starts_again_keeps_the_trims),
    ("15", an_approved_call_runs_asked_once),
    ("15b", a_refused_call_does_not_run_and_is_seen),
    ("15c", an_approval_outlives_the_program),
    ("15d", two_calls_wait_at_once),
    ("15e", the_hosts_approver_answers_without_a_pause),
    ("16", a_policy_that_was_tightened_meanwhile_holds),
]
