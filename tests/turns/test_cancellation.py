"""A run that is cancelled, or whose model fails, leaves nothing half-done."""

from __future__ import annotations

import threading
import time

import anyio
import anyio.to_thread
import pytest
from reading_transcripts import answers, assert_sendable

from hooksdk import Session, ToolContext, hooks, tool
from hooksdk.hooks import AfterToolCall, AgentEnd, AgentStart, BeforeToolCall, Trace
from hooksdk.testing import Call, Turn, call, open_session, play, recorder

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


class Slow:
    """Tools that take their time."""

    def __init__(self) -> None:
        self.begun = anyio.Event()

    @tool
    async def wait(self) -> str:
        """Wait for long."""
        self.begun.set()
        await anyio.sleep_forever()
        return "never"

    @tool
    def listing(self) -> str:
        """List everything."""
        return "entry\n" * 1_000

    @tool
    async def trim(self, handle: str, context: ToolContext) -> str:
        """Trim one result."""
        return (await context.results.trim(handle, "a long listing")).status


async def test_a_cancelled_run_answers_every_call_and_the_session_lives_on(form: str):
    seen = recorder("agent_end", "after_tool_call")
    async with open_session(seen, Slow) as session:

        async def go() -> None:
            await play(session, [[call("listing"), call("wait"), call("wait")]], format=form)

        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await session.plugin("slow").begun.wait()
            group.cancel_scope.cancel()
        assert_sendable(form, session.messages)
        played = await play(session, lambda turn: f"{len(turn.results)} results", "go on", format=form)
        assert played.text == "3 results"
    assert [end.reason for end in seen.of(AgentEnd)] == ["cancelled", "completed"]
    assert [one.status for one in seen.of(AfterToolCall)][-2:] == ["error", "error"]


async def test_what_was_done_before_the_cancellation_is_kept(form: str):
    listed = anyio.Event()

    class Watch:
        @hooks.after_tool_call(tools="listing")
        async def see(self, event: AfterToolCall) -> None:
            listed.set()

    async with open_session(Slow, Watch) as session:

        async def go() -> None:
            await play(session, [[call("listing"), call("wait")]], format=form)

        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await session.plugin("slow").begun.wait()
            await listed.wait()
            group.cancel_scope.cancel()
        (_, first), (_, second) = answers(form, session.messages)
        assert first == "entry\n" * 1_000
        assert "cancelled" in second
        assert_sendable(form, session.messages)


async def test_trims_queued_before_the_cancellation_are_applied(form: str):
    async with open_session(Slow) as session:

        async def go() -> None:
            script = [[call("listing")], [call("trim", handle="r1")], [call("wait")]]
            await play(session, script, format=form)

        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await session.plugin("slow").begun.wait()
            assert [info.queued for info in session.results.list()] == [True, False]
            group.cancel_scope.cancel()
        assert [info.trimmed for info in session.results.list()] == [True, False, False]
        played = await play(session, ["done"], format=form)
        assert "a long listing" in str(played.turns[0].messages)
        assert_sendable(form, played.turns[0].messages)


async def test_handlers_of_the_end_run_to_their_end_in_a_cancelled_run(form: str):
    ended: list[str] = []

    class Saves:
        @hooks.agent_end
        async def save(self, event: AgentEnd) -> None:
            for _ in range(5):
                await anyio.sleep(0)
            ended.append(event.reason)

    async with open_session(Saves, Slow) as session:

        async def go() -> None:
            await play(session, [call("wait")], format=form)

        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await session.plugin("slow").begun.wait()
            group.cancel_scope.cancel()
    assert ended == ["cancelled"]


async def test_a_cancellation_while_a_policy_judges_runs_no_tool(form: str):
    judging = anyio.Event()

    class Thinks:
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> None:
            judging.set()
            await anyio.sleep_forever()

    ran: list[str] = []

    def act() -> None:
        """Act."""
        ran.append("act")

    async with open_session(Thinks, tools=[act]) as session:

        async def go() -> None:
            await play(session, [[call("act"), call("act")]], format=form)

        async with anyio.create_task_group() as group:
            group.start_soon(go)
            await judging.wait()
            group.cancel_scope.cancel()
        assert_sendable(form, session.messages)
    assert ran == []


async def test_a_failing_model_ends_the_run_as_an_error_and_drains(form: str):
    def script(turn: Turn) -> Call:
        if turn.number == 1:
            return call("listing")
        if turn.number == 2:
            return call("trim", handle="r1")
        raise ConnectionError("the line is dead")

    seen = recorder("agent_end")
    async with open_session(seen, Slow) as session:
        with pytest.raises(ConnectionError, match="the line is dead"):
            await play(session, script, format=form)
        assert [info.trimmed for info in session.results.list()] == [True, False]
        assert_sendable(form, session.messages)
    (end,) = seen.of(AgentEnd)
    assert (end.reason, end.error) == ("error", "ConnectionError: the line is dead")


async def test_a_cancelled_tool_in_a_thread_is_told_so(form: str):
    begun, noticed, over = threading.Event(), threading.Event(), threading.Event()

    class Threads:
        @tool
        def spin(self, context: ToolContext) -> str:
            """Spin until told to stop."""
            begun.set()
            while not context.cancelled and not over.is_set():
                time.sleep(0.005)
            noticed.set()
            return "stopped"

    try:
        async with open_session(Threads) as session:

            async def go() -> None:
                await play(session, [call("spin")], format=form)

            async with anyio.create_task_group() as group:
                group.start_soon(go)
                assert await anyio.to_thread.run_sync(begun.wait, 30)
                group.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(noticed.wait, 30)
            assert_sendable(form, session.messages)
    finally:
        over.set()


@pytest.mark.light(every=9)
async def test_a_run_cancelled_at_any_moment_leaves_a_transcript_that_can_be_sent(form: str):
    class Watches:
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> None:
            await anyio.sleep(0)

        @hooks.trace
        async def trace(self, event: Trace) -> None:
            await anyio.sleep(0)

    async def look(number: int) -> str:
        """Look twice."""
        await anyio.sleep(0)
        await anyio.sleep(0)
        return str(number)

    calls = [call("look", number=number) for number in range(3)]
    for moment in range(0, 90, 3):
        async with open_session(Watches, tools=[look]) as session:

            async def go(session: Session = session) -> None:
                await play(session, [calls, calls, "done"], format=form)

            async with anyio.create_task_group() as group:
                group.start_soon(go)
                for _ in range(moment):
                    await anyio.sleep(0)
                group.cancel_scope.cancel()
            assert_sendable(form, session.messages)
            assert (await play(session, ["well"], format=form)).text == "well"
            assert_sendable(form, session.messages)


async def test_a_run_that_is_cancelled_while_it_begins_leaves_the_session_free(
    form: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hooksdk._firing.dispatcher.TRACE_CAPACITY", 1)
    gate = anyio.Event()

    class Stalls:
        """Its trace stops after the first run; the record of `allow` fills the queue, so the next one waits."""

        @hooks.agent_start
        def allow(self, event: AgentStart) -> None:
            return None

        @hooks.trace
        async def trace(self, event: Trace) -> None:
            if event.kind == "run_ended":
                await gate.wait()

    async with open_session(Stalls) as session:
        await play(session, ["first"], format=form)
        with anyio.move_on_after(0.05) as scope:
            await play(session, ["never"], format=form)
        assert scope.cancelled_caught
        gate.set()
        assert (await play(session, ["well"], format=form)).text == "well"
