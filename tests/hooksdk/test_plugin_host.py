"""Hosts that tell who is at work, sessions that are saved at once, and what plugins may ask of their host."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from hooksdk import Host, MemoryStore, PluginHost, PluginState, ToolContext, hooks, tool
from hooksdk.errors import SessionClosed
from hooksdk.hooks import AgentStart, Block, ResolveSecrets, Secrets
from tests.stage import make, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


class Keeps:
    """Hands the test what it was given."""

    def __init__(self, host: PluginHost, state: PluginState) -> None:
        self.host = host
        self.state = state

    @hooks.session_end
    def end(self, event: hooks.SessionEnd) -> None: ...


def host(*plugins: Any, **options: Any) -> Host:
    return Host(plugins, store=MemoryStore(), config={"allow": []}, **options)


# Who is at work


async def test_a_session_runs_from_its_first_policy_until_its_end_is_stored() -> None:
    async def running(expected: bool) -> None:
        assert session.running is expected

    class Looks:
        @hooks.agent_start
        async def begins(self, event: AgentStart) -> None:
            await running(True)

        @hooks.agent_end
        async def ends(self, event: hooks.AgentEnd) -> None:
            await running(True)

    async with host(Looks) as opened, opened.session("a") as session:
        await running(False)
        async with session.run():
            await running(True)
        await running(False)


async def test_a_run_that_is_blocked_leaves_its_session_idle() -> None:
    class Closed:
        @hooks.agent_start
        def begins(self, event: AgentStart) -> Block:
            return Block("closed")

    async with host(Closed) as opened, opened.session("a") as session:
        with pytest.raises(Exception, match="closed"):
            await session.run().__aenter__()
        assert not session.running
        assert await opened.wait_idle(0)


async def test_the_host_lists_its_open_sessions() -> None:
    async with host() as opened:
        async with opened.session("a") as one, one.child("a/1") as child:
            assert opened.sessions == (one, child)
        assert opened.sessions == ()


async def test_waiting_ends_when_the_last_run_has_ended() -> None:
    async with host() as opened, opened.session("a") as one, opened.session("b") as two:
        ended: list[str] = []

        async def work(session: Any, go: anyio.Event) -> None:
            async with session.run():
                began.set()
                await go.wait()
            ended.append(session.id)

        async with anyio.create_task_group() as group:
            first, second = anyio.Event(), anyio.Event()
            for session, go in ((one, first), (two, second)):
                began = anyio.Event()
                group.start_soon(work, session, go)
                await began.wait()
            assert not await opened.wait_idle(0)
            first.set()
            while not ended:
                await anyio.lowlevel.checkpoint()
            assert not await opened.wait_idle(0)
            second.set()
            assert await opened.wait_idle(60)
        assert ended == ["a", "b"]


async def test_several_may_wait_and_a_run_that_begins_meanwhile_is_waited_for() -> None:
    async with host() as opened, opened.session("a") as session:
        answers: list[bool] = []

        async def wait() -> None:
            answers.append(await opened.wait_idle(60))

        async with anyio.create_task_group() as group:
            run = await session.run().__aenter__()
            group.start_soon(wait)
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await run.__aexit__(None, None, None)
            async with session.run():  # before any of them was awake
                await anyio.wait_all_tasks_blocked()
                assert answers == []
        assert answers == [True, True]


async def test_a_session_that_closes_is_waited_for_no_longer() -> None:
    async with host() as opened, opened.session("a") as session:
        await session.run().__aenter__()
        async with anyio.create_task_group() as group:
            group.start_soon(opened.wait_idle, 60)
            await anyio.wait_all_tasks_blocked()
            await session.close()


async def test_a_session_that_closes_is_at_work_until_its_last_handlers_are_done() -> None:
    asked: list[bool] = []

    class Leaves:
        @hooks.session_end
        async def leave(self, event: hooks.SessionEnd) -> None:
            asked.append(await opened.wait_idle(0))

    async with host(Leaves) as opened:
        async with opened.session("a"):
            assert await opened.wait_idle(0)
        assert asked == [False]
        assert await opened.wait_idle(0)


async def test_a_session_that_opens_is_at_work_until_it_is_open() -> None:
    begun, go = anyio.Event(), anyio.Event()

    class Enters:
        @hooks.session_start
        async def enter(self, event: hooks.SessionStart) -> None:
            begun.set()
            await go.wait()

    async def enter() -> None:
        async with opened.session("a"):
            await anyio.sleep_forever()

    async with host(Enters) as opened, anyio.create_task_group() as group:
        group.start_soon(enter)
        await begun.wait()
        assert not await opened.wait_idle(0)
        go.set()
        assert await opened.wait_idle(60)
        group.cancel_scope.cancel()


# Saving


async def test_saving_a_session_keeps_what_its_plugins_noted_since() -> None:
    store = MemoryStore()
    async with Host([Keeps], store=store, config={"allow": []}) as opened, opened.session("a") as session:
        session.plugin("keeps").state["noted"] = 1
        await session.save()
        assert session._transcript.state("keeps") == {"noted": 1}  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
    with pytest.raises(SessionClosed):
        await session.save()


async def test_saving_waits_for_the_observers_of_what_went_before() -> None:
    class Counts:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.after_tool_call
        async def count(self, event: hooks.AfterToolCall) -> None:
            await anyio.lowlevel.checkpoint()
            self.state["calls"] = self.state.get("calls", 0) + 1

    async with playing(Counts) as stage:
        await stage.call("act", {})
        await stage.session.save()
        assert stage.session._transcript.state("counts") == {"calls": 1}  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]


# What a plugin may ask


async def test_a_plugin_sees_who_is_at_work_and_saves_all_of_them() -> None:
    async with host(Keeps) as opened, opened.session("a") as one, opened.session("b") as two, one.run():
        asked: PluginHost = two.plugin("keeps").host
        assert list(asked.running) == ["a"]
        assert not await asked.wait_idle(0)
        for session in (one, two):
            session.plugin("keeps").state["n"] = session.id
        await asked.save()
        states = [session._transcript.state("keeps") for session in (one, two)]  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        assert states == [{"n": "a"}, {"n": "b"}]


async def test_shared_may_take_the_host_too() -> None:
    class Shares:
        @classmethod
        @asynccontextmanager
        async def shared(cls, config: Any, host: PluginHost) -> AsyncGenerator[PluginHost]:
            yield host

        def __init__(self, shared: PluginHost) -> None:
            self.host = shared

        @tool
        def act(self) -> str:
            """Act."""
            return ""

    async with host(Shares) as opened, opened.session("a") as session:
        assert list(session.plugin("shares").host.running) == []


async def test_a_plugin_asks_the_program_around_the_host_to_restart_it() -> None:
    reasons: list[str] = []

    async def restart(reason: str) -> None:
        reasons.append(reason)

    async with host(Keeps, restart=restart) as opened, opened.session("a") as session:
        asked: PluginHost = session.plugin("keeps").host
        assert asked.can_restart
        await asked.restart("new settings")
    assert reasons == ["new settings"]


async def test_a_host_that_was_not_told_how_refuses_to_restart() -> None:
    async with host(Keeps) as opened, opened.session("a") as session:
        asked: PluginHost = session.plugin("keeps").host
        assert not asked.can_restart
        with pytest.raises(RuntimeError, match=r"Host\(restart="):
            await asked.restart("")


async def test_a_plugin_cannot_reach_the_conversations_through_its_host() -> None:
    async with host(Keeps) as opened, opened.session("a") as session:
        public = {name for name in dir(session.plugin("keeps").host) if not name.startswith("_")}
    assert public == {"running", "wait_idle", "save", "can_restart", "restart"}


# What a running tool may ask


async def test_a_tool_knows_its_run_and_masks_the_secrets_that_it_was_given() -> None:
    class Vault:
        @hooks.resolve_secrets
        def give(self, event: ResolveSecrets) -> Secrets:
            return Secrets({"KEY": "swordfish"})

    async def look(arguments: dict[str, Any], context: ToolContext) -> str:
        assert context.info.workspace_dir == "/work"
        assert context.info.session_id == context.session_id
        halves = context.mask(f"it is {arguments['key']}").split(" is ")
        return "|".join(halves)

    tools = [make("look", look, properties={"key": {"type": "string"}})]
    async with playing(Vault, tools=tools, workspace_dir="/work") as stage:
        assert (await stage.call("look", {"key": "{{secret:KEY}}"})).text == "it|{{secret:KEY}}"
