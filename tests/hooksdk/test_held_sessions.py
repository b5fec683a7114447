"""`host.hold(...)`: a session that the host keeps open for whoever holds it next, until it is idle."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from hooksdk import Host, MemoryStore, Session, hooks
from hooksdk.errors import SessionBusy, WrongArgument
from hooksdk.hooks import SessionEnd, SessionStart
from hooksdk.sync import Host as PlainHost

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


class Noting:
    """Notes when sessions begin and end, and why."""

    log: list[str]

    @hooks.session_start
    def begin(self, event: SessionStart) -> None:
        self.log.append(f"{event.info.session_id} begins")

    @hooks.session_end
    def end(self, event: SessionEnd) -> None:
        self.log.append(f"{event.info.session_id} {event.reason}")


@pytest.fixture
def noting() -> Any:
    return type("Noting", (Noting,), {"log": []})


@pytest.mark.jumping_clock
async def test_it_is_closed_once_nobody_used_it_for_so_long(noting: Any) -> None:
    async with Host(plugins=[noting]) as host:
        session = await host.hold("s", idle=60)
        began = anyio.current_time()
        while session.open:
            await anyio.sleep(1)
        assert 59 <= anyio.current_time() - began <= 63
        again = await host.hold("s", idle=60)  # waits until the other has ended
        assert noting.log == ["s begins", "s idle", "s begins"]
        assert (again is session, again.open, again.resumed) == (False, True, True)
    assert noting.log == ["s begins", "s idle", "s begins", "s shutdown"]


@pytest.mark.jumping_clock
async def test_a_session_with_an_open_run_is_never_idle_and_counts_from_its_end_on(noting: Any) -> None:
    async with Host(plugins=[noting]) as host:
        session = await host.hold("s", idle=10)
        async with session.run(transcript=False):
            await anyio.sleep(100)
            assert session.open
        await anyio.sleep(8)
        assert session.open
        await anyio.sleep(5)
        assert not session.open


@pytest.mark.jumping_clock
async def test_holding_it_again_counts_as_use(noting: Any) -> None:
    async with Host(plugins=[noting]) as host:
        session = await host.hold("s", idle=10)
        for _ in range(5):
            await anyio.sleep(8)
            assert await host.hold("s", idle=10) is session
        assert noting.log == ["s begins"]


@pytest.mark.jumping_clock
async def test_without_a_limit_it_is_open_until_the_host_closes(noting: Any) -> None:
    async with Host(plugins=[noting]) as host:
        session = await host.hold("s", idle=None)
        await anyio.sleep(100_000)
        assert session.open
    assert noting.log == ["s begins", "s shutdown"]


async def test_many_that_hold_one_id_at_once_share_one_session(noting: Any) -> None:
    held: list[Session] = []

    async def hold(host: Host, name: str) -> None:
        held.append(await host.hold(name))

    async with Host(plugins=[noting]) as host:
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(hold, host, f"s{number % 2}")
        assert len({id(session) for session in held}) == 2
        assert sorted(noting.log) == ["s0 begins", "s1 begins"]


async def test_one_that_its_user_closes_is_opened_anew_for_the_next_one() -> None:
    closing, over, held = anyio.Event(), anyio.Event(), list[Session]()

    class Slow:
        @hooks.session_end(timeout=60)
        async def end(self, event: SessionEnd) -> None:
            closing.set()
            await over.wait()

    async def hold(host: Host) -> None:
        held.append(await host.hold("s"))

    async with Host(plugins=[Slow]) as host:
        session = await host.hold("s")
        async with anyio.create_task_group() as group:
            group.start_soon(session.close)
            await closing.wait()
            group.start_soon(hold, host)
            await anyio.wait_all_tasks_blocked()
            assert held == []  # it waits until the other has closed
            over.set()
        (again,) = held
        assert (again.open, again is session) == (True, False)
        await again.close()
        assert (await host.hold("s")).open


@pytest.mark.heavy
async def test_what_opening_raises_reaches_everybody_and_the_next_try_begins_anew() -> None:
    store = MemoryStore()
    async with Host(store=store) as host:
        other = await store.open_session("s")
        for _ in range(2):
            with pytest.raises(SessionBusy):
                await host.hold("s")
        await other.close()
        assert (await host.hold("s")).open


async def test_it_may_be_held_in_one_task_and_run_in_others() -> None:
    async with Host() as host:

        async def run_one(number: int) -> None:
            session = await host.hold(f"s{number}")
            async with session.run(transcript=False) as run:
                await run.resolve_tools([])

        for _ in range(2):
            async with anyio.create_task_group() as group:
                for number in range(5):
                    group.start_soon(run_one, number)
        assert len(host.sessions) == 5


@pytest.mark.parametrize(("arguments", "problem"), [((7,), "the session's id"), (("s", 0), "idle=600")])
async def test_a_wrong_argument_is_told(arguments: tuple[Any, ...], problem: str) -> None:
    async with Host() as host:
        with pytest.raises(WrongArgument, match=problem):
            await host.hold(arguments[0], **({"idle": arguments[1]} if len(arguments) > 1 else {}))


def test_plain_code_holds_sessions_too() -> None:
    with PlainHost() as host:
        session = host.hold("s")
        with session.run(transcript=False) as run:
            run.resolve_tools([])
        assert host.hold("s", idle=5).id == session.id == "s"
