"""A run that pauses, and the one that goes on."""

from __future__ import annotations

import pytest
from reading_transcripts import answers, assert_sendable

from hooksdk import Session, Tool
from hooksdk.formats import get_format
from hooksdk.hooks import AgentEnd, SessionStart
from hooksdk.testing import Reply, ScriptedModel, call, open_session, play, recorder
from hooksdk.transcript import Store

pytestmark = pytest.mark.anyio


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


READ_FILE = Tool.from_function(read_file, source="host", owner="test")


async def ask_and_pause(session: Session, form: str) -> None:
    """A run in which the model makes two calls; the first is run, then the run pauses."""
    model = ScriptedModel([[call("read_file", path="a"), call("read_file", path="b")]], format=form)
    async with session.run(format=form) as run:
        await run.resolve_tools([READ_FILE])
        await run.record(get_format(form).user("read both"))
        reply = await model.reply(await run.prepare_messages(), [])
        await run.record([reply.message, *reply.more])
        await run.call_tool(run.pending[0])
        run.pause("the person went home")


async def test_a_second_run_of_the_session_runs_the_open_calls_and_goes_on(form: str):
    seen = recorder("agent_end")
    async with open_session(seen, tools=[READ_FILE]) as session:
        await ask_and_pause(session, form)
        played = await play(session, lambda turn: " and ".join(one.text for one in turn.results), None, format=form)
    assert played.text == "content of a and content of b"
    assert [one.arguments for one in played.calls] == [{"path": "b"}]
    assert_sendable(form, played.messages)
    assert [(end.reason, end.error) for end in seen.of(AgentEnd)] == [
        ("paused", "the person went home"), ("completed", None),
    ]  # fmt: skip


async def test_a_session_that_is_opened_again_goes_on_where_it_paused(form: str, store: Store):
    async with open_session(store=store) as session:
        await ask_and_pause(session, form)
    seen = recorder("session_start")
    async with open_session(seen, store=store, tools=[READ_FILE]) as session:
        assert [start.resumed for start in seen.of(SessionStart)] == [True]
        played = await play(session, lambda turn: " and ".join(one.text for one in turn.results), None, format=form)
    assert played.text == "content of a and content of b"
    assert_sendable(form, played.messages)


async def test_open_calls_are_still_known_after_the_session_was_opened_again(form: str, store: Store):
    async with open_session(store=store) as session:
        await ask_and_pause(session, form)
    async with open_session(store=store) as session, session.run(format=form) as run:
        assert [str(one.arguments).replace("'", '"') for one in run.pending] == ['{"path": "b"}']
        run.pause("still")


async def test_a_new_prompt_closes_what_the_pause_left_open(form: str):
    async with open_session(tools=[READ_FILE]) as session:
        await ask_and_pause(session, form)
        played = await play(session, ["as you like"], "never mind", format=form)
    assert answers(form, played.messages)[0][1] == "content of a"
    assert "went on before" in answers(form, played.messages)[1][1]
    assert_sendable(form, played.messages)


async def test_a_run_may_pause_twice_before_it_ends(form: str):
    async with open_session(tools=[READ_FILE]) as session:
        await ask_and_pause(session, form)
        async with session.run(format=form) as run:
            run.pause("and again")
        played = await play(session, [Reply("done")], None, format=form)
    assert [text for _, text in answers(form, played.messages)] == ["content of a", "content of b"]
    assert_sendable(form, played.messages)
