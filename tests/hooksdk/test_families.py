"""What a run and its sub-agents share."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, cast

import anyio
import pytest

from hooksdk import FamilyState, Host, MemoryStore, Run, Session, ToolCall, hooks
from hooksdk._run import families
from hooksdk.errors import RunClosed
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.stores import SqlStore, Store, open_store
from tests.stage import OwnStore, make

CONFIG: dict[str, Any] = {"allow": []}


class Budget:
    """Five calls for a task."""

    def __init__(self, family: FamilyState) -> None:
        self.family = family

    @hooks.before_tool_call
    async def spend(self, event: BeforeToolCall) -> Block | None:
        assert event.family == self.family.id

        def count(state: dict[str, Any]) -> bool:
            state["used"] = state.get("used", 0) + 1
            return state["used"] <= 5

        return None if await self.family.update(count) else Block("spent")


@asynccontextmanager
async def a_run(session: Session, **options: Any) -> AsyncGenerator[Run]:
    async with session.run(**options) as run:
        await run.resolve_tools([make("read_file")])
        yield run


async def calls(run: Run, number: int) -> int:
    """How many of so many calls at once ran."""
    results: list[str] = []

    async def one(at: int) -> None:
        results.append((await run.call_tool(ToolCall(f"c{at}", "read_file", {"path": str(at)}))).text)

    async with anyio.create_task_group() as group:
        for at in range(number):
            group.start_soon(one, at)
    return sum("ran with" in text for text in results)


async def kept(store: Store) -> list[str]:
    """The families of which something is kept."""
    return sorted({key.partition("/")[0] for key in await store.list_keys(families.SPACE)})


@pytest.fixture(params=["memory", "jsonl", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Another worker's store over one place."""
    memory = MemoryStore()
    if request.param == "memory":
        return lambda: memory
    if request.param == "jsonl":
        return lambda: SqlStore(tmp_path / "sessions")
    is_postgres = request.param == "postgres"
    url = request.getfixturevalue("postgres").url() if is_postgres else f"sqlite:///{tmp_path / 'sessions.db'}"
    return lambda: SqlStore(url)


@pytest.mark.light(every=5)
@pytest.mark.anyio
@pytest.mark.both_loops
async def test_what_one_agent_of_a_task_spends_counts_at_once_for_its_parent_and_its_siblings(
    place: Callable[[], Store],
) -> None:
    store = place()
    async with Host(plugins=[Budget], store=store, config=CONFIG) as host, host.session("s") as session:
        async with a_run(session) as run, session.child() as one, session.child() as other:
            assert await calls(run, 1) == 1
            async with a_run(one) as first, a_run(other) as second, one.child() as below, a_run(below) as third:
                assert {r.info.family for r in (run, first, second, third)} == {run.info.run_id}
                assert [await calls(r, 2) for r in (first, third, second)] == [2, 2, 0]
            assert await calls(run, 1) == 0
        async with a_run(session) as run:  # another task
            assert await calls(run, 7) == 5
    await store.aclose()


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_a_task_that_goes_on_after_a_pause_or_a_crash_has_spent_what_it_had_and_the_next_one_nothing(
    place: Callable[[], Store],
) -> None:
    ids: list[str] = []
    for spent, pauses in ((2, True), (2, False), (5, False)):
        store = place()
        async with Host(plugins=[Budget], store=store, config=CONFIG) as host, host.session("s") as session:
            async with a_run(session) as run:
                ids.append(run.info.family)
                assert await calls(run, spent if not pauses else 2) == min(spent, 5 if len(ids) != 2 else 3)
                if pauses:
                    run.pause("later")
            assert await kept(store) == [run.info.family]  # a sub-agent may still begin
        assert await kept(store) == ([run.info.family] if pauses else [])
        await store.aclose()
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.anyio
async def test_a_task_whose_process_died_goes_on_with_what_it_had_spent() -> None:
    store = MemoryStore()
    taken: list[int] = []
    host = Host(plugins=[Budget], store=store, config=CONFIG)
    await host.__aenter__()
    session = host.session("s")
    await session.__aenter__()
    run = session.run()
    await run.__aenter__()
    await run.resolve_tools([make("read_file")])
    taken.append(await calls(run, 4))
    messages, journal = await store.read_session("s")
    copy = MemoryStore()  # what another process finds
    log = await copy.open_session("s")
    await log.append_messages(messages)
    await log.append_journal(journal)
    await log.close()
    for key in await store.list_keys(families.SPACE):
        await copy.set_value(families.SPACE, key, await store.get_value(families.SPACE, key))
    async with (
        Host(plugins=[Budget], store=copy, config=CONFIG) as other,
        other.session("s") as again,
        a_run(again) as on,
    ):
        assert on.info.family == run.info.family
        taken.append(await calls(on, 4))
    assert taken == [4, 1]
    await run.__aexit__(None, None, None)
    await session.__aexit__(None, None, None)
    await host.__aexit__(None, None, None)


