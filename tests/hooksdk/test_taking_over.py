"""What earlier versions have kept in files of JSON lines, and in older tables, is taken over: whole, once, and whatever
happens in the middle.

`stored_as_files/made_by.txt` and `stored_0_2_0/made_by.txt` say how the files were made.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from transcripts import OPENAI, body, history, opened, statuses, texts

from hooksdk import Approval, Host, Tool, hooks
from hooksdk.desk import ApprovalDesk, ApprovalRecords
from hooksdk.errors import SessionBusy, StoreError
from hooksdk.formats import Message
from hooksdk.stores import SqlStore, Store, _old_files, _tables, open_store
from hooksdk.stores._names import file_name
from hooksdk.stores.rekeying import rekey
from tests.hooksdk.tables import run_sql, select

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
AS_FILES = HERE / "stored_as_files"
PARAMETERS: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}}}
LONG = "a long listing " * 40


class Asks:
    """Asks about each payment, and counts calls in its state and its storage."""

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


TOOLS = [Tool(name=name, source="host", owner="bank", parameters=PARAMETERS, execute=pay) for name in ("pay", "wire")]


async def fill(store: SqlStore, version: int) -> None:
    """Make the tables of an older version, and store in them what `tables.json` has."""
    tables = json.loads((AS_FILES / "tables.json").read_text())

    def step(transaction: Any) -> None:
        for statement in tables["statements"]:
            if version < 3 and "hooksdk_indexes" in statement:
                continue
            transaction.execute(statement.replace(", changed DOUBLE PRECISION", "") if version < 2 else statement)
        for name, rows in tables["rows"].items():
            for row in rows:
                columns = [column for column in row if version > 1 or column != "changed"]
                values = ", ".join(f":{column}" for column in columns)
                transaction.execute(f"INSERT INTO hooksdk_{name} VALUES ({values})", {c: row[c] for c in columns})
        for number in range(1, version + 1):
            transaction.execute("INSERT INTO hooksdk_schema (version) VALUES (:number)", {"number": number})

    driver = store.database._driver
    driver.version()  # makes the file
    await anyio.to_thread.run_sync(lambda: driver.run(step, writes=True, patient=True))


OLD = ["files", *(f"{kind} {version}" for kind in ("sqlite", "postgres") for version in (1, 2, 3))]


@pytest.fixture(
    params=[pytest.param(kind, marks=[pytest.mark.heavy] if kind.startswith("postgres") else []) for kind in OLD]
)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SqlStore]:
    """One that an earlier version has filled with the sessions `kept` and `died`."""
    kind, _, version = request.param.partition(" ")
    if kind == "files":
        shutil.copytree(AS_FILES / "sessions", tmp_path / "sessions")
    url = request.getfixturevalue("postgres").url() if kind == "postgres" else None
    if version:
        made = SqlStore(url or tmp_path / "sessions")
        await fill(made, int(version))
        await made.aclose()
    opened = SqlStore(url or tmp_path / "sessions")
    yield opened
    await opened.aclose()


# --- what it has is there, and goes on ---


async def test_a_session_has_its_trims_its_state_and_its_values_and_goes_on(store: SqlStore) -> None:
    async with Host([Asks], store=store) as host, host.session("kept") as session:
        assert session.resumed
        assert len(session.messages) == 8
        assert [info.trimmed for info in session.results.list()] == [True, False]
        assert session.results.read("r2") == LONG
        assert session.plugin("asks").state["calls"] == 2
        async with session.run() as run:
            shown = [found.text for message in await run.prepare_messages() for found in OPENAI.results(message)]
            assert shown[0].startswith("[Result r1 of look was trimmed: 600 characters.")
            assert shown[1] == LONG
            await run.resolve_tools(TOOLS)
            run.pause("enough")
    assert await store.get_value("asks", "calls") == {"seen": 2, "text": "é\ud800"}
    assert await store.list_sessions() == ["died", "kept"]


async def test_a_question_that_waits_is_answered_and_its_call_runs(store: SqlStore) -> None:
    records = ApprovalRecords(store)
    assert [(one.number, one.state, one.arguments) for one in await records.list()] == [(1, "pending", {"amount": 6})]
    await records.answer(1, Approval(True))
    async with (
        Host([Asks], store=store) as host,
        host.session("kept") as session,
        session.run(requester={"id": "ann"}, approver=ApprovalDesk(wait=0)) as run,
    ):
        await run.resolve_tools(TOOLS)
        (call,) = run.pending
        assert (await run.call_tool(call)).text == "paid 6"


async def test_a_call_in_which_the_process_died_is_in_doubt(store: SqlStore) -> None:
    async with Host([Asks], store=store) as host, host.session("died") as session:
        assert [(one.tool, one.call_id) for one in session.in_doubt] == [("host:bank:wire", "wire1")]
        async with session.run() as run:
            await run.resolve_tools(TOOLS)
            (call,) = run.pending
            assert "may have taken effect" in (await run.call_tool(call)).text


async def test_old_tables_stay_beside_the_new_ones(store: SqlStore, request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["store"]
    assert await store.list_sessions() == ["died", "kept"]
    if kind == "files":
        pytest.skip("there were none")
    assert len(await select(store, "SELECT body FROM hooksdk_old_messages")) == 10
    ((version,),) = await select(store, "SELECT max(version) FROM hooksdk_schema")
    assert version == _tables.VERSION


# --- files: what becomes of them ---


def files_in(folder: Path) -> dict[str, bytes]:
    """The JSON lines and values below a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.rglob("*.json*") if path.is_file()}


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A folder that the last version with files has left."""
    shutil.copytree(AS_FILES / "sessions", tmp_path / "sessions")
    return tmp_path / "sessions"


async def listed(folder: Path) -> list[str]:
    store = SqlStore(folder)
    try:
        return await store.list_sessions()
    finally:
        await store.aclose()


async def read(folder: Path, session_id: str) -> tuple[list[Message], list[dict[str, Any]]]:
    store = SqlStore(folder)
    try:
        return await store.read_session(session_id)
    finally:
        await store.aclose()


async def test_the_files_stay_as_they_were_in_a_folder_beside(sessions: Path) -> None:
    before = files_in(sessions)
    assert await listed(sessions) == ["died", "kept"]
    assert files_in(sessions) == before
    assert _old_files.old_files(sessions) == []
    assert (sessions / _old_files.KEPT).stat().st_mode & 0o777 == 0o700


async def test_every_line_is_a_row(sessions: Path) -> None:
    (messages,), (journal,) = (list(sessions.glob(f"kept*.{kind}.jsonl")) for kind in ("messages", "journal"))
    lines = [[json.loads(line) for line in path.read_text().splitlines()] for path in (messages, journal)]
    assert await read(sessions, "kept") == (lines[0], lines[1][1:])


async def test_files_that_come_back_are_not_taken_over_twice(sessions: Path) -> None:
    assert await listed(sessions) == ["died", "kept"]
    first = await read(sessions, "kept")
    shutil.copytree(AS_FILES / "sessions", sessions, dirs_exist_ok=True)
    assert await listed(sessions) == ["died", "kept"]
    assert await read(sessions, "kept") == first
    assert _old_files.old_files(sessions) == []


async def test_files_that_come_back_after_a_new_key_are_not_taken_over_twice(sessions: Path) -> None:
    assert await listed(sessions) == ["died", "kept"]
    key = secrets.token_bytes(32)
    store = SqlStore(sessions, keys=[key])
    assert [one async for one in rekey(store)] == [("died", "encrypted"), ("kept", "encrypted")]
    assert await store.list_keys(_old_files.TAKEN)
    await store.aclose()
    shutil.copytree(AS_FILES / "sessions", sessions, dirs_exist_ok=True)
    store = SqlStore(sessions, keys=[key])
    assert await store.list_sessions() == ["died", "kept"]
    assert _old_files.old_files(sessions) == []
    await store.aclose()


async def test_other_files_of_an_id_that_the_database_has_stay_and_are_told(
    sessions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore(sessions, old_files=sessions / "elsewhere")
    async with opened(store, "kept") as transcript:
        await transcript.append([OPENAI.user("new")])
    await store.aclose()
    before = files_in(sessions)
    assert await listed(sessions) == ["died", "kept"]
    assert "kept-79f076abdd19a752db7267bf.journal.jsonl is not taken over" in caplog.text
    with pytest.raises(StoreError, match=r"kept-.*: the database has another session of this id\. Move this file away"):
        await read(sessions, "kept")
    assert files_in(sessions) == before
    assert {path.name for path in sessions.glob("*.jsonl")} == {
        f"kept-79f076abdd19a752db7267bf.{kind}.jsonl" for kind in ("journal", "messages")
    }


async def test_a_value_that_was_set_since_is_kept(sessions: Path) -> None:
    store = SqlStore(sessions, old_files=sessions / "elsewhere")
    await store.set_value("asks", "calls", "newer")
    await store.aclose()
    store = SqlStore(sessions)
    assert await store.get_value("asks", "calls") == "newer"
    await store.aclose()


async def test_the_state_folder_takes_its_sessions_folder_over(sessions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKSDK_HOME", str(sessions.parent))
    store = open_store("jsonl")
    assert await store.list_sessions() == ["died", "kept"]
    await store.aclose()
    assert (sessions.parent / "hooksdk.db").is_file()
    assert _old_files.old_files(sessions) == []


async def test_files_of_the_first_release_are_read_as_they_were_meant(tmp_path: Path) -> None:
    for kind in ("messages", "journal"):
        path = tmp_path / f"{file_name('s')}.{kind}.jsonl"
        path.write_bytes((HERE / "stored_session" / f"{kind}.jsonl").read_bytes())
    store = SqlStore(tmp_path)
    async with opened(store, form=None) as transcript:
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
    await store.aclose()


# --- files that were torn, damaged, or are in use ---

TORN = [
    b"",
    b"{",
    b'{"role":"us',
    b'{"role":"user"',
    b"\0" * 512,
    b'{"role"\0\0\0',
    b' {"role":"user","content":"1"}\n',
    b" {",
    b" ",
]


@pytest.mark.parametrize("tail", TORN)
@pytest.mark.parametrize("kind", ["messages", "journal"])
async def test_what_a_crash_has_left_of_the_last_step_is_left_out(sessions: Path, kind: str, tail: bytes) -> None:
    (path,) = sessions.glob(f"kept*.{kind}.jsonl")
    expected = await read(shutil.copytree(sessions, sessions.parent / "whole"), "kept")
    with path.open("ab") as file:
        file.write(tail)
    assert await read(sessions, "kept") == expected


async def test_a_last_line_whose_end_alone_is_missing_counts(sessions: Path) -> None:
    (path,) = sessions.glob("kept*.messages.jsonl")
    expected = await read(shutil.copytree(sessions, sessions.parent / "whole"), "kept")
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert await read(sessions, "kept") == expected


Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, tuple[Damage, int]] = {
    "glued": (lambda lines: [lines[0], lines[1] + lines[2], *lines[3:]], 2),
    "glued at the end": (lambda lines: [*lines[:-2], lines[-2] + lines[-1]], 7),
    "zeros": (lambda lines: [lines[0], b"\0" * 4096, *lines[1:]], 2),
    "zeros at the end": (lambda lines: [*lines, b"\0" * 512], 9),
    "cut inside": (lambda lines: [*lines[:3], lines[3][:-9], *lines[4:]], 4),
    "not utf-8": (lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]], 4),
    "a list": (lambda lines: [b"[1, 2]", *lines], 1),
}
"""What was done to the eight lines of a file, and which line the error names."""


@pytest.mark.parametrize("kind", DAMAGES)
async def test_a_damaged_session_stays_with_its_file_and_line_told_and_the_others_are_taken_over(
    sessions: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage, line = DAMAGES[kind]
    (path,) = sessions.glob("kept*.messages.jsonl")
    damaged = b"\n".join(damage([line.strip() for line in path.read_bytes().splitlines()])) + b"\n"
    path.write_bytes(damaged)
    assert await listed(sessions) == ["died"]
    assert f"{path}, line {line}: " in caplog.text
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            await read(sessions, "kept")
        assert str(caught.value).startswith(f"{path}, line {line}: ")
        assert "Nothing was changed; `hooksdk sessions doctor --mend`" in str(caught.value)
    assert path.read_bytes() == damaged
    store = SqlStore(sessions)
    with pytest.raises(StoreError, match=f"line {line}: "):
        await store.open_session("kept", wait=0)
    assert len((await store.read_session("died"))[0]) == 2
    await store.aclose()


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b'{"hooksdk":"journal","version":2,"session":"kept"}', "it was written by a newer hooksdk"),
        (b'{"kind":"state"}', "line 1: this is not the header of a journal"),
        (b"", "this file is empty"),
    ],
)
async def test_a_journal_that_is_none_stays_and_is_told(sessions: Path, header: bytes, problem: str) -> None:
    (path,) = sessions.glob("kept*.journal.jsonl")
    path.write_bytes(header + b"\n")
    assert await listed(sessions) == ["died"]
    with pytest.raises(StoreError, match=problem):
        await read(sessions, "kept")
    assert path.read_bytes() == header + b"\n"


async def test_values_that_cannot_be_read_stay_and_are_told(sessions: Path, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = sessions.glob("values/asks-*.json")
    path.write_text("{broken")
    assert await listed(sessions) == ["died", "kept"]
    assert f"{path} is not taken over" in caplog.text
    assert path.read_text() == "{broken"


HOLDS = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Generator[subprocess.Popen[str]]:
    """A process that has locked a file as earlier versions do; it ends when its input does."""
    command = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


@pytest.mark.heavy
@pytest.mark.skipif(os.name == "nt", reason="its locks are others")
async def test_a_session_that_an_old_process_has_open_is_busy_and_taken_over_after_it(
    sessions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (lock,) = sessions.glob("kept*.lock")
    store = SqlStore(sessions)
    with held(lock):
        assert await store.list_sessions() == ["died"]
        assert "a process with an earlier version of hooksdk has it open" in caplog.text
        with pytest.raises(SessionBusy):
            await store.open_session("kept", wait=0)
        with pytest.raises(SessionBusy):
            await store.read_session("kept")
        (journal,) = sessions.glob("kept*.journal.jsonl")
        with journal.open("ab") as file:
            file.write(b'{"kind":"state","plugin":"late","m":8,"change":{"set":{"n":1}}}\n')
    async with opened(store, "kept", form=None) as transcript:
        assert transcript.state("late") == {"n": 1}
        assert len(transcript.messages) == 8
    assert await store.list_sessions() == ["died", "kept"]
    await store.aclose()


# --- cut off in the middle ---


def as_files(folder: Path, count: int) -> dict[str, list[Message]]:
    """Write sessions as the last version with files did; answers their messages."""
    written: dict[str, list[Message]] = {}
    (folder / "values").mkdir(parents=True)
    for number in range(count):
        name = f"session {number}"
        written[name] = history(OPENAI, [f"{name}: {turn}" for turn in range(3)])
        base = folder / file_name(name)
        lines: list[dict[str, Any]] = [
            {"hooksdk": "journal", "version": 1, "session": name},
            {"kind": "format", "name": "openai-chat", "m": 0},
        ]
        lines.append({"kind": "state", "plugin": "p", "m": 8, "change": {"set": {"n": number}}})
        for kind, content in (("messages", written[name]), ("journal", lines)):
            text = "".join(json.dumps(line) + "\n" for line in content)
            base.with_name(f"{base.name}.{kind}.jsonl").write_text(text)
        values = {"space": name, "values": {"key": number}}
        (folder / "values" / f"{file_name(name)}.json").write_text(json.dumps(values))
    return written


async def all_are_there(store: Store, written: dict[str, list[Message]]) -> None:
    assert await store.list_sessions() == sorted(written)
    for number, (name, messages) in enumerate(written.items()):
        stored, journal = await store.read_session(name)
        assert stored == messages
        assert [entry["kind"] for entry in journal] == ["format", "state"]
        assert journal[1]["change"] == {"set": {"n": number}}
        assert await store.get_value(name, "key") == number


TAKES = """
import sys, anyio
from pathlib import Path
from hooksdk.stores import SqlStore, _old_files

