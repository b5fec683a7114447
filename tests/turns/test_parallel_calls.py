"""Several calls of one reply."""

from __future__ import annotations

import threading

import anyio
import pytest
from reading_transcripts import answers, assert_sendable

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import Call, Turn, call, open_session, play

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def test_calls_run_at_the_same_time_and_their_results_stand_in_order(form: str):
    running: set[int] = set()
    met = anyio.Event()
    ended: list[int] = []

    async def work(number: int) -> str:
        """Wait for all the others, then end in the reverse order."""
        running.add(number)
        if len(running) == 4:
            met.set()
        await met.wait()
        while number + len(ended) < 3:
            await anyio.sleep(0)
        ended.append(number)
        return f"result {number}"

    async with open_session(tools=[work]) as session:
        script = [[call("work", number=number) for number in range(4)], "done"]
        with anyio.fail_after(120):
            played = await play(session, script, format=form)
    assert ended == [3, 2, 1, 0]
    assert [one.text for one in played.turns[1].results] == [f"result {number}" for number in range(4)]
    assert_sendable(form, played.messages)


async def test_one_failing_call_leaves_the_others_alone(form: str):
    async def work(number: int) -> str:
        """Fail for one number."""
        if number == 1:
            raise ValueError("one is odd")
        return f"result {number}"

    async with open_session(tools=[work]) as session:
        played = await play(session, [[call("work", number=number) for number in range(3)], "done"], format=form)
    first, second, third = played.turns[1].results
    assert (first.text, third.text) == ("result 0", "result 2")
    assert second.is_error
    assert "one is odd" in second.text


async def test_every_call_is_judged_by_itself(form: str):
    class Odd:
        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Block | None:
            for _ in range(event.arguments["number"]):
                await anyio.sleep(0)
            return Block("odd") if event.arguments["number"] % 2 else None

    async def work(number: int) -> str:
        """Work."""
        return f"result {number}"

    async with open_session(Odd, tools=[work]) as session:
        played = await play(session, [[call("work", number=number) for number in range(6)], "done"], format=form)
    assert [one.is_error for one in played.turns[1].results] == [False, True] * 3
    assert_sendable(form, played.messages)


async def test_a_plain_function_does_not_hold_up_the_others(form: str):
    meeting = threading.Barrier(4)

    def meet(number: int) -> str:
        """Block a thread until all the others have come."""
        meeting.wait(30)
        return str(number)

    async with open_session(tools=[meet]) as session:
        played = await play(session, [[call("meet", number=number) for number in range(4)], "done"], format=form)
    assert [text for _, text in answers(form, played.messages)] == list("0123")


@pytest.mark.light(every=3)
async def test_a_reply_may_ask_for_fifty_calls(form: str):
    async def work(number: int) -> str:
        """Work."""
        await anyio.sleep(0)
        return str(number)

    def script(turn: Turn) -> list[Call] | str:
        return [call("work", number=number) for number in range(50)] if turn.number == 1 else "done"

    async with open_session(tools=[work]) as session:
        played = await play(session, script, format=form)
    assert [one.text for one in played.turns[1].results] == [str(number) for number in range(50)]
