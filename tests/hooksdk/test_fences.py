"""A number that rises with every holder of a session, and whether the worker still holds it: what a tool may ask before
it takes effect, and what its service compares."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest

from hooksdk import Annotations, Host, MemoryStore, Session, Tool, ToolCall, ToolContext, ToolError, hooks
from hooksdk.agent import run_agent
from hooksdk.errors import SessionBusy, StoreError, TranscriptChanged
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedModel, call
from tests.hooksdk.tables import run_sql
from tests.stage import USER, OwnStore, make, reply

pytestmark = pytest.mark.anyio

CHILD = Path(__file__).with_name("fence_child.py")
NEEDS_SIGNALS = pytest.mark.skipif(not hasattr(os, "WUNTRACED"), reason="no process can be stopped by a signal")


class Asks:
    """A tool that keeps what it is told in each call, and does something in it first."""

    def __init__(self) -> None:
        self.contexts: list[ToolContext] = []
        self.fences: list[int] = []
        self.held: list[bool] = []

    async def first(self) -> None:
        """What happens before it asks."""

    async def execute(self, arguments: dict[str, Any], context: ToolContext) -> str:
        self.contexts.append(context)
        self.fences.append(context.fence)
        await self.first()
        self.held.append(await context.still_held())
        return "asked"

    @property
    def tool(self) -> Tool:
        return make("ask", self.execute, annotations=Annotations(idempotent=True))

    async def once(self, session: Session, run_id: str = "c1") -> Any:
        async with session.run() as run:
            await run.resolve_tools([self.tool])
            await run.record([USER, reply(ToolCall(run_id, "ask", {}))])
            return await run.call_tool(run.pending[0])


@pytest.fixture
def asks() -> Asks:
    return Asks()


def lapsed(store: SqlStore) -> None:
    """The worker of this store hangs from now on: nobody renews its leases."""
    assert store._heartbeat is not None  # pyright: ignore[reportPrivateUsage]
    store._heartbeat.cancel()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.heavy)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sessions.db'}"
    return request.getfixturevalue("postgres").url()


@asynccontextmanager
async def taken_over(url: str, session_id: str) -> AsyncGenerator[Host]:
    """Another worker holds the session."""
    store = SqlStore(url, lease=60)
    async with Host(store=store) as host:
        log = await store.open_session(session_id, wait=60)
        yield host
        await log.close()
    await store.aclose()


# --- the number ---


@pytest.mark.both_loops
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_each_holder_of_a_session_has_a_higher_fence(kind: str, tmp_path: Path, asks: Asks) -> None:
    store = MemoryStore() if kind == "memory" else SqlStore(tmp_path)
    async with Host(store=store) as host:
        for n in range(3):
            async with host.session("s") as session:
                await asks.once(session, f"c{n}")
                await asks.once(session, f"d{n}")
    await store.aclose()
    assert asks.held == [True] * 6
    assert asks.fences[::2] == asks.fences[1::2] == sorted({*asks.fences}), "it is the same in all runs of one holder"


async def test_sessions_that_one_process_holds_at_once_do_not_lower_each_others_fences(
    tmp_path: Path, asks: Asks
) -> None:
    fences: dict[str, list[int]] = {"a": [], "b": []}
    async with Host(store=SqlStore(tmp_path)) as host:

        async def hold(name: str) -> Session:
            session = await host.session(name).__aenter__()
            await asks.once(session, f"c{len(asks.fences)}")
            fences[name].append(asks.fences[-1])
            return session

        a, b = await hold("a"), await hold("b")
        for _ in range(3):
            await a.close()
            a = await hold("a")
        await b.close()
        b = await hold("b")
        await a.close()
        a = await hold("a")
    for each in fences.values():
        assert each == sorted({*each})
    assert {*asks.held} == {True}


async def test_a_plugin_knows_the_fences_before_any_call_and_cannot_change_them(asks: Asks) -> None:
    seen: list[Mapping[str, int]] = []

    class Announces:
        @hooks.agent_start
        def announce(self, event: hooks.AgentStart) -> None:
            event.info.fences.clear()  # type: ignore[attr-defined]
            seen.append(event.info.fences)

    async with Host([Announces]) as host, host.session("s") as session:
        await asks.once(session)
    assert seen == [asks.contexts[0].fences]
    assert [*seen[0].values()] == asks.fences


async def test_a_key_of_the_fences_does_not_tell_the_sessions_id(asks: Asks) -> None:
    async with Host() as host:
        for name in ("ann@example.com", "bob@example.com"):
            async with host.session(name) as session:
                await asks.once(session)
    first, second = ([*context.fences] for context in asks.contexts)
    assert first != second
    assert "ann" not in first[0]


async def test_calls_that_a_tool_makes_have_its_fences(asks: Asks) -> None:
    async def outer(arguments: dict[str, Any], context: ToolContext) -> str:
        asks.fences.append(context.fence)
        for origin in ("tool", "code"):
            await context.call_tool("ask", {}, origin=origin)
        return "done"

    async with Host() as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([asks.tool, make("outer", outer)])
        await run.record([USER, reply(ToolCall("c1", "outer", {}))])
        await run.call_tool(run.pending[0])
        assert asks.fences == [*run.info.fences.values()] * 3
    assert asks.held == [True, True]


async def test_a_call_of_a_script_has_the_fences(asks: Asks) -> None:
    pytest.importorskip("pydantic_monty", reason="hooksdk[code] is not installed")
    settings = {"plugins": {"tool_search": {"config": {"enabled": "on", "mode": "code"}}}}
    script = call("tool_search_code", code='print(await call("ask"))')
    async with Host(config=settings) as host, host.session("s") as session:
        tool = make("ask", asks.execute, source="mcp", owner="bank")
        await run_agent(session, ScriptedModel([script, "done"]), "Ask.", tools=[tool])
    assert (asks.held, [one.call.origin for one in asks.contexts]) == ([True], ["code"])
    assert asks.fences == [*asks.contexts[0].fences.values()]


async def test_parts_of_one_session_have_a_fence_each(asks: Asks) -> None:
    async with Host() as host:
        for _ in range(2):  # the first part gets a second holder, and the other part is none of its business
            async with host.session("ann~1") as session:
                await asks.once(session)
        for part in ("ann~1", "ann~2"):
            await asks.once(await host.hold(part, shared_as="ann"))
    assert {context.session_id for context in asks.contexts[2:]} == {"ann"}
    assert [one.fences.keys() for one in asks.contexts[:3]] == [asks.contexts[0].fences.keys()] * 3
    assert asks.contexts[3].fences.keys() != asks.contexts[2].fences.keys()
    assert asks.held == [True] * 4


# --- is it held ---


async def test_a_worker_that_hung_past_its_lease_learns_that_another_has_taken_over(url: str, asks: Asks) -> None:
    store = SqlStore(url, lease=0.2)
    answers: list[bool] = []

    async def first() -> None:
        lapsed(store)
        async with taken_over(url, "s"):
            answers.append(await asks.contexts[0].still_held())

    asks.first = first
    with pytest.raises(SessionBusy):
        async with Host(store=store) as host, host.session("s") as session:
            await asks.once(session)
    assert (answers, asks.held) == ([False], [False]), "also when the other one has let it go again"
    async with Host(store=store) as host, host.session("s") as session:
        asks.first = Asks().first
        await asks.once(session)
    await store.aclose()
    assert asks.held == [False, True]
    assert asks.fences[1] == asks.fences[0] + 2


async def test_a_lapsed_lease_that_nobody_took_is_held_again(url: str, asks: Asks) -> None:
    store = SqlStore(url, lease=0.05)

    async def first() -> None:
        lapsed(store)
        await anyio.sleep(0.2)

    asks.first = first
    async with Host(store=store) as host, host.session("s") as session:
        await asks.once(session)
    await store.aclose()
    assert asks.held == [True]


async def test_a_session_that_was_deleted_meanwhile_is_not_held(url: str, asks: Asks) -> None:
    store, other = SqlStore(url, lease=0.2), SqlStore(url)

    async def first() -> None:
        lapsed(store)
        await other.delete_session("s", wait=60)

    asks.first = first
    with pytest.raises(SessionBusy):
        async with Host(store=store) as host, host.session("s") as session:
            await asks.once(session)
    await store.aclose()
    await other.aclose()
    assert asks.held == [False]


@pytest.mark.both_loops
async def test_a_session_that_its_own_worker_has_closed_is_not_held(asks: Asks) -> None:
    async with Host() as host:
        async with host.session("s") as session:
            await asks.once(session)
        assert not await asks.contexts[0].still_held()
        async with host.session("s"):
            assert not await asks.contexts[0].still_held(), "it is held anew, by another fence"


async def test_a_store_that_cannot_be_asked_never_answers_yes(asks: Asks) -> None:
    class Away(OwnStore):
        async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
            log = await super().open_session(session_id)

            async def verify() -> None:
                raise ConnectionError("the network is unplugged")

            log.verify = verify
            return log

    store: Any = Away()
    async with Host(store=store) as host, host.session("s") as session:
        result = await asks.once(session)
        with pytest.raises(StoreError, match=r"session 's': .*the network is unplugged"):
            await asks.contexts[0].still_held()
    assert (result.is_error, asks.held) == (True, [])
    assert "the network is unplugged" in result.text


async def test_what_somebody_else_has_changed_is_told_instead_of_an_answer(tmp_path: Path, asks: Asks) -> None:
    async def first() -> None:
        await run_sql(
            store,
            "INSERT INTO hooksdk_messages SELECT session, position + 1, body, hash FROM hooksdk_messages ORDER BY position DESC LIMIT 1",
        )

    store = SqlStore(tmp_path)
    asks.first = first
    with pytest.raises(TranscriptChanged):
        async with Host(store=store) as host, host.session("s") as session:
            await asks.once(session)
    assert asks.held == []


@pytest.mark.both_loops
async def test_calls_that_ask_at_once_are_all_answered(asks: Asks, tmp_path: Path) -> None:
    async with Host(store=SqlStore(tmp_path)) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([asks.tool])
        await run.record([USER, reply(*(ToolCall(f"c{n}", "ask", {"path": str(n)}) for n in range(20)))])
        async with anyio.create_task_group() as group:
            for one in run.pending:
                group.start_soon(run.call_tool, one)
    assert asks.held == [True] * 20


# --- sub-agents ---


async def test_a_call_of_a_sub_agent_has_the_fence_of_its_own_session_and_those_around_it(asks: Asks) -> None:
    async with Host() as host:
        async with host.session("parent"):
            pass
        async with host.session("parent") as session, session.run() as run:
            await run.resolve_tools([asks.tool])
            async with session.child("child") as child:
                await asks.once(child)
            async with session.child("child") as child:
                await asks.once(child)
            around = run.info.fences
    assert [*around.values()] == [2]
    assert asks.fences == [1, 2]
    for context in asks.contexts:
        assert [*context.fences.items()][:-1] == [*around.items()]
    assert asks.held == [True, True]


async def test_a_sub_agent_whose_parents_session_is_lost_holds_nothing(url: str, asks: Asks) -> None:
    store = SqlStore(url, lease=0.2)

    async def first() -> None:
        lapsed(store)
        async with taken_over(url, "parent"):
            pass

    asks.first = first

    async def work() -> None:
        async with Host(store=store) as host, host.session("parent") as session, session.run() as run:
            await run.resolve_tools([asks.tool])
            async with session.child("child") as child:
                result = await asks.once(child)
                assert result.text == "asked", "its own session is held, and so the result is stored"

    with pytest.raises(SessionBusy, match="session 'parent'"):
        await work()
    await store.aclose()
    assert asks.held == [False]


# --- plain code, and tools that run elsewhere ---


def test_a_plain_tool_of_plain_code_may_ask(tmp_path: Path) -> None:
    from hooksdk.sync import Host as PlainHost

    told: list[tuple[int, bool]] = []

    def pay(context: ToolContext) -> str:
        """Pay."""
        told.append((context.fence, anyio.from_thread.run(context.still_held)))
        return "paid"

    for _ in range(2):
        with PlainHost(store=SqlStore(tmp_path)) as host, host.session("s") as session, session.run() as run:
            run.resolve_tools([Tool.from_function(pay, source="host")])
            run.record(reply(ToolCall("c1", "pay", {})))
            assert run.call_tool(run.pending[0]).text == "paid"
            told.append(([*run.info.fences.values()][-1], run.still_held()))
    (first, _), (second, _) = told[::2]
    assert told == [(first, True)] * 2 + [(second, True)] * 2
    assert first < second


async def test_a_loop_that_runs_tools_elsewhere_asks_its_run(url: str) -> None:
    store = SqlStore(url, lease=0.2)

    async def work() -> None:
        async with Host(store=store) as host, host.session("s") as session, session.run() as run:
            await run.resolve_tools([make("pay")])
            await run.record([USER, reply(ToolCall("c1", "pay", {}))])
            judged = await run.judge(run.pending[0])
            await judged.begin()
            assert await run.still_held()
            lapsed(store)
            async with taken_over(url, "s"):
                assert not await run.still_held()
            await judged.supply("paid")

    with pytest.raises(SessionBusy):
        await work()
    await store.aclose()


# --- servers and gateways ---


@pytest.mark.heavy
async def test_an_mcp_server_is_told_the_fences_of_every_session(tmp_path: Path) -> None:
    from hooksdk.mcp import McpServers
    from tests.hooksdk.mcp_servers import script

    (tmp_path / "script.json").write_text(json.dumps({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}))
    told: list[Mapping[str, int]] = []
    async with McpServers({"bank": script("scripted", str(tmp_path))}) as servers, Host() as host:
        for _ in range(2):
            async with host.session("s") as session, session.run() as run:
                await run.resolve_tools(servers.tools())
                await run.record([USER, reply(ToolCall("c1", "pay", {}))])
                await run.call_tool(run.pending[0])
                told.append(run.info.fences)
    assert [[*fences.values()] for fences in told] == [[1], [2]]
    sent = [one for one in map(json.loads, (tmp_path / "meta").read_text().splitlines()) if one]
    assert [one["hooksdk/fences"] for one in sent if "hooksdk/effect-id" in one] == told
    assert [one["hooksdk/fence"] for one in sent if "hooksdk/effect-id" in one] == [1, 2]


@pytest.mark.heavy
async def test_a_client_of_a_gateway_cannot_write_the_fences_that_its_server_is_told(tmp_path: Path) -> None:
    from hooksdk.gateway import Gateway
    from hooksdk.mcp import McpServers
    from tests.hooksdk.gateways import client
    from tests.hooksdk.mcp_servers import script

    (tmp_path / "script.json").write_text(json.dumps({"tools": [{"name": "pay", "inputSchema": {"type": "object"}}]}))
    forged: Any = {"hooksdk/fence": 99, "hooksdk/fences": {"session-of-bob": 99}, "theirs": 1}
    async with (
        McpServers({"bank": script("scripted", str(tmp_path))}) as servers,
        Host() as host,
        Gateway(host, servers) as gateway,
        client(gateway) as connected,
    ):
        await connected.call_tool("pay", {}, meta=forged)
    sent = [one for one in map(json.loads, (tmp_path / "meta").read_text().splitlines()) if one and "theirs" in one]
    assert [one["hooksdk/fence"] for one in sent] == [1]
    assert [[*one["hooksdk/fences"].values()] for one in sent] == [[1]]
    assert "session-of-bob" not in sent[0]["hooksdk/fences"]


# --- a bank that compares ---


@pytest.fixture
def bank(tmp_path: Path) -> Any:
    sys.path.append(str(Path(__file__).parents[2] / "examples"))
    return import_module("fenced_bank").Bank(tmp_path / "bank.db")


def paid(bank: Any) -> list[str]:
    return [payee for (payee,) in bank.rows.execute("SELECT payee FROM payments ORDER BY payee")]


def test_the_bank_pays_an_effect_once_and_nothing_for_an_older_fence(bank: Any) -> None:
    bank.accept({"a": 2}, ("effect-1", "ann"))
    bank.accept({"a": 2}, ("effect-1", "ann"))
    bank.accept({"b": 1}, ("effect-2", "bob"))
    for older in ({"a": 1}, {"b": 5, "a": 1}):
        with pytest.raises(ToolError, match="refused: fence 1, and another worker came with 2"):
            bank.accept(older, ("effect-3", "eve"))
    bank.accept({"b": 1}, ("effect-4", "cid"))  # the fence 5 of what was refused was not kept
    assert paid(bank) == ["ann", "bob", "cid"]


def test_of_workers_that_pay_at_once_none_pays_after_a_newer_one(bank: Any, tmp_path: Path) -> None:
    order: list[int] = []
    lock = threading.Lock()

    def pay(fence: int) -> None:
        own = type(bank)(tmp_path / "bank.db")
        for n in range(10):
            try:
                own.accept({"s": fence}, (f"effect-{fence}-{n}", str(fence)))
            except ToolError:
                with lock:
                    order.append(fence)
        own.rows.close()

    workers = [threading.Thread(target=pay, args=(fence,)) for fence in (1, 2, 3)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    written = [int(payee) for (payee,) in bank.rows.execute("SELECT payee FROM payments ORDER BY rowid")]
    assert written == sorted(written)
    assert written.count(3) == 10
    assert len(written) + len(order) == 30


# --- a worker that was taken for dead ---


def start(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(CHILD), *map(str, arguments)], stderr=subprocess.DEVNULL)


async def until(path: Path) -> Any:
    """What a worker has written there."""
    with anyio.fail_after(240):
        while not path.exists():
            await anyio.sleep(0.02)
    return json.loads(path.read_text())


def has_open_transaction(url: str) -> bool:
    """True while somebody keeps others from writing there."""
    if url.startswith("postgres"):
        import psycopg

        looking = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(looking).fetchone() != (0,)
    rows = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=1, isolation_level=None)
    try:
        rows.execute("BEGIN IMMEDIATE").execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        rows.close()
    return False


async def stopped(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until it has stopped itself, and stop it elsewhere if that was in a transaction of one of its threads, which
    would keep all others from writing."""
    while True:
        _, status = await anyio.to_thread.run_sync(os.waitpid, process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it is in its tool, before the effect"
        if not await anyio.to_thread.run_sync(has_open_transaction, url):
            return
        process.send_signal(signal.SIGCONT)
        await anyio.sleep(0.05)
        process.send_signal(signal.SIGSTOP)


@NEEDS_SIGNALS
@pytest.mark.heavy
@pytest.mark.in_ci(loop=["own"], url=["sqlite", "postgres"], answer=["no"])
@pytest.mark.parametrize("loop", ["own", "dbos"])
@pytest.mark.parametrize("answer", ["no", "yes"])
async def test_a_worker_that_wakes_in_a_payment_after_a_persons_answer_is_refused_by_the_bank(
    answer: str, loop: str, url: str, tmp_path: Path, bank: Any
) -> None:
    if loop == "dbos":
        pytest.importorskip("dbos", reason="hooksdk[dbos] is not installed")
    folder = tmp_path / "workers"
    folder.mkdir()
    a = start(loop, url, folder, answer, "stops")
    try:
        await stopped(a, url)
        b = start(loop, url, folder, answer)
        try:
            assert "pay" in await until(folder / "asked.json")
            assert ("paid" if answer == "yes" else "ann looks herself") in await until(folder / "end.json")
        finally:
            if loop == "dbos":
                await anyio.to_thread.run_sync(b.wait)
            b.kill()
            b.wait()
        assert not (folder / "stopped.json").exists()
        (folder / "go").touch()
        a.send_signal(signal.SIGCONT)
        seen = await until(folder / "stopped.json")
    finally:
        a.send_signal(signal.SIGCONT)
        a.kill()
        a.wait()
    assert (seen["before"], seen["held"]) == (True, False)
    assert re.match(r"refused: fence \d+, and another worker came with ", seen["bank"])
    assert (folder / "heir.json").exists() == (answer == "yes")
    assert paid(type(bank)(folder / "bank.db")) == (["ann"] if answer == "yes" else [])
    others = (folder / "paid").read_text().split()
    assert others == ["ann"] * (2 if answer == "yes" else 1), "a bank that compares nothing pays for both workers"
