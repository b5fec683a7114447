"""A session that several workers have open at once: what plugins keep is one thing for all of them, and each has a journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooksdk import Host, PluginState, Session, Tool, ToolCall, hooks
from hooksdk._run.plugin_states import merged
from hooksdk.hooks import BeforeToolCall
from hooksdk.stores import SqlStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Keeps:
    """A plugin whose state a test changes."""

    def __init__(self, state: PluginState) -> None:
        self.state = state
        self.told: list[tuple[str, str]] = []

    @hooks.before_tool_call
    def note(self, event: BeforeToolCall) -> None:
        self.told.append((event.session_id, event.family))


@asynccontextmanager
async def workers(folder: Path, count: int = 2) -> AsyncGenerator[list[tuple[Session, Keeps]]]:
    """So many workers that have one session open."""
    async with AsyncExitStack() as stack:
        opened: list[tuple[Session, Keeps]] = []
        for number in range(count):
            store = SqlStore(f"sqlite:///{folder / 'shared.db'}")
            stack.push_async_callback(store.aclose)
            host = await stack.enter_async_context(Host(plugins=[Keeps], store=store))
            session = await host.hold(f"ann~{number}", shared_as="ann")
            opened.append((session, session.plugin("keeps")))
        yield opened


async def test_what_each_worker_keeps_the_others_find_and_no_entry_is_lost(tmp_path: Path) -> None:
    async with workers(tmp_path) as ((one, here), (other, there)):
        here.state["a"] = {"x": 1}
        there.state["b"] = 2
        await one.save()
        await other.save()
        assert dict(there.state) == {"a": {"x": 1}, "b": 2}
        assert dict(here.state) == {"a": {"x": 1}}
        await one.refresh()
        assert dict(here.state) == {"a": {"x": 1}, "b": 2}
    async with workers(tmp_path, 1) as ((_, later),):
        assert dict(later.state) == {"a": {"x": 1}, "b": 2}


async def test_of_two_changes_of_one_entry_the_later_counts_and_one_that_is_not_stored_yet_stays(
    tmp_path: Path,
) -> None:
    async with workers(tmp_path) as ((one, here), (other, there)):
        here.state |= {"a": "first", "b": "kept", "c": "goes"}
        await one.save()
        await other.refresh()
        there.state["a"] = "second"
        del there.state["c"]
        await other.save()
        here.state["a"] = "mine"
        await one.refresh()
        assert dict(here.state) == {"a": "mine", "b": "kept"}
        await one.save()
        await other.refresh()
        assert dict(there.state) == {"a": "mine", "b": "kept"}


async def test_a_state_that_is_no_json_is_told_and_the_others_keep_theirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with workers(tmp_path) as ((one, here), (other, there)):
        there.state["b"] = 1
        await other.save()
        here.state["a"] = object()
        await one.refresh()
        await one.save()
        assert "its state is not kept: state['a']" in caplog.text
        del here.state["a"]
        await one.refresh()
        assert dict(here.state) == {"b": 1}


async def test_plugins_are_told_the_id_that_all_workers_have(tmp_path: Path) -> None:
    def look(_arguments: dict[str, Any]) -> str:
        return "seen"

    tool = Tool(name="look", source="host", owner="", execute=look)
    async with workers(tmp_path) as opened:
        for session, _ in opened:
            async with session.run(transcript=False) as run:
                await run.resolve_tools([tool])
                await run.call_tool(ToolCall("c1", "look"))
        assert [plugin.told for _, plugin in opened] == [[("ann", "ann")]] * 2


async def test_what_was_kept_is_gone_once_the_session_is_forgotten(tmp_path: Path) -> None:
    async with workers(tmp_path, 1) as ((one, here),):
        here.state["a"] = 1
        await one.save()
    store = SqlStore(f"sqlite:///{tmp_path / 'shared.db'}")
    async with Host(plugins=[Keeps], store=store) as host:
        await host.forget_shared("an")
        assert await store.list_keys("hooksdk.sessions") == ["ann/keeps"]
        await host.forget_shared("ann")
        assert await store.list_keys("hooksdk.sessions") == []
    await store.aclose()


STATES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2) | st.none(), max_size=3)


@settings(deadline=None)
@given(base=STATES, own=STATES, others=STATES)
def test_each_entry_is_our_own_where_we_changed_it_and_else_the_others(
    base: dict[str, Any], own: dict[str, Any], others: dict[str, Any]
) -> None:
    nothing = object()
    new = merged(base, own, others)
    for key in "abc":
        changed = own.get(key, nothing) != base.get(key, nothing)
        assert new.get(key, nothing) == (own if changed else others).get(key, nothing)
