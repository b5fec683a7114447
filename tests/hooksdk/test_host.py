"""Hosts: what is shared, how a host opens and closes, and its stores."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from hooksdk import Host, MemoryStore, hooks
from hooksdk.errors import ConfigError, DuplicatePlugin, PluginRefused, SessionBusy, SessionClosed, StoreError
from hooksdk.hooks import SessionEnd, Trace
from tests.stage import USER, OwnStore, make

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

EVENTS: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    EVENTS.clear()


def bare(*plugins: Any, store: Any = None) -> Host:
    """A host with these plugins and nothing that is installed."""
    return Host(plugins, store=store or MemoryStore(), config={"allow": []})


class Pool:
    """Shares something dear."""

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Any) -> AsyncGenerator[list[str], None]:
        EVENTS.append("+pool")
        try:
            yield ["the pool"]
        finally:
            EVENTS.append("-pool")

    def __init__(self, shared: list[str]) -> None:
        self.pool = shared

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None, None]:
        EVENTS.append("+instance")
        yield
        EVENTS.append("-instance")

    @hooks.session_end
    def end(self, event: SessionEnd) -> None: ...


class Cache(Pool):
    """Another one."""

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Any) -> AsyncGenerator[list[str], None]:
        EVENTS.append("+cache")
        yield ["the cache"]
        EVENTS.append("-cache")

    lifespan = None  # type: ignore[assignment]

    @hooks.session_end
    def end(self, event: SessionEnd) -> None: ...


class NoServer(Pool):
    """Cannot open."""

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Any) -> AsyncGenerator[list[str], None]:
        raise ValueError("no server")
        yield []

    @hooks.session_end
    def end(self, event: SessionEnd) -> None: ...


async def test_what_a_plugin_shares_is_made_once_for_a_host_and_closed_in_reverse() -> None:
    async with bare(Pool, Cache) as host:
        assert EVENTS == ["+pool", "+cache"]
        async with host.session("a") as one, host.session("b") as two:
            assert one.plugin("pool").pool is two.plugin("pool").pool
            assert one.plugin("cache").pool == ["the cache"]
        assert EVENTS[2:] == ["+instance", "+instance", "-instance", "-instance"]
    assert EVENTS[-2:] == ["-cache", "-pool"]


async def test_a_host_that_fails_while_it_opens_leaves_nothing_behind() -> None:
    host = bare(Pool, Cache, NoServer)
    with pytest.raises(PluginRefused, match=r"plugin 'no_server' refused: .*no server"):
        await host.__aenter__()
    assert EVENTS == ["+pool", "+cache", "-cache", "-pool"]
    with pytest.raises(SessionClosed):
        host.session("s")


async def test_a_host_cancelled_while_it_opens_leaves_nothing_behind() -> None:
    reached = anyio.Event()

    class Slow(Pool):
        @classmethod
        @asynccontextmanager
        async def shared(cls, config: Any) -> AsyncGenerator[list[str], None]:
            EVENTS.append("+slow")
            try:
                reached.set()
                await anyio.sleep_forever()
                yield []
            finally:
                EVENTS.append("-slow")

        @hooks.session_end
        def end(self, event: SessionEnd) -> None: ...

    async def open_it() -> None:
        await bare(Pool, Slow).__aenter__()

    async with anyio.create_task_group() as group:
        group.start_soon(open_it)
        await reached.wait()
        group.cancel_scope.cancel()
    assert sorted(EVENTS) == ["+pool", "+slow", "-pool", "-slow"]


async def test_something_shared_that_fails_at_its_end_hinders_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Pool):
        @classmethod
        @asynccontextmanager
        async def shared(cls, config: Any) -> AsyncGenerator[list[str], None]:
            yield []
            raise ValueError("cannot close")

        @hooks.session_end
        def end(self, event: SessionEnd) -> None: ...

    with caplog.at_level(logging.WARNING):
        async with bare(Pool, Bad, Cache):
            pass
    assert EVENTS == ["+pool", "+cache", "-cache", "-pool"]
    assert "shared of bad failed at its end: ValueError: cannot close" in caplog.text


async def test_a_host_holds_what_it_is_given_until_it_closes() -> None:
    @asynccontextmanager
    async def server(name: str) -> AsyncGenerator[str, None]:
        EVENTS.append(f"+{name}")
        yield name
        EVENTS.append(f"-{name}")

    async with bare() as host:
        assert await host.enter(server("a")) == "a"
        assert await host.enter(server("b"), name="the second server") == "b"
    assert EVENTS == ["+a", "+b", "-b", "-a"]
    with pytest.raises(SessionClosed):
        await host.enter(server("c"))


async def test_a_host_that_closes_closes_its_sessions_newest_first_and_says_shutdown() -> None:
    class Watch:
        @hooks.session_end
        def end(self, event: SessionEnd) -> None:
            EVENTS.append(f"{event.session_id} {event.reason}")

    async with bare(Watch) as host:
        for name in "abc":
            await host.session(name).__aenter__()
        async with host.session("d"):
            pass
    assert EVENTS == ["d closed", "c shutdown", "b shutdown", "a shutdown"]


async def test_a_host_may_be_left_by_another_task_than_the_one_that_entered_it() -> None:
    host = bare(Pool)
    sessions: list[Any] = []

    async def enter() -> None:
        await host.__aenter__()
        sessions.append(await host.session("s").__aenter__())

    async def leave() -> None:
        await host.__aexit__(None, None, None)

    for step in (enter, leave):
        async with anyio.create_task_group() as group:
            group.start_soon(step)
    assert EVENTS == ["+pool", "+instance", "-instance", "-pool"]
    with pytest.raises(SessionClosed):
        assert sessions[0].messages


async def test_a_host_may_be_left_with_a_run_open() -> None:
    class Watch:
        @hooks.session_end
        def end(self, event: SessionEnd) -> None:
            EVENTS.append(event.reason)

    host = bare(Watch)
    await host.__aenter__()
    session = await host.session("s").__aenter__()
    run = await session.run().__aenter__()
    await run.record(USER)
    with anyio.fail_after(120):
        await host.__aexit__(None, None, None)
        with pytest.raises(SessionClosed):
            await run.__aexit__(None, None, None)
    assert EVENTS == ["shutdown"]


async def test_two_sessions_of_one_id_wait_for_each_other() -> None:
    async with bare() as host:
        first = await host.session("s").__aenter__()
        opened: list[str] = []

        async def second() -> None:
            async with host.session("s"):
                opened.append("second")

        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await anyio.sleep(0.05)
            assert opened == []
            await first.close()
        assert opened == ["second"]


async def test_a_session_that_was_refused_as_busy_does_not_displace_the_one_that_is_open() -> None:
    class Watch:
        @hooks.session_end
        def end(self, event: SessionEnd) -> None:
            EVENTS.append(event.reason)

    class Impatient(OwnStore):
        wait = 0.02

    async with bare(Watch, store=Impatient()) as host:
        await host.session("s").__aenter__()
        with pytest.raises(SessionBusy):
            await host.session("s").__aenter__()
    assert EVENTS == ["shutdown"]


async def test_a_session_that_cannot_be_closed_keeps_the_host_from_nothing() -> None:
    class Failing(OwnStore):
        async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
            log = await super().open_session(session_id)
            if session_id == "b":
                log.close = self._fail
            return log

        async def _fail(self) -> None:
            raise StoreError("the disk", "gone")

    class Watch:
        @hooks.session_end
        def end(self, event: SessionEnd) -> None:
            EVENTS.append(event.session_id)

    host = bare(Watch, Pool, store=Failing())
    await host.__aenter__()
    for name in "abc":
        await host.session(name).__aenter__()
    with pytest.raises(StoreError, match="gone"):
        await host.__aexit__(None, None, None)
    assert [event for event in EVENTS if len(event) == 1] == ["c", "b", "a"]
    assert EVENTS[-1] == "-pool"
    with pytest.raises(SessionClosed):
        host.session("s")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_host_that_asyncio_cancels_again_and_again_while_it_closes_closes_all_the_same() -> None:
    class Slow:
        @hooks.session_end
        async def end(self, event: SessionEnd) -> None:
            closing.set()
            await anyio.sleep(0.05)
            EVENTS.append("end")

    closing = anyio.Event()

    async def live() -> None:
        async with bare(Slow, Pool) as host, host.session("s"):
            pass

    task = asyncio.ensure_future(live())
    await closing.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    assert EVENTS == ["+pool", "+instance", "end", "-instance", "-pool"]


# What cannot be loaded


def test_what_cannot_be_loaded_is_said_when_the_host_is_made() -> None:
    with pytest.raises(PluginRefused, match=r"Give the class itself \(Pool, not Pool\(\)\)"):
        bare(Pool(shared=[]))
    with pytest.raises(DuplicatePlugin):
        bare(Pool, Pool)
    with pytest.raises(ConfigError, match="stroe"):
        Host(config={"stroe": "memory"})


async def test_a_session_is_asked_for_while_the_host_is_open() -> None:
    host = bare()
    with pytest.raises(SessionClosed, match="the host is not open"):
        host.session("s")
    async with host:
        pass
    with pytest.raises(SessionClosed):
        host.session("s")


async def test_a_host_can_be_opened_again() -> None:
    host = bare(Pool)
    for _ in range(2):
        async with host, host.session("s") as session, session.run() as run:
            assert [tool.name for tool in await run.resolve_tools([make()])] == ["read_file"]
    assert EVENTS == ["+pool", "+instance", "-instance", "-pool"] * 2


@pytest.mark.heavy
async def test_many_sessions_at_once_each_see_their_own() -> None:
    class Watch:
        def __init__(self) -> None:
            self.seen: set[str] = set()

        @hooks.trace
        async def trace(self, event: Trace) -> None:
            self.seen.add(event.session_id)

    async with bare(Watch) as host:

        async def one(name: str) -> None:
            async with host.session(name) as session:
                async with session.run() as run:
                    await run.resolve_tools([make()])
                assert session.plugin("watch").seen <= {name}

        async with anyio.create_task_group() as group:
            for index in range(50):
                group.start_soon(one, str(index))
