"""What plugins hold open around runs and around tools: in whose task, in which order, and what becomes of failures."""

from __future__ import annotations

import contextvars
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from hooksdk import Tool, ToolCall, ToolContext, hooks
from hooksdk.errors import RunBlocked
from hooksdk.hooks import Answer, Around, AroundRun, AroundToolCall, BeforeToolCall, Block
from hooksdk.testing import call, open_session, play
from tests.stage import reply

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

where: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("where", default=())


@contextmanager
def inside(name: str) -> Generator[None]:
    token = where.set((*where.get(), name))
    try:
        yield
    finally:
        where.reset(token)


class Holds:
    @hooks.around_run
    def run(self, event: AroundRun) -> Around:
        return Around(inside(f"run of {event.session_id}"))

    @hooks.around_tool_call(tools="look_*")
    async def tool(self, event: AroundToolCall) -> Around:
        await anyio.sleep(0)
        return Around(inside(f"{event.tool.name}{event.arguments}"))


def look_plain() -> str:
    """Where am I, in a thread?"""
    return " > ".join(where.get())


async def look_async() -> str:
    """Where am I?"""
    await anyio.sleep(0)
    return " > ".join(where.get())


async def look_around(context: ToolContext) -> str:
    """Where is a tool that I call?"""
    return (await context.call_tool("look_async", {})).text


async def other() -> str:
    """Where am I, out of the pattern?"""
    return " > ".join(where.get())


TOOLS = [look_plain, look_async, look_around, other]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("look_plain", "run of test > look_plain{}"),
        ("look_async", "run of test > look_async{}"),
        ("look_around", "run of test > look_around{} > look_async{}"),
        ("other", "run of test"),
    ],
)
async def test_a_tool_runs_inside_what_is_held_around_it_and_around_the_run(name: str, place: str) -> None:
    async with open_session(Holds, tools=TOOLS) as session:
        played = await play(session, [call(name), "Seen."])
        assert played.calls[-1].result.text == place


async def test_the_hosts_own_code_is_inside_until_the_run_ends() -> None:
    async with open_session(Holds) as session:
        async with session.run():
            assert where.get() == ("run of test",)
        assert where.get() == ()
        with pytest.raises(ZeroDivisionError):
            async with session.run():
                raise ZeroDivisionError
        assert where.get() == ()


async def test_calls_beside_each_other_do_not_see_each_others() -> None:
    async with open_session(Holds) as session, session.run() as run:
        await run.resolve_tools([Tool.from_function(one, source="host") for one in (look_plain, look_async)])
        await run.record(reply(ToolCall("a", "look_plain"), ToolCall("b", "look_async")))
        async with anyio.create_task_group() as group:
            for each in run.pending:
                group.start_soon(run.call_tool, each)
        assert [message["content"] for message in session.messages[-2:]] == [
            "run of test > look_plain{}", "run of test > look_async{}",
        ]  # fmt: skip


async def test_what_is_held_is_left_when_the_tool_raises_is_late_or_its_caller_is_cancelled() -> None:
    left: list[str] = []

    class Notes:
        @hooks.around_tool_call
        def hold(self, event: AroundToolCall) -> Around:
            @contextmanager
            def note() -> Generator[None]:
                try:
                    yield
                finally:
                    left.append(event.tool.name)

            return Around(note())

    async def raises() -> str:
        """Raise."""
        raise ValueError

    hanging = anyio.CancelScope()

    async def hangs() -> str:
        """Hang."""
        if len(left) == 2:
            hanging.cancel()
        await anyio.sleep_forever()
        return ""

    late = Tool.from_function(hangs, source="host", name="late", timeout=0.05)
    tools = [Tool.from_function(raises, source="host"), Tool.from_function(hangs, source="host"), late]
    async with open_session(Notes) as session, session.run() as run:
        await run.resolve_tools(tools)
        await run.record(reply(*(ToolCall(name, name) for name in ("raises", "late", "hangs"))))
        first, second, third = run.pending
        assert (await run.call_tool(first)).is_error
        assert (await run.call_tool(second)).is_error
        with hanging:
            await run.call_tool(third)
    assert left == ["raises", "late", "hangs"]


class Refuses:
    @hooks.agent_start
    def start(self, event: hooks.AgentStart) -> Block | None:
        return Block("no") if event.input == "in" else None

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Answer:
        return Block("no") if event.tool.name == "other" else Answer("mine")


async def test_nothing_is_held_around_a_run_or_a_call_that_does_not_run() -> None:
    entered: list[str] = []

    class Notes:
        @hooks.around_run
        def run(self, event: AroundRun) -> None:
            entered.append(event.session_id)

        @hooks.around_tool_call
        def hold(self, event: AroundToolCall) -> None:
            entered.append(event.tool.name)

    async with open_session(Notes, Refuses, tools=TOOLS) as session:
        with pytest.raises(RunBlocked):
            async with session.run("in"):
                pass
        await play(session, [[call("other"), call("look_plain")], "Refused."])
    assert entered == ["test"]


class Fails:
    @hooks.around_tool_call.first
    def raises(self, event: AroundToolCall) -> Around:
        raise RuntimeError("no way in")

    @hooks.around_tool_call.first
    def enters_badly(self, event: AroundToolCall) -> Around:
        @contextmanager
        def broken() -> Generator[None]:
            raise OSError("shut")
            yield

        return Around(broken())

    @hooks.around_tool_call.first
    def leaves_badly(self, event: AroundToolCall) -> Around:
        @contextmanager
        def stuck() -> Generator[None]:
            yield
            raise OSError("stuck")

        return Around(stuck())

    @hooks.around_tool_call.first
    def answers_nonsense(self, event: AroundToolCall) -> Any:
        return 42


async def test_what_fails_is_logged_and_the_tool_runs_inside_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async with open_session(Fails, Holds, tools=TOOLS) as session:
        played = await play(session, [call("look_plain"), "Seen."])
        assert [each.result.text for each in played.calls] == ["run of test > look_plain{}"]
    lines = [line.getMessage() for line in caplog.records if "around_tool_call" in line.getMessage()]
    for text in ("no way in", "shut", "stuck", "answered 42"):
        assert sum(text in line for line in lines) == 1, text
    assert all("plugin 'fails'" in line for line in lines)


async def test_what_a_call_began_at_is_told_in_seconds_since_the_epoch() -> None:
    began: list[float] = []

    class Notes:
        @hooks.around_tool_call
        def hold(self, event: AroundToolCall) -> None:
            began.append(event.began)

    async with open_session(Notes, tools=TOOLS) as session:
        await play(session, [call("other"), "Done."])
    assert 1_600_000_000 < began[0] < 10_000_000_000
