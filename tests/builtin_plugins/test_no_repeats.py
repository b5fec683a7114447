"""A call that worked is not made again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import anyio
import pytest

from hooksdk import Annotations, Run, Session, Tool, ToolCall, ToolError, ToolResult, hooks
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.errors import ApprovalPending
from hooksdk.hooks import Answer, Ask, BeforeToolCall, Block, Replace, TransformToolResult
from hooksdk.testing import Reply, call, open_session, play
from tests.stage import reply

pytestmark = pytest.mark.anyio

NUMBERS = count()
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}, "minutes": {"type": "integer"}}}


class Calendar:
    """Tools that count what they did."""

    def __init__(self, failures: int = 0) -> None:
        self.made: list[Any] = []
        self.failures = failures
        self.finish = anyio.Event()
        self.finish.set()

    async def make(self, arguments: dict[str, Any]) -> str:
        self.made.append(arguments)
        await self.finish.wait()
        if self.failures:
            self.failures -= 1
            raise ToolError("the calendar is locked")
        return f"event {len(self.made)}"

    def tools(self) -> list[Tool]:
        return [
            Tool(name=name, source="mcp", owner="calendar", parameters=SCHEMA, execute=self.make, annotations=annotations)
            for name, annotations in {
                "make_event": Annotations(), "move_event": Annotations(destructive=True),
                "list_events": Annotations(read_only=True), "write_event": Annotations(read_only=False),
            }.items()
        ]  # fmt: skip


def settings(**values: Any) -> dict[str, Any]:
    return {"plugins": {"no_repeats": {"config": values}}}


async def make_calls(run: Run, *calls: tuple[str, Mapping[str, Any]]) -> list[ToolResult]:
    """One call after the other, as a model makes them."""
    results: list[ToolResult] = []
    for name, arguments in calls:
        one = ToolCall(f"call-{next(NUMBERS)}", name, dict(arguments))
        await run.record(reply(one))
        results.append(await run.call_tool(one))
    return results


async def play_calls(session: Session, calendar: Calendar, *calls: tuple[str, Mapping[str, Any]]) -> list[ToolResult]:
    async with session.run("go") as run:
        await run.resolve_tools(calendar.tools())
        return await make_calls(run, *calls)


REVIEW = ("make_event", {"title": "Review", "minutes": 30})


async def test_an_equal_call_that_worked_is_answered_with_its_first_result():
    calendar = Calendar()
    async with open_session("no_repeats") as session:
        first, second, third = await play_calls(session, calendar, REVIEW, REVIEW, REVIEW)
    assert calendar.made == [{"title": "Review", "minutes": 30}]
    assert first.text == "event 1"
    assert second.text == third.text
    assert second.text.startswith("You did this already: 'make_event'")
    assert second.text.endswith("Its result was:\nevent 1")
    assert not second.is_error


@pytest.mark.parametrize(
    ("again", "times"),
    [
        (("make_event", {"minutes": 30, "title": "Review"}), 1),  # another order of the keys
        (("make_event", {"title": "Review", "minutes": "30"}), 1),  # equal once it is repaired
        (("make_event", '{"title": "Review", "minutes": 30}'), 1),
        (("make_event", {"title": "Review", "minutes": 45}), 2),
        (("make_event", {"title": "Review"}), 2),
        (("move_event", {"title": "Review", "minutes": 30}), 2),
    ],
)
async def test_equal_means_the_same_tool_and_the_arguments_that_would_run(again: tuple[str, Any], times: int):
    calendar = Calendar()
    async with open_session("no_repeats") as session, session.run("go") as run:
        await run.resolve_tools(calendar.tools())
        await make_calls(run, REVIEW)
        one = ToolCall("again", *again)
        await run.record(reply(one))
        await run.call_tool(one)
    assert len(calendar.made) == times


@pytest.mark.parametrize(("name", "times"), [("list_events", 2), ("write_event", 1), ("move_event", 1)])
async def test_only_a_tool_that_says_it_reads_may_be_called_again(name: str, times: int):
    calendar = Calendar()
    async with open_session("no_repeats") as session:
        await play_calls(session, calendar, (name, {}), (name, {}))
    assert len(calendar.made) == times


async def test_a_call_that_failed_is_made_again():
    calendar = Calendar(failures=1)
    async with open_session("no_repeats") as session:
        first, second, third = await play_calls(session, calendar, REVIEW, REVIEW, REVIEW)
    assert (first.is_error, second.text, len(calendar.made)) == (True, "event 2", 2)
    assert third.text.startswith("You did this already")


async def test_the_patterns_of_except_count_as_they_are_written():
    calendar = Calendar()
    async with open_session("no_repeats", config=settings(**{"except": ["makeEvent", "mcp:Calendar:*"]})) as session:
        await play_calls(session, calendar, REVIEW, REVIEW)
    assert len(calendar.made) == 1


async def test_tools_of_except_are_called_as_often_as_the_model_likes():
    calendar = Calendar()
    async with open_session("no_repeats", config=settings(**{"except": ["mcp:calendar:make_*"]})) as session:
        await play_calls(session, calendar, REVIEW, REVIEW, ("move_event", {}), ("move_event", {}))
    assert len(calendar.made) == 3


@pytest.mark.parametrize(("scope", "times"), [("run", 2), ("session", 1)])
async def test_a_new_run_may_do_it_again_unless_the_session_counts(scope: str, times: int):
    calendar = Calendar()
    async with open_session("no_repeats", config=settings(scope=scope)) as session:
        await play_calls(session, calendar, REVIEW)
        await play_calls(session, calendar, REVIEW)
    assert len(calendar.made) == times


@pytest.mark.parametrize(("forget", "times"), [(False, 2), (True, 3)])
async def test_another_change_makes_a_call_new_where_the_operator_wants_it(forget: bool, times: int):
    calendar = Calendar()
    async with open_session("no_repeats", config=settings(forget_on_change=forget)) as session:
        await play_calls(session, calendar, REVIEW, ("move_event", {}), ("list_events", {}), REVIEW)
    assert len(calendar.made) == times + 1


class Forbid:
    """Blocks, or asks about, what is called for the second time."""

    answer: Any = Block("once is enough")

    def __init__(self) -> None:
        self.seen = 0

    @hooks.before_tool_call
    async def judge(self, event: BeforeToolCall) -> Block | Ask | Answer | None:
        self.seen += 1
        return self.answer if self.seen > 1 else None


@pytest.mark.parametrize("order", [(Forbid, "no_repeats"), ("no_repeats", Forbid)])
async def test_a_block_of_any_policy_beats_the_answer(order: tuple[Any, ...]):
    calendar = Calendar()
    async with open_session(*order) as session:
        _, second = await play_calls(session, calendar, REVIEW, REVIEW)
    assert (second.is_error, "once is enough" in second.text, len(calendar.made)) == (True, True, 1)


async def test_a_person_who_is_asked_may_let_it_be_done_again():
    class Doubt(Forbid):
        answer = Ask("Again?")

    async def approve(request: ApprovalRequest) -> Approval:
        return Approval(True)

    calendar = Calendar()
    async with open_session(Doubt, "no_repeats", approver=approve) as session:
        await play_calls(session, calendar, REVIEW, REVIEW)
    assert len(calendar.made) == 2


async def test_a_call_that_a_policy_blocked_counts_as_not_made():
    class Once(Forbid):
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Block | None:
            self.seen += 1
            return Block("not yet") if self.seen == 1 else None

    calendar = Calendar()
    async with open_session("no_repeats", Once) as session:
        await play_calls(session, calendar, REVIEW, REVIEW)
    assert len(calendar.made) == 1


@pytest.mark.both_loops
async def test_of_equal_calls_at_once_one_is_made():
    calendar = Calendar()
    calendar.finish = anyio.Event()
    texts: dict[str, str] = {}
    async with open_session("no_repeats") as session, session.run("go") as run:
        await run.resolve_tools(calendar.tools())
        calls = [ToolCall(f"c{number}", *REVIEW) for number in range(3)]
        await run.record(reply(*calls))

        async def make(one: ToolCall) -> None:
            texts[one.id] = (await run.call_tool(one)).text
            if len(texts) == 2:  # the two that were answered; the tool of the third still waits
                calendar.finish.set()

        async with anyio.create_task_group() as group:
            for one in calls:
                group.start_soon(make, one)
    assert len(calendar.made) == 1
    assert sum("is being called with these arguments already" in text for text in texts.values()) == 2
    assert "event 1" in texts.values()


async def test_equal_calls_of_two_runs_around_a_pause_are_one():
    class Doubt:
        @hooks.before_tool_call(tools=["move_event"])
        async def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("Move it?")

    async def later(request: ApprovalRequest) -> Later:
        return Later()

    calendar = Calendar()
    async with open_session("no_repeats", Doubt, approver=later) as session:
        async with session.run("go") as run:
            await run.resolve_tools(calendar.tools())
            await make_calls(run, REVIEW)
            with pytest.raises(ApprovalPending):
                await make_calls(run, ("move_event", {}))
            run.pause("waits")
        async with session.run(None) as run:
            await run.resolve_tools(calendar.tools())
            await make_calls(run, REVIEW)
    assert calendar.made == [REVIEW[1]]


async def test_what_a_redactor_takes_out_is_not_in_the_answer_either():
    class Redactor:
        @hooks.transform_tool_result(required=True)
        async def redact(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.text.replace("event 1", "[hidden]"))

    calendar = Calendar()
    async with open_session("no_repeats", Redactor) as session:
        first, second = await play_calls(session, calendar, REVIEW, REVIEW)
    assert first.text == "[hidden]"
    assert second.text.endswith("[hidden]")


async def test_a_wrong_pattern_is_refused_where_the_host_starts():
    with pytest.raises(Exception, match="tool pattern"):
        async with open_session("no_repeats", config=settings(**{"except": [""]})):
            pass


async def test_a_model_that_repeats_itself_through_the_bridge_makes_one_event():
    calendar = Calendar()
    make = call("tool_call", name="make_event", arguments={"title": "Review"})
    config = {"plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    async with open_session("no_repeats", "tool_search", tools=calendar.tools(), config=config) as session:
        played = await play(session, [Reply(calls=[make]), Reply(calls=[make]), "Done."], "Make the event.")
    assert len(calendar.made) == 1
    assert played.outcome.text == "Done."
