"""What hooksdk 0.2.0 has stored still opens: sessions, values, remembered answers, and the questions that wait.

`stored_0_2_0/made_by.txt` says how the files were made.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from hooksdk import Approval, Host, Tool, hooks
from hooksdk.approvals import Remembered
from hooksdk.desk import ApprovalDesk, ApprovalRecords
from hooksdk.errors import ApprovalPending, StoreError
from hooksdk.formats import get_format
from hooksdk.stores import MemoryStore, SqlStore, Store, open_store
from hooksdk.tools import ToolCall
from tests.hooksdk.commands import hooksdk

WAITING = [(1, "pending"), (2, "granted"), (3, "denied"), (6, "pending")]
pytestmark = pytest.mark.anyio
CHAT = get_format("openai-chat")
LONG = "a long listing " * 40
SPACE = "hooksdk.approvals"
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}}}


class Asks:
    """Asks about each payment, and counts them in its state and its storage."""

    def __init__(self, state: Any, storage: Any) -> None:
        self.state, self.storage = state, storage

    @hooks.before_tool_call(tools="pay")
    async def ask(self, event: hooks.BeforeToolCall) -> hooks.Ask:
        return hooks.Ask("Pay?", "at once", "critical")

    @hooks.before_model_call
    async def trim(self, event: hooks.BeforeModelCall) -> None:
        await event.results.trim("r1", "a listing", reason="old")

    @hooks.after_tool_call
    async def count(self, event: hooks.AfterToolCall) -> None:
        self.state["calls"] = self.state.get("calls", 0) + 1
        await self.storage.set("calls", {"seen": self.state["calls"], "text": "é\ud800"})


async def pay(arguments: dict[str, Any]) -> str:
    return f"paid {arguments['amount']}"


async def look(arguments: dict[str, Any]) -> str:
    return LONG


TOOLS = [
    Tool(name="pay", source="host", owner="bank", parameters=PARAMETERS, execute=pay),
    Tool(name="look", source="host", owner="bank", parameters=PARAMETERS, execute=look),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder, as 0.2.0 left it."""
    shutil.copytree(Path(__file__).with_name("stored_0_2_0") / "home", tmp_path / "kept")
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(params=["files", "database"])
async def stored(request: pytest.FixtureRequest, home: Path) -> AsyncGenerator[tuple[str, Store]]:
    """Its session, and the store that has it."""
    store = open_store("jsonl" if request.param == "files" else f"sqlite:///{home / 'sessions.db'}")
    yield request.param, store
    await store.aclose()


@asynccontextmanager
async def payer(session_id: str, store: Store) -> AsyncGenerator[Any]:
    """Pays an amount; answers the result, or `waits`."""
    async with (
        Host([Asks], store=store, approver=ApprovalDesk(wait=0)) as host,
        host.session(session_id) as session,
        session.run(requester={"id": "ann"}) as run,
    ):
        await run.resolve_tools(TOOLS)
        numbers = iter(range(100))

        async def pay(amount: int) -> str:
            call = ToolCall(f"new{next(numbers)}", "pay", {"amount": amount})
            await run.record(CHAT.reply("", [call]))
            try:
                return (await run.call_tool(call)).text
            except ApprovalPending:
                return "waits"

        yield pay
        run.pause("enough")


async def states(store: Store) -> list[tuple[int, str]]:
    return [(record.number, record.state) for record in await ApprovalRecords(store).list()]


async def test_a_session_opens_with_its_trims_and_its_state_and_goes_on(stored: tuple[str, Store]) -> None:
    session_id, store = stored
    async with Host([Asks], store=store) as host, host.session(session_id) as session:
        assert session.resumed
        assert session.requests == []
        assert {info.labels for info in session.results.list()} == {frozenset({"untrusted"})}
        async with session.run() as run:
            shown = [result.text for message in await run.prepare_messages() for result in CHAT.results(message)]
            assert shown[0].startswith("[Result r1 of look was trimmed: 600 characters.")
            assert shown[1] == LONG
            run.pause("enough")
    entries = (await store.read_session(session_id))[1]
    counted = [entry["change"] for entry in entries if entry.get("plugin") == "asks"]
    assert counted[0] == {"set": {"calls": 1}}
    assert await store.get_value("asks", "calls") == {"seen": 4, "text": "é\ud800"}


async def test_a_call_that_waited_runs_once_it_is_granted_and_is_not_asked_about_anew(
    stored: tuple[str, Store],
) -> None:
    session_id, store = stored
    await ApprovalRecords(store).answer(6 if session_id == "files" else 12, Approval(True))
    async with (
        Host([Asks], store=store) as host,
        host.session(session_id) as session,
        session.run(requester={"id": "ann"}, approver=ApprovalDesk(wait=0)) as run,
    ):
        await run.resolve_tools(TOOLS)
        (call,) = run.pending
        assert (await run.call_tool(call)).text == "paid 6"


