"""A session that a plain test drives, and the assertions about its calls."""

from __future__ import annotations

import re
import threading
from typing import Any

import anyio
import pytest
from kit_examples import NoSecrets, read_file

from hooksdk import PluginState, ToolCall, ToolResult, hooks
from hooksdk.hooks import Answer, Ask, BeforeToolCall, Block, SessionStart
from hooksdk.session import Session
from hooksdk.testing import (
    HookSession,
    ScriptedApprover,
    ToolServer,
    assert_answered,
    assert_asked,
    assert_blocked,
    assert_ran,
    call,
    replay,
)

both_loops = pytest.mark.parametrize("loop", ["asyncio", "trio"])
SECRET = [call("read_file", path="secret"), "I may not."]
README = [call("read_file", path="README"), "Read."]


class AsksFirst:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask(f"Read {event.arguments['path']}?")


class Recites:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Answer:
        return Answer("from memory")


class Fails:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        raise RuntimeError


class Counts:
    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        self.state["calls"] = self.state.get("calls", 0) + 1


def loops() -> set[threading.Thread]:
    """The threads that somebody has to end; worker threads end with their loop."""
    return {thread for thread in threading.enumerate() if not thread.daemon}


@both_loops
def test_a_plain_test_plays_a_run(loop: str) -> None:
    with HookSession(NoSecrets, tools=[read_file], loop=loop) as session:
        assert_blocked(session.play(SECRET), by="no_secrets", reason="that file is secret")
        assert_ran(session.play(README), text="content of README")
        assert [message["role"] for message in session.messages].count("user") == 2


@both_loops
def test_a_reopened_session_goes_on_with_new_instances_and_the_stored_state(loop: str) -> None:
    with HookSession(Counts, tools=[read_file], loop=loop) as session:
        session.play(README)
        first = session.plugin("counts")
        session.reopen()
        session.play(README)
        assert session.plugin("counts") is not first
        assert session.plugin("counts").state["calls"] == 2


@both_loops
def test_a_function_of_the_session_is_awaited_in_its_loop(loop: str) -> None:
    async def judge(session: Session) -> str | None:
        async with session.run() as run:
            await run.resolve_tools([])
            return (await run.judge(ToolCall("c1", "nothing"))).status

    with HookSession(loop=loop) as session:
        assert session.run(judge) == "unknown"


@pytest.mark.anyio
async def test_it_works_inside_an_event_loop_too() -> None:
    with HookSession(NoSecrets, tools=[read_file]) as session:
        assert_blocked(session.play(SECRET))


@pytest.mark.heavy
def test_tools_of_a_real_server_are_called_and_judged_as_its_own() -> None:
    class NoSums:
        @hooks.before_tool_call(tools="mcp:sums:add")
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("too large") if event.arguments["a"] > 9 else None

    added: list[int] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        added.append(a)
        return a + b

    with ToolServer(add, name="sums") as server, HookSession(NoSums, servers=server.config) as session:
        played = session.play([[call("add", a=1, b=2), call("add", a=10, b=2)], "Done."])
    assert sorted(one.status for one in played.calls) == ["blocked", "ok"]
    assert added == [1]


def test_an_open_run_is_told_at_the_end() -> None:
    async def begin(session: Session) -> None:
        await session.run().__aenter__()

    session = HookSession()
    session.run(begin)
    with pytest.raises(AssertionError, match="the test has left open: a run of session 'test'"):
        session.close()
    session.close()


@both_loops
def test_an_open_child_is_told_at_the_end(loop: str) -> None:
    async def open_child(session: Session) -> None:
        await session.child("errand").__aenter__()

    session = HookSession(loop=loop)
    session.run(open_child)
    with pytest.raises(AssertionError, match="the test has left open: session 'errand'"):
        session.close()


def test_a_task_that_outlives_the_host_is_told_at_the_end() -> None:
    import asyncio

    class Leaks:
        @hooks.session_start
        async def begin(self, event: SessionStart) -> None:
            self.task = asyncio.create_task(anyio.sleep_forever(), name="a leak")

    session = HookSession(Leaks)
    with pytest.raises(AssertionError, match="the test has left open: the task a leak"):
        session.close()


