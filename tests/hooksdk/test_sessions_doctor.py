"""`hooksdk sessions doctor`: what it finds in files, what it does about it, and what it keeps of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from commands import environment
from test_cli_sessions import held, store_messages, view_of
from test_doctor import HELD
from transcripts import OPENAI, body, filled, history, journal_file, messages_file, opened
from warm import Done, run

from hooksdk.stores import JsonlStore
from hooksdk.transcript import Results

pytestmark = pytest.mark.heavy


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    """With the session `s` of three results: the first is trimmed, a trim of the second is queued."""
    store = JsonlStore(tmp_path / "kept" / "sessions")
    anyio.run(filled, store)
    return store


def doctor(folder: Path, *arguments: str) -> Done:
    return run(("sessions", "doctor", *arguments), folder=folder, environment=environment(folder))


def findings(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    return doctor(folder, "--json", *arguments).json()["findings"]


def contents(store: JsonlStore) -> dict[str, bytes]:
    """Of the files in which something is stored."""
    return {path.name: path.read_bytes() for path in store.directory.rglob("*") if path.suffix not in {".lock", ""}}


def mend(folder: Path, store: JsonlStore, what: str, session_id: str = "s") -> None:
    """It is told first and nothing is changed; then it is done, and every file that changed is there as it was."""
    before = contents(store)
    (finding,) = findings(folder, session_id)
    assert what in finding["what"]
    assert finding["remedy"]
    assert (finding["state"], contents(store)) == ("open", before)
    (mended,) = findings(folder, session_id, "--mend")
    assert (mended["state"], mended["remedy"]) == ("mended", finding["remedy"])
    path = Path(mended["file"])
    assert Path(mended["backup"]).read_bytes() == before[path.name]
    after = contents(store)
    assert {name for name in before if before[name] != after.get(name)} == {path.name}
    assert findings(folder, session_id) == []


def test_a_healthy_store_has_no_problems(store: JsonlStore, tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert (done.code, done.out, done.err) == (0, f"0 problems in {store.directory}\n", "")


@pytest.mark.parametrize("torn", [b'{"role": "us', b" {}\n {", b"\0\0\0\0"])
@pytest.mark.parametrize("file_of", [messages_file, journal_file])
def test_a_torn_end_is_cut_off(file_of: Any, torn: bytes, store: JsonlStore, tmp_path: Path) -> None:
    path: Path = file_of(store)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    mend(tmp_path, store, f"it ends in {len(torn)} bytes")
    assert path.read_bytes() == whole


@pytest.mark.parametrize("file_of", [messages_file, journal_file])
def test_glued_lines_are_parted_and_nothing_is_lost(file_of: Any, store: JsonlStore, tmp_path: Path) -> None:
    path: Path = file_of(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0].rstrip(), *lines[1:]]))
    mend(tmp_path, store, "line 1 is several lines glued together")
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [json.loads(line) for line in lines]


def test_a_damaged_line_of_a_journal_is_left_out_and_the_other_lines_count(store: JsonlStore, tmp_path: Path) -> None:
    path = journal_file(store)
    lines = path.read_bytes().splitlines(keepends=True)
    assert b'"text":"[Result r2' in lines[-1]
    path.write_bytes(b"".join([*lines[:-1], b"no JSON\n"]))
    mend(tmp_path, store, f"line {len(lines)} is not JSON")
    view = view_of(store)
    assert [view[at]["content"][:10] for at in (2, 4)] == ["[Result r1", body(2)[:10]]


def test_messages_end_before_a_damaged_line_and_the_journal_follows(store: JsonlStore, tmp_path: Path) -> None:
    path = messages_file(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"\0" * 20 + b"\n", *lines[5:]]))
    messages, journal = findings(tmp_path, "--mend")
    assert "line 5 holds a block of zeros" in messages["what"]
    assert "3 messages after it would be in the backup alone" in messages["remedy"]
    assert "8 messages were stored, and now there are 4" in journal["what"]
    assert [one["state"] for one in (messages, journal)] == ["mended", "mended"]
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [json.loads(line) for line in lines[:4]]
    assert view_of(store)[2]["content"].startswith("[Result r1")


async def _compacted(store: JsonlStore) -> None:
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user("more")])
        await transcript.compact([OPENAI.user("the summary")])
        await transcript.append(history(OPENAI, [body(4)])[1:])
        await Results(transcript, "p").trim("r4", "fourth")
        await transcript.drain()


@pytest.mark.parametrize("lines", [1, 4, 6, 9, 11])
def test_a_journal_ahead_of_its_messages_is_mended_without_a_change_of_the_view(
    lines: int, store: JsonlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    anyio.run(_compacted, store)
    path = messages_file(store)
    steps = [line.lstrip() for line in path.read_bytes().splitlines(keepends=True)]  # of one message each
    path.write_bytes(b"".join(steps[:lines]))
    copy = JsonlStore(tmp_path / "copy")
    copy.directory.mkdir()
    for file in (path, journal_file(store)):
        (copy.directory / file.name).write_bytes(file.read_bytes())
    mend(tmp_path, store, f"and now there are {lines}")
    before = view_of(copy)
    caplog.clear()
    assert view_of(store) == before
    assert [record.getMessage() for record in caplog.records if "left out" in record.getMessage()] == []


def test_a_lost_first_line_is_written_anew_for_who_knows_the_session(store: JsonlStore, tmp_path: Path) -> None:
    path = journal_file(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b"no JSON\n", *lines[1:]]))
    (finding,) = findings(tmp_path, "--mend")
    assert (finding["state"], finding["remedy"]) == ("open", "")
    assert finding["advice"].endswith("hooksdk sessions doctor ID --mend")
    mend(tmp_path, store, "its first line, which names the session, is lost")
    assert anyio.run(store.list_sessions) == ["s"]
    assert view_of(store)[2]["content"].startswith("[Result r1")


def test_a_journal_of_a_newer_version_is_left_alone(store: JsonlStore, tmp_path: Path) -> None:
    path = journal_file(store)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2', 1) + b"{")
    before = contents(store)
    assert doctor(tmp_path, "--mend").code == 1
    assert contents(store) == before


def test_a_journal_that_cannot_be_understood_is_told_and_left_alone(store: JsonlStore, tmp_path: Path) -> None:
    with journal_file(store).open("ab") as file:
        file.write(b'{"kind":"trim"}\n')
    before = contents(store)
    done = doctor(tmp_path, "--mend")
    assert (done.code, contents(store)) == (1, before)
    assert "it cannot be understood (KeyError: 'n')" in done.out


def test_values_that_cannot_be_read_are_moved_aside(store: JsonlStore, tmp_path: Path) -> None:
    anyio.run(store.set_value, "watch", "key", 1)
    (path,) = (store.directory / "values").glob("*.json")
    path.write_text("{")
    (finding,) = findings(tmp_path)
    assert (finding["who"], finding["state"], path.read_text()) == ("values", "open", "{")
    (mended,) = findings(tmp_path, "--mend")
    assert Path(mended["backup"]).read_text() == "{"
    assert anyio.run(store.get_value, "watch", "key") is None


def test_a_held_session_is_examined_and_not_mended(store: JsonlStore, tmp_path: Path) -> None:
    with held(store) as process:
        with messages_file(store).open("ab") as file:
            file.write(b"{}{}\n{")
        before = contents(store)
        (finding,) = findings(tmp_path, "--mend")
        assert (finding["state"], "glued" in finding["what"]) == ("open", True)
        assert f"held by process {process}" in finding["advice"]
        assert contents(store) == before


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell who took a lock")
def test_a_lock_that_outlives_its_holder_is_replaced(store: JsonlStore, tmp_path: Path) -> None:
    (lock,) = store.directory.glob("*.lock")
    command = [sys.executable, "-c", HELD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.wait()
        (finding,) = findings(tmp_path)
        assert f"process {process.pid}, which took it, is gone" in finding["what"]
        (mended,) = findings(tmp_path, "--mend")
        assert mended["state"] == "mended"
        assert len(view_of(store)) == 8


def test_every_mend_keeps_a_backup_of_its_own_and_deleting_the_session_removes_them(
    store: JsonlStore, tmp_path: Path
) -> None:
    for number in (1, 2):
        with messages_file(store).open("ab") as file:
            file.write(b"{")
        (mended,) = findings(tmp_path, "--mend")
        assert mended["backup"] == f"{messages_file(store)}.{number}.bak"
        assert Path(mended["backup"]).stat().st_mode & 0o777 == 0o600
    assert anyio.run(store.delete_session, "s") is True
    assert list(store.directory.glob("*s*.bak")) == []


def test_only_the_sessions_that_are_named_are_examined(store: JsonlStore, tmp_path: Path) -> None:
    store_messages(store, [OPENAI.user("hello")], "other")
    for path in store.directory.glob("*.messages.jsonl"):
        path.write_bytes(path.read_bytes() + b"{")
    assert [one["who"] for one in findings(tmp_path, "other", "--mend")] == ["other"]
    done = doctor(tmp_path)
    assert (done.code, "1 problem in" in done.out, "--mend would cut off this byte" in done.out) == (1, True, True)