async def test_a_remembered_yes_counts_for_nothing_since_nobody_knows_what_was_asked_and_that_is_said_once(
    stored: tuple[str, Store], caplog: pytest.LogCaptureFixture
) -> None:
    _, store = stored
    assert [(one.granted, one.by) for one in await Remembered(store).list()] == [(True, "ann")]
    async with payer("another", store) as pay:
        assert [await pay(5), await pay(5)] == ["waits", "waits"]
    assert caplog.text.count("the remembered yes to host:bank:pay") == 1
    assert await Remembered(store).list() == []


async def test_a_remembered_no_counts_for_whatever_its_plugin_asks(stored: tuple[str, Store]) -> None:
    _, store = stored
    (key,) = [key for key in await store.list_keys(SPACE) if (await store.get_value(SPACE, key))["granted"]]
    await store.set_value(SPACE, key, {**await store.get_value(SPACE, key), "granted": False, "reason": "not here"})
    async with payer("another", store) as pay:
        assert [await pay(5), await pay(7)] == ["Blocked: 'Pay?' was not approved: not here", "waits"]


async def test_what_waits_is_seen_answered_and_taken_once_under_its_number(stored: tuple[str, Store]) -> None:
    session_id, store = stored
    first = 1 if session_id == "files" else 7
    last = (first + 5, "pending")
    assert await states(store) == [(first, "pending"), (first + 1, "granted"), (first + 2, "denied"), last]
    async with payer(session_id, store) as pay:
        assert [await pay(2), await pay(2)] == ["paid 2", "waits"]
        assert await pay(3) == "Blocked: 'Pay?' was not approved: not this month"
        assert await pay(1) == "waits"
        await ApprovalRecords(store).answer(first, Approval(True))
        assert [await pay(1), await pay(1)] == ["paid 1", "waits"]
    used = [(number, "used") for number in (first, first + 1, first + 2)]
    assert await states(store) == [*used, last, (13, "pending"), (14, "pending")]


async def test_each_store_takes_what_is_its_sessions_and_leaves_the_rest(home: Path) -> None:
    assert await states(MemoryStore()) == []
    assert await states(SqlStore(home / "other")) == []
    assert [number for number, _ in await states(open_store("jsonl"))] == [1, 2, 3, 6]
    database = SqlStore(f"sqlite:///{home / 'sessions.db'}")
    assert [number for number, _ in await states(database)] == [7, 8, 9, 12]
    await database.aclose()


async def test_a_ticket_that_0_2_0_gave_counts_still(home: Path) -> None:
    with closing(sqlite3.connect(home / "approvals.db")) as old, old:
        old.execute("update approvals set ticket = 'nonce' where number = 1")
        ((key,),) = old.execute("select key from signing").fetchall()
    records = ApprovalRecords(open_store("jsonl"))
    assert await records.key() == key
    assert (await records.take_ticket(1, "nonce")) is not None
    assert (await records.take_ticket(1, "nonce")) is None


LIST = """
import sys, anyio
from hooksdk.desk import ApprovalRecords
from hooksdk.stores import open_store

async def main():
    sys.stdin.readline()
    await ApprovalRecords(open_store(sys.argv[1])).list()

anyio.run(main)
"""


@pytest.mark.heavy
async def test_processes_that_begin_at_once_take_each_record_once(home: Path) -> None:
    processes = [Popen([sys.executable, "-c", LIST, "jsonl"], stdin=PIPE, text=True) for _ in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("now\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
    assert await states(open_store("jsonl")) == WAITING


@pytest.mark.light(every=5)
@pytest.mark.parametrize("operation", range(1, 12))
async def test_a_takeover_that_was_cut_short_is_done_the_next_time(operation: int, home: Path) -> None:
    store = open_store("jsonl")

    class Breaks:
        """The store, until it breaks for good."""

        left = operation

        def __getattr__(self, name: str) -> Any:
            self.left -= 1
            if self.left < 0:
                raise StoreError("place", "broken")
            return getattr(store, name)

    broken: Any = Breaks()
    with suppress(StoreError):
        await ApprovalRecords(broken).list()
    assert await states(store) == WAITING
    async with payer("files", store) as pay:
        assert [await pay(2), await pay(2)] == ["paid 2", "waits"]


async def test_a_file_that_cannot_be_read_is_told_and_new_questions_wait(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (home / "approvals.db").write_bytes(b"no database at all " * 100)
    async with payer("files", open_store("jsonl")) as pay:
        assert await pay(2) == "waits"
    assert "what waited there cannot be read, and is asked anew: file is not a database" in caplog.text


@pytest.mark.heavy
async def test_the_command_shows_and_answers_what_0_2_0_has_asked(home: Path) -> None:
    listed = (await hooksdk("approvals", "--json", folder=home.parent)).json()["approvals"]
    assert [(one["number"], one["arguments"]) for one in listed] == [(1, {"amount": 1}), (6, {"amount": 6})]
    assert (await hooksdk("approvals", "grant", "1", folder=home.parent)).code == 0
    async with payer("files", open_store("jsonl")) as pay:
        assert await pay(1) == "paid 1"
