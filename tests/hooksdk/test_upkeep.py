"""Damage of a database is found wherever it is, a copy has all that is whole, and files of a session lose nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from transcripts import OPENAI, body, history, opened

from hooksdk import Host
from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores import SqlStore, copies, upkeep
from hooksdk.stores._hashes import digest, session_key
from hooksdk.transcript import Results

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(url=["sqlite"])]

ODD = ["s", "a/b", "\0", "\ud800", "é 漢", "A", "a", "x" * 300, "--all", "../up"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'hooksdk.db'}"
    return request.getfixturevalue("postgres").url()


@pytest.fixture
async def store(url: str) -> AsyncGenerator[SqlStore]:
    store = SqlStore(url)
    await fill(store, "s")
    await store.set_value("watch", "key", {"count": 1})
    yield store
    await store.aclose()


async def fill(store: SqlStore, session_id: str, results: int = 3) -> None:
    async with opened(store, session_id) as transcript:
        await transcript.append(history(OPENAI, [body(number) for number in range(1, results + 1)]))
        await Results(transcript, "p").trim("r1", "first \0 \ud800")
        await transcript.drain()


async def execute(store: SqlStore, statement: str, **row: Any) -> None:
    """As somebody else would, beside the store's own ways."""
    await store.work(lambda run: run(lambda transaction: transaction.execute(statement, row)))


async def flaws(store: SqlStore, *session_ids: str) -> list[tuple[str, str]]:
    return [(flaw.who, flaw.what) for flaw in await upkeep.examine(store, session_ids)]


async def token_of(store: SqlStore) -> int:
    log = await store.open_session("s")
    await log.close()
    return log.token


# Damage


async def test_a_store_that_is_used_in_every_way_has_no_flaw(store: SqlStore) -> None:
    for number in range(40):
        await fill(store, f"session {number}", results=1)
        await store.set_value("watch", f"key {number}", number)
        assert await store.change_value("watch", f"key {number}", number, number + 1)
        assert await store.change_value("other", f"key {number}", None, number)
        assert not await store.change_value("other", f"key {number}", None, 1)
    for number in range(0, 40, 3):
        assert await store.delete_session(f"session {number}")
        await store.delete_value("watch", f"key {number}")
        assert await store.change_value("other", f"key {number}", number, None)
    await store.delete_value("watch", "none of this name")
    assert await flaws(store) == []


@pytest.mark.parametrize(
    ("statement", "who", "what"),
    [
        (
            "UPDATE hooksdk_messages SET body = '{}' WHERE position = 1",
            "s",
            "hooksdk_messages, position 1: this row was",
        ),
        ("DELETE FROM hooksdk_messages WHERE position = 2", "s", "hooksdk_messages, position 2: this row is missing"),
        ("DELETE FROM hooksdk_messages WHERE position = 7", "s", "hooksdk_messages, position 7: this row is missing"),
        ("DELETE FROM hooksdk_journal WHERE position = 1", "s", "hooksdk_journal, position 1: this row is missing"),
        ("UPDATE hooksdk_sessions SET messages = 3", "s", "hooksdk_messages, position 2: the newest row is not"),
        ("UPDATE hooksdk_sessions SET journal_hash = messages_hash", "s", "the newest row is not the one"),
        ("UPDATE hooksdk_values SET body = '2'", "values", "this row was changed by somebody else"),
        ("UPDATE hooksdk_values SET name = '\"b\"'", "values", "this row was changed by somebody else"),
        ("DELETE FROM hooksdk_values", "database", "the sum over all values does not fit: at least 1 are gone"),
        ("DELETE FROM hooksdk_sessions", "database", "the sum over all sessions does not fit: at least 1 are gone"),
        ("DELETE FROM hooksdk_sessions", "database", "8 of its rows are in hooksdk_messages"),
        (
            "UPDATE hooksdk_journal SET kind = 'x' WHERE position = 1",
            "s",
            "hooksdk_journal, position 1: this row was changed",
        ),
        ("DELETE FROM hooksdk_digests", "database", "at least 0 are gone, 1 were added"),
    ],
)
async def test_what_somebody_else_has_changed_is_found(store: SqlStore, statement: str, who: str, what: str) -> None:
    assert await flaws(store) == []
    await execute(store, statement)
    assert any(each == who and what in told for each, told in await flaws(store)), await flaws(store)