@pytest.mark.anyio
async def test_a_sub_agent_that_outlives_its_parents_run_and_session_is_held_to_what_its_family_has_left() -> None:
    store = MemoryStore()
    async with Host(plugins=[Budget], store=store, config=CONFIG) as host:
        async with host.session("s") as session:
            async with a_run(session) as run:
                assert await calls(run, 3) == 3
                child = session.child()
            async with session.child() as late, a_run(late) as of_the_run_that_was:
                assert await calls(of_the_run_that_was, 1) == 1
            await child.__aenter__()
            async with a_run(child) as below:
                assert await calls(below, 3) == 1
        async with a_run(child) as below:
            assert await calls(below, 1) == 0
        assert await kept(store) == [run.info.family]
        await child.close()
        assert await kept(store) == []


@pytest.mark.anyio
async def test_a_run_of_another_host_joins_the_family_that_it_is_told_and_does_not_end_it(
    place: Callable[[], Store],
) -> None:
    here, there = place(), place()
    async with (
        Host(plugins=[Budget], store=here, config=CONFIG) as host,
        host.session("s") as session,
        a_run(session) as run,
    ):
        assert await calls(run, 2) == 2
        async with Host(plugins=[Budget], store=there, config=CONFIG) as other:
            for pauses, ran in ((True, 2), (False, 1), (False, 0)):
                async with other.session("worker") as worker:
                    family = run.info.family if pauses or not ran else None  # the second goes on with what it was told
                    async with a_run(worker, family=family) as below:
                        assert below.info.family == run.info.family
                        assert await calls(below, ran or 3) == ran
                        if pauses:
                            below.pause("later")
        assert await calls(run, 1) == 0
        async with session.child() as child, a_run(child, family="another") as below:
            assert below.info.family == run.info.family  # nobody leaves it
    if here is not there:
        await there.aclose()
    await here.aclose()


@pytest.mark.anyio
async def test_what_is_kept_after_a_run_has_ended_does_not_make_the_next_one_go_on_with_its_family() -> None:
    async with Host(plugins=[Budget], config=CONFIG) as host, host.session("s") as session:
        async with a_run(session) as run:
            assert await calls(run, 5) == 5
        late: FamilyState = session.plugin("budget").family
        await late.update(lambda state: state.update(late=True))
        async with a_run(session) as after:
            assert (await calls(after, 9), after.info.family) == (5, after.info.run_id)


@pytest.mark.anyio
async def test_what_a_change_raises_changes_nothing_and_what_is_read_is_a_copy() -> None:
    async with Host(plugins=[Budget], config=CONFIG) as host, host.session("s") as session:
        state: FamilyState = session.plugin("budget").family
        with pytest.raises(RunClosed, match="from the session's first run on"):
            await state.read()
        async with session.run():
            await state.update(lambda mapping: mapping.update(a=[1]))

            def fail(mapping: dict[str, Any]) -> None:
                mapping["a"].append(2)
                raise ValueError("no")

            with pytest.raises(ValueError, match="no"):
                await state.update(fail)
            (await state.get("a")).append(3)
            assert (await state.read(), await state.get("b", 7)) == ({"a": [1]}, 7)


@pytest.mark.anyio
async def test_what_a_pause_has_left_is_removed_30_days_after_its_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    store, now = MemoryStore(), families.time.time()
    async with Host(plugins=[Budget], store=store, config=CONFIG) as host:
        for name, days in (("old", -31), ("new", -29), ("newest", 0)):
            monkeypatch.setattr(families.time, "time", lambda days=days: now + days * 86_400)
            async with host.session(name) as session, a_run(session) as run:
                await calls(run, 1)
                run.pause("later")
    assert len(await kept(store)) == 2


@pytest.mark.anyio
async def test_a_store_that_cannot_change_a_value_in_one_step_is_refused_and_nothing_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Older(OwnStore):
        def __getattr__(self, name: str) -> Any:
            if name == "change_value":
                raise AttributeError(name)
            return super().__getattr__(name)

    async with (
        Host(plugins=[Budget], store=cast("Store", Older()), config=CONFIG) as host,
        host.session("s") as session,
        a_run(session) as run,
    ):
        assert await calls(run, 1) == 0
    assert (
        "Older: what agents share needs a store with change_value(space, key, old, new), and this has none"
        in caplog.text
    )


WORKER = """
import sys, anyio
from hooksdk import Storage
from hooksdk._run.plugin_states import change_stored
from hooksdk.stores import open_store

async def main():
    store, taken = open_store(sys.argv[1]), 0

    def spend(stored):
        used = (stored or {}).get("used", 0)
        return ({"used": used + 1}, True) if used < 100 else (stored, False)

    async def work():
        nonlocal taken
        while await change_stored(store, "hooksdk.families", "run-1/budget", spend):
            taken += 1

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(work)
    print(taken)
    await store.aclose()

anyio.run(main)
"""


@pytest.mark.in_ci(kind=["sqlite"])
@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "postgres"])
def test_eight_processes_with_three_tasks_each_take_of_one_familys_hundred_calls_not_one_more(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    spec = {"jsonl": f"jsonl:{tmp_path}", "sqlite": f"sqlite:///{tmp_path / 'values.db'}"}.get(kind)
    spec = spec or request.getfixturevalue("postgres").url()
    processes = [Popen([sys.executable, "-c", WORKER, spec], stdout=PIPE, text=True) for _ in range(8)]
    taken = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(taken) == 100

    async def read() -> Any:
        store = open_store(spec)
        try:
            return await store.get_value(families.SPACE, "run-1/budget")
        finally:
            await store.aclose()

    assert anyio.run(read) == {"used": 100}
