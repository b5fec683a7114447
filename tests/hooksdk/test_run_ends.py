"""How a run begins and ends: attempts, pauses, errors, compaction, and the messages of each model call."""

from __future__ import annotations

import logging
from typing import Any, cast

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, Run, ToolCall, ToolResult, hooks
from hooksdk.errors import FenceClosed, PolicyFailed, RunAlreadyOpen, RunBlocked, RunClosed
from hooksdk.hooks import (
    AfterToolCall,
    AfterToolsResolved,
    AgentEnd,
    AgentStart,
    Ask,
    BeforeToolCall,
    Block,
)
from hooksdk.testing import open_host
from tests.stage import MAY_HAVE, USER, make, playing, reply

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

LONG = "part of a long result, " * 50


async def long(arguments: dict[str, Any]) -> str:
    """A tool whose result is worth trimming."""
    return LONG


class Ends:
    """Writes down every end of a run."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.stats: list[Any] = []

    @hooks.agent_end
    async def end(self, event: AgentEnd) -> None:
        self.seen.append((event.reason, event.error))
        self.stats.append(event.stats)


class Seen:
    """Sees how every call ended."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    @hooks.after_tool_call
    async def see(self, event: AfterToolCall) -> None:
        self.calls.append((event.call.id, event.status))


# Reasons


async def test_a_run_that_is_left_is_completed() -> None:
    async with open_host(Ends) as host, host.session("s") as session:
        async with session.run():
            pass
        assert session.plugin("ends").seen == [("completed", None)]


async def test_a_run_whose_block_raises_ends_as_an_error_and_the_exception_goes_on() -> None:
    async with open_host(Ends) as host, host.session("s") as session:
        with pytest.raises(ValueError, match="boom"):
            async with session.run():
                raise ValueError("boom")
        assert session.plugin("ends").seen == [("error", "ValueError: boom")]


async def test_a_paused_run_keeps_its_calls_open_for_the_next() -> None:
    async with open_host(Ends) as host, host.session("s") as session:
        call = ToolCall("c1", "read_file", {"path": "a"})
        async with session.run() as run:
            await run.resolve_tools([make()])
            await run.record([USER, reply(call)])
            run.pause("waits for a person")
        assert session.plugin("ends").seen == [("paused", "waits for a person")]
        assert len(session.messages) == 2
        async with session.run() as run:
            await run.resolve_tools([make()])
            (pending,) = run.pending
            assert (pending.id, pending.name) == ("c1", "read_file")
            await run.call_tool(pending)
            assert run.pending == ()
        assert session.messages[-1]["content"] == 'ran with {"path": "a"}'


async def test_an_error_after_a_pause_is_an_error() -> None:
    async with open_host(Ends) as host, host.session("s") as session:

        async def pause_then_fail() -> None:
            async with session.run() as run:
                run.pause("later")
                raise ValueError("boom")

        with pytest.raises(ValueError, match="boom"):
            await pause_then_fail()
        assert session.plugin("ends").seen == [("error", "ValueError: boom")]


@pytest.mark.parametrize("how", ["completed", "error"])
async def test_calls_that_were_never_answered_get_a_result_at_the_end(how: str) -> None:
    async with open_host() as host, host.session("s") as session:
        try:
            async with session.run() as run:
                await run.record([USER, reply(ToolCall("c1", "a"), ToolCall("c2", "b"))])
                if how == "error":
                    raise KeyError
        except KeyError:
            pass
        results = [message for message in session.messages if message["role"] == "tool"]
        assert [one["tool_call_id"] for one in results] == ["c1", "c2"]
        assert all("not run: cancelled" in one["content"] for one in results)


