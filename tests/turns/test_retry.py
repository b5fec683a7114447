"""Another attempt of the same run."""

from __future__ import annotations

from typing import Any

import pytest
from reading_transcripts import assert_sendable

from hooksdk import Tool, hooks
from hooksdk.agent import Limits, ModelUnavailable
from hooksdk.hooks import AfterToolsResolved, AgentEnd, AgentStart, AssembleTools, Event, NarrowTools, Withhold
from hooksdk.testing import ScriptedModel, Turn, call, open_session, play, recorder

pytestmark = pytest.mark.anyio


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def unavailable_at(*numbers: int) -> Any:
    """A script that reads a file, with an unavailable model at these turns."""

    def script(turn: Turn) -> Any:
        if turn.number in numbers:
            raise ModelUnavailable("overloaded")
        return f"it says {turn.result.text}" if turn.results else call("read_file", path="a")

    return script


async def test_the_run_goes_on_in_its_next_attempt(form: str):
    async with open_session(tools=[read_file]) as session:
        played = await play(session, unavailable_at(1, 3), format=form, limits=Limits(attempts=3))
    assert (played.text, played.outcome.attempts, played.outcome.turns) == ("it says content of a", 3, 2)
    assert len(played.calls) == 1
    assert_sendable(form, played.messages)


async def test_the_resolved_tools_are_announced_once_per_attempt(form: str):
    seen = recorder()
    async with open_session(seen, tools=[read_file]) as session:
        await play(session, unavailable_at(2), format=form, limits=Limits(attempts=2))
    assert [one.attempt for one in seen.of(AfterToolsResolved)] == [1, 2]
    assert [one.attempt for one in seen.of(NarrowTools)] == [1, 2]
    assert [one.attempt for one in seen.of(AssembleTools)] == [1, 2]
    assert len(seen.of(AgentStart)) == len(seen.of(AgentEnd)) == 1


async def test_tools_resolved_twice_in_one_attempt_are_announced_once(form: str):
    seen = recorder("after_tools_resolved")
    async with open_session(seen) as session, session.run(format=form) as run:
        for _ in range(3):
            await run.resolve_tools([Tool(name="a", source="host")])
        await run.retry()
        await run.resolve_tools([Tool(name="b", source="host")])
    assert [[tool.name for tool in one.catalog] for one in seen.of(AfterToolsResolved)] == [["a"], ["b"]]


async def test_events_of_the_second_attempt_say_so(form: str):
    attempts: list[tuple[str, int]] = []

    class Notes:
        @hooks.before_tool_call
        async def judge(self, event: hooks.BeforeToolCall) -> None:
            attempts.append(("before_tool_call", event.attempt))

        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            attempts.append(("agent_end", event.attempt))

    async with open_session(Notes, tools=[read_file]) as session:
        await play(session, unavailable_at(1), format=form, limits=Limits(attempts=2))
    assert attempts == [("before_tool_call", 2), ("agent_end", 2)]


async def test_a_policy_may_withhold_other_tools_in_the_next_attempt(form: str):
    class OnlyOnce:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            return Withhold(["read_file"], "the first attempt used it up") if event.attempt > 1 else None

    async with open_session(OnlyOnce, tools=[read_file]) as session:
        played = await play(session, unavailable_at(2), format=form, limits=Limits(attempts=2))
    assert [turn.offered for turn in played.turns] == [["read_file"], ["read_file"], []]


async def test_all_events_of_one_run_carry_its_id(form: str):
    seen = recorder()
    async with open_session(seen, tools=[read_file]) as session:
        await play(session, unavailable_at(1), format=form, limits=Limits(attempts=2))
        await play(session, ["second run"], format=form)
    outside = {"session_start", "session_end"}
    by_run: dict[str, list[Event]] = {}
    for name, one in zip(seen.fired(), seen.events, strict=True):
        by_run.setdefault(one.run_id, []).append(one) if name not in outside else None
    assert len(by_run) == 2
    assert "" not in by_run


async def test_an_error_after_the_last_attempt_leaves_a_transcript_that_can_be_sent(form: str):
    async with open_session(tools=[read_file]) as session:
        with pytest.raises(ModelUnavailable):
            await play(session, unavailable_at(2, 3), format=form, limits=Limits(attempts=2))
        assert_sendable(form, session.messages)
        model = ScriptedModel(lambda turn: f"it said {turn.result.text}", format=form)
        assert (await play(session, model, None)).text == "it said content of a"
