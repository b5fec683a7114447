"""`hooksdk sessions doctor`: what it finds in the database and in files of earlier versions, what it does about it, and what
it keeps."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest
from commands import change, environment
from test_cli_sessions import held, store_messages, view_of
from transcripts import OPENAI, body, filled, opened
from warm import Done, run

from hooksdk.stores import SqlStore
from hooksdk.stores.copies import export_session
from hooksdk.transcript import Results

pytestmark = pytest.mark.heavy


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqlStore]:
    """With the session `s` of three results: the first is trimmed, a trim of the second is queued."""
    store = SqlStore(tmp_path / "kept", old_files=tmp_path / "kept" / "sessions")
    anyio.run(filled, store)
    yield store
    anyio.run(store.aclose)


@pytest.fixture
def old(store: SqlStore, tmp_path: Path) -> Path:
    """A folder of the session's two files, as earlier versions have kept them, and no database yet."""
    folder = tmp_path / "kept" / "sessions"
    anyio.run(export_session, store, "s", tmp_path / "out")
    anyio.run(store.aclose)
    (tmp_path / "out").rename(folder)
    for path in (tmp_path / "kept").glob("hooksdk.db*"):
        path.unlink()
    return folder


def file_of(folder: Path, kind: str) -> Path:
    (path,) = folder.glob(f"*.{kind}.jsonl")
    return path


def lines_of(folder: Path, kind: str) -> list[bytes]:
    return file_of(folder, kind).read_bytes().splitlines(keepends=True)


def doctor(folder: Path, *arguments: str) -> Done:
    return run(("sessions", "doctor", *arguments), folder=folder, environment=environment(folder))


