"""A tool that hands its work to a sub-agent in a session of its own."""

from __future__ import annotations

import pytest
from reading_transcripts import assert_sendable

from hooksdk import Session, Tool, hooks
from hooksdk.agent import run_agent
from hooksdk.hooks import AfterToolCall, AgentStart, BeforeToolCall, Block
from hooksdk.testing import Script, ScriptedModel, call, open_session, play, recorder

pytestmark = pytest.mark.anyio
deleted: list[str] = []


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def delete_file(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return "gone"


WORKERS = [Tool.from_function(one, source="host", owner="test") for one in (read_file, delete_file)]


def delegate_of(session: Session, script: Script, form: str, only: list[str] | None) -> Tool:
    """A tool that runs a sub-agent with some of the tools."""

    async def delegate(task: str) -> str:
        """Hand a task to a helper."""
        async with session.child(tools=only) as child:
            model = ScriptedModel(script, format=form)
            outcome = await run_agent(child, model, task, tools=WORKERS, agent_id="helper", trigger="subagent")
            return outcome.text

    return Tool.from_function(delegate, source="host", owner="test")


async def test_a_sub_agents_answer_is_the_result_of_the_call(form: str):
    async with open_session() as session:
        delegate = delegate_of(session, [call("read_file", path="a"), "it says: content of a"], form, None)
        script = [call("delegate", task="read a"), "thank you"]
        played = await play(session, script, tools=[delegate, *WORKERS], format=form)
    assert played.turns[1].result.text == "it says: content of a"
    assert "content of a" not in str(played.messages[0])
    assert [one.call.name for one in played.calls] == ["delegate"]
    assert_sendable(form, played.messages)


async def test_a_sub_agent_gets_only_the_tools_that_it_was_granted(form: str):
    deleted.clear()
    async with open_session() as session:
        script = [call("delete_file", path="a"), "it was refused"]
        delegate = delegate_of(session, script, form, ["read_*"])
        played = await play(session, [call("delegate", task="delete a"), "ok"], tools=[delegate, *WORKERS], format=form)
    assert played.turns[1].result.text == "it was refused"
    assert deleted == []


async def test_a_childs_child_never_gets_more_than_its_parent(form: str):
    async with (
        open_session() as session,
        session.child(tools=["read_*"]) as child,
        child.child(tools=["*"]) as grandchild,
        grandchild.run(format=form) as run,
    ):
        offered = await run.resolve_tools(WORKERS)
    assert [tool.name for tool in offered] == ["read_file"]


async def test_plugins_see_the_sub_agents_calls_under_its_own_session(form: str):
    seen = recorder("after_tool_call", "agent_start")
    async with open_session(seen) as session:
        delegate = delegate_of(session, [call("read_file", path="a"), "done"], form, None)
        await play(session, [call("delegate", task="read a"), "ok"], tools=[delegate, *WORKERS], format=form)
        parent = session.id
    inner, outer = seen.of(AfterToolCall)
    assert (inner.call.name, inner.agent_id, inner.trigger) == ("read_file", "helper", "subagent")
    assert outer.session_id == parent != inner.session_id
    assert inner.metadata["parent_session"] == parent
    assert [start.agent_id for start in seen.of(AgentStart)] == ["main", "helper"]


async def test_a_sub_agent_has_plugin_instances_of_its_own(form: str):
    class Once:
        """One call per session."""

        def __init__(self) -> None:
            self.left = 1

        @hooks.before_tool_call
        def spend(self, event: BeforeToolCall) -> Block | None:
            self.left -= 1
            return Block("one call only") if self.left < 0 else None

    async with open_session(Once) as session:
        delegate = delegate_of(session, [call("read_file", path="a"), "done"], form, None)
        played = await play(session, [call("delegate", task="read a"), "ok"], tools=[delegate, *WORKERS], format=form)
        assert played.call("delegate").status == "ok"
        assert session.plugin("once").left == 0


@pytest.mark.both_loops
async def test_the_child_is_closed_before_its_parent_goes_on(form: str):
    seen = recorder("session_start", "session_end", "agent_end")
    async with open_session(seen) as session:
        delegate = delegate_of(session, ["done"], form, None)
        await play(session, [call("delegate", task="nothing"), "ok"], tools=[delegate, *WORKERS], format=form)
    assert seen.fired() == ["session_start", "session_start", "agent_end", "session_end", "agent_end", "session_end"]
