"""`session.on_event`: the trace for whoever draws a display of his own, with what each record is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from hooksdk import hooks
from hooksdk.hooks import Ask, BeforeToolCall, Block, ResolveSecrets, Secrets, Trace
from hooksdk.records import ApprovalAsked, CallFinished, CallStarted, Decision, ModelReplied, RunStarted
from hooksdk.testing import Reply, call, open_session, play

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class NoBigSums:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        if event.arguments["a"] > 100:
            return Block("too big a sum")
        return Ask("Add these?") if event.arguments["a"] > 10 else None


async def events_of(session: Any, script: list[Any], prompt: str = "Add.") -> list[Trace]:
    events: list[Trace] = []
    session.on_event(events.append)
    await play(session, script, prompt=prompt)
    await session.close()
    return events


def of_kind(events: list[Trace], kind: type) -> list[Any]:
    return [event.content for event in events if isinstance(event.record, kind)]


async def test_a_listener_gets_the_records_with_what_they_are_about() -> None:
    async with open_session(NoBigSums, tools=[add]) as session:
        events = await events_of(session, [Reply("I add.", [call("add", a=1, b=2)]), "Three."], "One and two?")
    assert [content.text for content in of_kind(events, RunStarted)] == ["One and two?"]
    assert [content.text for content in of_kind(events, ModelReplied)] == ["I add.", "Three."]
    assert [content.arguments for content in of_kind(events, CallStarted)] == [{"a": 1, "b": 2}]
    assert [(content.text, content.arguments) for content in of_kind(events, CallFinished)] == [("3", {"a": 1, "b": 2})]


async def test_the_reason_of_a_block_and_the_title_of_a_question_are_told() -> None:
    async with open_session(NoBigSums, tools=[add], config={}) as session:
        script = [[call("add", a=101, b=1), call("add", a=11, b=1)], "No."]
        events = await events_of(session, script)
    assert {content.text for content in of_kind(events, Decision)} == {"too big a sum", "Add these?"}
    assert [content.text for content in of_kind(events, ApprovalAsked)] == ["Add these?"]


async def test_a_plugin_s_trace_handler_gets_the_same_records_without_the_content() -> None:
    seen: list[Trace] = []

    class Watch:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            seen.append(event)

    async with open_session(Watch, tools=[add]) as session:
        events = await events_of(session, [call("add", a=1, b=2), "Three."])
    assert {event.content for event in seen} == {None}
    own = [event.record for event in seen]
    assert [event.record for event in events] == own[own.index(events[0].record) :]


async def test_the_values_of_secrets_are_masked_in_the_content() -> None:
    class Keys:
        @hooks.resolve_secrets
        def give(self, event: ResolveSecrets) -> Secrets:
            return Secrets({"KEY": "s3cr3t-v4lue"})

    def send(key: str) -> str:
        """Send it."""
        return f"sent {key}"

    async with open_session(Keys, tools=[send]) as session:
        script = [call("send", key="{{secret:KEY}}"), call("send", key="s3cr3t-v4lue"), "Done."]
        events = await events_of(session, script)
    told = [(content.text, str(content.arguments)) for content in of_kind(events, CallFinished)]
    assert "s3cr3t-v4lue" not in str(told)
    assert told[0][1] == "{'key': '{{secret:KEY}}'}"
    assert "s3cr3t-v4lue" not in str(of_kind(events, CallStarted)[1].arguments)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_listener_that_raises_is_logged_and_the_run_and_the_others_go_on(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Trace) -> None:
        raise RuntimeError("no paper")

    async def fail_later(event: Trace) -> None:
        raise RuntimeError("no paper")

    async with open_session(tools=[add]) as session:
        session.on_event(fail_later if is_async else fail)
        events = await events_of(session, [call("add", a=1, b=2), "Three."])
    assert len(of_kind(events, CallFinished)) == 1
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    name = "fail_later" if is_async else "fail"
    assert all(name in warning and "RuntimeError: no paper" in warning for warning in warnings)
    assert "the listener " in warnings[0]


@pytest.mark.jumping_clock
async def test_a_listener_that_hangs_is_taken_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hooks.trace, "timeout", 4)

    async def hang(event: Trace) -> None:
        await anyio.sleep_forever()

    async with open_session(tools=[add]) as session:
        session.on_event(hang)
        events = await events_of(session, [call("add", a=1, b=2), "Three."])
    assert len(of_kind(events, CallFinished)) == 1
    assert "did not take trace records for 4 s and is taken out" in caplog.text


async def test_listening_ends_when_its_function_is_called() -> None:
    events: list[Trace] = []
    async with open_session(tools=[add]) as session:
        stop: Callable[[], None] = session.on_event(events.append)
        await play(session, ["One."])
        while not any(event.kind == "run_ended" for event in events):
            await anyio.sleep(0)
        stop()
        stop()
        before = len(events)
        await play(session, ["Two."])
        await anyio.wait_all_tasks_blocked()
        assert len(events) == before


async def test_a_sub_agent_s_session_is_listened_to_as_well() -> None:
    events: list[Trace] = []
    async with open_session(tools=[add]) as session:
        session.on_event(events.append)
        async with session.child("below") as child:
            await play(child, ["Done."])
    assert {event.session_id for event in events} == {session.id, "below"}


async def test_a_listener_that_was_added_before_the_session_opens_sees_it_open() -> None:
    from hooksdk import Host

    events: list[Trace] = []
    async with Host(config={"allow": []}) as host:
        session = host.session("s1")
        session.on_event(events.append)
        async with session:
            pass
    assert [event.kind for event in events] == ["session_started", "session_ended"]


async def test_what_is_no_function_is_refused() -> None:
    async with open_session() as session:
        with pytest.raises(TypeError, match="on_event takes a function of one event, not 'print'"):
            session.on_event("print")  # pyright: ignore[reportArgumentType]
