"""A call of the newest reply runs once, however often it is made at the same time, and everybody who makes it has its result."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, Tool, ToolCall, ToolResult, hooks
from hooksdk.approvals import Later
from hooksdk.errors import ApprovalPending, CallSettled
from hooksdk.hooks import Ask, BeforeToolCall, Block
from hooksdk.run import JudgedCall
from tests.stage import MAY_HAVE, Stage, make, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
Make = Callable[[Stage, ToolCall], Coroutine[Any, Any, ToolResult]]


class Slow:
    """A tool that runs until it may end, and notes its runs."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.began = anyio.Event()
        self.may_end = anyio.Event()

    @property
    def tool(self) -> Tool:
        async def act(arguments: dict[str, Any]) -> ToolResult:
            self.runs.append(arguments)
            self.began.set()
            await self.may_end.wait()
            return ToolResult("done", structured={"run": len(self.runs)})

        return make("act", act, properties={})


class Counts:
    judged: int

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        Counts.judged += not event.again


@pytest.fixture(autouse=True)
def forget() -> None:
    Counts.judged = 0


async def call_tool(stage: Stage, call: ToolCall) -> ToolResult:
    return await stage.run.call_tool(call)


async def judge_and_execute(stage: Stage, call: ToolCall) -> ToolResult:
    return await (await stage.run.judge(call)).execute()


in_every_way = pytest.mark.parametrize("make_it", [call_tool, judge_and_execute])


@in_every_way
async def test_five_that_make_one_call_at_once_have_one_run_and_one_result(make_it: Make) -> None:
    slow, results = Slow(), list[ToolResult]()

    async def one() -> None:
        results.append(await make_it(stage, written))

    async with playing(Counts, tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {"a": 1}))
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
            await slow.began.wait()
            await anyio.wait_all_tasks_blocked()
            slow.may_end.set()
        assert (len(slow.runs), Counts.judged) == (1, 1)
        assert [(one.text, one.structured) for one in results] == [("done", {"run": 1})] * 5
        assert stage.results == [("c1", "done")]
        assert (await make_it(stage, written)).text == "done"
    assert len(slow.runs) == 1


@in_every_way
async def test_who_waits_may_be_cancelled_and_the_others_have_the_result(make_it: Make) -> None:
    slow, results = Slow(), list[str]()

    async def patient() -> None:
        results.append((await make_it(stage, written)).text)

    async def hasty(scope: anyio.CancelScope) -> None:
        with scope:
            await patient()

    async with playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        scopes = [anyio.CancelScope() for _ in range(2)]
        async with anyio.create_task_group() as group:
            group.start_soon(patient)
            await slow.began.wait()
            for scope in scopes:
                group.start_soon(hasty, scope)
            await anyio.wait_all_tasks_blocked()
            for scope in scopes:
                scope.cancel()
            await anyio.wait_all_tasks_blocked()
            slow.may_end.set()
    assert (results, len(slow.runs)) == (["done"], 1)


@in_every_way
async def test_who_made_it_first_may_be_cancelled_and_the_others_have_the_result(make_it: Make) -> None:
    slow, results, first = Slow(), list[str](), anyio.CancelScope()

    async def make_it_first() -> None:
        with first:
            await make_it(stage, written)

    async def patient() -> None:
        results.append((await make_it(stage, written)).text)

    async with playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        async with anyio.create_task_group() as group:
            group.start_soon(make_it_first)
            await slow.began.wait()
            group.start_soon(patient)
            await anyio.wait_all_tasks_blocked()
            first.cancel()
            await anyio.wait_all_tasks_blocked()
            assert results == []
            slow.may_end.set()
    assert (results, len(slow.runs)) == (["done"], 1)


@in_every_way
async def test_where_everybody_is_cancelled_the_call_is_too_and_it_is_not_run_again(make_it: Make) -> None:
    slow = Slow()
    async with playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        with anyio.fail_after(120):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(make_it, stage, written)
                await slow.began.wait()
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
            assert "'act' was cancelled while it ran." in (await make_it(stage, written)).text
    assert len(slow.runs) == 1


