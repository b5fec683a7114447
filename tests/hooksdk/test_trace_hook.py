"""Trace handlers: nothing is lost, unless one stalls, and that is said."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from hooksdk import hooks
from hooksdk.hooks import AfterToolCall, Trace
from tests.stage import playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


async def test_the_trace_loses_nothing_and_keeps_the_order_even_when_the_run_must_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hooksdk._firing.dispatcher.TRACE_CAPACITY", 4)
    kept: dict[str, list[Any]] = {"slow": [], "plain": []}

    def keep(handler: str, event: Trace) -> None:
        if event.kind != "hook":  # of the testing kit, which observes every call
            kept[handler].append((event.kind, getattr(event.record, "call_id", None)))

    class Keeps:
        @hooks.trace
        async def slow(self, event: Trace) -> None:
            await anyio.sleep(0.001)
            keep("slow", event)

        @hooks.trace
        def plain(self, event: Trace) -> None:
            keep("plain", event)

    async with playing(Keeps) as stage:
        for _ in range(10):
            await stage.call()
        await stage.call_all([("act", None)] * 10)
    assert kept["slow"] == kept["plain"]
    started = [call_id for kind, call_id in kept["slow"] if kind == "call_started"]
    finished = [call_id for kind, call_id in kept["slow"] if kind == "call_finished"]
    assert started[:10] == finished[:10] == [f"c{n}" for n in range(1, 11)]
    assert sorted(started) == sorted(finished)
    assert len(started) == 20
    kinds = [kind for kind, _ in kept["slow"]]
    assert (kinds[0], kinds[-1]) == ("session_started", "session_ended")


async def test_a_raising_trace_handler_loses_no_record_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[str] = []

    class Bad:
        @hooks.trace
        async def bad(self, event: Trace) -> None:
            raise ValueError("disk full")

    class Good:
        @hooks.trace
        async def good(self, event: Trace) -> None:
            kept.append(event.kind)

    async with playing(Bad, Good) as stage:
        await stage.call()
    assert kept[0] == "session_started"
    assert kept[-1] == "session_ended"
    assert "disk full" in caplog.text


@pytest.mark.jumping_clock
async def test_a_trace_handler_that_stalls_is_taken_out_and_that_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk._firing.dispatcher.TRACE_CAPACITY", 4)
    kept: list[str] = []

    class Stalls:
        @hooks.trace(timeout=4)
        async def stall(self, event: Trace) -> None:
            await anyio.sleep_forever()

    class Good:
        @hooks.trace
        async def good(self, event: Trace) -> None:
            kept.append(event.kind)

    async with playing(Stalls, Good) as stage:
        for _ in range(20):
            await stage.call()
        await stage.call_all([("act", None)] * 5)
    assert kept.count("call_finished") == 25
    (message,) = [line for line in warnings(caplog) if "is taken out" in line]
    assert "Stalls.stall" in message
    assert "test_trace_hook.py" in message


async def test_the_trace_tells_of_observers_too() -> None:
    kept: list[dict[str, Any]] = []

    class Keeps:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            if event.kind == "hook" and (record := event.record.as_dict())["plugin"] == "sees":
                kept.append(record)

    class Sees:
        @hooks.after_tool_call
        async def fine(self, event: AfterToolCall) -> None:
            return None

        @hooks.after_tool_call
        def broken(self, event: AfterToolCall) -> None:
            raise ValueError("oh")

    async with playing(Keeps, Sees) as stage:
        await stage.call()
    assert [(record["hook"], record["outcome"]) for record in kept] == [
        ("after_tool_call", "passed"), ("after_tool_call", "failed"),
    ]  # fmt: skip
    assert kept[1]["problem"] == "ValueError", "names only: texts are for the log"
