"""Every store through one suite, and with every operation of theirs going wrong."""

from __future__ import annotations

import itertools
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial, partialmethod
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, cast

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, hooks
from hooksdk.approvals import Later
from hooksdk.errors import StoreError
from hooksdk.hooks import Ask, BeforeToolCall
from hooksdk.stores import MemoryStore, SqlStore, Store, open_store
from hooksdk.testing import Fault, ScriptedApprover, StoreCase, check_fault, store_cases
from tests.stage import OwnStore, playing

KINDS = ["memory", "sqlite", "postgres"]
FAULTS = ["fail", "tear", "delay", "kill"]
Place = Callable[[], Store]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Another worker's store over one place, which is empty at first. The kind is the parameter."""
    kind = request.param
    memory = MemoryStore()
    if kind == "memory":
        return lambda: memory
    url = request.getfixturevalue("postgres").url() if kind == "postgres" else f"sqlite:///{tmp_path / 'sessions.db'}"
    return lambda: SqlStore(url)


@pytest.mark.light(every=3)
@pytest.mark.anyio
@pytest.mark.both_loops
@pytest.mark.parametrize("make", KINDS, indirect=True)
@pytest.mark.parametrize("case", store_cases(), ids=str)
async def test_every_store_keeps_every_promise(case: StoreCase, make: Place) -> None:
    await case(make)


COUNTS = """
import sys, anyio
from hooksdk.stores import _database, open_store

_database.PAUSES = (0.02, *[0.3] * 200)  # the others are slow on a busy machine, and the file is nobody's in turn

async def main():
    store = open_store(sys.argv[1])
    for _ in range(20):
        while not await store.change_value("p", "k", count := await store.get_value("p", "k"), (count or 0) + 1):
            await anyio.sleep(0)
        print("counted", flush=True)
    await store.aclose()

anyio.run(main)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_count_one_value_up_lose_nothing_also_when_one_is_killed(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    spec = f"jsonl:{tmp_path}" if kind == "sqlite" else request.getfixturevalue("postgres").url()
    processes = [Popen([sys.executable, "-c", COUNTS, spec], stdout=PIPE, text=True) for _ in range(4)]
    assert processes[0].stdout is not None
    begun = [processes[0].stdout.readline() for _ in range(5)]
    processes[0].kill()
    said = "".join([*begun, *(process.communicate(timeout=120)[0] for process in processes)])

    async def read() -> int:
        store = open_store(spec)
        try:
            return await store.get_value("p", "k")
        finally:
            await store.aclose()

    counted = anyio.run(read)
    assert said.count("counted") >= 65
    assert counted - said.count("counted") in {0, 1}  # what was stored as it was killed may not have been told


# --- faults: memory has no operation that could go wrong ---


@contextmanager
def broken_database(fault: Fault) -> Generator[None]:
    """Statements and commits in which this fault strikes."""
    import psycopg

    def run(
        real: Callable[..., Any], problem: type[Exception], connection: Any, statement: Any, *arguments: Any
    ) -> Any:
        strikes = fault.strikes()
        if strikes and statement == "COMMIT" and fault.kind == "tear":
            real(connection, statement)
        if strikes:
            raise problem("broken")
        return real(connection, statement, *arguments)

    class Connection(sqlite3.Connection):
        def execute(self, statement: Any, *arguments: Any) -> Any:
            return run(sqlite3.Connection.execute, sqlite3.OperationalError, self, statement, *arguments)

        def executemany(self, statement: Any, *arguments: Any) -> Any:
            return run(sqlite3.Connection.executemany, sqlite3.OperationalError, self, statement, *arguments)

    connect: Any = sqlite3.connect

    def connect_breaking(*places: Any, **options: Any) -> Any:
        return connect(*places, factory=Connection, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", connect_breaking)
        for kind, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "executemany")):
            patch.setattr(kind, name, partialmethod(partial(run, getattr(kind, name), psycopg.InternalError)))
        yield


@pytest.mark.in_ci(database=["sqlite"], kind=["fail", "kill"])
@pytest.mark.heavy
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_whichever_statement_goes_wrong_nothing_acknowledged_is_lost(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, kind: Any
) -> None:
    is_sqlite = database == "sqlite"
    url = f"sqlite:///{tmp_path / 'sessions.db'}" if is_sqlite else request.getfixturevalue("postgres").url()
    number = 0
    for number in itertools.count(1):
        fault = Fault(kind, number)
        with broken_database(fault):
            # Who is killed, or cannot reach the database, lets nothing go: its lease must lapse.
            if not check_fault(lambda: SqlStore(url, lease=0.1 if kind == "kill" else 1), fault):
                break
    assert number > 20


class Foreign(OwnStore):
    """A store of somebody's own, which raises an error of its own in the one operation that a test names."""

    def __init__(self, broken: str, error: type[Exception]) -> None:
        super().__init__()
        self.broken = broken
        self.error = error
        self.works = True

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
        self.fail("open_session")
        return Breaking(await self.memory.open_session(session_id, wait=wait), self)

    def fail(self, operation: str) -> None:
        if operation == self.broken and not self.works:
            raise self.error("the cable is out")

    def __getattr__(self, name: str) -> Any:
        return broken(getattr(self.memory, name), name, self)


