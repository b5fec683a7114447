"""Choosing a store, and what lies in its folder. What every store promises: test_store_conformance.py."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from transcripts import OPENAI, body, history, make_store, opened

from hooksdk.errors import ConfigError, SessionBusy, StoreError
from hooksdk.stores import JsonlStore, MemoryStore, SqlStore, Store, open_store
from hooksdk.testing._store_cases import ODD_IDS
from hooksdk.transcript import Results
from tests.hooksdk.tables import run_sql, select

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    made = make_store(request.param, tmp_path / "sessions")
    yield made
    await made.aclose()


# --- sessions ---


async def test_sessions_that_share_call_ids_stay_apart(store: Store) -> None:
    async with opened(store, "a") as one, opened(store, "b") as other:
        for transcript in (one, other):
            await transcript.append(history(OPENAI, [body(1)], "same"))
        await Results(one, "p").trim("same")
        await one.drain()
        assert other.view == other.messages
        assert (await other.drain()).trims == ()


# --- choosing one ---


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (None, MemoryStore),
        ("memory", MemoryStore),
        ("jsonl", SqlStore),
        ("jsonl:/tmp/a:b", SqlStore),
        ("sqlite:///a.db", SqlStore),
        ("sqlite:////tmp/a?b", SqlStore),
        ("postgresql://ann@host/agents", SqlStore),
    ],
)
async def test_a_store_is_opened_by_its_name(spec: str | None, kind: type[Store]) -> None:
    store = open_store(spec)
    assert isinstance(store, kind)
    if spec and spec.endswith("a:b"):
        assert str(store) == "sqlite:////tmp/a:b/hooksdk.db"


@pytest.mark.parametrize(
    "spec", ["", "jsnol", "sqlite:x", "sqlite://", "sqlite:///:memory:", "postgresql://", "mysql://host/db", "memory:x"]
)
async def test_an_unknown_store_is_refused_with_what_there_is(spec: str) -> None:
    with pytest.raises(ConfigError, match="memory, jsonl, jsonl:DIRECTORY, sqlite:///FILE or postgresql://"):
        open_store(spec)


async def test_a_password_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"postgers://ann:\*\*\*@host/db' is not a store.* Did you mean 'postgresql'"):
        open_store("postgers://ann:s3cret@host/db")
    assert "s3cret" not in str(SqlStore("postgresql://ann:s3cret@host/db"))


async def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOOKSDK_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    places = {"HOME": ".local/state/hooksdk", "XDG_STATE_HOME": "hooksdk", "HOOKSDK_HOME": ""}
    for variable, place in places.items():
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert str(open_store("jsonl")) == f"sqlite:///{tmp_path / variable / place / 'hooksdk.db'}"


async def test_the_old_name_is_the_store_of_its_folder_and_warns(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"JsonlStore keeps its sessions in hooksdk\.db now: use SqlStore"):
        old = JsonlStore(tmp_path)
    async with opened(old) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
    assert (await SqlStore(tmp_path).read_session("s"))[0] == history(OPENAI, [body(1)])
    with pytest.warns(DeprecationWarning, match=r"`hooksdk sessions export --follow` in the place of materialize=True"):
        assert JsonlStore(materialize=True).directory.name == "sessions"


# --- deleting ---


async def test_a_deleted_session_is_gone_and_its_id_begins_anew(store: Store) -> None:
    for session_id in ("s", "other"):
        async with opened(store, session_id) as transcript:
            await transcript.append(history(OPENAI, [body(1)]))
    assert await store.delete_session("s") is True
    assert (await store.session_exists("s"), await store.list_sessions()) == (False, ["other"])
    assert await store.delete_session("s") is False
    log = await store.open_session("s")
    assert (log.existed, await log.read()) == (False, ([], []))
    await log.close()


async def test_a_held_session_is_not_deleted(store: Store) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
        with pytest.raises(SessionBusy):
            await store.delete_session("s", wait=0)
        await transcript.append([OPENAI.user("still here")])
    assert len((await store.read_session("s"))[0]) == 5


async def test_a_damaged_session_can_be_deleted(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
    await run_sql(store, "UPDATE hooksdk_messages SET body = 'no JSON'")
    assert await store.delete_session("s") is True
    assert await store.list_sessions() == []
    for table in ("messages", "journal", "rows", "states"):
        assert await select(store, f"SELECT 1 FROM hooksdk_{table}") == []
    await store.aclose()


# --- the folder of a store ---


async def test_the_folder_is_made_when_first_used_and_private(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "deep" / "sessions")
    assert await store.get_value("p", "k") is None
    assert await store.list_sessions() == []
    assert not (tmp_path / "deep").exists()
    await (await store.open_session("s")).close()
    await store.set_value("p", "k", 1)
    assert stat.S_IMODE((tmp_path / "deep" / "sessions").stat().st_mode) == 0o700
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert tmp_path / "deep" / "sessions" / "hooksdk.db" in files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    await store.aclose()


async def test_any_session_id_has_its_rows_and_no_file(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "sessions")
    for name in ODD_IDS:
        await (await store.open_session(name, wait=0)).close()
    assert await store.list_sessions() == sorted(ODD_IDS)
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert names <= {"hooksdk.db", "hooksdk.db-wal", "hooksdk.db-shm"}
    await store.aclose()


async def test_stored_messages_are_rows_of_plain_json(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
    stored = await select(store, "SELECT body FROM hooksdk_messages ORDER BY position")
    assert [json.loads(line) for (line,) in stored] == history(OPENAI, [body(1)])
    await store.aclose()


async def test_stored_rows_are_never_rewritten(tmp_path: Path) -> None:
    before: dict[str, list[object]] = {}
    store = SqlStore(tmp_path)
    async with opened(store) as transcript:
        for step in range(4):
            await transcript.append(history(OPENAI, [body(step)]))
            await Results(transcript, "p").trim(f"r{step + 1}")
            await transcript.drain()
            tables = ("hooksdk_messages", "hooksdk_journal")
            now = {name: await select(store, f"SELECT * FROM {name} ORDER BY position") for name in tables}
            assert all(now[name][: len(rows)] == rows for name, rows in before.items())
            before = now
    await store.aclose()


@pytest.mark.both_loops
async def test_closing_the_store_lets_every_session_go(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    logs = [await store.open_session(name) for name in ("a", "b")]
    await store.aclose()
    with pytest.raises(StoreError):
        await logs[0].append_messages([{}])
    other = SqlStore(tmp_path)
    await (await other.open_session("a", wait=0)).close()
    await other.aclose()


async def test_a_folder_that_cannot_be_made_is_told_clearly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SqlStore(tmp_path / "file" / "sessions")
    with pytest.raises(StoreError, match="Not a directory"):
        await store.open_session("s")
    with pytest.raises(StoreError):
        await store.set_value("p", "k", 1)


FORKS = """
import os, sys, anyio
from pathlib import Path
from hooksdk.stores import SqlStore

