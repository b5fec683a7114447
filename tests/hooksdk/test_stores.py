"""Choosing a store, and what the files of `JsonlStore` look like. What every store promises: test_store_conformance.py."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from transcripts import OPENAI, body, history, make_store, opened, statuses, texts

from hooksdk import Host
from hooksdk.errors import ConfigError, SessionBusy, StoreError
from hooksdk.stores import JsonlStore, MemoryStore, SqlStore, Store, open_store
from hooksdk.stores.jsonl import file_name
from hooksdk.testing._store_cases import ODD_IDS
from hooksdk.transcript import Results

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    made = make_store(request.param, tmp_path / "sessions")
    yield made
    await made.aclose()


def only(directory: Path, ending: str) -> Path:
    (path,) = directory.glob(f"*{ending}")
    return path


# --- sessions ---


async def test_any_session_id_is_a_file_name_inside_the_folder(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "sessions")
    for name in ODD_IDS:
        await (await store.open_session(name, wait=0)).close()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != store.directory] == []
    names = [path.name for path in store.directory.iterdir()]
    assert len({name.casefold() for name in names}) == len(names) == 3 * len(ODD_IDS)
    assert max(map(len, names)) < 100


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
        ("jsonl", JsonlStore),
        ("jsonl:/tmp/a:b", JsonlStore),
        ("sqlite:///a.db", SqlStore),
        ("sqlite:////tmp/a?b", SqlStore),
        ("postgresql://ann@host/agents", SqlStore),
    ],
)
async def test_a_store_is_opened_by_its_name(spec: str | None, kind: type[Store]) -> None:
    store = open_store(spec)
    assert isinstance(store, kind)
    if spec and spec.endswith("a:b"):
        assert isinstance(store, JsonlStore)
        assert store.directory == Path("/tmp/a:b")


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


async def test_the_default_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOOKSDK_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert JsonlStore().directory == tmp_path / ".local/state/hooksdk/sessions"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert JsonlStore().directory == tmp_path / "state/hooksdk/sessions"
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "home"))
    assert JsonlStore().directory == tmp_path / "home/sessions"


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
    store = JsonlStore(tmp_path)
    await (await store.open_session("s")).close()
    only(tmp_path, ".journal.jsonl").write_text("no JSON\n")
    assert await store.delete_session("s") is True
    assert list(tmp_path.iterdir()) == []


# --- the files of JsonlStore ---


async def test_the_directory_is_made_when_first_used_and_private(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "deep" / "sessions")
    assert await store.get_value("p", "k") is None
    assert await store.list_sessions() == []
    assert not (tmp_path / "deep").exists()
    await (await store.open_session("s")).close()
    await store.set_value("p", "k", 1)
    directories = [store.directory, store.directory / "values"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in directories] == [0o700, 0o700]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*.*")} == {0o600}


async def test_the_messages_file_is_plain_json_lines(tmp_path: Path) -> None:
    async with opened(JsonlStore(tmp_path)) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
    lines = only(tmp_path, ".messages.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == history(OPENAI, [body(1)])
    header = json.loads(only(tmp_path, ".journal.jsonl").read_text().splitlines()[0])
    assert header == {"hooksdk": "journal", "version": 1, "session": "s"}


async def test_files_of_the_first_release_are_read_as_they_were_meant(tmp_path: Path) -> None:
    for kind in ("messages", "journal"):
        stored = Path(__file__).with_name("stored_session") / f"{kind}.jsonl"
        (tmp_path / f"{file_name('s')}.{kind}.jsonl").write_bytes(stored.read_bytes())
    async with opened(JsonlStore(tmp_path), form=None) as transcript:
        first, *others = texts(transcript, transcript.view)
        assert first.startswith("Error: [Result r1 of tool_search was trimmed")
        assert first.endswith("Summary: first")
        assert others == [body(number, 200) for number in (2, 3, 4)]
        assert [info.disposable for info in transcript.list_results()] == [True, True, False, False]
        assert transcript.state("p") == {"n": 1}
        in_the_runs_own_words = transcript.messages
        in_the_runs_own_words[2]["content"] = body(1, 200)
        await transcript.match(in_the_runs_own_words)
        assert transcript.queued == 1
        assert statuses(await transcript.drain()) == ["applied"]
        assert texts(transcript, transcript.view)[2].endswith("Summary: third")


async def test_stored_lines_are_never_rewritten(tmp_path: Path) -> None:
    before: dict[str, bytes] = {}
    async with opened(JsonlStore(tmp_path)) as transcript:
        for step in range(4):
            await transcript.append(history(OPENAI, [body(step)]))
            await Results(transcript, "p").trim(f"r{step + 1}")
            await transcript.drain()
            now = {path.name: path.read_bytes() for path in tmp_path.glob("*.jsonl")}
            assert all(now[name].startswith(content) for name, content in before.items())
            before = now


async def test_a_materialized_view_is_written_after_each_drain(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path, materialize=True)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(1)]))
        (tmp_path / f".{only(tmp_path, '.journal.jsonl').name.replace('journal', 'view')}.left.tmp").write_text(
            "from a crash"
        )
        await Results(transcript, "p").trim("r1")
        await transcript.drain()
        lines = only(tmp_path, ".view.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == transcript.view
    assert list(tmp_path.glob(".*.tmp")) == []


async def test_left_over_temporary_value_files_are_swept(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    await store.set_value("p", "k", 1)
    left = only(tmp_path / "values", ".json").parent / f".{only(tmp_path / 'values', '.json').name}.x.tmp"
    left.write_text("from a crash")
    await JsonlStore(tmp_path).set_value("p", "k", 2)
    assert not left.exists()


@pytest.mark.both_loops
async def test_closing_the_store_lets_every_session_go(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    logs = [await store.open_session(name) for name in ("a", "b")]
    await store.aclose()
    with pytest.raises(StoreError):
        await logs[0].append_messages([{}])
    await JsonlStore(tmp_path).open_session("a", wait=0)


async def test_a_broken_value_file_is_reported_and_left_alone(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path)
    await store.set_value("p", "k", 1)
    path = only(tmp_path / "values", ".json")
    path.write_text("{broken")
    for attempt in (store.get_value("p", "k"), store.set_value("p", "k", 2), store.list_keys("p")):
        with pytest.raises(StoreError, match="Nothing was changed"):
            await attempt
    assert path.read_text() == "{broken"


async def test_a_directory_that_cannot_be_made_is_told_clearly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = JsonlStore(tmp_path / "file" / "sessions")
    with pytest.raises(StoreError, match="cannot be made"):
        await store.open_session("s")
    with pytest.raises(StoreError):
        await store.set_value("p", "k", 1)


FORKS = """
import os, sys, anyio
from hooksdk import JsonlStore

async def main():
    store = JsonlStore(sys.argv[1])
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
    store = JsonlStore(tmp_path)
    await store.open_session("s")
    with pytest.raises(
        SessionBusy, match=rf"^session 's' is held by process {os.getpid()}; waited 0 s\. Close it there"
    ):
        await store.open_session("s", wait=0)


async def test_a_materialized_view_is_whole_after_every_run(tmp_path: Path) -> None:
    async with Host(store=JsonlStore(tmp_path, materialize=True)) as host, host.session("s") as session:
        for text in ("Hello", "Hello again"):
            async with session.run() as run:
                await run.record([OPENAI.user(text), OPENAI.reply("Hello to you")])
            lines = only(tmp_path, ".view.jsonl").read_text().splitlines()
            assert [json.loads(line) for line in lines] == session.view
