"""What every store promises, and what the files of `JsonlStore` look like."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from transcripts import OPENAI, body, history, make_store, opened, statuses, texts

from hooksdk import Host
from hooksdk.errors import ConfigError, SessionBusy, StoreError
from hooksdk.stores import JsonlStore, MemoryStore, Store, open_store
from hooksdk.stores.jsonl import file_name
from hooksdk.transcript import Results

pytestmark = pytest.mark.anyio

ODD_IDS = [
    "plain", "Plain", "PLAIN", "", ".", "..", "../../etc/passwd", "a/b\\c", "nul\0byte", "x" * 10_000, "x" * 10_001, "CON",
    "naïve 会话 🙂", "\u0301", "\ud800", "line\nbreak", "C:\\x", "*?<>|", " ", "-rf", "session", "\u017fession", "a" * 39 + "é",
]  # fmt: skip


@pytest.fixture(params=["memory", "jsonl"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return make_store(request.param, tmp_path / "sessions")


def only(directory: Path, ending: str) -> Path:
    (path,) = directory.glob(f"*{ending}")
    return path


# --- sessions ---


async def test_messages_and_journal_come_back_in_order(store: Store) -> None:
    log = await store.open_session("s")
    assert (log.existed, await log.read()) == (False, ([], []))
    await log.append_messages([{"n": 1}, {"n": 2}])
    await log.append_journal([{"kind": "a"}])
    await log.append_messages([{"n": 3}])
    await log.append_messages([])
    await log.close()
    log = await store.open_session("s")
    assert log.existed
    assert await log.read() == ([{"n": 1}, {"n": 2}, {"n": 3}], [{"kind": "a"}])


async def test_a_session_that_somebody_holds_can_be_looked_at(store: Store) -> None:
    log = await store.open_session("s")
    assert await store.read_session("s") == ([], [])
    await log.append_messages([{"n": 1}, {"n": 2}])
    await log.append_journal([{"kind": "a"}])
    assert await store.read_session("s") == ([{"n": 1}, {"n": 2}], [{"kind": "a"}])
    await log.append_messages([{"n": 3}])
    await log.close()
    assert (await store.read_session("s"))[0] == [{"n": 1}, {"n": 2}, {"n": 3}]
    with pytest.raises(StoreError, match="session 't': there is none of this id"):
        await store.read_session("t")
    assert await store.list_sessions() == ["s"]


async def test_what_is_not_json_is_refused_and_nothing_of_the_step_is_stored(store: Store) -> None:
    log = await store.open_session("s")
    for append in (log.append_messages, log.append_journal):
        with pytest.raises(StoreError, match="not JSON"):
            await append([{"fine": 1}, {"not": object()}])
    assert await log.read() == ([], [])


@pytest.mark.both_loops
async def test_a_session_has_one_holder_at_a_time_and_its_token_rises(store: Store) -> None:
    first = await store.open_session("s")
    with pytest.raises(SessionBusy) as caught:
        with anyio.fail_after(30):
            await store.open_session("s", wait=0.1)
    assert (caught.value.session_id, caught.value.seconds) == ("s", 0.1)
    await store.open_session("other", wait=0)
    await first.close()
    await first.close()
    second = await store.open_session("s", wait=0)
    assert second.token > first.token


@pytest.mark.both_loops
async def test_who_waits_gets_the_session_when_its_holder_lets_go(store: Store) -> None:
    first = await store.open_session("s")
    order: list[str] = []

    async def wait() -> None:
        second = await store.open_session("s", wait=60)
        order.append("second")
        assert (await second.read())[0] == [{"n": 1}]

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(0.05)
        order.append("first")
        await first.append_messages([{"n": 1}])
        await first.close()
    assert order == ["first", "second"]


@pytest.mark.both_loops
async def test_a_former_holder_cannot_write_or_read_any_more(store: Store) -> None:
    first = await store.open_session("s")
    await first.close()
    second = await store.open_session("s")
    for attempt in (first.append_messages([{}]), first.append_journal([{}]), first.read(), first.verify()):
        with pytest.raises((SessionBusy, StoreError)):
            await attempt
    assert await second.read() == ([], [])


@pytest.mark.both_loops
async def test_waiting_for_a_session_can_be_cancelled_and_leaves_it_free(store: Store) -> None:
    first = await store.open_session("s")
    with anyio.move_on_after(0.05) as scope:
        await store.open_session("s", wait=60)
    assert scope.cancelled_caught
    await first.close()
    await (await store.open_session("s", wait=0)).close()


async def test_any_text_is_a_session_id(store: Store, tmp_path: Path) -> None:
    for number, name in enumerate(ODD_IDS):
        assert not await store.session_exists(name)
        log = await store.open_session(name, wait=0)
        await log.append_messages([{"n": number}])
    assert await store.list_sessions() == sorted(ODD_IDS)
    await store.aclose()
    outside = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != tmp_path / "sessions"]
    assert outside == []
    if isinstance(store, JsonlStore):
        for number, name in enumerate(ODD_IDS):
            assert (await (await store.open_session(name)).read())[0] == [{"n": number}]
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


# --- values ---


async def test_values_are_kept_by_space_and_key(store: Store) -> None:
    assert await store.get_value("plugin", "k") is None
    assert await store.get_value("plugin", "k", 7) == 7
    for key in ("k", "../x", "", "é\ud800"):
        await store.set_value("plugin", key, {"key": key, "list": [1, None, 2.5]})
        assert (await store.get_value("plugin", key))["key"] == key
    await store.set_value("../plugin", "k", "another space")
    await store.delete_value("plugin", "../x")
    await store.delete_value("plugin", "never there")
    assert await store.list_keys("plugin") == ["", "k", "é\ud800"]
    assert await store.list_keys("empty") == []


async def test_a_value_is_apart_from_what_was_passed_and_what_is_handed_out(store: Store) -> None:
    value: dict[str, Any] = {"list": [1]}
    await store.set_value("p", "k", value)
    value["list"].append(2)
    (await store.get_value("p", "k"))["list"].append(3)
    assert await store.get_value("p", "k") == {"list": [1]}


async def test_a_value_that_is_not_json_is_refused_and_the_old_one_stays(store: Store) -> None:
    await store.set_value("p", "k", 1)
    with pytest.raises(StoreError, match="not JSON"):
        await store.set_value("p", "k", {"x": object()})
    assert await store.get_value("p", "k") == 1


@pytest.mark.both_loops
async def test_parallel_changes_of_one_space_lose_nothing(store: Store) -> None:
    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(store.set_value, "p", f"k{number:02}", number)
    assert [await store.get_value("p", key) for key in await store.list_keys("p")] == list(range(30))


# --- choosing one ---


@pytest.mark.parametrize(
    ("spec", "kind"),
    [(None, MemoryStore), ("memory", MemoryStore), ("jsonl", JsonlStore), ("jsonl:/tmp/a:b", JsonlStore)],
)
async def test_a_store_is_opened_by_its_name(spec: str | None, kind: type[Store]) -> None:
    store = open_store(spec)
    assert isinstance(store, kind)
    if spec and spec.endswith("b"):
        assert isinstance(store, JsonlStore)
        assert store.directory == Path("/tmp/a:b")


@pytest.mark.parametrize("spec", ["", "jsnol", "sqlite:x", "memory:x"])
async def test_an_unknown_store_is_refused_with_what_there_is(spec: str) -> None:
    with pytest.raises(ConfigError, match="memory, jsonl or jsonl:DIRECTORY"):
        open_store(spec)


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
