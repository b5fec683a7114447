"""Sessions that are asked for the wrong way, or that end badly: nothing is widened and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from hooksdk import MemoryStore, ToolCall, hooks
from hooksdk import session as session_module
from hooksdk.errors import ConfigError, SessionBusy, SessionClosed, TranscriptChanged, WrongArgument
from hooksdk.hooks import AfterToolCall, SessionEnd
from hooksdk.state import PluginState
from hooksdk.stores import SqlStore
from hooksdk.testing import open_host
from hooksdk.transcript import Store
from tests.hooksdk.tables import run_sql
from tests.stage import USER, OwnStore, make, reply

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def test_a_child_may_be_given_one_pattern_as_text() -> None:
    tools = [make("read_file"), make("delete_file")]
    async with (
        open_host() as host,
        host.session() as session,
        session.child(tools="read_*") as child,
        child.run() as run,
    ):
        assert [tool.name for tool in await run.resolve_tools(tools)] == ["read_file"]


async def test_a_run_whose_trigger_is_misspelt_is_refused() -> None:
    async with open_host() as host, host.session() as session:
        with pytest.raises(ConfigError, match="'scheduled' is not one of user, schedule, subagent, other"):
            session.run(trigger="scheduled")


async def test_a_session_that_is_entered_twice_stays_open_for_the_first() -> None:
    store = OwnStore()
    store.wait = 0.05
    async with open_host(store=cast("Store", store)) as host, host.session("s") as session:
        with pytest.raises(SessionBusy):
            await session.__aenter__()
        async with session.run() as run:
            await run.record(USER)
        assert session.messages == [USER]


async def test_a_session_cannot_be_entered_once_its_host_is_closed() -> None:
    async with open_host() as host:
        session = host.session("s")
    with pytest.raises(SessionClosed, match="the host"):
        await session.__aenter__()


@pytest.mark.jumping_clock
async def test_a_plugins_state_is_kept_though_the_close_ran_out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "CLOSE_TIMEOUT", 10)

    class Counts:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.session_end
        async def count(self, event: SessionEnd) -> None:
            self.state["closed"] = True

    class Hangs:
        @hooks.session_end(timeout=60)
        async def hang(self, event: SessionEnd) -> None:
            await anyio.sleep_forever()

    store = MemoryStore()
    async with open_host(Counts, Hangs, store=store) as host, host.session("s"):
        pass
    async with open_host(Counts, store=store) as host, host.session("s") as session:
        assert session.plugin("counts").state == {"closed": True}


async def test_a_call_is_observed_though_its_result_could_not_be_stored(tmp_path: Path) -> None:
    seen: list[str] = []

    class Watch:
        @hooks.after_tool_call
        async def watch(self, event: AfterToolCall) -> None:
            seen.append(event.status)

    store = SqlStore(tmp_path)
    async with open_host(Watch, store=store) as host, host.session("s") as session:
        run = await session.run().__aenter__()
        await run.resolve_tools([make()])
        call = ToolCall("c", "read_file", {})
        await run.record([USER, reply(call)])
        await run_sql(store, "DELETE FROM hooksdk_messages WHERE position = 1")
        with pytest.raises(TranscriptChanged):
            await run.call_tool(call)
        with pytest.raises(TranscriptChanged):
            await run.__aexit__(None, None, None)
    assert seen == ["ok"]


async def test_a_session_that_is_free_in_time_is_waited_for() -> None:
    store = MemoryStore()
    async with open_host(store=store) as host, open_host(store=store) as other:
        first = host.session("one")
        await first.__aenter__()
        opened = anyio.Event()

        async def second() -> None:
            async with other.session("one", wait=60):
                opened.set()

        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            assert not opened.is_set()
            await first.close()
        assert opened.is_set()


async def test_nobody_waits_who_says_so() -> None:
    store = MemoryStore()
    async with open_host(store=store) as host, open_host(store=store) as other, host.session("one"):
        with pytest.raises(SessionBusy):
            async with other.session("one", wait=0):
                pass


@pytest.mark.parametrize("wait", [-1, "long", None, float("nan")])
async def test_a_wait_is_a_number_of_seconds(wait: Any) -> None:
    async with open_host() as host:
        with pytest.raises(WrongArgument, match="wait"):
            host.session("one", wait=wait)