_old_files.BATCH = int(sys.argv[2])
place = sys.argv[1]
store = SqlStore(place if "://" in place else Path(place))
async def main():
    print("begins", flush=True)
    print(len(await store.list_sessions()), flush=True)
    await store.aclose()

anyio.run(main)
"""


def takes(place: object, batch: int) -> subprocess.Popen[str]:
    """A process that opens a store, and has told that it begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", TAKES, str(place), str(batch)],
        stdout=subprocess.PIPE,
        stderr=None,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


def seconds_of(process: subprocess.Popen[str]) -> float:
    begun = time.perf_counter()
    process.communicate()
    assert process.returncode == 0
    return time.perf_counter() - begun


def kill_after(process: subprocess.Popen[str], seconds: float) -> bool:
    """True where it was not done by then."""
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode != 0


@pytest.mark.heavy
@pytest.mark.parametrize("times", [4, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
async def test_a_process_that_is_killed_in_the_middle_loses_and_repeats_nothing(tmp_path: Path, times: int) -> None:
    written = as_files(tmp_path / "written", 150)
    chance = random.Random(43)
    longest = seconds_of(takes(shutil.copytree(tmp_path / "written", tmp_path / "whole"), 10))
    killed = 0
    for number in range(20 * times):
        if number >= times and killed > times / 2:
            break
        folder = shutil.copytree(tmp_path / "written", tmp_path / str(number))
        for _ in range(2):  # the second one goes on where the first was killed
            killed += kill_after(takes(folder, 10), chance.uniform(0, longest))
        store = SqlStore(folder)
        await all_are_there(store, written)
        assert _old_files.old_files(folder) == []
        assert files_in(folder) == files_in(tmp_path / "written")
        await store.aclose()
        shutil.rmtree(folder)
    assert killed > times / 2, "on any machine some are killed in time"


@pytest.mark.heavy
async def test_processes_that_take_over_at_once_take_each_session_once(tmp_path: Path) -> None:
    written = as_files(tmp_path / "sessions", 60)
    processes = [takes(tmp_path / "sessions", 7) for _ in range(3)]
    answers = [(await anyio.to_thread.run_sync(process.communicate))[0] for process in processes]
    assert answers == ["60\n"] * 3, "who comes second waits for all of them"
    store = SqlStore(tmp_path / "sessions")
    await all_are_there(store, written)
    assert _old_files.old_files(tmp_path / "sessions") == []
    await store.aclose()


@asynccontextmanager
async def grown(place: Any, messages: int) -> AsyncGenerator[SqlStore]:
    """A store with tables of version 3 and one session that is long."""
    store = SqlStore(place)
    await fill(store, 3)
    row = {"key": "long-1", "name": '"long"', "token": 1, "holder": None, "expires": None, "changed": 1.0}
    driver = store.database._driver

    def step(transaction: Any) -> None:
        columns = ", ".join(f":{column}" for column in row)
        transaction.execute(f"INSERT INTO hooksdk_sessions VALUES ({columns})", row)
        lines = [
            {"key": "long-1", "position": n, "body": json.dumps(OPENAI.user(f"message {n}"))} for n in range(messages)
        ]
        transaction.execute("INSERT INTO hooksdk_messages VALUES (:key, :position, :body)", lines)

    await anyio.to_thread.run_sync(lambda: driver.run(step, writes=True, patient=True))
    await store.aclose()
    yield SqlStore(place)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("times", [3, pytest.param(15, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
async def test_a_migration_that_is_killed_in_the_middle_leaves_the_old_version(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, times: int
) -> None:
    chance, killed, count = random.Random(43), 0, 15_000
    longest = 0.0
    for number in range(times + 1):
        place: Any = tmp_path / str(number) if kind == "sqlite" else request.getfixturevalue("postgres").url()
        async with grown(place, count) as store:
            process = takes(place, 10)
            if not number:
                longest = seconds_of(process)
            else:
                was_killed = kill_after(process, chance.uniform(0, longest * 0.8))
                driver = store.database._driver
                version = await anyio.to_thread.run_sync(driver.version)
                assert version in ({3, _tables.VERSION} if was_killed else {_tables.VERSION})
                killed += version == 3
                if version == 3:
                    table = "SELECT count(*) FROM hooksdk_messages WHERE key = 'long-1'"

                    def look(transaction: Any, statement: str = table) -> Any:
                        return transaction.execute(statement).fetchone()

                    read = await anyio.to_thread.run_sync(lambda d=driver: d.run(look, writes=False, patient=False))
                    assert read == (count,)
            assert await store.list_sessions() == ["died", "kept", "long"]
            stored, _ = await store.read_session("long")
            assert stored == [OPENAI.user(f"message {n}") for n in range(count)]
            assert len((await store.read_session("kept"))[0]) == 8
            await store.aclose()
    print(f"killed in the middle: {killed} of {times}")
    assert killed


async def test_a_row_that_was_missing_in_an_older_table_is_told_after_the_migration(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    await fill(store, 3)
    driver = store.database._driver
    await anyio.to_thread.run_sync(
        lambda: driver.run(
            lambda transaction: transaction.execute("DELETE FROM hooksdk_messages WHERE position = 3"),
            writes=True,
            patient=True,
        )
    )
    with pytest.raises(StoreError, match="session 'kept', hooksdk_messages, position 3: this row is missing"):
        await store.read_session("kept")
    assert len((await store.read_session("died"))[0]) == 2
    await store.aclose()


async def test_tables_of_a_newer_version_are_left_alone(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    assert await store.list_sessions() == []
    await store.set_value("p", "k", 1)
    await run_sql(store, "INSERT INTO hooksdk_schema VALUES (99)")
    await store.aclose()
    with pytest.raises(
        StoreError, match=r"made by a newer hooksdk \(version 99, .*Nothing was changed; update hooksdk"
    ):
        await listed(tmp_path)