async def test_a_session_that_is_gone_with_all_its_rows_is_found(store: SqlStore) -> None:
    await fill(store, "t")
    for table in ("messages", "journal", "rows", "states"):
        await execute(store, f"DELETE FROM hooksdk_{table} WHERE session = :id", id=session_key("t"))
    await execute(store, "DELETE FROM hooksdk_sessions WHERE id = :id", id=session_key("t"))
    assert await flaws(store) == [
        ("database", "the sum over all sessions does not fit: at least 1 are gone, 0 were added")
    ]


async def test_a_value_that_is_put_in_with_a_hash_that_fits_is_found(store: SqlStore) -> None:
    statement, forged = "UPDATE hooksdk_values SET body = :body, hash = :hash", '{"count":0}'
    (row,) = await store.look(
        lambda transaction: transaction.execute("SELECT space, key FROM hooksdk_values").fetchall(), []
    )
    await execute(store, statement, body=forged, hash=digest(*row, forged))
    assert await store.get_value("watch", "key") == {"count": 0}
    assert await flaws(store) == [("database", "the sum over all values does not fit: one is not what was stored")]


async def test_every_damaged_session_is_told_and_only_those_that_are_named(store: SqlStore) -> None:
    for name in ("t", "u"):
        await fill(store, name)
    await execute(store, "DELETE FROM hooksdk_messages WHERE position = 2")
    assert sorted(who for who, _ in await flaws(store)) == await store.list_sessions() == ["s", "t", "u"]
    assert [who for who, _ in await flaws(store, "t")] == ["t"]
    assert await flaws(store, "no such session") == []


async def test_an_open_session_is_examined_while_it_is_written(store: SqlStore) -> None:
    async with opened(store) as transcript, anyio.create_task_group() as tasks:

        async def write() -> None:
            for _ in range(30):
                await transcript.append([OPENAI.user("more"), OPENAI.reply("answer")])
                await store.set_value("watch", "key", len(transcript.messages))

        tasks.start_soon(write)
        for _ in range(10):
            assert await flaws(store) == []