@in_every_way
async def test_the_end_of_the_run_ends_it_for_everybody(make_it: Make) -> None:
    slow, results = Slow(), list[str]()

    async def one() -> None:
        results.append((await make_it(stage, written)).text)

    async with anyio.create_task_group() as group, playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        for _ in range(3):
            group.start_soon(one)
        await slow.began.wait()
        await anyio.wait_all_tasks_blocked()
    assert results == ["'act' was cancelled while it ran." + MAY_HAVE] * 3


async def test_a_retry_after_a_time_out_has_the_result_of_the_call_that_still_runs() -> None:
    """Whoever gives up waiting leaves the call to those that wait still."""
    slow = Slow()
    async with playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        async with anyio.create_task_group() as group:
            group.start_soon(call_tool, stage, written)
            await slow.began.wait()
            for _ in range(3):
                with anyio.move_on_after(0.01) as scope:
                    await stage.run.call_tool(written)
                assert scope.cancelled_caught
            slow.may_end.set()
            assert (await stage.run.call_tool(written)).text == "done"
    assert len(slow.runs) == 1


async def test_a_call_that_is_judged_twice_is_one_call() -> None:
    slow = Slow()
    slow.may_end.set()
    async with playing(Counts, tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        first, second = await stage.run.judge(written), await stage.run.judge(written)
        assert Counts.judged == 1
        assert [(await one.execute()).text for one in (first, second)] == ["done", "done"]
        with pytest.raises(CallSettled):
            await first.supply("something else")
    assert len(slow.runs) == 1


async def test_a_call_that_waits_is_asked_about_once_by_those_who_make_it_at_once() -> None:
    asked, may_answer, waiting = list[str](), anyio.Event(), list[str]()

    class Guard:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask:
            return Ask("Go on?")

    async def approver(request: ApprovalRequest) -> Later:
        asked.append(request.title)
        await may_answer.wait()
        return Later()

    async def one(make_it: Make) -> None:
        with pytest.raises(ApprovalPending) as caught:
            await make_it(stage, written)
        waiting.append(caught.value.request.title)

    async with playing(Guard, approver=approver) as stage:
        (written,) = await stage.reply(("act", {}))
        async with anyio.create_task_group() as group:
            for make_it in (call_tool, judge_and_execute) * 2:
                group.start_soon(one, make_it)
            await anyio.wait_all_tasks_blocked()
            may_answer.set()
        judged = await stage.run.judge(written)
        await judged.approve(Approval(True))
        assert (await judged.execute()).text == "done"
    assert (asked, waiting) == (["Go on?"] * 2, ["Go on?"] * 4), "once by all four, and once by the one after them"
    assert len(stage.executed) == 1


async def test_executing_one_judged_call_twice_at_once_runs_it_once_and_supplying_it_meanwhile_is_refused() -> None:
    slow, results = Slow(), list[str]()

    async def execute(judged: JudgedCall) -> None:
        results.append((await judged.execute()).text)

    async with playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(written)
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(execute, judged)
            await slow.began.wait()
            with pytest.raises(CallSettled):
                await judged.supply("something else")
            slow.may_end.set()
    assert (results, len(slow.runs)) == (["done"] * 5, 1)


async def test_two_calls_of_one_reply_that_a_weak_model_gave_one_id_run_both() -> None:
    slow, results = Slow(), list[str]()
    slow.may_end.set()

    async def one() -> None:
        results.append((await stage.run.call_tool(written)).text)

    async with playing(tools=[slow.tool]) as stage:
        from tests.stage import reply

        written = ToolCall("call_0", "act", {})
        await stage.run.record(reply(written, ToolCall("call_0", "act", {})))
        async with anyio.create_task_group() as group:
            group.start_soon(one)
            group.start_soon(one)
        assert (len(slow.runs), results) == (2, ["done", "done"])
        assert stage.run.pending == ()


async def test_calls_of_other_ids_do_not_wait_for_one_another() -> None:
    slow = Slow()
    async with playing(tools=[slow.tool]) as stage:
        calls = await stage.reply(("act", {}), ("act", {}), ("act", {}))
        async with anyio.create_task_group() as group:
            for written in calls:
                group.start_soon(call_tool, stage, written)
            await anyio.wait_all_tasks_blocked()
            assert len(slow.runs) == 3
            slow.may_end.set()


async def test_a_task_that_asyncio_cancels_ends_the_call_for_all_and_it_is_not_run_again(
    anyio_backend_name: str,
) -> None:
    """Its `task.cancel()` reaches the tool at once, and nothing can hold it back."""
    if anyio_backend_name != "asyncio":
        pytest.skip("trio has no such cancellation")
    slow = Slow()
    async with playing(tools=[slow.tool]) as stage:
        (written,) = await stage.reply(("act", {}))
        first = asyncio.create_task(stage.run.call_tool(written))
        await slow.began.wait()
        second = asyncio.create_task(stage.run.call_tool(written))
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        assert (await second).text == "'act' was cancelled while it ran." + MAY_HAVE
        assert first.cancelled()
    assert len(slow.runs) == 1


@pytest.mark.parametrize("way", ["execute", "supply", "refuse"])
async def test_nobody_ends_a_call_while_it_is_judged_again(way: str) -> None:
    judging, may_answer, ends = anyio.Event(), anyio.Event(), list[str]()

    class Closes:
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Block | None:
            if not event.again:
                return None
            judging.set()
            await may_answer.wait()
            return Block("closed since")

    async def end(judged: JudgedCall) -> None:
        try:
            if way == "execute":
                ends.append((await judged.execute()).text)
            else:
                await (judged.supply("made elsewhere") if way == "supply" else judged.refuse("no"))
        except CallSettled as refused:
            ends.append(refused.status)

    async with playing(Closes) as stage:
        (written,) = await stage.reply(("act", {}))
        judged = await stage.run.judge(written)
        async with anyio.create_task_group() as group:
            group.start_soon(stage.run.judge, written)
            await judging.wait()
            group.start_soon(end, judged)
            await anyio.wait_all_tasks_blocked()
            assert (ends, stage.executed) == ([], [])
            may_answer.set()
        assert ends == ["Blocked by closes: closed since" if way == "execute" else "blocked"]
        assert stage.executed == []


@pytest.mark.light(every=7)
@pytest.mark.parametrize("seed", range(25))
async def test_whoever_gives_up_whenever_and_tries_again_a_call_runs_once_and_has_one_result(seed: int) -> None:
    chance, runs, results = random.Random(seed), list[int](), set[str]()

    class Asks:
        @hooks.before_tool_call
        async def ask(self, event: BeforeToolCall) -> Ask | None:
            await anyio.sleep(chance.random() * 0.003)
            return Ask("Go on?") if chance.random() < 0.3 else None

    async def yes(request: ApprovalRequest) -> Approval:
        await anyio.sleep(chance.random() * 0.003)
        return Approval(True)

    async def act(arguments: dict[str, Any]) -> str:
        runs.append(1)
        await anyio.sleep(chance.random() * 0.01)
        return "done"

    async def caller() -> None:
        await anyio.sleep(chance.random() * 0.01)
        for _ in range(2):
            with anyio.move_on_after(chance.choice([0.002, 0.006, 100])):
                make_it = chance.choice([call_tool, judge_and_execute])
                results.add((await make_it(stage, written)).text.removeprefix("Error: "))

    with anyio.fail_after(100):
        async with playing(Asks, approver=yes, tools=[make("act", act, properties={})]) as stage:
            (written,) = await stage.reply(("act", {}))
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(caller)
            assert len(runs) <= 1
            cut_off = {
                f"'act' was cancelled while it ran.{MAY_HAVE}",
                *([] if runs else ["'act' was cancelled before it ran."]),
            }
            assert results <= {"done"} or (len(results) == 1 and results <= cut_off)
            assert len(stage.results) == 1
