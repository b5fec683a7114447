"""Workers of one database: leases, processes side by side, a worker that stalls, lost connections, versions of the tables."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import gc
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from transcripts import OPENAI, body, history, opened, statuses

from hooksdk import Host
from hooksdk.errors import ConfigError, SessionBusy, StoreError, TranscriptChanged
from hooksdk.stores import SqlStore, _database
from hooksdk.transcript import Results
from tests.hooksdk.tables import run_sql
from tests.pgbouncer import PORT, pooled
from tests.postgres import Postgres, running

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.in_ci(url=["sqlite"])]
CHILD = Path(__file__).with_name("sql_child.py")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sessions.db'}"
    return request.getfixturevalue("postgres").url()


class Workers:
    """Stores over one database, closed in the end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stores: list[SqlStore] = []

    def __call__(self, *, lease: float = 60) -> SqlStore:
        self.stores.append(SqlStore(self.url, lease=lease))
        return self.stores[-1]


@pytest.fixture
async def worker(url: str) -> AsyncGenerator[Workers]:
    workers = Workers(url)
    yield workers
    for store in workers.stores:
        await store.aclose()


def child(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def dies(store: SqlStore) -> None:
    """Let the worker of this store die: nobody renews its leases, and nothing is released."""
    assert store._heartbeat is not None
    store._heartbeat.cancel()


# --- processes ---


@pytest.mark.in_ci(url=["sqlite", "postgres"])
@pytest.mark.parametrize(("processes", "times"), [(2, 10), pytest.param(8, 100, marks=pytest.mark.slow)])
async def test_processes_that_write_side_by_side_lose_and_repeat_nothing(
    url: str, worker: Workers, processes: int, times: int
) -> None:
    children = [child("write", url, name, times) for name in range(processes)]
    for each in children:
        await anyio.to_thread.run_sync(each.communicate)
    assert [each.returncode for each in children] == [0] * processes
    messages, journal = await worker().read_session("shared")
    pairs = [(each["who"], each["n"]) for each in messages]
    assert pairs[::2] == pairs[1::2]
    expected = sorted((str(name), number) for name in range(processes) for number in range(times))
    assert sorted(pairs[::2]) == expected
    assert sorted((each["who"], each["n"]) for each in journal) == expected
    assert len(await worker().list_keys("p")) == processes * times


@pytest.mark.in_ci(url=["postgres"])
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP on Windows")
async def test_a_worker_that_was_suspended_past_its_lease_cannot_write(url: str, worker: Workers) -> None:
    stalled = child("hold", url)
    assert stalled.stdout is not None
    assert await anyio.to_thread.run_sync(stalled.stdout.readline) == "holding\n"
    stalled.send_signal(signal.SIGSTOP)
    log = await worker().open_session("held", wait=60)
    await log.append_messages([{"n": 2}])
    stalled.send_signal(signal.SIGCONT)
    answer, _ = await anyio.to_thread.run_sync(stalled.communicate, "go\n")
    assert answer.startswith("refused: session 'held' is held by another worker")
    assert await log.read() == ([{"n": 1}, {"n": 2}], [])


# --- leases ---


async def test_who_asks_for_a_held_session_is_told_by_whom_and_for_how_long(worker: Workers) -> None:
    await worker(lease=60).open_session("s")
    with pytest.raises(
        SessionBusy, match=r"held by process \d+ on .*, whose lease lapses in \d+ s unless it is renewed"
    ):
        await worker().open_session("s", wait=0.1)


async def test_a_lease_is_renewed_while_its_worker_lives(worker: Workers) -> None:
    store = worker(lease=1)
    log = await store.open_session("s")

    async def expires() -> float:
        ((seconds,),) = await store.fetch("SELECT expires FROM hooksdk_sessions")
        return seconds

    first = await expires()
    with anyio.fail_after(120):
        while await expires() < first + 2 * store.lease:
            await anyio.sleep(0.05)
    await log.append_messages([{"n": 1}])


async def test_a_store_says_which_sessions_are_held_and_whose_holder_is_alive(worker: Workers) -> None:
    lives, lost = worker(), worker(lease=0.05)
    for store, name in ((lives, "a%_1"), (lives, "a%_2"), (lives, "aXX3"), (lost, "a%_é"), (lives, "b")):
        log = await store.open_session(name)
        if name == "a%_2":
            await log.close()
    await dies(lost)
    await anyio.sleep(0.2)
    held = await worker().list_held("a%_")
    assert held == {"a%_1": True, "a%_é": False}, "a prefix is text, and no pattern"
    assert (await worker().list_held()).keys() == {"a%_1", "a%_é", "aXX3", "b"}


async def test_an_abandoned_session_goes_to_one_worker_each(worker: Workers) -> None:
    lost = worker(lease=0.05)
    for name in ("a", "b", "c"):
        log = await lost.open_session(name)
        await log.append_messages([{"n": name}])
    await dies(lost)
    closed = await worker().open_session("closed")
    await closed.close()
    held = await worker().open_session("held")
    claims: list[list[str]] = []
    stores = [worker(), worker()]

    async def claim(store: SqlStore) -> None:
        while sum(map(len, claims)) < 3:
            claims.append(await store.claim_abandoned(limit=2))

    async with anyio.create_task_group() as group:
        for store in stores:
            group.start_soon(claim, store)
    assert sorted(name for names in claims for name in names) == ["a", "b", "c"]
    assert await worker().claim_abandoned(limit=10) == []
    owner = stores[0] if "a" in stores[0]._claims else stores[1]
    with pytest.raises(SessionBusy):
        await worker().open_session("a", wait=0)
    async with Host(store=owner, config={"allow": []}) as host, host.session("a") as session:
        assert session.resumed
    await held.append_messages([{"n": 1}])


async def test_the_next_holder_goes_on_with_what_a_dead_worker_stored(worker: Workers) -> None:
    lost = worker(lease=0.05)
    log = await lost.open_session("s")
    await log.append_messages([{"n": 1}])
    await dies(lost)
    following = await worker().open_session("s", wait=60)
    assert (following.existed, following.token > log.token) == (True, True)
    for attempt in (log.append_messages([{"n": 2}]), log.append_journal([{}]), log.read(), log.verify()):
        with pytest.raises(SessionBusy):
            await attempt
    await log.close()  # lets nothing go that it does not hold
    await following.append_messages([{"n": 3}])
    assert (await following.read())[0] == [{"n": 1}, {"n": 3}]


async def test_a_deleted_session_cannot_be_written_by_its_former_holder(worker: Workers) -> None:
    lost = worker(lease=0.05)
    log = await lost.open_session("s")
    await dies(lost)
    store = worker()
    assert await store.delete_session("s", wait=60)
    assert not await store.delete_session("s")
    assert await store.list_sessions() == []
    fresh = await store.open_session("s")
    assert fresh.token > log.token
    with pytest.raises(SessionBusy):
        await log.append_messages([{"n": 1}])


# --- what a transcript does over it ---


async def test_trims_are_queued_drained_and_there_again(worker: Workers) -> None:
    async with opened(worker()) as transcript:
        await transcript.append(history(OPENAI, [body(1), body(2)]))
        await Results(transcript, "p").trim("r1", "short")
        assert statuses(await transcript.drain()) == ["applied"]
        view = transcript.view
    async with opened(worker()) as transcript:
        assert transcript.view == view != transcript.messages


async def test_rows_that_somebody_else_adds_or_takes_away_are_noticed(worker: Workers) -> None:
    store = worker()
    log = await store.open_session("s")
    await log.append_messages([{"n": 1}, {"n": 2}])

    await run_sql(
        store, "INSERT INTO hooksdk_messages SELECT session, 2, body, hash FROM hooksdk_messages WHERE position = 1"
    )
    for attempt in (log.append_messages([{"n": 3}]), log.append_journal([{}], verify=True), log.verify()):
        with pytest.raises(TranscriptChanged, match="the messages end at 3, and 2 and 0 were stored by this worker"):
            await attempt
    await run_sql(store, "DELETE FROM hooksdk_messages WHERE position = 2")
    await log.append_messages([{"n": 3}])
    await run_sql(store, "DELETE FROM hooksdk_messages WHERE position = 1")
    with pytest.raises(StoreError, match="hooksdk_messages, position 1: this row is missing; the next is 2"):
        await log.read()


# --- workers that are gone ---


async def test_a_worker_of_this_machine_that_died_is_not_waited_for(url: str, worker: Workers) -> None:
    dead = child("hold", url, 3600)
    assert dead.stdout is not None
    assert await anyio.to_thread.run_sync(dead.stdout.readline) == "holding\n"
    with pytest.raises(SessionBusy, match=rf"held by process {dead.pid} on [^(]*, whose lease lapses in \d+ s"):
        await worker().open_session("held", wait=0)
    dead.kill()
    await anyio.to_thread.run_sync(dead.communicate)
    log = await worker().open_session("held", wait=0)
    assert (await log.read())[0] == [{"n": 1}]


async def test_a_worker_whose_process_id_was_given_to_another_is_not_waited_for(url: str, worker: Workers) -> None:
    lost = worker()
    log = await lost.open_session("s")
    recycled = re.sub(r"start \d+", "start 1", log.row["holder"])
    await run_sql(lost, "UPDATE hooksdk_sessions SET holder = :holder", {"holder": recycled})
    assert (await worker().open_session("s", wait=0)).existed


async def test_a_lease_of_this_process_that_nobody_has_any_more_is_not_waited_for(url: str, worker: Workers) -> None:
    lost = worker()
    log = await lost.open_session("s")
    with pytest.raises(SessionBusy):
        await worker().open_session("s", wait=0)
    await dies(lost)
    lost._logs.clear()
    del log
    gc.collect()
    assert (await worker().open_session("s", wait=0)).existed


@pytest.mark.parametrize(
    "holder", ["process 1 on here (0a1b2c3d)", "process 1 on here (0a1b2c3d, boot x, namespace 1, start 1)"]
)
async def test_a_worker_that_nobody_knows_of_is_waited_for(url: str, worker: Workers, holder: str) -> None:
    lost = worker()
    await lost.open_session("s")
    await run_sql(lost, "UPDATE hooksdk_sessions SET holder = :holder", {"holder": holder})
    with pytest.raises(SessionBusy, match="held by process 1 on here, whose lease"):
        await worker().open_session("s", wait=0)


# --- the database ---


async def test_behind_a_pooler_in_transaction_mode_nothing_is_lost_and_nothing_left_on_its_connections(
    postgres: Postgres,
) -> None:
    with pooled(postgres, connections=2) as url:
        children = [child("write", url, name, 10) for name in range(3)]
        for each in children:
            await anyio.to_thread.run_sync(each.communicate)
        assert [each.returncode for each in children] == [0, 0, 0]
        store = SqlStore(url)
        messages, _ = await store.read_session("shared")
        assert len(messages) == 60
        await store.aclose()
        where = url.removeprefix("postgresql://hooksdk@/").partition("?")[0]
        folder = postgres.folder / where
        with psycopg.connect(f"host={folder} port={PORT} user=hooksdk dbname={where}") as connection:
            for setting in ("lock_timeout", "idle_in_transaction_session_timeout"):
                assert connection.execute(f"SHOW {setting}".encode()).fetchone() == ("0",)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_restarts_is_waited_for_and_nothing_is_lost(mode: str) -> None:
    with running() as server:
        store = SqlStore(server.url())
        log = await store.open_session("s")
        stored = 0
        is_back = anyio.Event()

        async def write() -> None:
            nonlocal stored
            while not is_back.is_set() or stored < 3:
                await log.append_messages([{"n": stored}])
                stored += 1

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            await anyio.to_thread.run_sync(lambda: server.restart(mode, pause=3))
            is_back.set()
        assert (await log.read())[0] == [{"n": number} for number in range(stored)]
        await log.close()
        await (await store.open_session("s", wait=0)).close()
        await store.aclose()


async def test_a_lost_connection_is_made_again(postgres: Postgres) -> None:
    store = SqlStore(postgres.url())
    log = await store.open_session("s")
    for number in range(3):
        postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        await log.append_messages([{"n": number}])
    assert (await log.read())[0] == [{"n": 0}, {"n": 1}, {"n": 2}]
    await store.aclose()


async def test_a_change_whose_answer_was_lost_is_not_made_twice_and_the_doubt_is_told(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, once = SqlStore(url), _database.Database._once
    await store.set_value("p", "k", 1)

    def losing(self: Any, step: Any, writes: bool, patient: bool) -> Any:
        answer = once(self, step, writes, patient)
        if not writes or not lost.pop():
            return answer
        error = sqlite3.OperationalError("gone")
        error.sqlite_errorname = "SQLITE_BUSY"
        raise error if url.startswith("sqlite") else psycopg.OperationalError("gone")

    lost = [False, True]
    monkeypatch.setattr(_database.Database, "_once", losing)
    with pytest.raises(StoreError, match="the connection was lost while a value of storage 'p' changed: read it anew"):
        await store.change_value("p", "k", 1, 2)
    assert await store.get_value("p", "k") == 2
    await store.aclose()


async def test_a_worker_that_stalls_in_a_transaction_is_thrown_out_by_the_server(postgres: Postgres) -> None:
    url = postgres.url()
    stalled, other = SqlStore(url, lease=0.3), SqlStore(url)
    log = await stalled.open_session("s")

    def stall(_: object) -> None:
        anyio.from_thread.run(follow)

    async def follow() -> None:
        following = await other.open_session("s", wait=60)
        await following.append_messages([{"n": 2}])

    await dies(stalled)
    with pytest.raises(SessionBusy):
        await log._hold(stall)
    assert (await other.read_session("s"))[0] == [{"n": 2}]
    await stalled.aclose()
    await other.aclose()


async def test_a_file_that_is_busy_is_waited_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'a.db'}")
    log = await store.open_session("s")
    rival = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    async with anyio.create_task_group() as group:
        group.start_soon(log.append_messages, [{"n": 1}])
        await anyio.wait_all_tasks_blocked()
        rival.execute("COMMIT")
    await store.aclose()
    monkeypatch.setattr(_database, "LOCK_SECONDS", 0)
    monkeypatch.setattr(_database, "PAUSES", (0, 0))
    log = await store.open_session("s")
    rival.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="the database says: database is locked"):
        await log.append_messages([{"n": 2}])
    rival.close()
    await log.append_messages([{"n": 3}])
    assert (await log.read())[0] == [{"n": 1}, {"n": 3}]
    await store.aclose()