def foreign(broken: str, error: type[Exception]) -> Any:
    return Foreign(broken, error)


class Breaking:
    """Its log."""

    def __init__(self, log: Any, store: Foreign) -> None:
        self._inner, self._owner = log, store

    def __getattr__(self, name: str) -> Any:
        return broken(getattr(self._inner, name), name, self._owner)


def broken(attribute: Any, name: str, store: Foreign) -> Any:
    if not callable(attribute):
        return attribute

    async def call(*args: Any, **options: Any) -> Any:
        store.fail(name)
        return await cast("Callable[..., Awaitable[Any]]", attribute)(*args, **options)

    return call


class Remembers:
    @hooks.before_tool_call
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask("Go on?")


@pytest.mark.anyio
@pytest.mark.parametrize("error", [OSError, ConnectionError, RuntimeError, KeyError])
@pytest.mark.parametrize("operation", ["list_keys", "get_value", "set_value"])
async def test_a_store_whose_values_cannot_be_reached_remembers_nothing_and_a_person_is_asked(
    operation: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    store, approver = foreign(operation, error), ScriptedApprover(Approval(True, scope="always"))
    async with playing(Remembers, store=store, approver=approver) as stage:
        store.works = False
        assert [(await stage.call()).text for _ in range(2)] == ["done", "done"]
        store.works = True
    assert len(approver.requests) == 2
    assert "the cable is out" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("error", [OSError, ConnectionError, RuntimeError, KeyError])
@pytest.mark.parametrize("answer", [Later(), Approval(True)], ids=["later", "at once"])
async def test_a_log_that_cannot_be_written_is_a_store_error_as_it_is_of_our_stores(
    answer: Any, error: type[Exception]
) -> None:
    store = foreign("append_journal", error)

    async def approver(request: ApprovalRequest) -> Any:
        return answer

    with suppress(StoreError):  # what waits at the end of the run cannot be stored either
        async with playing(Remembers, store=store, approver=approver) as stage:
            (written,) = await stage.reply(("act", {}))
            store.works = False
            with pytest.raises(StoreError, match=r"session 's': \w+Error: '?the cable is out") as caught:
                await (await stage.run.judge(written)).execute()
            assert isinstance(caught.value.__cause__, error)
            assert stage.executed == []
            store.works = True


@pytest.mark.anyio
async def test_a_session_that_a_foreign_store_cannot_open_is_a_store_error() -> None:
    store = foreign("open_session", OSError)
    store.works = False
    with pytest.raises(StoreError, match="the cable is out"):
        async with playing(store=store):
            raise AssertionError


@pytest.mark.anyio
async def test_a_session_that_is_opened_anew_over_a_foreign_store_without_room_runs_nothing() -> None:
    store = foreign("set_value", OSError)
    async with playing(store=store) as stage:
        stage.run.pause("enough")
    async with playing(store=store) as stage:
        (written,) = await stage.reply(("act", {}))
        store.works = False
        with pytest.raises(StoreError, match="the cable is out"):
            await stage.run.call_tool(written)
        assert stage.executed == []
        store.works = True
