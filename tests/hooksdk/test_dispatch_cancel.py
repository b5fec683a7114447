"""Exits and cancellations in awaited handlers: whose they are, and that they let nothing through."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
import pytest
from policies import LIMIT, PLENTY, Body, blocked_by, policy

from hooksdk import hooks
from hooksdk.errors import PolicyFailed
from hooksdk.hooks import AgentEnd, AgentStart, Block, SessionStart
from tests.stage import Stage, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def test_system_exit_is_the_handlers_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        raise SystemExit(3)

    assert "SystemExit: 3" in await blocked_by(body, caplog)


async def test_a_group_of_exits_is_the_handlers_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        raise BaseExceptionGroup("all", [SystemExit(3), ValueError()])

    assert "BaseExceptionGroup" in await blocked_by(body, caplog)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BaseExceptionGroup("all", [KeyboardInterrupt(), ValueError()])])
@pytest.mark.parametrize("limit", [PLENTY, float("inf")])
async def test_keyboard_interrupt_goes_up_and_nothing_runs(error: BaseException, limit: float) -> None:
    async def body() -> None:
        raise error

    async with playing(policy(body, limit)) as stage:
        with pytest.raises(type(error)):
            await stage.call()
        assert stage.executed == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_stray_cancellation_is_the_handlers_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()
        await task

    assert "CancelledError: it was cancelled from inside" in await blocked_by(body, caplog)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_the_task_has_not_met_yet_is_not_the_handlers() -> None:
    async def body() -> None:
        await asyncio.sleep(0)

    async def call(stage: Stage) -> None:
        current = asyncio.current_task()
        assert current is not None
        current.cancel()  # as Ctrl-C does while the main task computes
        await stage.call()

    async with playing(policy(body)) as stage:
        task = asyncio.ensure_future(call(stage))
        await asyncio.wait([task])
        assert task.cancelled()
        assert stage.executed == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("hook", ["agent_start", "agent_end", "session_start"])
async def test_a_stray_cancellation_fails_only_its_handler_in_every_kind(hook: str) -> None:
    after: list[str] = []

    class Strays:
        @hooks.agent_start
        async def start(self, event: AgentStart) -> Block | None:
            if hook == "agent_start":
                raise asyncio.CancelledError

        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            after.append("end")

        @hooks.agent_end
        async def end_too(self, event: AgentEnd) -> None:
            raise asyncio.CancelledError

        @hooks.session_start
        async def open(self, event: SessionStart) -> None:
            raise asyncio.CancelledError

    if hook == "agent_start":
        with pytest.raises(PolicyFailed, match="cancelled from inside"):
            async with playing(Strays):
                raise AssertionError
    else:
        async with playing(Strays) as stage:
            assert (await stage.call()).text == "done"
        assert after == ["end"]


async def sleeps() -> None:
    await anyio.sleep_forever()


async def swallows() -> None:
    try:
        await anyio.sleep_forever()
    except BaseException:
        return


async def raises() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise ValueError("while cancelled")


def telling(body: Body) -> tuple[Body, anyio.Event]:
    """The body, and what it sets when it begins."""
    begun = anyio.Event()

    async def tells() -> None:
        begun.set()
        await body()

    return tells, begun


@pytest.mark.parametrize("limit", [PLENTY, float("inf")])
@pytest.mark.parametrize("body", [sleeps, swallows, raises])
async def test_a_cancellation_of_the_hosts_scope_goes_up_and_nothing_runs(body: Body, limit: float) -> None:
    after: list[str] = []
    body, begun = telling(body)
    config = {"timeouts": {"before_tool_call": limit}}
    async with playing(policy(body, limit), config=config) as stage:

        async def call() -> None:
            await stage.call()
            after.append("not cancelled")

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await begun.wait()
            group.cancel_scope.cancel()
        assert stage.executed == []
        assert after == []
        assert await stage.call("no_such_tool"), "the run can go on"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("limit", [PLENTY, float("inf")])
@pytest.mark.parametrize("body", [sleeps, swallows, raises])
async def test_a_native_cancellation_goes_up_and_nothing_runs(body: Body, limit: float) -> None:
    body, begun = telling(body)
    config = {"timeouts": {"before_tool_call": limit}}
    async with playing(policy(body, limit), config=config) as stage:
        task = asyncio.ensure_future(stage.call())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert stage.executed == []
        assert stage.session.messages[-1]["role"] == "assistant" or "cancelled" in str(stage.session.messages[-1])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("when", [0.02, 0.05, 0.055, 0.06])
async def test_a_native_cancellation_beside_the_time_limit_is_never_lost(when: float) -> None:
    async with playing(policy(swallows, LIMIT)) as stage:
        task = asyncio.ensure_future(stage.call())
        await asyncio.sleep(when)
        in_time = task.cancel()
        if in_time:
            with pytest.raises(asyncio.CancelledError):
                await task
        assert stage.executed == []


async def test_handlers_may_use_groups_time_outs_and_shields_of_their_own() -> None:
    async def body() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.01)
            group.start_soon(anyio.sleep_forever)
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        with anyio.move_on_after(0.01):
            await anyio.sleep_forever()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.01)
        try:
            with anyio.fail_after(0.01):
                await anyio.sleep_forever()
        except TimeoutError:
            pass

    async with playing(policy(body)) as stage:
        assert [(await stage.call()).text for _ in range(3)] == ["done"] * 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_handlers_may_use_asyncios_own_time_outs() -> None:
    async def body() -> None:
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(60)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.sleep(60), 0.01)

    async with playing(policy(body)) as stage:
        assert (await stage.call()).text == "done"


async def test_a_cancelled_run_still_ends_and_a_native_cancellation_does_too(anyio_backend: str) -> None:
    ends: list[str] = []

    class Ends:
        @hooks.agent_end
        async def end(self, event: AgentEnd) -> None:
            for _ in range(5):
                await anyio.sleep(0)
            ends.append(event.reason)

    with anyio.CancelScope() as scope:
        async with playing(Ends):
            scope.cancel()
            await anyio.sleep_forever()
    assert ends == ["cancelled"]
    if anyio_backend == "asyncio":
        opened = asyncio.Event()

        async def run() -> None:
            async with playing(Ends):
                opened.set()
                await asyncio.sleep(60)

        task = asyncio.ensure_future(run())
        await opened.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ends == ["cancelled", "cancelled"]