async def test_reading_makes_no_file(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'deep' / 'a.db'}")
    assert (await store.list_sessions(), await store.list_keys("p"), await store.get_value("p", "k", 1)) == ([], [], 1)
    assert (await store.session_exists("s"), await store.claim_abandoned()) == (False, [])
    await store.delete_value("p", "k")
    assert list(tmp_path.iterdir()) == []
    await store.set_value("p", "k", 2)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "deep").iterdir()} == {0o600}
    await store.aclose()


async def test_tables_of_a_newer_version_are_left_alone(worker: Workers) -> None:
    store = worker()
    await (await store.open_session("s")).close()
    await run_sql(store, "INSERT INTO hooksdk_schema (version) VALUES (1000)")
    with pytest.raises(
        StoreError, match=r"made by a newer hooksdk \(version 1000, known up to \d+\)\. Nothing was changed"
    ):
        await worker().list_sessions()


async def test_a_server_that_is_not_there_is_told_without_the_password(tmp_path: Path) -> None:
    store = SqlStore(f"postgresql://ann:s3cret@/agents?host={tmp_path}")
    with pytest.raises(StoreError, match=r"^postgresql://ann:\*\*\*@/agents.*the database says: ") as caught:
        await store.open_session("s")
    assert "s3cret" not in str(caught.value)
    await store.aclose()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"place": "jsonl:x"}, "'jsonl' is no database"),
        ({"place": "sqlite:///a.db", "lease": 0}, "the lease must be above 0 s"),
    ],
)
async def test_a_store_that_cannot_be_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        SqlStore(**options)


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> object:
        return None if name in {"psycopg", "sqlite3"} else object()

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    with pytest.raises(ConfigError, match=r"'postgresql' needs psycopg: pip install 'hooksdk\[postgres\]'"):
        SqlStore("postgresql://ann@host/agents")
    with pytest.raises(ConfigError, match="'sqlite' needs sqlite3: this Python was built without it"):
        SqlStore("sqlite:///a.db")


@pytest.mark.anyio
async def test_a_file_that_is_no_database_is_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(b"no database " * 100)
    store = SqlStore(f"sqlite:///{path}")
    with pytest.raises(StoreError, match=r"shop\.db: this file is no SQLite database\. Nothing was changed"):
        await store.list_sessions()
    await store.aclose()
    assert path.read_bytes() == b"no database " * 100


FORKS = """
import os, sys, anyio
from hooksdk.stores import SqlStore

store = SqlStore(sys.argv[1])
anyio.run(store.set_value, "p", "parent", 1)
if not (child := os.fork()):
    anyio.run(store.set_value, "p", "child", 2)
    os._exit(0)
status = os.waitpid(child, 0)[1]
anyio.run(store.set_value, "p", "later", 3)
print(status, anyio.run(store.list_keys, "p"))
"""


@pytest.mark.in_ci(url=["sqlite", "postgres"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_no_connection_is_used_in_a_forked_process(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", FORKS, url], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "0 ['child', 'later', 'parent']\n"
