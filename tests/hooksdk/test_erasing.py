"""What is erased is nowhere in the files once the receipt says so, and nothing untrue is said before."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Host, Tool
from hooksdk.approvals import Approval, ApprovalRequest, Question, Remembered
from hooksdk.calls import ToolCall
from hooksdk.desk import ApprovalRecords
from hooksdk.errors import SessionBusy
from hooksdk.stores import SqlStore
from hooksdk.stores.erasing import Erasure, Receipt, erase, find
from tests.postgres import Postgres

pytestmark = pytest.mark.anyio
WORD = "zebrafinch"
"""Stands in everything that is to go."""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqlStore]:
    """A store on SQLite."""
    async with aclosing(SqlStore(tmp_path)) as opened:
        yield opened


def found_in(folder: Path, word: str = WORD) -> list[str]:
    """The files of a folder in which the word stands, free pages and logs included."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes())


async def say(store: SqlStore, session_id: str, text: str, requester: str | None = None, *, times: int = 1) -> None:
    """One run of a session with a message of this text."""
    who = None if requester is None else {"id": requester}
    async with (
        Host(store=store) as host,
        host.session(session_id) as session,
        session.run(requester=who, model="gpt-5") as run,
    ):
        for number in range(times):
            await run.record({"role": "user", "content": f"{text} {number} " + "x" * 500})
            await run.record({"role": "assistant", "content": "Good."})


async def say_with_sub_agent(store: SqlStore, session_id: str, text: str, child: str | None = None) -> str:
    """A run of a session, and one of a sub-agent's; answers the sub-agent's id."""
    async with Host(store=store) as host, host.session(session_id) as session, session.run(model="gpt-5") as run:
        await run.record({"role": "user", "content": text})
        async with session.child(child) as helper, helper.run(model="gpt-5") as inner:
            await inner.record({"role": "user", "content": text})
            return helper.id


def request(session_id: str, requester: str = "ann") -> ApprovalRequest:
    """A question to a person about a call with the word in its arguments."""
    return ApprovalRequest(
        title=f"Pay {WORD}?",
        description="",
        severity="warning",
        timeout=60,
        plugin="host",
        questions=(Question(title=f"Pay {WORD}?", description="", severity="warning", timeout=60, plugin="host"),),
        session_id=session_id,
        agent_id="main",
        workspace_dir=None,
        requester={"id": requester},
        call=ToolCall("c1", "pay", {"to": WORD}),
        tool=Tool(name="pay", source="host", owner="host"),
        arguments={"to": WORD},
        effect_id="e1",
    )


async def test_an_erased_session_is_in_no_file_any_more(store: SqlStore, tmp_path: Path) -> None:
    await say(store, "ann", WORD, times=50)
    await say(store, "bob", "something else", times=50)
    assert found_in(tmp_path) == ["hooksdk.db", "hooksdk.db-wal"] or found_in(tmp_path) == ["hooksdk.db-wal"]
    receipt = await erase(store, Erasure(sessions=["ann"]))
    assert receipt is not None
    assert (receipt.sessions, receipt.waits) == (["ann"], "")
    assert found_in(tmp_path) == []
    assert await store.list_sessions() == ["bob"]
    messages, _ = await store.read_session("bob")
    assert len(messages) == 100


