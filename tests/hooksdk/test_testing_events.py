"""Events for unit tests, and the recorder."""

from __future__ import annotations

from typing import Any

import pytest
from kit_examples import NoSecrets, read_file

from hooksdk import Tool, ToolCall, ToolResult, hooks
from hooksdk.errors import FenceClosed
from hooksdk.formats import get_format
from hooksdk.hooks import (
    HOOKS,
    AfterToolCall,
    AfterToolsResolved,
    AgentEnd,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    NarrowTools,
    Trace,
    Trim,
    UnwrapToolCall,
)
from hooksdk.testing import (
    call,
    event,
    open_session,
    play,
    recorder,
)

pytestmark = pytest.mark.anyio
both_formats = pytest.mark.parametrize("form", ["openai-chat", "anthropic"])


# event()


@pytest.mark.parametrize("name", list(HOOKS))
async def test_every_event_can_be_made_without_any_field(name: str):
    made = event(HOOKS[name].event)
    assert (made.session_id, made.run_id, made.attempt) == ("test", "run-test", 1)


async def test_an_event_drives_a_handler_directly():
    plugin = NoSecrets()
    assert plugin.judge(event(BeforeToolCall, tool="read_file", arguments={"path": "a"})) is None
    assert plugin.judge(event(BeforeToolCall, arguments={"path": "secret"})) == Block("that file is secret")


async def test_an_event_takes_where_it_comes_from():
    made = event(BeforeToolCall, requester={"id": "ann"}, trigger="schedule", agent_id="helper", session_id="s9")
    assert (made.requester, made.trigger, made.agent_id, made.session_id) == ({"id": "ann"}, "schedule", "helper", "s9")


async def test_the_call_of_an_event_fits_its_tool_and_arguments():
    made = event(AfterToolCall, tool="read_file", arguments={"path": "a"}, result="text", status="error")
    assert (made.call.name, made.call.arguments, made.arguments) == ("read_file", {"path": "a"}, {"path": "a"})
    assert (made.result, made.status) == (ToolResult("text"), "error")


async def test_an_event_for_an_unknown_tool_has_none():
    assert event(AfterToolCall, tool=None, status="unknown").tool is None
    assert event(UnwrapToolCall, catalog=["read_file"]).tool is None


async def test_lists_of_tools_may_be_names():
    narrow = event(NarrowTools, tools=["a", Tool(name="b", source="mcp", owner="x")])
    assert [one.id for one in narrow.tools] == ["host:test:a", "mcp:x:b"]
    resolved = event(AfterToolsResolved, catalog=["a", "b"])
    assert (len(resolved.catalog), [one.name for one in resolved.offered]) == (2, ["a", "b"])
    assert [one.name for one in event(AfterToolsResolved, offered=["a"]).catalog] == ["a"]


async def test_a_misspelt_field_is_refused_with_the_nearest_one():
    with pytest.raises(TypeError, match=r"BeforeToolCall has no field 'argument'. Did you mean 'arguments'"):
        event(BeforeToolCall, argument={})
    with pytest.raises(TypeError, match="neither messages nor results"):
        event(BeforeToolCall, messages=[{"role": "user", "content": "hi"}])


@both_formats
async def test_the_results_of_an_event_are_those_of_its_messages(form: str):
    class TrimsLong:
        @hooks.before_model_call
        def trim(self, event: BeforeModelCall) -> Trim | None:
            long = [info.handle for info in event.results.list() if info.characters > 500 and info.trimmable]
            return Trim(long) if long else None

    made = event(BeforeModelCall, messages=conversation(form), format=form)
    assert len(made.messages) == len(conversation(form))
    assert TrimsLong().trim(made) == Trim(["r1"])
    assert made.results.read("r1") == "x" * 800
    assert (await made.results.trim("r1", "it was long")).status == "queued"
    assert [info.queued for info in made.results.list()] == [True, False]


async def test_the_editor_of_an_agent_end_event_works_on_its_messages():
    made = event(AgentEnd, messages=conversation("openai-chat"))
    assert (await made.transcript.trim("r1")).status == "queued"
    assert len(made.transcript.messages) == len(conversation("openai-chat"))


def conversation(form: str) -> list[dict[str, Any]]:
    """Two calls, one with a long result, and the reply after them."""
    one = get_format(form)
    calls = [ToolCall("c1", "read_file", {"path": "a"}), ToolCall("c2", "read_file", {"path": "b"})]
    answers = one.result_messages([(calls[0], ToolResult("x" * 800)), (calls[1], ToolResult("short"))])
    return [one.user("hi"), one.reply("", calls), *answers, one.reply("I see.")]


# recorder()


async def test_a_recorder_keeps_every_event_of_a_run():
    seen = recorder()
    async with open_session(seen, NoSecrets, tools=[read_file]) as session:
        await play(session, [call("read_file", path="secret"), "ok"])
    awaited = [name for name in seen.fired() if HOOKS[name].kind != "observe"]
    assert awaited == [
        "session_start", "agent_start", "around_run", "narrow_tools", "assemble_tools", "before_model_call", "rewrite_tool_call",
        "before_tool_call", "transform_tool_result", "before_model_call", "before_answer", "agent_end", "session_end",
    ]  # fmt: skip
    assert sorted(set(seen.fired()) - set(awaited)) == ["after_model_call", "after_tool_call", "after_tools_resolved"]
    assert [one.status for one in seen.of(AfterToolCall)] == ["blocked"]


async def test_a_recorder_may_take_part_in_named_hooks_only():
    seen = recorder("trace", "after_tool_call")
    async with open_session(seen, tools=[read_file]) as session:
        await play(session, [call("read_file", path="a"), "ok"])
    assert {type(one) for one in seen.events} == {Trace, AfterToolCall}
    assert seen.of(Trace)[0].kind == "session_started"


async def test_a_misspelt_hook_is_refused_by_the_recorder():
    with pytest.raises(LookupError, match=r"'before_toolcall' is not a hook\. Did you mean 'before_tool_call'"):
        recorder("before_toolcall")


async def test_two_recorders_share_nothing():
    first, second = recorder(), recorder()
    async with open_session(first):
        pass
    assert len(first.events) == 2
    assert second.events == []


async def test_a_recorded_editor_is_closed_when_the_run_is_over():
    seen = recorder()
    async with open_session(seen) as session:
        await play(session, ["ok"])
        with pytest.raises(FenceClosed):
            seen.of(AgentEnd)[0].transcript.results.list()


async def test_a_recorder_changes_nothing_of_what_a_run_does():
    transcripts: list[list[dict[str, Any]]] = []
    for plugins in ([NoSecrets], [recorder(), NoSecrets]):
        async with open_session(*plugins, tools=[read_file]) as session:
            script = [
                [call("read_file", path="{{secret:KEY}}"), call("nothing"), call("read_file", path="secret")],
                "ok",
            ]
            transcripts.append(list((await play(session, script)).messages))
    assert transcripts[0] == transcripts[1]
