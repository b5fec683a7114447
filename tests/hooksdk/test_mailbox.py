"""Observers: in order, bounded, and never in the run's way."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from hooksdk import Run, Tool, ToolCall, hooks
from hooksdk.errors import SessionClosed
from hooksdk.hooks import AfterToolCall, AfterToolsResolved, AgentEnd, BeforeToolCall, Block, SessionEnd, Trace
from hooksdk.records import SessionEnded
from hooksdk.testing import open_host
from tests.stage import playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_each_plugin_sees_its_events_in_order_whatever_its_handlers_are() -> None:
    seen: list[str] = []

    class Sees:
        @hooks.after_tools_resolved
        def resolved(self, event: AfterToolsResolved) -> None:
            time.sleep(0.02)
            seen.append("resolved")

        @hooks.after_tool_call
        async def first(self, event: AfterToolCall) -> None:
            await anyio.sleep(0.005)
            seen.append(f"async {event.call.id}")

        @hooks.after_tool_call
        def second(self, event: AfterToolCall) -> None:
            seen.append(f"plain {event.call.id}")

    async with playing(Sees) as stage:
        for _ in range(3):
            await stage.call()
    assert seen == ["resolved", *(f"{form} c{n}" for n in (1, 2, 3) for form in ("async", "plain"))]


@pytest.mark.heavy
async def test_a_slow_observer_drops_only_its_own_oldest_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = anyio.Event()
    slow: list[str] = []
    quick: list[str] = []

    class Slow:
        @hooks.after_tool_call(timeout=60)
        async def see(self, event: AfterToolCall) -> None:
            await gate.wait()
            slow.append(event.call.id)

    class Quick:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            quick.append(event.call.id)

    async with playing(Slow, Quick) as stage:
        for _ in range(300):
            await stage.call()
        gate.set()
        dropped = stage.dispatcher.dropped
    assert quick == [f"c{n}" for n in range(1, 301)]
    assert dropped == {"slow": 300 - len(slow)}
    assert slow[-256:] == [f"c{n}" for n in range(45, 301)]
    (message,) = warnings(caplog)
    assert "plugin 'slow' is too slow" in message
    assert "test_mailbox.py" in message


@pytest.mark.jumping_clock
async def test_what_an_observer_has_not_seen_when_its_session_closes_is_counted_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[str] = []
    ended: list[Mapping[str, int]] = []

    class Slow:
        @hooks.after_tool_call(timeout=600)
        async def see(self, event: AfterToolCall) -> None:
            seen.append(event.call.id)
            await anyio.sleep(300)

    class Quick:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None: ...

        @hooks.trace
        async def end(self, event: Trace) -> None:
            if isinstance(event.record, SessionEnded):
                ended.append(event.record.dropped)

    async with playing(Slow, Quick) as stage:
        for _ in range(96):
            await stage.call()
    assert seen == ["c1"]
    assert ended == [{"slow": 95}]
    assert "plugin 'slow' did not see 95 events: the session closed before it was done" in warnings(caplog)


async def test_workers_start_with_the_first_event_and_in_an_empty_context(anyio_backend: str) -> None:
    who = contextvars.ContextVar("who", default="nobody")
    seen: list[str] = []

    class Sees:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            seen.append(who.get())

    def tasks() -> int:
        return len(asyncio.all_tasks()) if anyio_backend == "asyncio" else 0

    who.set("ada")
    async with playing(Sees) as stage:
        before = tasks()
        assert (await stage.call("no_such_tool")).is_error
        await stage.observed()
        if anyio_backend == "asyncio":
            assert tasks() == before + 2, "one worker for this plugin and one for the testing kit"
    assert seen == ["nobody"]


class Rude:
    """Does everything wrong that an observer can."""

    def __init__(self) -> None:
        self.how = iter(["raise", "mutate", "exit", "interrupt"])
        self.hangs = iter([True])

    @hooks.after_tool_call(timeout=0.02)
    async def hang(self, event: AfterToolCall) -> Any:
        if next(self.hangs, False):
            await anyio.sleep_forever()

    @hooks.after_tool_call(timeout=60)
    def see(self, event: AfterToolCall) -> Any:
        how = next(self.how)
        if how == "raise":
            raise ValueError("rude")
        if how == "exit":
            raise SystemExit
        if how == "interrupt":
            raise KeyboardInterrupt
        dict[str, Any].__setitem__(event.arguments, "path", "/etc/shadow")
        event.result.blocks.append({"type": "text", "text": "gotcha"})
        return Block("too late")

    @hooks.after_tools_resolved
    async def resolved(self, event: AfterToolsResolved) -> None:
        for tool in event.catalog:
            (tool.parameters or {})["type"] = "string"
        raise SystemExit


async def test_a_rude_observer_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with playing(Rude) as stage:
        prints = stage.run.tools.fingerprint
        for number in range(4):
            assert (await stage.call("act", {"path": number})).text == "done"
        assert stage.run.tools.fingerprint == prints
        assert [entry["content"] for entry in stage.session.messages[1::2]] == ["done"] * 4
    assert stage.executed == [{"path": number} for number in range(4)]
    told = warnings(caplog)
    assert sum("Rude.see" in line and "after_tool_call" in line for line in told) == 4
    assert any(
        "it answered Block(reason='too late') (Block); expected None: after_tool_call decides nothing" in line
        for line in told
    )
    assert any("Rude.hang" in line and "no answer within 0.02 s" in line for line in told)


async def test_the_run_goes_on_while_its_observers_have_not_returned() -> None:
    over, free = anyio.Event(), threading.Event()
    returned: list[str] = []

    class Sleeps:
        @hooks.after_tool_call(timeout=60)
        async def see(self, event: AfterToolCall) -> None:
            await over.wait()
            returned.append("async")

    class Blocks:
        @hooks.after_tools_resolved(timeout=60)
        def resolved(self, event: AfterToolsResolved) -> None:
            free.wait(60)
            returned.append("plain")

    try:
        async with playing(Sleeps, Blocks) as stage:
            with anyio.fail_after(120):
                for _ in range(15):
                    assert (await stage.call()).text == "done"
            assert returned == []
            over.set()
            free.set()
    finally:
        free.set()
    assert sorted(returned) == ["async"] * 15 + ["plain"]


async def test_observers_have_seen_everything_before_agent_end_and_session_end() -> None:
    log: list[str] = []

    class Sees:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            await anyio.sleep(0.01)
            log.append(event.call.id)

        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            log.append("agent_end")

        @hooks.session_end
        def close(self, event: SessionEnd) -> None:
            log.append(f"session_end {event.reason}")

    async with playing(Sees) as stage:
        for _ in range(3):
            await stage.call()
    assert log == ["c1", "c2", "c3", "agent_end", "session_end closed"]


async def test_the_flush_before_the_end_is_limited_and_names_who_was_not_done(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk.run.FLUSH_TIMEOUT", 0.05)
    monkeypatch.setattr("hooksdk.session.CLOSE_TIMEOUT", 0.1)

    class Sleeps:
        @hooks.after_tool_call(timeout=60)
        async def see(self, event: AfterToolCall) -> None:
            await anyio.sleep_forever()

    with anyio.fail_after(120):
        async with playing(Sleeps) as stage:
            await stage.call()
    assert any(
        "Sleeps.see" in line and "was not done with its events after 0.05 s" in line for line in warnings(caplog)
    )


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio has no cancellation that nobody asked for
async def test_an_observer_that_raises_a_cancellation_still_gets_the_next_event() -> None:
    seen: list[str] = []

    class Sees:
        @hooks.after_tool_call(timeout=0.03)
        async def see(self, event: AfterToolCall) -> None:
            seen.append(event.call.id)
            if event.call.id == "c1":
                raise asyncio.CancelledError
            if event.call.id == "c2":
                try:
                    await anyio.sleep_forever()
                except asyncio.CancelledError:
                    raise asyncio.CancelledError("mine") from None

    async with playing(Sees) as stage:
        for _ in range(3):
            await stage.call()
    assert seen == ["c1", "c2", "c3"]


async def test_a_wrapped_coroutine_function_that_observes_is_awaited() -> None:
    import functools

    seen: list[str] = []

    def noted(function: Any) -> Any:
        @functools.wraps(function)
        def inner(self: Any, event: Any) -> Any:
            return function(self, event)

        return inner

    class Sees:
        @noted
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            await anyio.sleep(0)
            seen.append(event.call.id)

    async with playing(Sees) as stage:
        await stage.call()
    assert seen == ["c1"]


# Ends


@pytest.mark.heavy
async def test_no_task_is_left_after_200_sessions(anyio_backend: str) -> None:
    class Busy:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            await anyio.sleep(0)

        @hooks.after_tools_resolved
        def resolved(self, event: AfterToolsResolved) -> None:
            return None

        @hooks.trace
        async def keep(self, event: Trace) -> None:
            return None

    def tasks() -> int:
        if anyio_backend == "asyncio":
            return len(asyncio.all_tasks())
        import trio

        return trio.lowlevel.current_statistics().tasks_living

    async with open_host(Busy) as host:
        before = -1
        for number in range(200):
            async with host.session(f"s{number}") as session, session.run() as run:
                await run.resolve_tools([])
                await run.record({"role": "user", "content": "hi"})
            if number == 4:
                await anyio.sleep(0.01)
                before = tasks()
        with anyio.fail_after(120):
            while tasks() > before:
                await anyio.sleep(0.01)
        assert not host._sessions  # pyright: ignore[reportPrivateUsage]
    gc.collect()


async def test_a_worker_that_will_not_end_does_not_hold_the_host_for_ever(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk._tasks.background.STOP_TIMEOUT", 0.05)
    monkeypatch.setattr("hooksdk.session.CLOSE_TIMEOUT", 0.05)
    monkeypatch.setattr("hooksdk.run.FLUSH_TIMEOUT", 0.05)
    over = anyio.Event()

    class Stubborn:
        @hooks.after_tool_call(timeout=60)
        async def see(self, event: AfterToolCall) -> None:
            with anyio.CancelScope(shield=True):
                await over.wait()

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    async with playing(Stubborn) as stage:
        await stage.call()
    assert "did not end within 0.05 s" in caplog.text
    assert "Stubborn.see" in caplog.text
    over.set()
    await anyio.sleep(0.01)


async def test_what_happens_after_its_session_closed_is_observed_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk._run.call.CALLS_TIMEOUT", 0.01)
    seen: list[str] = []
    closed = anyio.Event()

    class Sees:
        @hooks.after_tool_call
        async def see(self, event: AfterToolCall) -> None:
            seen.append(event.call.id)

    async def slow(arguments: dict[str, Any]) -> str:
        with anyio.CancelScope(shield=True):  # it does not hear that the run ends
            await closed.wait()
        return "late"

    async def call(run: Run) -> None:
        with pytest.raises(SessionClosed):  # its result cannot be recorded any more
            await run.call_tool(ToolCall("c", "slow"))

    tool = Tool(name="slow", source="host", owner="core", execute=slow)
    async with open_host(Sees) as host, anyio.create_task_group() as group:
        async with host.session("s") as session, session.run() as run:
            await run.resolve_tools([tool])
            group.start_soon(call, run)
            await anyio.wait_all_tasks_blocked()
        closed.set()
        await anyio.wait_all_tasks_blocked()
    assert seen == []
