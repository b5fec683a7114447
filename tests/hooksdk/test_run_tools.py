"""Tools in a run: what they return, how they fail, and what a catalog makes of odd ones."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import re
import threading
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

import anyio
import anyio.to_thread
import pytest
from ids import without_address
from pydantic import BaseModel

from hooksdk import Tool, ToolContext, ToolError, ToolResult, hooks, tool
from hooksdk.hooks import AfterToolCall, Trace
from hooksdk.testing import call, open_session, play
from tests.stage import MAY_HAVE, make, playing

pytestmark = pytest.mark.anyio


def add_one(a: int) -> int:
    "Add one."
    return a + 1


def add_two(a: int) -> int:
    "Add two."
    return a + 2


async def test_of_two_tools_of_one_name_the_second_is_left_out_with_a_warning_that_has_both_places(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = (Tool.from_function(one, name="add", source="host") for one in (add_one, add_two))
    async with open_session(tools=[first, second, first]) as session:
        await play(session, [call("add", a=1), "Two."])
        await play(session, ["Still two."])
    (told,) = [one for one in caplog.messages if "two tools are called" in one]
    assert re.fullmatch(
        r"two tools are called 'host::add': test_run_tools\.add_one \(.*test_run_tools\.py:\d+\) counts, "
        r"test_run_tools\.add_two \(.*test_run_tools\.py:\d+\) is left out\. Give one of them another name",
        told,
    )


# Failures


async def _raises(arguments: dict[str, Any]) -> str:
    raise ValueError("the disk is full")


def _raises_in_a_thread(arguments: dict[str, Any]) -> str:
    raise ValueError("the disk is full")


async def _exits(arguments: dict[str, Any]) -> str:
    raise SystemExit(3)


def _exits_in_a_thread(arguments: dict[str, Any]) -> str:
    raise SystemExit(3)


async def _refuses(arguments: dict[str, Any]) -> str:
    raise ToolError("no such file: try 'list_files'")


async def _groups(arguments: dict[str, Any]) -> str:
    raise ExceptionGroup("two things", [ValueError("one"), ValueError("two")])


async def _long(arguments: dict[str, Any]) -> str:
    raise ValueError("x" * 100_000)


@pytest.mark.both_loops
@pytest.mark.parametrize(
    ("execute", "told"),
    [
        (_raises, "'broken' failed: ValueError: the disk is full"),
        (_raises_in_a_thread, "'broken' failed: ValueError: the disk is full"),
        (_exits, "'broken' failed: SystemExit: 3"),
        (_exits_in_a_thread, "'broken' failed: SystemExit: 3"),
        (_refuses, "no such file: try 'list_files'"),
        (_groups, "'broken' failed: ExceptionGroup: two things (2 sub-exceptions)"),
    ],
)
async def test_a_tool_that_raises_answers_an_error_without_a_traceback(execute: Any, told: str) -> None:
    async with playing(tools=[make("broken", execute), make()]) as played:
        result = await played.call("broken")
        assert (result.text, result.is_error) == (told, True)
        assert not (await played.call("read_file")).is_error


async def test_an_error_that_is_long_is_cut() -> None:
    async with playing(tools=[make("broken", _long)]) as played:
        assert len((await played.call("broken")).text) < 2_100


@pytest.mark.both_loops
async def test_a_tool_that_is_late_is_stopped_and_the_run_goes_on() -> None:
    async def sleep(arguments: dict[str, Any]) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    async with playing(tools=[make("slow", sleep, timeout=0.05), make()]) as played:
        result = await played.call("slow")
        assert result.text == "'slow' did not finish within 0.05 s and was stopped." + MAY_HAVE
        assert result.is_error
        assert not (await played.call("read_file")).is_error


@pytest.mark.both_loops
async def test_a_tool_that_hangs_in_its_thread_is_left_behind() -> None:
    free = threading.Event()

    def hang(arguments: dict[str, Any], context: ToolContext) -> str:
        free.wait(60)
        stopped.append(context.cancelled)
        return "too late"

    stopped: list[bool] = []
    try:
        async with playing(tools=[make("hangs", hang, timeout=0.05), make()]) as played:
            result = await played.call("hangs")
            assert result.text == "'hangs' did not finish within 0.05 s and was stopped." + MAY_HAVE
            assert not (await played.call("read_file")).is_error
            free.set()
            with anyio.fail_after(120):
                while not stopped:
                    await anyio.sleep(0.01)
        assert stopped == [True]
    finally:
        free.set()


@pytest.mark.both_loops
async def test_tools_that_hang_in_threads_do_not_starve_other_work_in_threads() -> None:
    free = threading.Event()

    def hang(arguments: dict[str, Any]) -> str:
        return str(free.wait(60))

    try:
        async with playing(tools=[make("hangs", hang, timeout=0.05), make("quick", _quick)]) as played:
            calls = await played.reply(*[("hangs", None)] * 45)
            async with anyio.create_task_group() as group:
                for call in calls:
                    group.start_soon(played.run.call_tool, call)
            with anyio.fail_after(120):
                assert await anyio.to_thread.run_sync(lambda: "a store's write") == "a store's write"
                assert (await played.call("quick")).text == "done"
    finally:
        free.set()


@pytest.mark.heavy
@pytest.mark.both_loops
async def test_a_tool_that_hangs_in_threads_gets_no_more_than_its_share_of_them() -> None:
    free = threading.Event()
    hanging: list[int] = []

    def hang(arguments: dict[str, Any]) -> str:
        hanging.append(threading.get_ident())
        return str(free.wait(60))

    try:
        async with playing(tools=[make("hangs", hang, timeout=0.05)]) as played:
            for _ in range(2):
                async with anyio.create_task_group() as group:
                    for call in await played.reply(*[("hangs", None)] * 60):
                        group.start_soon(played.run.call_tool, call)
            assert len(hanging) <= 40, "those that were abandoned count"
    finally:
        free.set()


@pytest.mark.both_loops
async def test_a_tool_that_swallows_its_cancellation_is_late_all_the_same() -> None:
    async def stubborn(arguments: dict[str, Any]) -> str:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "I go on"
        raise AssertionError

    async with playing(tools=[make("stubborn", stubborn, timeout=0.05)]) as played:
        assert (
            await played.call("stubborn")
        ).text == "'stubborn' did not finish within 0.05 s and was stopped." + MAY_HAVE


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio's Cancelled cannot be raised by hand
async def test_a_cancellation_that_nobody_asked_for_is_the_tools_failure() -> None:
    async def stray(arguments: dict[str, Any]) -> str:
        raise asyncio.CancelledError

    async with playing(tools=[make("stray", stray)]) as played:
        assert (await played.call("stray")).text == "'stray' failed: it was cancelled from inside"


def _quick(arguments: dict[str, Any]) -> str:
    return "done"


# What tools return


class Colour(Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    when: date


class Model(BaseModel):
    name: str


@pytest.mark.light(every=7)
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        (5, "5"),
        (True, "true"),
        ({"a": [1, "ü"]}, '{"a": [1, "ü"]}'),
        ([1, None], "[1, null]"),
        ((1, 2), "[1, 2]"),
        (Colour.RED, '"red"'),
        (Point(1, date(2026, 1, 2)), '{"x": 1, "when": "2026-01-02"}'),
        (Model(name="n"), '{"name": "n"}'),
        (b"bytes", '"bytes"'),
        (float("inf"), None),
        (float("nan"), None),
        (object(), None),
        (b"\xff\xfe", None),
        ({1: 2, None: 3}, None),
        (iter([1]), None),
        ("half \ud800", None),
    ],
    ids=without_address,
)
@pytest.mark.parametrize("form", ["async", "plain", "partial"])
async def test_whatever_a_tool_returns_becomes_a_result(value: object, text: str | None, form: str) -> None:
    async def give(arguments: dict[str, Any]) -> object:
        return value

    executors: dict[str, Any] = {
        "async": give,
        "plain": lambda arguments: value,  # pyright: ignore[reportUnknownLambdaType]
        "partial": functools.partial(give),
    }
    async with playing(tools=[make("odd", executors[form])]) as played:
        result = await played.call("odd")
        if text is not None:
            assert (result.text, result.is_error) == (text, False)
        assert [call_id for call_id, _ in played.results] == ["c1"]
        json.dumps(played.session.messages).encode()


@pytest.mark.parametrize("value", [5, True, {"a": 1}, [1, None]], ids=without_address)
async def test_what_a_tool_returns_beside_text_is_the_structured_form_of_its_result(value: object) -> None:
    async def give(arguments: dict[str, Any]) -> object:
        return value

    async with playing(tools=[make("odd", give)]) as played:
        assert (await played.call("odd")).structured == value


async def test_a_result_with_other_content_keeps_it() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

    async def draw(arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(blocks=[{"type": "text", "text": "a picture"}, image], structured={"ok": True})

    async with playing(tools=[make("draw", draw)]) as played:
        result = await played.call("draw")
        assert (result.text, result.blocks[1], result.structured) == ("a picture", image, {"ok": True})


SHAPE = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


@pytest.mark.parametrize(
    ("result", "fits"),
    [
        (ToolResult('{"count": 1}'), True),
        (ToolResult("three", structured={"count": 3}), True),
        (ToolResult('{"count": "many"}'), False),
        (ToolResult("three"), False),
        (ToolResult("", structured={}), False),
        (ToolResult("it failed", is_error=True), True),
    ],
    ids=without_address,
)
async def test_a_result_that_does_not_match_the_declared_output_schema_says_so(result: ToolResult, fits: bool) -> None:
    async def count(arguments: dict[str, Any]) -> ToolResult:
        return result

    async with playing(tools=[make("count", count, output_schema=SHAPE)]) as played:
        answer = await played.call("count")
        assert answer.is_error is result.is_error
        assert ("does not match the tool's output schema" in answer.text) is not fits
        assert answer.text.startswith(result.text)


@pytest.mark.both_loops
async def test_context_variables_reach_tools_and_their_threads() -> None:
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place")

    def there(arguments: dict[str, Any]) -> str:
        return place.get()

    async def here(arguments: dict[str, Any]) -> str:
        return there(arguments)

    async with playing(tools=[make("a", here), make("b", there)]) as played:
        place.set("the caller's")
        assert (await played.call("a")).text == (await played.call("b")).text == "the caller's"


async def test_a_tool_is_given_its_context_and_tells_its_progress_to_the_trace() -> None:
    told: list[dict[str, Any]] = []

    class Worker:
        @hooks.trace
        async def trace(self, event: Trace) -> None:
            if event.kind == "progress":
                told.append(event.record.as_dict())

        @tool
        async def work(self, context: ToolContext) -> str:
            """Work."""
            await context.progress("half way", 0.5)
            await context.storage.set("done", 1)
            context.count("works")
            there = (context.session_id, context.attempt, context.agent_id, context.call.name, context.cancelled)
            return f"{there} {len(context.catalog)} {await context.storage.keys()}"

    async with playing(Worker, tools=[], agent_id="helper") as played:
        assert (await played.call("work")).text == "('s', 1, 'helper', 'work', False) 1 ['done']"
        assert played.run.stats["counters"] == {"works": 1}
        assert await played.host.storage("worker").get("done") == 1
    assert told == [{"call_id": "c1", "text": "half way", "share": 0.5}]


@pytest.mark.both_loops
async def test_parallel_calls_run_at_once_and_are_recorded_in_the_order_of_the_reply() -> None:
    waiting: list[str] = []
    everybody = anyio.Event()

    async def meet(arguments: dict[str, Any]) -> str:
        waiting.append(arguments["path"])
        if len(waiting) == 3:
            everybody.set()
        with anyio.fail_after(120):
            await everybody.wait()
        return arguments["path"]

    finished: list[str] = []

    class Watch:
        @hooks.after_tool_call
        async def watch(self, event: AfterToolCall) -> None:
            finished.append(event.call.id)

    async with playing(Watch, tools=[make("meet", meet)]) as played:
        calls = await played.reply(*[("meet", {"path": text}) for text in "abc"])
        async with anyio.create_task_group() as group:
            for call in reversed(calls):
                group.start_soon(played.run.call_tool, call)
        assert played.results == [("c1", "a"), ("c2", "b"), ("c3", "c")]
    assert sorted(finished) == ["c1", "c2", "c3"]


async def test_a_list_fits_an_output_schema_that_asks_for_one() -> None:
    async def numbers(arguments: dict[str, Any]) -> list[int]:
        return [1, 2]

    async with playing(tools=[make("numbers", numbers, output_schema={"type": "array"})]) as played:
        assert (await played.call("numbers")).text == "[1, 2]"
