"""`hooksdk sessions export` and `import` of whole sessions, a view that is followed, and `hooksdk sessions backup`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from commands import COMMAND, change, environment
from test_cli_sessions import held, sessions, store_messages
from transcripts import OPENAI, filled, opened

from hooksdk.stores import SqlStore
from hooksdk.stores.copies import file_name
from hooksdk.stores.upkeep import examine
from hooksdk.transcript import Results

pytestmark = pytest.mark.heavy

ODD = ["a/b", "\0", "\ud800", "é 漢", "A", "a", "--all", "../up"]


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqlStore]:
    """With the session `s` of three results: the first is trimmed, a trim of the second is queued."""
    store = SqlStore(tmp_path / "kept")
    anyio.run(filled, store)
    yield store
    anyio.run(store.aclose)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# export and import


def test_all_sessions_go_out_and_into_another_store_and_out_again_without_a_change(
    store: SqlStore, tmp_path: Path
) -> None:
    for session_id in ODD:
        store_messages(store, [OPENAI.user("NUL \0, half a pair \ud800"), OPENAI.reply("é 漢")], session_id)
    done = sessions("export", "--all", "--to", "one", folder=tmp_path)
    assert (done.code, done.out) == (0, "9 sessions in one, two files each\n")
    files = sorted(str(path) for path in (tmp_path / "one").iterdir())
    done = sessions("import", *files, "--store", "other", "--json", folder=tmp_path)
    imported = done.json()["imported"]
    assert {one["session"] for one in imported} == {"s", *ODD}
    assert {(one["source"], one["format"]) for one in imported} == {("hooksdk", "openai-chat")}
    assert sessions("export", "--all", "--to", "two", "--store", "other", folder=tmp_path).code == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    other = SqlStore(tmp_path / "other")
    assert anyio.run(examine, other) == []
    for session_id in ("s", *ODD):
        assert anyio.run(other.read_session, session_id) == anyio.run(store.read_session, session_id)
    anyio.run(other.aclose)


@pytest.mark.parametrize("kind", ["messages", "journal"])
def test_one_of_its_files_brings_a_session_back_with_its_trims(kind: str, store: SqlStore, tmp_path: Path) -> None:
    seen = sessions("export", "s", "--view", folder=tmp_path).out
    sessions("export", "s", "--to", "out", folder=tmp_path)
    anyio.run(store.delete_session, "s")
    (path,) = (tmp_path / "out").glob(f"*.{kind}.jsonl")
    done = sessions("import", str(path), folder=tmp_path)
    assert done.code == 0
    assert "imported  session s in jsonl" in done.out
    assert "8 messages, 3 tool results" in done.out
    assert "hooksdk, kept as openai-chat" in done.out
    assert sessions("export", "s", "--view", folder=tmp_path).out == seen


def test_a_session_is_imported_over_none_and_under_another_id(store: SqlStore, tmp_path: Path) -> None:
    sessions("export", "s", "--to", ".", folder=tmp_path)
    (path,) = tmp_path.glob("*.journal.jsonl")
    done = sessions("import", path.name, folder=tmp_path)
    assert (done.code, "there is one of this id already" in done.complaint) == (1, True)
    assert sessions("import", path.name, "--session", "copy", "--json", folder=tmp_path).json()["session"] == "copy"
    assert anyio.run(store.read_session, "copy") == anyio.run(store.read_session, "s")
    wrong = sessions("import", path.name, "--format", "gemini", folder=tmp_path)
    assert (wrong.code, "is an exported session" in wrong.complaint) == (1, True)


def test_several_files_of_other_programs_are_imported_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps([OPENAI.user(name), OPENAI.reply("yes")]))
    assert sessions("import", "a.json", "b.json", "--session", "x", folder=tmp_path).code == 2
    done = sessions("import", "a.json", "b.json", "--json", folder=tmp_path)
    assert [one["session"] for one in done.json()["imported"]] == ["a", "b"]
    assert [one["id"] for one in sessions("list", "--json", folder=tmp_path).json()["sessions"]] in (
        ["a", "b"],
        ["b", "a"],
    )


def test_a_damaged_session_is_named_and_the_others_are_exported(store: SqlStore, tmp_path: Path) -> None:
    store_messages(store, [OPENAI.user("hello")], "other")
    change(store, "DELETE FROM hooksdk_messages WHERE position = 3")
    done = sessions("export", "--all", "--to", "out", "--json", folder=tmp_path)
    document = done.json()
    assert (done.code, [one["session"] for one in document["sessions"]]) == (1, ["other"])
    assert "session 's', hooksdk_messages, position 3: this row is missing" in document["problems"][0]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "expected either an id or --all"),
        (("s", "--all"), "expected either an id or --all"),
        (("s", "--to", "out", "--view"), "are for the messages of one session alone"),
        (("--all", "-o", "out"), "are for the messages of one session alone"),
        (("s", "--follow", "--json"), "--follow has no end"),
        (("no-such", "--to", "out"), "there is no session 'no-such'"),
    ],
)
def test_what_is_to_be_exported_is_said_in_one_way(
    words: tuple[str, ...], problem: str, store: SqlStore, tmp_path: Path
) -> None:
    assert store.file
    done = sessions("export", *words, folder=tmp_path)
    assert (done.code > 0, problem in done.complaint) == (True, True)
    assert not (tmp_path / "out").exists()


# --follow


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def lines_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGINT for one process")
def test_what_the_model_sees_is_written_anew_after_each_change_until_somebody_interrupts(
    store: SqlStore, tmp_path: Path
) -> None:
    command = [*COMMAND, "sessions", "export", "--all", "--follow", "--to", "out"]
    path, other = (tmp_path / "out" / f"{file_name(name)}.view.jsonl" for name in ("s", "other"))
    with subprocess.Popen(command, cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE) as process:
        wait_for(lambda: len(lines_in(path)) == 8)
        assert lines_in(path)[2]["content"].startswith("[Result r1")
        assert not lines_in(path)[6]["content"].startswith("[Result r3")

        async def trim() -> None:
            async with opened(store) as transcript:
                await Results(transcript, "p").trim("r3", "third")
                await transcript.drain()

        anyio.run(trim)
        wait_for(lambda: lines_in(path)[6]["content"].startswith("[Result r3"))
        store_messages(store, [OPENAI.user("hello")], "other")
        wait_for(lambda: len(lines_in(other)) == 1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.decode().splitlines() == [f"s  {path.relative_to(tmp_path)}", f"other  {other.relative_to(tmp_path)}"]


# backup


def test_a_backup_has_all_sessions_while_one_of_them_is_open(store: SqlStore, tmp_path: Path) -> None:
    with held(store):
        done = sessions("backup", "copy.db", folder=tmp_path)
    assert done.code == 0
    assert done.out.startswith(f"copied   {store.file} into copy.db, ")
    assert sessions("export", "s", "--store", "copy.db", folder=tmp_path).out.count("\n") == 8
    again = sessions("backup", "copy.db", folder=tmp_path)
    assert (again.code, "is there already" in again.complaint) == (1, True)


def test_a_backup_of_a_damaged_store_is_made_and_says_so(store: SqlStore, tmp_path: Path) -> None:
    change(store, "DELETE FROM hooksdk_messages WHERE position = 3")
    done = sessions("backup", "copy.db", "--json", folder=tmp_path)
    assert (done.code, len(done.json()["problems"])) == (1, 1)
    assert (tmp_path / "copy.db").is_file()


def test_a_server_is_not_backed_up_here_and_the_way_is_told(tmp_path: Path) -> None:
    done = sessions("backup", "copy.db", "--store", "postgresql://ann@localhost:1/db", folder=tmp_path)
    assert (done.code, "pg_dump" in done.err) == (3, True)