async def test_the_end_of_a_run_cancels_its_calls_and_waits_for_them_before_its_handlers_run() -> None:
    order: list[str] = []

    class Notes:
        @hooks.after_tool_call
        def after(self, event: hooks.AfterToolCall) -> None:
            order.append(f"{event.call.id} {event.status}")

        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            order.append(event.reason)

    async def slow(arguments: dict[str, Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.wait_all_tasks_blocked()
            order.append("tool")

    results: list[ToolResult] = []

    async def call(run: Run) -> None:
        results.append(await run.call_tool(ToolCall("c", "read_file", {})))

    async with open_host(Notes) as host, host.session("s") as session, anyio.create_task_group() as group:
        async with session.run() as run:
            await run.resolve_tools([make(execute=slow)])
            await run.record([USER, reply(ToolCall("c", "read_file", {}))])
            group.start_soon(call, run)
            await anyio.wait_all_tasks_blocked()
        assert order == ["tool", "c error", "completed"]
        assert session.messages[-1]["content"] == "Error: 'read_file' was cancelled while it ran." + MAY_HAVE
    assert [(result.is_error, result.text) for result in results] == [
        (True, "'read_file' was cancelled while it ran." + MAY_HAVE)
    ]


async def test_a_result_that_comes_after_its_run_is_not_taken_for_a_later_call_of_the_same_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hooksdk._run.call.CALLS_TIMEOUT", 0.01)
    over, call, later = anyio.Event(), ToolCall("c", "read_file", {}), ToolCall("c", "read_file", {"path": "a"})

    async def slow(arguments: dict[str, Any]) -> str:
        with anyio.CancelScope(shield=True):
            await over.wait()
        return "late"

    async with open_host(Seen) as host, host.session("s") as session:
        async with anyio.create_task_group() as group:
            async with session.run() as run:
                await run.resolve_tools([make(execute=slow)])
                await run.record([USER, reply(call)])
                group.start_soon(run.call_tool, call)
                await anyio.wait_all_tasks_blocked()
            over.set()
        async with session.run() as run:
            await run.resolve_tools([make()])
            await run.record([USER, reply(later)])
            assert [pending.id for pending in run.pending] == ["c"]
            assert (await run.call_tool(later)).text == 'ran with {"path": "a"}'
        texts = [message["content"] for message in session.messages if message["role"] == "tool"]
        assert ("may have taken effect" in texts[0], texts[1]) == (True, 'ran with {"path": "a"}')
        seen = session.plugin("seen")
    # A cancelled call whose tool came to its end all the same may be told as the one or the other.
    assert seen.calls in ([("c", "ok"), ("c", "ok")], [("c", "error"), ("c", "ok")])


async def test_a_call_that_is_judged_when_its_run_pauses_stays_open_and_its_tool_does_not_run() -> None:
    over, call, ran = anyio.Event(), ToolCall("c", "read_file", {}), list[str]()

    class Slow:
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> None:
            await over.wait()

    async def run_it(arguments: dict[str, Any]) -> str:
        ran.append("ran")
        return "ran"

    async def call_it(run: Run) -> None:
        with pytest.raises(RunClosed):
            await run.call_tool(call)

    async with open_host(Slow) as host, host.session("s") as session:
        async with anyio.create_task_group() as group:
            async with session.run() as run:
                await run.resolve_tools([make(execute=run_it)])
                await run.record([USER, reply(call)])
                group.start_soon(call_it, run)
                await anyio.wait_all_tasks_blocked()
                run.pause("later")
            over.set()
        assert ran == []
        async with session.run() as run:
            assert [pending.id for pending in run.pending] == ["c"]


async def test_a_result_that_comes_after_a_pause_answers_its_call() -> None:
    over, call = anyio.Event(), ToolCall("c", "read_file", {})

    async def slow(arguments: dict[str, Any]) -> str:
        await over.wait()
        return "late"

    async with open_host() as host, host.session("s") as session, anyio.create_task_group() as group:
        async with session.run() as run:
            await run.resolve_tools([make(execute=slow)])
            await run.record([USER, reply(call)])
            group.start_soon(run.call_tool, call)
            await anyio.wait_all_tasks_blocked()
            run.pause("later")
        over.set()
        await anyio.wait_all_tasks_blocked()
        async with session.run() as run:
            assert (run.pending, session.messages[-1]["content"]) == ((), "late")


async def test_a_call_whose_run_ends_while_a_person_is_asked_is_observed_as_not_run() -> None:
    asked, over = anyio.Event(), anyio.Event()

    async def late(_request: ApprovalRequest) -> Approval:
        asked.set()
        await over.wait()
        return Approval(True)

    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("May it?")

    async def call(run: Run) -> None:
        with pytest.raises(RunClosed):
            await run.call_tool(ToolCall("c", "read_file", {}))

    async with open_host(Asks, Seen, approver=late) as host, host.session("s") as session:
        async with anyio.create_task_group() as group:
            async with session.run() as run:
                await run.resolve_tools([make()])
                await run.record([USER, reply(ToolCall("c", "read_file", {}))])
                group.start_soon(call, run)
                await asked.wait()
            over.set()
        seen = session.plugin("seen")
    assert seen.calls == [("c", "not_run")]


async def test_handlers_of_the_end_run_in_reverse_order_and_a_failing_one_stops_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    order: list[str] = []

    class First:
        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            order.append("first")

    class Second:
        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            order.append("second")
            raise ValueError("cannot")

    class Third:
        @hooks.agent_end(timeout=0.05)
        async def end(self, event: AgentEnd) -> None:
            order.append("third")
            await anyio.sleep_forever()

    with caplog.at_level(logging.WARNING):
        async with playing(First, Second, Third):
            pass
    assert order == ["third", "second", "first"]
    assert "plugin 'second'" in caplog.text
    assert "plugin 'third'" in caplog.text


async def test_observers_have_seen_everything_before_the_end() -> None:
    seen: list[str] = []

    class Slow:
        @hooks.after_tool_call
        async def after(self, event: hooks.AfterToolCall) -> None:
            await anyio.sleep(0)
            await anyio.sleep(0)
            seen.append("call")

        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            seen.append("end")

    async with playing(Slow) as played:
        await played.call("read_file")
        await played.call("read_file")
    assert seen == ["call", "call", "end"]


async def test_the_fence_is_open_for_handlers_of_the_end_only() -> None:
    editors: list[Any] = []

    class Editor:
        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            editors.append(event.transcript)
            await event.transcript.trim("r1", reason="too long")

    async with open_host(Editor) as host, host.session("s") as session:
        async with session.run() as run:
            await run.resolve_tools([make(execute=long)])
            await run.record(reply(ToolCall("c1", "read_file")))
            await run.call_tool(ToolCall("c1", "read_file"))
            await run.record(reply(text="I have read it"))
        (info,) = session.results.list()
        assert (info.trimmed, info.queued) == (True, False)
        with pytest.raises(FenceClosed):
            await editors[0].trim("r1")
        assert session.messages[1]["content"] == LONG


# Beginning


async def test_the_gate_sees_the_input_and_who_asked_before_anything_is_recorded() -> None:
    class Gate:
        @hooks.agent_start
        def gate(self, event: AgentStart) -> Block | None:
            return Block(f"no {event.input['text']} from {event.requester}") if event.trigger == "schedule" else None

    async with open_host(Gate) as host, host.session("s") as session:
        with pytest.raises(RunBlocked, match=r"plugin 'gate'.*no news from \{'id': 'u1'\}"):
            async with session.run({"text": "news"}, trigger="schedule", requester={"id": "u1"}):
                raise AssertionError
        assert (session.messages, session.format) == ([], None)
        async with session.run({"text": "news"}) as run:
            assert run.info.attempt == 1


async def test_a_gate_that_fails_refuses_the_run() -> None:
    class Gate:
        @hooks.agent_start
        def gate(self, event: AgentStart) -> Block | None:
            raise ValueError("cannot judge")

    async with open_host(Gate) as host, host.session("s") as session:
        for _ in range(2):
            with pytest.raises(PolicyFailed, match=r"plugin 'gate', .*cannot judge"):
                async with session.run():
                    raise AssertionError


async def test_a_session_takes_one_run_at_a_time() -> None:
    async with open_host() as host, host.session("s") as session:
        async with session.run() as run:
            with pytest.raises(RunAlreadyOpen, match=run.info.run_id):
                async with session.run():
                    raise AssertionError
            await run.record(USER)
        async with session.run() as other:
            assert other.info.run_id != run.info.run_id


async def test_a_run_that_is_not_open_does_nothing() -> None:
    async with open_host() as host, host.session("s") as session:
        run = session.run()
        for _ in range(2):
            with pytest.raises(RunClosed):
                await run.record(USER)
            with pytest.raises(RunClosed):
                await run.resolve_tools([])
            with pytest.raises(RunClosed):
                await run.prepare_messages()
            with pytest.raises(RunClosed):
                await run.call_tool(ToolCall("c", "a"))
            with pytest.raises(RunClosed):
                await run.retry()
            with pytest.raises(RunClosed):
                run.pause("x")
            async with session.run():
                pass
        async with session.run() as opened:
            with pytest.raises(RunClosed, match=r"call run\.resolve_tools"):
                await opened.call_tool(ToolCall("c", "a"))
            with pytest.raises(RunClosed):
                assert opened.tools


# Tools of an attempt


class Observer:
    """Writes down the catalogs that it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[str], str]] = []

    @hooks.after_tools_resolved
    async def resolved(self, event: AfterToolsResolved) -> None:
        self.seen.append((event.attempt, [tool.name for tool in event.offered], event.fingerprint))


async def test_observers_are_told_the_tools_once_an_attempt_and_never_in_a_compaction() -> None:
    async with open_host(Observer) as host, host.session("s") as session:
        async with session.run() as run:
            async with run.compaction():
                await run.resolve_tools([make("in_compaction")])
            await run.resolve_tools([make("one")])
            await run.resolve_tools([make("two")])
            await run.retry()
            async with run.compaction():
                await run.resolve_tools([make("in_compaction")])
            await run.resolve_tools(lambda: [make("one")])
        observer = session.plugin("observer")
        assert [entry[:2] for entry in observer.seen] == [(1, ["one"]), (2, ["one"])]
        assert observer.seen[0][2] == observer.seen[1][2]


async def test_an_observer_that_changes_a_schema_or_is_slow_changes_and_delays_nothing() -> None:
    over = anyio.Event()

    class Meddler:
        @hooks.after_tools_resolved(timeout=60)
        async def resolved(self, event: AfterToolsResolved) -> None:
            for one in event.offered:
                assert one.parameters is not None
                one.parameters["properties"].clear()
            await over.wait()

    async with playing(Meddler, tools=[make()]) as played:
        with anyio.fail_after(120):
            assert (await played.call("read_file", {"path": 5.5})).is_error
        assert played.run.offered[0].parameters == make().parameters
        over.set()


async def test_a_narrowing_plugin_that_fails_ends_the_resolution() -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
            raise ValueError("cannot read the policy")

    async with open_host(Narrow) as host, host.session("s") as session:
        with pytest.raises(PolicyFailed, match="cannot read the policy"):
            async with session.run() as run:
                await run.resolve_tools([make()])


async def test_what_an_earlier_attempt_was_granted_is_gone_when_a_policy_fails_in_the_next() -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
            if event.attempt == 2:
                raise ValueError("cannot read the policy")

    async with playing(Narrow) as played:
        await played.run.retry()
        with pytest.raises(PolicyFailed):
            await played.run.resolve_tools([make()])
        with pytest.raises(RunClosed, match="no tools are resolved"):
            await played.run.call_tool(played.new("read_file"))


async def test_a_policy_that_withholds_tools_instead_of_names_fails() -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
            return hooks.Withhold(cast("Any", event.tools), "all of them")

    async with open_host(Narrow) as host, host.session() as session, session.run() as run:
        with pytest.raises(PolicyFailed, match="names or ids, not Tool"):
            await run.resolve_tools([make()])


async def test_a_policy_whose_list_of_names_cannot_be_read_fails() -> None:
    class Names(list[str]):
        def __iter__(self) -> Any:
            raise ValueError("the names are away")

    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
            return hooks.Withhold(Names(), "all of them")

    async with open_host(Narrow) as host, host.session() as session, session.run() as run:
        with pytest.raises(PolicyFailed, match="the names are away"):
            await run.resolve_tools([make()])


async def test_what_an_earlier_attempt_was_granted_is_gone_when_the_next_ones_policies_are_cancelled() -> None:
    class Narrow:
        @hooks.narrow_tools
        async def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
            if event.attempt == 2:
                scope.cancel()
                await anyio.sleep_forever()

    async with playing(Narrow) as played:
        await played.run.retry()
        with anyio.CancelScope() as scope:
            await played.run.resolve_tools([make()])
        with pytest.raises(RunClosed, match="no tools are resolved"):
            await played.run.call_tool(played.new("read_file"))
