"""Time limits of awaited handlers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
import pytest
from policies import LIMIT, blocked_by, late, policy

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block, SessionStart
from tests.stage import playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


# Late


async def test_a_handler_that_hangs_is_late_and_the_message_says_everything(caplog: pytest.LogCaptureFixture) -> None:
    message = await late(anyio.sleep_forever, caplog)
    for part in ("plugin 'policy'", "Policy.judge", "policies.py:", "before_tool_call"):
        assert part in message


async def test_a_message_about_a_raising_handler_says_everything(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        raise ValueError("no rules")

    message = await blocked_by(body, caplog)
    for part in ("plugin 'policy'", "Policy.judge", "policies.py:", "before_tool_call", "no rules", " ms)"):
        assert part in message


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
async def test_an_error_whose_text_raises_is_still_a_failure(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    class Evil(Exception):
        def __str__(self) -> str:
            raise kind

    async def body() -> None:
        raise Evil

    assert "Evil: (its text cannot be read)" in await blocked_by(body, caplog)


@pytest.mark.parametrize(
    ("kind", "words"), [(RuntimeError, "<Evil instance at"), (SystemExit, "what cannot be shown (Evil)")]
)
async def test_an_answer_whose_repr_raises_is_still_a_failure(
    kind: type[BaseException], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Evil:
        def __repr__(self) -> str:
            raise kind

    async def body() -> Any:
        return Evil()

    assert f"it answered {words}" in await blocked_by(body, caplog)


async def test_an_answer_that_cannot_be_shown_is_still_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> Any:
        return type("array", (), {})()  # named like what `reprlib` reads in a way of its own

    assert "it answered what cannot be shown (array)" in await blocked_by(body, caplog)


async def test_an_async_handler_that_blocks_the_loop_is_late(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        time.sleep(2 * LIMIT)

    await late(body, caplog)


async def test_a_plain_handler_that_blocks_is_late(caplog: pytest.LogCaptureFixture) -> None:
    class Slow:
        @hooks.before_tool_call(timeout=LIMIT)
        def judge(self, event: BeforeToolCall) -> Block | None:
            time.sleep(2 * LIMIT)
            return None

    async with playing(Slow) as stage:
        assert (await stage.call()).text.startswith("Blocked: plugin 'slow' failed")
        assert stage.executed == []


async def test_an_answer_after_a_swallowed_cancellation_is_late(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            return

    await late(body, caplog)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_raised_anew_after_the_limit_is_late_and_cancels_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            raise asyncio.CancelledError("mine") from None

    await late(body, caplog)


async def test_an_error_out_of_the_cancellation_is_late(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("while cleaning up")

    await late(body, caplog)


async def test_a_group_that_fails_while_it_is_cancelled_is_late(caplog: pytest.LogCaptureFixture) -> None:
    async def child() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("child")

    async def body() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(child)
            group.start_soon(anyio.sleep_forever)

    await late(body, caplog)


async def test_a_shield_makes_a_handler_late_and_not_free(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3 * LIMIT)

    await late(body, caplog)


@pytest.mark.jumping_clock
async def test_a_time_out_of_one_leaves_the_next_its_full_time() -> None:
    done: list[str] = []

    class Hangs:
        @hooks.session_start(timeout=10)
        async def a(self, event: SessionStart) -> None:
            await anyio.sleep_forever()

        @hooks.session_start(timeout=10)
        async def b(self, event: SessionStart) -> None:
            await anyio.sleep(6)
            done.append("b")

        @hooks.session_start(timeout=10)
        async def c(self, event: SessionStart) -> None:
            await anyio.sleep(6)
            done.append("c")

        @hooks.session_start(timeout=20)
        async def d(self, event: SessionStart) -> None:
            await anyio.sleep(15)
            done.append("d")

    async with playing(Hangs):
        assert done == ["b", "c", "d"]


async def test_the_operators_limit_beats_the_authors(caplog: pytest.LogCaptureFixture) -> None:
    config = {"timeouts": {"before_tool_call": 0.07}}
    async with playing(policy(anyio.sleep_forever), config=config) as stage:
        assert (await stage.call()).is_error
    assert "no answer within 0.07 s" in caplog.text


async def test_the_plugins_own_section_beats_the_limit_for_all() -> None:
    config = {"timeouts": {"before_tool_call": 0.01}, "plugins": {"policy": {"timeouts": {"before_tool_call": 60}}}}
    async with playing(policy(lambda: anyio.sleep(0.05), timeout=0.01), config=config) as stage:
        assert (await stage.call()).text == "done"


async def test_without_limits_the_other_rules_hold(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        raise SystemExit(3)

    message = await blocked_by(body, caplog, config={"timeouts": {"before_tool_call": float("inf")}})
    assert "SystemExit: 3" in message
