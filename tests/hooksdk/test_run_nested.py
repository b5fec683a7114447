"""Tools that call tools, and tools without an executor."""

from __future__ import annotations

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, Tool, ToolContext, ToolResult, hooks, tool
from hooksdk.errors import RunClosed
from hooksdk.hooks import Ask, BeforeToolCall, Block
from tests.stage import MAY_HAVE, echo, make, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


class NoB:
    """Blocks one argument."""

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("no b") if event.arguments.get("path") == "b" else None


# Nested calls


class Nesting:
    """Tools that call tools."""

    contexts: list[ToolContext] = []

    @tool
    async def relay(self, depth: int, context: ToolContext) -> str:
        """Call itself so many times deeper."""
        self.contexts.append(context)
        if depth == 0:
            return "bottom"
        return f"{depth}>" + (await context.call_tool("relay", {"depth": depth - 1})).text

    @tool
    async def outside(self, name: str, context: ToolContext) -> ToolResult:
        """Call any tool."""
        return await context.call_tool(name, {"path": "b"})


async def test_nested_calls_are_judged_and_observed_with_ids_and_origins_and_stay_out_of_the_transcript() -> None:
    seen: list[tuple[str, str, str | None]] = []

    class Watch:
        @hooks.before_tool_call
        def watch(self, event: BeforeToolCall) -> None:
            seen.append((event.call.id, event.call.origin, event.call.parent_id))

    async with playing(Nesting, Watch) as played:
        assert (await played.call("relay", {"depth": 2})).text == "2>1>bottom"
        assert played.results == [("c1", "2>1>bottom")]
        assert [call["status"] for call in played.run.stats["calls"]] == ["ok", "ok", "ok"]
    assert seen == [("c1", "model", None), ("c1/1", "tool", "c1"), ("c1/1/2", "tool", "c1/1")]


async def test_tools_call_tools_eight_deep_and_no_deeper() -> None:
    async with playing(Nesting) as played:
        assert (await played.call("relay", {"depth": 7})).text == "7>6>5>4>3>2>1>bottom"
        deep = await played.call("relay", {"depth": 8})
        assert deep.text == "8>7>6>5>4>3>2>1>'relay' was not run: tools may call tools 8 deep."


async def test_a_context_whose_call_has_returned_calls_nothing_any_more() -> None:
    async with playing(Nesting) as played:
        await played.call("relay", {"depth": 0})
        context = Nesting.contexts[-1]
        assert context.cancelled
        with pytest.raises(RunClosed, match="has returned"):
            await context.call_tool("read_file", {})
        await context.progress("too late")


async def test_a_nested_call_cannot_reach_a_blocked_withheld_or_unknown_tool() -> None:
    async with playing(Nesting, NoB) as played:
        assert (await played.call("outside", {"name": "read_file"})).text == "Blocked by no_b: no b"
        assert "there is no such tool" in (await played.call("outside", {"name": "nothing"})).text


async def test_a_tool_without_an_executor_says_so() -> None:
    async with playing(tools=[Tool(name="remote", source="client", owner="app"), make("near", echo)]) as played:
        assert (await played.call("remote")).text == "'remote' cannot be run here: it has no executor."


@pytest.mark.jumping_clock
async def test_while_a_person_is_asked_the_time_of_the_tools_around_the_call_stands_still() -> None:
    async def slowly(request: ApprovalRequest) -> Approval:
        await anyio.sleep(15)
        return Approval(True)

    class Outer:
        @hooks.before_tool_call(tools="read_file")
        def ask(self, event: BeforeToolCall) -> Ask | None:
            return Ask("May it?")

        @tool(timeout=10)
        async def around(self, context: ToolContext) -> str:
            """Call a tool that is asked for, then take too long if told to."""
            return (await context.call_tool("read_file", {"path": "a"})).text

        @tool(timeout=10)
        async def dawdle(self, context: ToolContext) -> str:
            """Take too long after the person has answered."""
            await context.call_tool("read_file", {"path": "a"})
            await anyio.sleep_forever()
            return "too late"

    async with playing(Outer, approver=slowly) as played:
        assert (await played.call("around")).text == 'ran with {"path": "a"}'
        assert (await played.call("dawdle")).text == "'dawdle' did not finish within 10 s and was stopped." + MAY_HAVE


@pytest.mark.jumping_clock
async def test_two_people_asked_at_once_stop_the_clock_until_both_have_answered_and_no_longer() -> None:
    async def slowly(request: ApprovalRequest) -> Approval:
        await anyio.sleep(float(request.arguments["path"]))
        return Approval(True)

    class Both:
        @hooks.before_tool_call(tools="read_file")
        def ask(self, event: BeforeToolCall) -> Ask | None:
            return Ask("May it?")

        @tool(timeout=10)
        async def both(self, hang: bool, context: ToolContext) -> str:
            """Have two people asked, then take too long if told to."""
            async with anyio.create_task_group() as group:
                group.start_soon(context.call_tool, "read_file", {"path": "3"})
                group.start_soon(context.call_tool, "read_file", {"path": "25"})
            if hang:
                await anyio.sleep_forever()
            return "both have answered"

    async with playing(Both, approver=slowly) as played:
        assert (await played.call("both", {"hang": False})).text == "both have answered"
        with anyio.fail_after(60):
            assert "did not finish within 10 s" in (await played.call("both", {"hang": True})).text


async def test_a_context_calls_nothing_while_its_finished_call_is_still_being_transformed() -> None:
    told: list[str] = []

    class Late:
        @hooks.transform_tool_result(tools="relay")
        async def change(self, event: hooks.TransformToolResult) -> hooks.Replace | None:
            with pytest.raises(RunClosed, match="has returned"):
                await Nesting.contexts[-1].call_tool("read_file", {})
            told.append("refused")

    async with playing(Nesting, Late) as played:
        await played.call("relay", {"depth": 0})
    assert told == ["refused"]