@pytest.fixture
def many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of the messages is kept soon."""
    monkeypatch.setattr("hooksdk.stores._kept_rows.MIN_STATE_BYTES", 1)


@pytest.mark.usefixtures("many_rows")
@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE hooksdk_states SET body = '{}'", "hooksdk_states: this row was changed"),
        ("UPDATE hooksdk_states SET messages = 3", "hooksdk_states: this row was changed"),
        (
            "UPDATE hooksdk_rows SET body = '[]' WHERE kind = 'message' AND number = 2",
            "hooksdk_rows, message 2: this row was",
        ),
        (
            "DELETE FROM hooksdk_rows WHERE kind = 'message' AND number = 1",
            "hooksdk_rows: rows are missing: 1 of messages",
        ),
        ("DELETE FROM hooksdk_rows WHERE kind = 'result'", "rows are missing: 3 of results"),
    ],
)
async def test_rows_of_what_is_known_are_found_damaged_and_made_anew(
    store: SqlStore, statement: str, what: str
) -> None:
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.record([OPENAI.user("more"), OPENAI.reply("answer")])
    assert await flaws(store) == []
    await execute(store, statement)
    (flaw,) = await upkeep.examine(store)
    assert (flaw.who, flaw.remedy) == ("s", "make these rows anew")
    assert what in flaw.what
    view = (await store.read_session("s"))[0]
    await upkeep.mend(store, flaw)
    assert await flaws(store) == []
    async with opened(store) as transcript:
        assert transcript.messages == view


async def test_what_is_there_is_counted_anew(store: SqlStore) -> None:
    await execute(store, "DELETE FROM hooksdk_values")
    (flaw,) = await upkeep.examine(store)
    await upkeep.mend(store, flaw)
    assert await flaws(store) == []
    await store.set_value("watch", "key", 1)
    assert await flaws(store) == []


def zero_a_leaf(file: Path, table: str) -> None:
    """Overwrite one of the pages that have the rows of a table."""
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        statement = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        pages = [page for (page,) in connection.execute(statement, [table])]
    connection.close()
    with file.open("r+b") as raw:
        raw.seek((pages[len(pages) // 2] - 1) * size)
        raw.write(b"\0" * size)


@pytest.mark.parametrize("table", ["hooksdk_messages", "hooksdk_journal", "hooksdk_sessions", "hooksdk_values"])
def test_a_file_with_a_page_of_zeros_is_told_and_what_can_be_read_is_copied(table: str, tmp_path: Path) -> None:
    async def work() -> None:
        store, target = SqlStore(tmp_path / "old"), SqlStore(tmp_path / "new")
        for number in range(80):
            await fill(store, f"s{number}", results=1)
            await store.set_value("watch", f"key {number}", "x" * 400)
        await store.aclose()
        zero_a_leaf(tmp_path / "old" / "hooksdk.db", table)
        store = SqlStore(tmp_path / "old")
        found = await flaws(store)
        assert any(who == "database" for who, _ in found)
        rescued = await copies.rescue(store, target)
        damaged = {flaw.who for flaw in rescued.left} - {"database"}
        assert damaged <= {who for who, _ in found}
        copied = {*await target.list_sessions()}
        assert len(copied) == rescued.sessions
        lost = {f"s{number}" for number in range(80)} - copied
        assert lost == damaged if table in {"hooksdk_messages", "hooksdk_journal"} else damaged == set()
        if table == "hooksdk_sessions":
            assert 0 < len(lost) < 40
        if table == "hooksdk_values":
            assert 40 < rescued.values < 80
        assert await flaws(target) == []
        await store.aclose()
        await target.aclose()

    try:
        sqlite3.connect(":memory:").execute("SELECT 1 FROM dbstat").fetchall()
    except sqlite3.OperationalError:
        pytest.skip("this SQLite does not tell what its pages are")
    anyio.run(work)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE hooksdk_messages SET body = 3 WHERE position = 2",
        "UPDATE hooksdk_messages SET body = x'ff' WHERE position = 2",
        "UPDATE hooksdk_sessions SET name = 3",
        "UPDATE hooksdk_sessions SET messages = 'many'",
        "UPDATE hooksdk_values SET body = 3",
        "UPDATE hooksdk_values SET hash = 'none'",
        "UPDATE hooksdk_digests SET total = 'all'",
    ],
)
def test_what_is_of_another_kind_is_one_of_the_flaws(statement: str, tmp_path: Path) -> None:
    async def work() -> None:
        store = SqlStore(tmp_path)
        await fill(store, "s")
        await store.set_value("watch", "key", 1)
        await execute(store, statement)
        assert await flaws(store) != []
        await store.aclose()

    anyio.run(work)


# Copies


async def test_a_rescue_leaves_out_what_does_not_hold_and_copies_the_rest_as_it_is(
    store: SqlStore, tmp_path: Path
) -> None:
    await fill(store, "t")
    await store.set_value("watch", "other", 2)
    await execute(
        store, "UPDATE hooksdk_messages SET body = '{}' WHERE session = :id AND position = 2", id=session_key("s")
    )
    await execute(store, "UPDATE hooksdk_values SET body = '3' WHERE body = '2'")
    target = SqlStore(tmp_path / "target")
    rescued = await copies.rescue(store, target)
    assert (rescued.sessions, rescued.values, [flaw.who for flaw in rescued.left]) == (1, 1, ["values", "s"])
    assert await target.read_session("t") == await store.read_session("t")
    assert await target.get_value("watch", "key") == {"count": 1}
    assert await flaws(target) == []
    await target.aclose()


async def test_a_backup_is_made_beside_a_writer_and_has_all_that_was_stored_before(tmp_path: Path) -> None:
    store, copy = SqlStore(tmp_path), tmp_path / "backup.db"
    await fill(store, "s")
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user("more")])
        assert await copies.backup(store, copy) == []
        assert [path.name for path in tmp_path.glob("*backup*")] == ["backup.db"]
        assert copy.stat().st_mode & 0o777 == 0o600
        with pytest.raises(StoreError, match=r"is there already\. Nothing was changed"):
            await copies.backup(store, copy)
    copied = SqlStore(f"sqlite:///{copy}")
    assert await copied.read_session("s") == await store.read_session("s")
    await copied.aclose()
    await store.aclose()


async def test_a_backup_of_a_damaged_database_is_made_and_its_flaws_are_told(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    await fill(store, "s")
    await execute(store, "DELETE FROM hooksdk_messages WHERE position = 2")
    assert [flaw.who for flaw in await copies.backup(store, tmp_path / "backup.db")] == ["s"]
    assert (tmp_path / "backup.db").is_file()
    await store.aclose()


async def test_there_is_no_backup_of_a_server_of_nothing_and_in_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pg_dump"):
        await copies.backup(SqlStore("postgresql://a@b/c"), tmp_path / "x")
    with pytest.raises(StoreError, match="there is no database"):
        await copies.backup(SqlStore(tmp_path / "none"), tmp_path / "x")
    store = SqlStore(tmp_path)
    await fill(store, "s")
    with pytest.raises(StoreError, match="cannot be written"):
        await copies.backup(store, tmp_path / "no" / "folder")
    await store.aclose()


# Files


async def test_sessions_with_odd_ids_go_out_and_in_and_out_again_without_a_change(
    store: SqlStore, tmp_path: Path
) -> None:
    for session_id in ODD:
        await fill(store, session_id)
    other = SqlStore(tmp_path / "other")
    for session_id in ODD:
        await copies.export_session(store, session_id, tmp_path / "one")
    for journal in sorted((tmp_path / "one").glob("*.journal.jsonl")):
        await copies.import_session(other, copies.read_old_session(journal))
    for session_id in ODD:
        await copies.export_session(other, session_id, tmp_path / "two")
    one, two = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / name).iterdir()}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 2 * len(ODD)
    assert {*await other.list_sessions()} == {*ODD}
    assert await flaws(other) == []
    for session_id in ODD:
        assert await other.read_session(session_id) == await store.read_session(session_id)
        async with opened(store, session_id) as mine, opened(other, session_id) as theirs:
            assert mine.view == theirs.view
    await other.aclose()


async def test_a_session_keeps_its_token_and_the_time_of_its_last_change(store: SqlStore, tmp_path: Path) -> None:
    token = await token_of(store)
    (mine,) = await store.list_beginnings()
    _, journal = await copies.export_session(store, "s", tmp_path / "files")
    await store.delete_session("s")
    await copies.import_session(store, copies.read_old_session(journal))
    (theirs,) = await store.list_beginnings()
    assert mine.changed == theirs.changed
    assert await token_of(store) == token + 1


async def test_a_session_is_not_imported_over_another(store: SqlStore, tmp_path: Path) -> None:
    _, journal = await copies.export_session(store, "s", tmp_path)
    before = await store.read_session("s")
    with pytest.raises(StoreError, match=r"there is one of this id already\. Nothing was changed"):
        await copies.import_session(store, copies.read_old_session(journal))
    assert await store.read_session("s") == before


async def test_nothing_is_exported_into_the_folder_from_which_the_store_takes_files_over(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "store")
    await fill(store, "s")
    with pytest.raises(StoreError, match="Name another"):
        await copies.export_session(store, "s", tmp_path / "store" / ".." / "store")
    assert list(tmp_path.rglob("*.jsonl")) == []
    await fill(store, "s")
    await store.aclose()


async def test_a_folder_of_exported_files_is_taken_over_as_earlier_versions_files_are(
    store: SqlStore, tmp_path: Path
) -> None:
    await copies.export_session(store, "s", tmp_path / "files")
    other = SqlStore(tmp_path / "files")
    assert await other.read_session("s") == await store.read_session("s")
    assert await flaws(other) == []
    await other.aclose()


async def test_encrypted_sessions_are_examined_and_rescued_without_the_key_and_exported_in_clear(
    tmp_path: Path,
) -> None:
    key = bytes(range(32))
    store = SqlStore(tmp_path / "store", keys=[key])
    await fill(store, "s")
    await store.set_value("watch", "key", "secret")
    without, target = SqlStore(tmp_path / "store"), SqlStore(tmp_path / "target")
    assert await flaws(store) == await flaws(without) == []
    rescued = await copies.rescue(without, target)
    assert (rescued.sessions, rescued.values, rescued.left) == (1, 1, [])
    again = SqlStore(tmp_path / "target", keys=[key])
    assert await again.read_session("s") == await store.read_session("s")
    assert await again.get_value("watch", "key") == "secret"
    with pytest.raises(StoreError, match="is encrypted with the key"):
        await copies.export_session(without, "s", tmp_path / "files")
    messages, _ = await copies.export_session(store, "s", tmp_path / "files")
    assert json.loads(messages.read_bytes().splitlines()[0]) == OPENAI.user("question")
    for each in (store, without, target, again):
        await each.aclose()
