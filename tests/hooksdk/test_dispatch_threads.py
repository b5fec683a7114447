"""Handlers in worker threads, and context variables."""

from __future__ import annotations

import contextvars
import threading
import time

import anyio
import pytest

from hooksdk import ToolResult, hooks, tool
from hooksdk._firing.hook import THREADS
from hooksdk.errors import PolicyFailed
from hooksdk.hooks import AfterToolCall, AgentStart, BeforeToolCall, Block
from tests.stage import playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
who = contextvars.ContextVar("who", default="nobody")


async def test_a_plain_policy_runs_inline_and_with_thread_in_a_worker() -> None:
    threads: list[bool] = []

    class Policy:
        @hooks.before_tool_call
        def inline(self, event: BeforeToolCall) -> Block | None:
            threads.append(threading.current_thread() is threading.main_thread())

        @hooks.before_tool_call(thread=True)
        def threaded(self, event: BeforeToolCall) -> Block | None:
            threads.append(threading.current_thread() is threading.main_thread())
            return Block("from a thread")

    async with playing(Policy) as stage:
        assert (await stage.call()).text == "Blocked by policy: from a thread"
    assert threads == [True, False]


async def test_a_plain_observer_runs_in_a_worker_and_an_async_one_does_not() -> None:
    threads: dict[str, bool] = {}

    class Sees:
        @hooks.after_tool_call
        def plain(self, event: AfterToolCall) -> None:
            threads["plain"] = threading.current_thread() is threading.main_thread()

        @hooks.after_tool_call
        async def coroutine(self, event: AfterToolCall) -> None:
            threads["async"] = threading.current_thread() is threading.main_thread()

    async with playing(Sees) as stage:
        await stage.call()
    assert threads == {"plain": False, "async": True}


async def test_context_variables_reach_handlers_tools_and_threads() -> None:
    seen: dict[str, str] = {}

    class Reads:
        @hooks.before_tool_call
        async def coroutine(self, event: BeforeToolCall) -> Block | None:
            seen["async"] = who.get()

        @hooks.before_tool_call
        def plain(self, event: BeforeToolCall) -> Block | None:
            seen["plain"] = who.get()

        @hooks.before_tool_call(thread=True)
        def threaded(self, event: BeforeToolCall) -> Block | None:
            seen["thread"] = who.get()

        @hooks.after_tool_call
        async def observer(self, event: AfterToolCall) -> None:
            seen["observer"] = who.get()

        @tool
        def look(self) -> str:
            """Look."""
            return who.get()

        @tool
        async def look_async(self) -> str:
            """Look."""
            return who.get()

    token = who.set("ada")
    async with playing(Reads) as stage:
        assert [(await stage.call(name)).text for name in ("look", "look_async")] == ["ada", "ada"]
    who.reset(token)
    assert seen == {"async": "ada", "plain": "ada", "thread": "ada", "observer": "nobody"}


@pytest.mark.parametrize("error", [ValueError("in a thread"), SystemExit(2), StopIteration()])
async def test_whatever_a_threaded_policy_raises_blocks(error: BaseException) -> None:
    class Policy:
        @hooks.before_tool_call(thread=True)
        def judge(self, event: BeforeToolCall) -> Block | None:
            raise error

    async with playing(Policy) as stage:
        assert (await stage.call()).text.startswith("Blocked: plugin 'policy' failed")
        assert stage.executed == []


async def test_abandoned_threads_are_bounded_for_all_sessions_and_the_calls_stay_blocked() -> None:
    release = threading.Event()
    running, most = list[int](), 0

    class Hangs:
        @hooks.before_tool_call(thread=True, timeout=0.04)
        def judge(self, event: BeforeToolCall) -> Block | None:
            nonlocal most
            running.append(1)
            most = max(most, len(running))
            release.wait(60)
            running.pop()

    try:
        async with playing(Hangs) as stage:
            results: list[ToolResult] = await stage.call_all([("act", None)] * 12)
            async with stage.host.session("other") as other, other.run() as run:
                await run.resolve_tools(list(stage.run.tools))
            assert all(result.text.startswith("Blocked") for result in results)
            assert stage.executed == []
            for _ in range(6):
                assert (await stage.call()).text.startswith("Blocked")
            while len(running) < THREADS:  # a thread may begin when its call is blocked already
                await anyio.sleep(0.01)
            release.set()
            while running:
                await anyio.sleep(0.01)
            assert most == THREADS, "a thread keeps its place until it ends"
            while (await stage.call()).text != "done":  # and gives it back then; a busy machine may be late once more
                pass
    finally:
        release.set()
    while running:
        time.sleep(0.01)


async def test_a_handler_that_hangs_in_its_threads_takes_no_thread_from_another() -> None:
    release = threading.Event()

    class Hangs:
        @hooks.after_tool_call(timeout=0.03)
        def see(self, event: AfterToolCall) -> None:
            release.wait(60)

    class Policy:
        @hooks.before_tool_call(thread=True, timeout=60)
        def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    try:
        async with playing(Hangs, Policy) as stage:
            for _ in range(THREADS + 2):
                assert (await stage.call()).text == "done"
                await stage.observed()
    finally:
        release.set()


async def test_a_threaded_handler_that_hangs_at_the_start_refuses_the_run() -> None:
    release = threading.Event()

    class Hangs:
        @hooks.agent_start(thread=True, timeout=0.05)
        def judge(self, event: AgentStart) -> Block | None:
            release.wait(60)

    try:
        with pytest.raises(PolicyFailed, match=r"agent_start: plugin 'hangs'.* no answer within 0\.05 s"):
            async with playing(Hangs):
                raise AssertionError
    finally:
        release.set()