async def main():
    store = SqlStore(Path(sys.argv[1]))
    log = await store.open_session("s")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)  # it lives on with everything that was open
        os._exit(0)
    await log.append_messages([{"n": 1}])
    await log.close()
    again = await store.open_session("s", wait=0)
    print((await again.read())[0])
    os.write(writer, b"x")
    os.waitpid(child, 0)

anyio.run(main)
"""


@pytest.mark.heavy
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
async def test_a_forked_child_that_lives_on_does_not_keep_the_session(tmp_path: Path) -> None:
    done = await anyio.run_process([sys.executable, "-c", FORKS, str(tmp_path)], check=False, stderr=None)
    assert done.stdout.decode() == "[{'n': 1}]\n"


async def test_who_holds_a_session_is_named(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    log = await store.open_session("s")
    with pytest.raises(
        SessionBusy, match=rf"^session 's' is held by process {os.getpid()} on .*; waited 0 s\. Close it"
    ):
        await store.open_session("s", wait=0)
    await log.close()
    await store.aclose()


async def test_a_file_on_a_network_file_system_is_refused_with_the_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kind(path: Path) -> str:
        return "nfs4" if path.is_relative_to(tmp_path) else ""

    monkeypatch.setattr("hooksdk.stores._sqlite.network_file_system", kind)
    store = SqlStore(tmp_path / "far")
    with pytest.raises(
        StoreError, match=r"network file system \(nfs4\).*Keep it on a local disk, in memory, or in PostgreSQL"
    ):
        await store.open_session("s")
    assert not (tmp_path / "far").exists()


@pytest.mark.parametrize("way", ["jsonl", "its folder", "the old name"])
async def test_the_users_own_store_is_one_database_whatever_it_is_called_by(way: str, home: Path) -> None:
    if way == "the old name":
        with pytest.warns(DeprecationWarning, match="hooksdk.db"):
            store: Store = JsonlStore()
    else:
        store = open_store("jsonl" if way == "jsonl" else home / "sessions")
    log = await store.open_session("s")
    await log.close()
    await store.aclose()
    assert (home / "hooksdk.db").exists()
    assert not (home / "sessions" / "hooksdk.db").exists()