def test_nothing_is_left_of_a_closed_session() -> None:
    threads = loops()
    with HookSession(NoSecrets, tools=[read_file]) as session:
        session.play(README)
    assert loops() <= threads
    with pytest.raises(RuntimeError, match="reopen"):
        session.play(README)


def test_a_plugin_that_is_refused_leaves_no_thread_behind() -> None:
    class Empty:
        def __init__(self, wanted: int) -> None: ...

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None: ...

    threads = loops()
    with pytest.raises(Exception, match="its constructor wants 'wanted'"):
        HookSession(Empty)
    assert loops() <= threads


# The assertions


def played(*plugins: Any, script: Any = None, **options: Any) -> Any:
    with HookSession(*plugins, tools=[read_file], **options) as session:
        return session.play(script or README)


def test_a_question_is_asserted_of_the_whole_run_whatever_the_answer() -> None:
    for approver in (None, ScriptedApprover("not now"), ScriptedApprover(True)):
        run = played(AsksFirst, approver=approver)
        assert_asked(run, tool="read_file", by="asks_first", title="README")
    assert_ran(run, tool="read_file")
    with pytest.raises(
        AssertionError, match="asked about by 'other', but read_file is ok, asked by asks_first: 'Read README"
    ):
        assert_asked(run, by="other")
    with pytest.raises(AssertionError, match="expected read_file to be asked about, but read_file is ok"):
        assert_asked(played(NoSecrets))


def test_a_refusal_by_a_person_is_a_block_by_nobody() -> None:
    run = played(AsksFirst, approver=ScriptedApprover("not now"))
    assert_blocked(run, reason="not now")
    with pytest.raises(AssertionError, match="blocked by 'asks_first'"):
        assert_blocked(run, by="asks_first")


def test_a_policy_that_failed_is_named() -> None:
    assert_blocked(played(Fails), by="fails")


def test_an_answer_is_asserted() -> None:
    run = played(Recites)
    assert_answered(run, text="from memory")
    with pytest.raises(
        AssertionError, match="expected read_file to be run without an error, but read_file is answered"
    ):
        assert_ran(run)


@pytest.mark.parametrize("kind", ["run", "call", "result"])
def test_a_run_a_call_and_a_result_are_taken(kind: str) -> None:
    run = played(NoSecrets, script=SECRET)
    one = run.call("read_file")
    result = {"run": run, "call": one, "result": one.result}[kind]
    assert_blocked(result, by="no_secrets", reason="secret")
    with pytest.raises(AssertionError, match="Blocked by no_secrets: that file is secret"):
        assert_ran(result)


def test_a_judged_call_is_taken() -> None:
    async def judge(session: Session) -> None:
        async with session.run() as run:
            await run.resolve_tools([])
            judged = await run.judge(ToolCall("c1", "nothing"))
            with pytest.raises(AssertionError, match="expected nothing to be blocked, but nothing is unknown"):
                assert_blocked(judged)

    with HookSession() as session:
        session.run(judge)


def test_a_verdict_of_a_replay_is_taken() -> None:
    run = played(NoSecrets, script=SECRET)
    assert_blocked(replay(run.messages, [NoSecrets]).call("read_file"), by="no_secrets")
    assert_asked(replay(run.messages, [AsksFirst]).call("read_file"), title="secret")
    assert_ran(replay(run.messages, []).call("read_file"))


def test_a_run_with_several_calls_needs_the_tools_name() -> None:
    run = played(NoSecrets, script=[[call("read_file", path="a"), call("read_file", path="b")], "Read."])
    with pytest.raises(AssertionError, match=re.escape("the run has 2 calls, so name one with tool=...")):
        assert_ran(run)
    with pytest.raises(AssertionError, match="'read_file' was called 2 times"):
        assert_ran(run, tool="read_file")


def test_what_cannot_know_a_question_says_so() -> None:
    result: Any = ToolResult("fine")
    with pytest.raises(TypeError, match="give the whole run"):
        assert_asked(result)