def findings(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    return doctor(folder, "--json", *arguments).json()["findings"]


def contents(folder: Path) -> dict[str, bytes]:
    """Of the files in which something is stored."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.suffix in {".jsonl", ".json", ".bak"}}


def mend(folder: Path, old: Path, what: str, *session_id: str) -> None:
    """It is told first and nothing is changed; then it is done, every file that changed is there as it was, and the
    next command takes the session over."""
    before = contents(old)
    (finding,) = findings(folder, *session_id)
    assert what in finding["what"]
    assert finding["remedy"]
    assert (finding["state"], contents(old)) == ("open", before)
    (mended,) = findings(folder, *session_id, "--mend")
    assert (mended["state"], mended["remedy"]) == ("mended", finding["remedy"])
    path = Path(mended["file"])
    assert Path(mended["backup"]).read_bytes() == before[path.name]
    assert Path(mended["backup"]).stat().st_mode & 0o777 == 0o600
    assert {name for name in before if before[name] != contents(old).get(name)} == {path.name}
    assert findings(folder) == []
    assert list(old.glob("*.jsonl")) == []


# The database


def test_a_healthy_store_has_no_problems(store: SqlStore, tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert (done.code, done.out, done.err) == (0, f"0 problems in {store.file}\n", "")


def test_nothing_is_made_where_there_is_no_store(tmp_path: Path) -> None:
    assert doctor(tmp_path).code == 0
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("statement", "who", "what"),
    [
        ("UPDATE hooksdk_messages SET body = '{}' WHERE position = 2", "s", "position 2: this row was changed"),
        ("DELETE FROM hooksdk_journal WHERE position = 2", "s", "hooksdk_journal, position 2: this row is missing"),
        ("DELETE FROM hooksdk_sessions", "database", "the sum over all sessions does not fit: at least 1 are gone"),
        ("UPDATE hooksdk_values SET body = '2'", "values", "this row was changed by somebody else"),
    ],
)
def test_what_somebody_else_has_changed_is_told_with_its_session(
    statement: str, who: str, what: str, store: SqlStore, tmp_path: Path
) -> None:
    anyio.run(store.set_value, "watch", "key", 1)
    change(store, statement)
    done = doctor(tmp_path)
    assert done.code == 1
    assert any(f"problem  {who}  " in line and what in line for line in done.out.splitlines())
    found = findings(tmp_path)
    assert any(one["who"] == who and what in one["what"] for one in found)
    assert {one["state"] for one in found} == {"open"}


def test_only_the_sessions_that_are_named_are_examined(store: SqlStore, tmp_path: Path) -> None:
    store_messages(store, [OPENAI.user("hello")], "other")
    change(store, "DELETE FROM hooksdk_messages WHERE position = 0")
    assert [one["who"] for one in findings(tmp_path, "other")] == ["other"]
    assert doctor(tmp_path, "no such session").code == 1
    assert "2 problems in" in doctor(tmp_path).out


def test_what_is_there_is_counted_anew_when_somebody_says_so(store: SqlStore, tmp_path: Path) -> None:
    anyio.run(store.set_value, "watch", "key", 1)
    change(store, "DELETE FROM hooksdk_values")
    (finding,) = findings(tmp_path)
    assert finding["remedy"] == "count anew what is there"
    (mended,) = findings(tmp_path, "--mend")
    assert mended["state"] == "mended"
    assert findings(tmp_path) == []


def test_a_journal_that_cannot_be_understood_is_told(store: SqlStore, tmp_path: Path) -> None:
    async def work() -> None:
        log = await store.open_session("s")
        await log.append_journal([{"kind": "trim"}])
        await log.close()

    anyio.run(work)
    done = doctor(tmp_path, "--mend")
    assert done.code == 1
    assert "cannot be understood (KeyError: 'n')" in done.out


def test_a_held_session_is_examined(store: SqlStore, tmp_path: Path) -> None:
    with held(store):
        assert findings(tmp_path, "--mend") == []


def test_what_is_whole_is_rescued_into_a_new_database_and_the_rest_is_named(store: SqlStore, tmp_path: Path) -> None:
    store_messages(store, [OPENAI.user("hello")], "other")
    anyio.run(store.set_value, "watch", "key", 1)
    change(store, "DELETE FROM hooksdk_messages WHERE position = 5")
    done = doctor(tmp_path, "--rescue", "new.db")
    assert done.code == 1
    assert "problem  s  hooksdk_messages, position 5: this row is missing" in done.out
    assert f"copied   1 session and 1 value into {tmp_path / 'new.db'}" in done.out
    listed = run(
        ("sessions", "list", "--store", "new.db", "--json"), folder=tmp_path, environment=environment(tmp_path)
    )
    assert [one["id"] for one in listed.json()["sessions"]] == ["other"]
    assert doctor(tmp_path, "--store", "new.db").code == 0
    again = doctor(tmp_path, "--rescue", "new.db")
    assert (again.code, "is there already" in again.complaint) == (1, True)
    assert doctor(tmp_path, "--rescue", "x.db", "--mend").code == 2


def test_a_rescue_of_a_healthy_store_has_no_problems(store: SqlStore, tmp_path: Path) -> None:
    done = doctor(tmp_path, "--rescue", "new.db", "--json")
    assert (done.code, done.json()["sessions"], done.json()["findings"]) == (0, 1, [])


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database, but longer than its header would be" * 20)
    done = doctor(tmp_path, "--store", "notes.db")
    assert (done.code, "this file is no SQLite database" in done.err + done.out) == (1, True)


# Files of earlier versions


@pytest.mark.parametrize("torn", [b'{"role": "us', b" {}\n {", b"\0\0\0\0"])
@pytest.mark.parametrize("kind", ["messages", "journal"])
def test_a_torn_end_is_no_damage_and_is_taken_over_without_it(
    kind: str, torn: bytes, old: Path, tmp_path: Path
) -> None:
    with file_of(old, kind).open("ab") as file:
        file.write(torn)
    assert findings(tmp_path) == []
    assert len(view_of(SqlStore(tmp_path / "kept"))) == 8


@pytest.mark.parametrize("kind", ["messages", "journal"])
def test_glued_lines_are_parted_and_nothing_is_lost(kind: str, old: Path, tmp_path: Path) -> None:
    lines = lines_of(old, kind)
    file_of(old, kind).write_bytes(b"".join([lines[0].rstrip(), *lines[1:]]))
    mend(tmp_path, old, "line 1 is several lines glued together")
    kept = file_of(old / "before-hooksdk.db", kind).read_bytes().splitlines()
    assert [json.loads(line) for line in kept] == [json.loads(line) for line in lines]


def test_a_damaged_line_of_a_journal_is_left_out_and_the_other_lines_count(old: Path, tmp_path: Path) -> None:
    lines = lines_of(old, "journal")
    assert b'"text":"[Result r2' in lines[-1]
    file_of(old, "journal").write_bytes(b"".join([*lines[:-1], b"no JSON\n"]))
    mend(tmp_path, old, f"line {len(lines)} is not JSON")
    view = view_of(SqlStore(tmp_path / "kept"))
    assert [view[at]["content"][:10] for at in (2, 4)] == ["[Result r1", body(2)[:10]]


def test_messages_end_before_a_damaged_line(old: Path, tmp_path: Path) -> None:
    lines = lines_of(old, "messages")
    file_of(old, "messages").write_bytes(b"".join([*lines[:4], b"\0" * 20 + b"\n", *lines[5:]]))
    (finding,) = findings(tmp_path)
    assert "3 messages after it would be in the backup alone" in finding["remedy"]
    mend(tmp_path, old, "line 5 holds a block of zeros")
    view = view_of(SqlStore(tmp_path / "kept"))
    assert [one["role"] for one in view[:4]] == [json.loads(line)["role"] for line in lines[:4]]
    assert view[2]["content"].startswith("[Result r1")


def test_a_lost_first_line_is_written_anew_for_who_knows_the_session(old: Path, tmp_path: Path) -> None:
    lines = lines_of(old, "journal")
    file_of(old, "journal").write_bytes(b"".join([b"no JSON\n", *lines[1:]]))
    (finding,) = findings(tmp_path, "--mend")
    assert (finding["state"], finding["remedy"]) == ("open", "")
    assert finding["advice"].endswith("hooksdk sessions doctor ID --mend")
    mend(tmp_path, old, "its first line, which names the session, is lost", "s")
    assert view_of(SqlStore(tmp_path / "kept"))[2]["content"].startswith("[Result r1")


def test_messages_without_a_journal_are_told_and_get_one(old: Path, tmp_path: Path) -> None:
    file_of(old, "journal").unlink()
    (finding,) = findings(tmp_path)
    assert "the messages have no journal" in finding["what"]
    (mended,) = findings(tmp_path, "s", "--mend")
    assert (mended["state"], mended["backup"]) == ("mended", None)
    assert findings(tmp_path) == []
    assert anyio.run(SqlStore(tmp_path / "kept").list_sessions) == ["s"]


def test_a_journal_of_a_newer_version_is_left_alone(old: Path, tmp_path: Path) -> None:
    path = file_of(old, "journal")
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 2', 1) + b"{")
    before = contents(old)
    assert doctor(tmp_path, "--mend").code == 1
    assert contents(old) == before


def test_values_that_cannot_be_read_are_moved_aside(store: SqlStore, tmp_path: Path) -> None:
    path = tmp_path / "kept" / "sessions" / "values" / "watch.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    (finding,) = findings(tmp_path)
    assert (finding["who"], finding["state"], path.read_text()) == ("values", "open", "{")
    (mended,) = findings(tmp_path, "--mend")
    assert Path(mended["backup"]).read_text() == "{"
    assert findings(tmp_path) == []


def test_files_that_an_earlier_version_has_open_are_not_mended(old: Path, tmp_path: Path) -> None:
    with file_of(old, "messages").open("ab") as file:
        file.write(b"{}{}\n")
    before = contents(old)
    lock = file_of(old, "journal").with_name(file_of(old, "journal").name.replace(".journal.jsonl", ".lock"))
    with lock.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        (finding,) = findings(tmp_path, "--mend")
        assert (finding["state"], "glued" in finding["what"]) == ("open", True)
        assert "earlier version of hooksdk has it open" in finding["advice"]
        assert contents(old) == before
    mend(tmp_path, old, "glued")


def test_an_earlier_backup_is_not_overwritten(old: Path, tmp_path: Path) -> None:
    path = file_of(old, "messages")
    path.with_name(f"{path.name}.1.bak").write_text("mine")
    path.write_bytes(lines_of(old, "messages")[0] + b"no JSON\n")
    (mended,) = findings(tmp_path, "--mend")
    assert mended["backup"] == f"{path}.2.bak"
    assert path.with_name(f"{path.name}.1.bak").read_text() == "mine"


async def _trimmed(store: SqlStore) -> None:
    async with opened(store) as transcript:
        await Results(transcript, "p").trim("r3", "third")


def test_a_session_that_was_mended_goes_on(old: Path, tmp_path: Path) -> None:
    lines = lines_of(old, "journal")
    file_of(old, "journal").write_bytes(b"".join([*lines, b"[]\n"]))
    mend(tmp_path, old, "is no JSON object")
    store = SqlStore(tmp_path / "kept")
    anyio.run(_trimmed, store)
    assert view_of(store)[6]["content"].startswith("[Result r3")
    anyio.run(store.aclose)
