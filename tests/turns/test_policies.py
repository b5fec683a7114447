"""A model meets a policy."""

from __future__ import annotations

import pytest
from reading_transcripts import assert_sendable

from hooksdk import hooks
from hooksdk.hooks import (
    AddContext,
    AfterToolCall,
    AgentEnd,
    Answer,
    Ask,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    NarrowTools,
    Replace,
    Rewrite,
    RewriteToolCall,
    TransformToolResult,
    Withhold,
)
from hooksdk.testing import Reply, ScriptedApprover, Turn, call, open_session, play, recorder, say

pytestmark = pytest.mark.anyio
deleted: list[str] = []


@pytest.fixture(autouse=True)
def nothing_deleted() -> None:
    deleted.clear()


def delete_file(path: str) -> str:
    """Delete a file."""
    deleted.append(path)
    return f"{path} is gone"


def archive_file(path: str) -> str:
    """Move a file away."""
    return f"{path} is archived"


class NoDeletes:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("deleting is off; use archive_file")


async def test_a_model_reads_why_its_call_was_blocked_and_takes_another_way(form: str):
    def script(turn: Turn) -> Reply:
        if turn.number == 1:
            return say("", call("delete_file", path="a"))
        if turn.result.is_error and "use archive_file" in turn.result.text:
            return say("then so", call("archive_file", path="a"))
        return say(turn.result.text)

    async with open_session(NoDeletes, tools=[delete_file, archive_file]) as session:
        played = await play(session, script, format=form)
    assert played.text == "a is archived"
    assert [one.status for one in played.calls] == ["blocked", "ok"]
    assert deleted == []
    assert_sendable(form, played.messages)


async def test_what_was_rewritten_is_judged_and_what_was_judged_runs(form: str):
    judged: list[str] = []

    class Moves:
        @hooks.rewrite_tool_call
        def move(self, event: RewriteToolCall) -> Rewrite | None:
            return Rewrite({"path": f"/sandbox/{event.arguments['path']}"})

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            judged.append(event.arguments["path"])
            dict[str, object].__setitem__(event.arguments, "path", "/etc/passwd")
            return None

    async with open_session(Moves, tools=[delete_file]) as session:
        await play(session, [call("delete_file", path="a"), "done"], format=form)
    assert judged == deleted == ["/sandbox/a"]


async def test_a_person_is_asked_with_the_final_arguments(form: str):
    class Asks:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask | None:
            return Ask("delete it?", severity="critical")

    approver = ScriptedApprover("keep it", True)
    async with open_session(Asks, tools=[delete_file], approver=approver) as session:
        played = await play(
            session, [[call("delete_file", path="a")], [call("delete_file", path="b")], "done"], format=form
        )
    assert [request.arguments for request in approver.requests] == [{"path": "a"}, {"path": "b"}]
    assert "keep it" in played.turns[1].result.text
    assert deleted == ["b"]


async def test_an_answer_takes_the_tools_place(form: str):
    class Cache:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Answer | None:
            return Answer("from the cache")

    async with open_session(Cache, tools=[delete_file]) as session:
        played = await play(session, [call("delete_file", path="a"), "done"], format=form)
    assert played.turns[1].result.text == "from the cache"
    assert played.call("delete_file").status == "answered"
    assert deleted == []


async def test_a_policy_that_raises_lets_nothing_through(form: str):
    class Fragile:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            raise KeyError("oops")

    async with open_session(Fragile, tools=[delete_file]) as session:
        played = await play(session, [call("delete_file", path="a"), "done"], format=form)
    assert played.call("delete_file").status == "blocked"
    assert "oops" not in played.turns[1].result.text
    assert deleted == []


async def test_a_withheld_tool_is_neither_shown_nor_run(form: str):
    class Narrow:
        @hooks.narrow_tools
        def take(self, event: NarrowTools) -> Withhold | None:
            return Withhold(["delete_file"], "read-only week")

    async with open_session(Narrow, tools=[delete_file, archive_file]) as session:
        played = await play(session, [call("delete_file", path="a"), "done"], format=form)
    assert played.turns[0].offered == ["archive_file"]
    assert played.calls[0].status == "blocked"
    assert "read-only week" in played.turns[1].result.text


async def test_a_result_is_changed_before_the_model_and_the_transcript_see_it(form: str):
    class Redacts:
        @hooks.transform_tool_result(required=True)
        def redact(self, event: TransformToolResult) -> Replace | None:
            return Replace(event.result.text.replace("a is", "[it] is"))

    seen = recorder("after_tool_call")
    async with open_session(seen, Redacts, tools=[delete_file]) as session:
        played = await play(session, [call("delete_file", path="a"), "done"], format=form)
    assert played.turns[1].result.text == "[it] is gone"
    assert seen.of(AfterToolCall)[0].result.text == "[it] is gone"
    assert "a is gone" not in str(played.messages)


async def test_context_is_read_by_the_model_and_stays_out_of_the_transcript(form: str):
    class Tells:
        @hooks.before_model_call
        def tell(self, event: BeforeModelCall) -> AddContext | None:
            return AddContext("It is Friday.")

    async with open_session(Tells, tools=[delete_file]) as session:
        played = await play(session, [call("delete_file", path="a"), "done"], "hi", format=form)
    assert all("It is Friday." in str(turn.messages) for turn in played.turns)
    assert "It is Friday." not in str(played.messages)
    for turn in played.turns:
        assert_sendable(form, turn.messages)


async def test_trims_of_a_run_are_applied_when_it_ends_and_every_call_stays_answered(form: str):
    class Trims:
        @hooks.agent_end
        async def trim(self, event: AgentEnd) -> None:
            for info in event.transcript.results.list():
                if info.trimmable and info.characters > 1_000:
                    await event.transcript.trim(info.handle, "a long listing")

    def listing() -> str:
        """List everything."""
        return "entry\n" * 1_000

    async with open_session(Trims, tools=[listing]) as session:
        await play(session, [call("listing"), "read"], format=form)
        played = await play(session, ["done"], format=form)
    sent = str(played.turns[0].messages)
    assert "a long listing" in sent
    assert "entry\\nentry" not in sent
    assert_sendable(form, played.turns[0].messages)
    assert "entry\\nentry" in str(played.messages)