async def test_while_somebody_reads_the_receipt_waits_and_the_same_erasure_finishes_it(
    store: SqlStore, tmp_path: Path
) -> None:
    await say(store, "ann", WORD, times=20)
    with closing(sqlite3.connect(tmp_path / "hooksdk.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM hooksdk_messages").fetchone()
        receipt = await erase(store, Erasure(sessions=["ann"]))
        assert receipt is not None
        assert "at this moment" in receipt.waits
        assert found_in(tmp_path)  # so it would have been untrue
        assert not await store.session_exists("ann")
        reader.execute("ROLLBACK")
    receipt = await erase(store, Erasure(sessions=["ann"]))
    assert receipt is not None
    assert not receipt.waits
    assert found_in(tmp_path) == []
    assert await erase(store, Erasure(sessions=["ann"])) is None


async def test_what_a_database_without_secure_delete_left_in_its_free_pages_goes_too(
    store: SqlStore, tmp_path: Path
) -> None:
    await say(store, "ann", "hello")
    with closing(sqlite3.connect(tmp_path / "hooksdk.db")) as connection:
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("CREATE TABLE notes (body TEXT)")
        connection.executemany("INSERT INTO notes VALUES (?)", [(WORD * 50,)] * 200)
        connection.commit()
        connection.execute("DELETE FROM notes")
        connection.commit()
    assert found_in(tmp_path)
    receipt = await erase(store, Erasure(sessions=["ann"]))
    assert receipt is not None
    assert not receipt.waits
    assert found_in(tmp_path) == []


@pytest.mark.parametrize("child", [None, "helper-of-ann"])
async def test_a_session_goes_with_its_sub_agents_whatever_they_are_called(
    store: SqlStore, tmp_path: Path, child: str | None
) -> None:
    own = await say_with_sub_agent(store, "ann", WORD, child)
    await say_with_sub_agent(store, "annabel", "another")
    assert set(await find(store, Erasure(sessions=["ann"]))) == {"ann", own}
    await erase(store, Erasure(sessions=["ann"]))
    assert found_in(tmp_path) == []
    assert len(await store.list_sessions()) == 2


async def test_every_session_of_a_requester_goes_and_no_other(store: SqlStore, tmp_path: Path) -> None:
    await say(store, "one", WORD, "ann")
    await say(store, "two", "first bob's", "bob")
    await say(store, "two", WORD, "ann")
    await say(store, "three", "bob's alone", "bob")
    receipt = await erase(store, Erasure(requester="ann"))
    assert receipt is not None
    assert sorted(receipt.sessions) == ["one", "two"]
    assert await store.list_sessions() == ["three"]
    assert found_in(tmp_path) == []
    assert found_in(tmp_path, '"ann"') == []


async def test_a_requester_is_known_in_a_run_that_died_before_its_first_reply(store: SqlStore) -> None:
    async with Host(store=store) as host, host.session("one") as session:
        with pytest.raises(ZeroDivisionError):
            async with session.run(requester={"id": "ann"}):
                raise ZeroDivisionError
    assert await find(store, Erasure(requester="ann")) == ["one"]


async def test_questions_and_remembered_answers_about_a_session_go_with_it(store: SqlStore, tmp_path: Path) -> None:
    await say(store, "s1", "hello")
    await say(store, "s2", "hello")
    records, remembered = ApprovalRecords(store), Remembered(store)
    await records.ask(request("s1"))
    answered, _ = await records.ask(request("s1", "cleo"))
    await records.answer(answered.number, Approval(True, by="me"))
    await records.ask(request("s1", "cleo"))  # which takes the answer
    await records.ask(request("s2", "bob"))
    await remembered.add(request("s1"), Approval(True, by="me", scope="session"))
    await remembered.add(request("s1", "cleo"), Approval(True, by="me", scope="always"))
    await remembered.add(request("s2", "bob"), Approval(True, by="me", scope="always"))
    assert await erase(store, Erasure(sessions=["s1"])) is not None
    assert [one.session for one in await records.list()] == ["s2"]
    assert [one.requester for one in await remembered.list()] == ["bob"]
    await erase(store, Erasure(requester="bob"))
    assert await records.list() == []
    assert await remembered.list() == []
    assert found_in(tmp_path) == []


async def test_values_that_are_kept_for_a_session_or_a_requester_go_with_it(store: SqlStore, tmp_path: Path) -> None:
    await say(store, "s1", "hello")
    for space in ("hooksdk.sessions", "hooksdk.gateway.results", "hooksdk.gateway.calls"):
        await store.set_value(space, "s1/notes", WORD)
        await store.set_value(space, "s10/notes", "stays")
    await store.set_value("hooksdk.gateway.sessions", "token", {"id": "s1", "seen": 1.0, "note": WORD})
    await store.set_value("tool_policy", "ab.calls/session:s1/tool:host:host:pay", {"note": WORD})
    await store.set_value("tool_policy", "ab.calls/requester:ann", {"note": WORD})
    await store.set_value("tool_policy", "ab.calls/requester:bob", {"note": "stays"})
    await store.set_value("other_plugin", "s1", "stays")
    receipt = await erase(store, Erasure(sessions=["s1"], requester="ann"))
    assert receipt is not None
    assert found_in(tmp_path) == []
    assert await store.list_keys("tool_policy") == ["ab.calls/requester:bob"]
    assert await store.list_keys("hooksdk.sessions") == ["s10/notes"]
    assert await store.get_value("other_plugin", "s1") == "stays"


async def test_a_held_session_is_refused_with_its_holder_and_nothing_is_gone(store: SqlStore, tmp_path: Path) -> None:
    own = await say_with_sub_agent(store, "ann", WORD)
    async with aclosing(SqlStore(tmp_path)) as other:
        log = await other.open_session(own)
        with pytest.raises(SessionBusy) as refusal:
            await erase(store, Erasure(sessions=["ann"]), wait=0)
        assert "process" in str(refusal.value)
        assert sorted(await store.list_sessions()) == ["ann", own]
        await log.close()
    assert (await erase(store, Erasure(sessions=["ann"]))) is not None


async def test_sessions_before_a_time_go_but_for_those_that_are_held_or_were_written_since(
    store: SqlStore, tmp_path: Path
) -> None:
    for name in ("old", "held", "new"):
        await say(store, name, name)
    until = time.time() + 1
    with closing(sqlite3.connect(tmp_path / "hooksdk.db")) as connection:
        connection.execute("UPDATE hooksdk_sessions SET changed = changed + 10 WHERE name = '\"new\"'")
        connection.commit()
    async with aclosing(SqlStore(tmp_path)) as other:
        log = await other.open_session("held")
        receipt = await erase(store, Erasure(before=until))
        await log.close()
    assert receipt is not None
    assert list(receipt.sessions) == ["old"]
    assert list(receipt.held) == ["held"]
    assert sorted(await store.list_sessions()) == ["held", "new"]


async def test_an_unknown_session_gives_no_receipt_and_leaves_nothing(store: SqlStore) -> None:
    assert await erase(store, Erasure(sessions=["nobody"])) is None
    await say(store, "ann", "hello")
    assert await erase(store, Erasure(sessions=["nobody"])) is None
    assert await store.list_keys("hooksdk.erasing") == []
    assert await store.list_sessions() == ["ann"]


async def test_an_erasure_in_an_empty_folder_makes_no_file(tmp_path: Path) -> None:
    async with aclosing(SqlStore(tmp_path / "empty")) as store:
        assert await erase(store, Erasure(requester="ann")) is None
        assert await find(store, Erasure(before=1.0)) == []
    assert not (tmp_path / "empty").exists()


async def test_values_that_outlived_their_session_are_erased_under_its_id(store: SqlStore) -> None:
    await say(store, "ann", "hello")
    await store.delete_session("ann")
    await store.set_value("hooksdk.sessions", "ann/p", WORD)
    receipt = await erase(store, Erasure(sessions=["ann"]))
    assert receipt is not None
    assert (list(receipt.sessions), receipt.values) == ([], 1)


async def test_an_encrypted_store_is_searched_for_a_requester_too(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    async with aclosing(SqlStore(tmp_path, keys=[b"k" * 32])) as store:
        own = await say_with_sub_agent(store, "two", "another", "helper")
        await say(store, "one", WORD, "ann")
        await ApprovalRecords(store).ask(request("one"))
        assert await find(store, Erasure(requester="ann")) == ["one"]
        assert set(await find(store, Erasure(sessions=["two"]))) == {"two", own}
        receipt = await erase(store, Erasure(requester="ann"))
        assert receipt is not None
        assert receipt.values == 2  # the question, and its place in the list
        assert await ApprovalRecords(store).list() == []


async def test_tables_that_an_earlier_version_left_are_cleared_of_the_session(store: SqlStore, tmp_path: Path) -> None:
    await say(store, "ann", "hello")
    await store.set_value("hooksdk.sessions", "ann/p", WORD)
    with closing(sqlite3.connect(tmp_path / "hooksdk.db")) as database:
        database.execute("CREATE TABLE hooksdk_old_sessions (key TEXT, name TEXT)")
        for table in ("messages", "journal"):
            database.execute(f"CREATE TABLE hooksdk_old_{table} (key TEXT, position INTEGER, body TEXT)")
            database.execute(f"INSERT INTO hooksdk_old_{table} VALUES ('k', 0, '{WORD}'), ('o', 0, 'stays')")
        database.execute("INSERT INTO hooksdk_old_sessions VALUES ('k', '\"ann\"'), ('o', '\"bob\"')")
        database.execute("CREATE TABLE hooksdk_old_values AS SELECT space, key, name, body FROM hooksdk_values")
        database.commit()
    receipt = await erase(store, Erasure(sessions=["ann"]))
    assert receipt is not None
    assert not receipt.waits
    assert found_in(tmp_path) == []
    with closing(sqlite3.connect(tmp_path / "hooksdk.db")) as database:
        assert database.execute("SELECT body FROM hooksdk_old_messages").fetchall() == [("stays",)]


async def test_deleting_a_session_removes_it_alone(store: SqlStore) -> None:
    own = await say_with_sub_agent(store, "ann", WORD)
    assert await store.delete_session("ann")
    assert await store.list_sessions() == [own]


@pytest.mark.both_loops
async def test_two_erasers_at_once_erase_it_once(store: SqlStore, tmp_path: Path) -> None:
    for _ in range(5):
        await say(store, "ann", WORD, times=5)
        receipts: list[Receipt | None] = []

        async def run(own: SqlStore, receipts: list[Receipt | None] = receipts) -> None:
            receipts.append(await erase(own, Erasure(sessions=["ann"]), wait=10))

        async with aclosing(SqlStore(tmp_path)) as other, anyio.create_task_group() as group:
            group.start_soon(run, store)
            group.start_soon(run, other)
        assert any(receipt and not receipt.waits for receipt in receipts)
        assert await store.list_sessions() == []
        assert found_in(tmp_path) == []


@pytest.mark.both_loops
async def test_an_eraser_and_a_worker_at_the_same_instant_never_mix(store: SqlStore, tmp_path: Path) -> None:
    for number in range(10):
        await say(store, "ann", WORD, times=3)

        async def work(other: SqlStore) -> None:
            await say(other, "ann", "afterwards")

        async def run(other: SqlStore) -> None:
            await erase(other, Erasure(sessions=["ann"]), wait=10)

        async with aclosing(SqlStore(tmp_path)) as other, anyio.create_task_group() as group:
            for step, own in [(run, store), (work, other)][:: 1 if number % 2 else -1]:
                group.start_soon(step, own)
        texts: list[str] = []
        if await store.session_exists("ann"):
            messages, _ = await store.read_session("ann")
            texts = [str(message["content"]).partition(" ")[0] for message in messages]
        assert texts in ([], ["afterwards", "Good."])
        await erase(store, Erasure(sessions=["ann"]))
    assert found_in(tmp_path) == []


CHILD = """
import anyio, sys
from pathlib import Path
from hooksdk.stores import SqlStore
from hooksdk.stores.erasing import Erasure, erase

async def main():
    receipt = await erase(SqlStore(Path(sys.argv[1])), Erasure(sessions=["ann"]), wait=20)
    print("erased" if receipt and not receipt.waits else "not erased", flush=True)
    await anyio.sleep(60)

print("ready", flush=True)
anyio.run(main)
"""


@pytest.mark.heavy
@pytest.mark.timeout(600)
async def test_an_eraser_that_is_killed_has_said_nothing_untrue_and_the_next_finishes_it(tmp_path: Path) -> None:
    said = 0
    for number in range(50):
        async with aclosing(SqlStore(tmp_path)) as store:
            own = await say_with_sub_agent(store, "ann", WORD)
            await ApprovalRecords(store).ask(request("ann"))
            await store.set_value("hooksdk.sessions", f"{own}/notes", WORD)
        command = [sys.executable, "-c", CHILD, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            await anyio.sleep(number * 0.006)
            child.kill()
            rest = child.stdout.read()
        if "erased" in rest.split():
            said += 1
            assert found_in(tmp_path) == []
        async with aclosing(SqlStore(tmp_path)) as store:
            receipt = await erase(store, Erasure(sessions=["ann"]), wait=20)
            assert receipt is None or not receipt.waits
            assert await store.list_sessions() == []
            assert await ApprovalRecords(store).list() == []
        assert found_in(tmp_path) == []
        assert receipt is None or "erased" not in rest.split()
    assert said < 50


async def test_files_of_earlier_versions_go_with_their_session(store: SqlStore, tmp_path: Path) -> None:
    from hooksdk.stores._names import file_name

    folder = tmp_path / "before-hooksdk.db"
    folder.mkdir()
    await say(store, "ann", "hello")
    for name in ("ann", "bob"):
        (folder / f"{file_name(name)}.messages.jsonl").write_text(WORD if name == "ann" else "stays", encoding="utf-8")
    (folder / "values.json").write_text(
        f'{{"space": "hooksdk.sessions", "values": {{"ann/p": "{WORD}", "bob/p": "stays"}}}}', encoding="utf-8"
    )
    await store.set_value("hooksdk.sessions", "ann/p", WORD)
    receipt = await erase(store, Erasure(sessions=["ann"]))
    assert receipt is not None
    assert len(receipt.files) == 2
    assert found_in(tmp_path) == []
    assert found_in(folder, "stays") == sorted([f"{file_name('bob')}.messages.jsonl", "values.json"])


async def test_the_record_that_the_guard_has_of_a_session_goes_with_it(
    store: SqlStore, tmp_path: Path, home: Path
) -> None:
    places = home / "guard" / "sessions"
    places.mkdir(parents=True)
    for name in ("s1", "s2"):
        (places / f"{name}.json").write_text(f'{{"agent": "codex", "session": "{name}"}}', encoding="utf-8")
        await say(store, f"guard-codex-{name}", WORD if name == "s1" else "stays")
    receipt = await erase(store, Erasure(sessions=["guard-codex-s1"]))
    assert receipt is not None
    assert [Path(path).name for path in receipt.files] == ["s1.json"]
    assert [path.name for path in places.iterdir()] == ["s2.json"]
    assert found_in(tmp_path) == []


# PostgreSQL


@pytest.mark.heavy
@pytest.mark.both_loops
async def test_on_postgresql_two_erasers_and_a_worker_at_once_never_mix(postgres: Postgres) -> None:
    url = postgres.url()
    async with aclosing(SqlStore(url)) as store, aclosing(SqlStore(url)) as other, aclosing(SqlStore(url)) as third:
        for _ in range(3):
            await say(store, "ann", WORD, times=3)
            async with anyio.create_task_group() as group:
                for own in (store, other):
                    group.start_soon(partial(erase, own, Erasure(sessions=["ann"]), wait=20))
                group.start_soon(say, third, "ann", "afterwards")
            messages: list[dict[str, Any]] = []
            if await store.session_exists("ann"):
                messages, _ = await store.read_session("ann")
            assert WORD not in str(messages)
            await erase(store, Erasure(sessions=["ann"]))
            assert await store.list_sessions() == []
        receipt = await erase(store, Erasure(sessions=["ann"]))
        assert receipt is None or not receipt.waits
        postgres.sql("CHECKPOINT")
        assert found_in(postgres.folder / "data" / "base") == []


@pytest.mark.heavy
async def test_on_postgresql_the_words_are_in_no_file_of_the_tables(postgres: Postgres) -> None:
    tables = postgres.folder / "data" / "base"

    def on_disk() -> list[str]:
        postgres.sql("CHECKPOINT")
        return found_in(tables)

    async with aclosing(SqlStore(postgres.url())) as store:
        await say(store, "ann", WORD, times=50)
        await say(store, "bob", "something else", times=50)
        await ApprovalRecords(store).ask(request("ann"))
        assert on_disk()
        import psycopg

        with psycopg.connect(f"host={postgres.folder} user=hooksdk dbname=postgres") as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT 1").fetchall()
            receipt = await erase(store, Erasure(sessions=["ann"]))
            assert receipt is not None
            assert "written anew" in receipt.waits
            assert on_disk()
        receipt = await erase(store, Erasure(sessions=["ann"]))
        assert receipt is not None
        assert not receipt.waits
        assert on_disk() == []
        assert any("archived log" in one for one in receipt.not_reached)
        messages, _ = await store.read_session("bob")
        assert len(messages) == 100
