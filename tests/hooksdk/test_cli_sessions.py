"""`hooksdk sessions`: what is stored, looked at and changed by commands, while others may hold it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest
import typer
from commands import change, environment
from transcripts import OPENAI, House, body, call, filled, history, opened
from warm import Done, run

from hooksdk import Host
from hooksdk.formats import Message, get_format
from hooksdk.stores import SqlStore
from hooksdk.stores._hashes import session_key
from hooksdk.transcript import Results

pytestmark = pytest.mark.heavy

HOLDER = """
import sys
from pathlib import Path
import anyio
from hooksdk import Host
from hooksdk.stores import SqlStore

async def main() -> None:
    async with Host(store=SqlStore(Path(sys.argv[1]))) as host, host.session("s") as session:
        print("held", flush=True)
        sys.stdin.read()

anyio.run(main)
"""


@pytest.fixture
def store(tmp_path: Path) -> Generator[SqlStore]:
    """The store that the commands use unless they are told otherwise."""
    store = SqlStore(tmp_path / "kept")
    yield store
    anyio.run(store.aclose)


@pytest.fixture
def stored(store: SqlStore) -> SqlStore:
    """With the session `s` of three results: the first is trimmed, a trim of the second is queued."""
    anyio.run(filled, store)
    return store


def sessions(*arguments: str, folder: Path, stdin: str = "") -> Done:
    return run(("sessions", *arguments), folder=folder, environment=environment(folder), stdin=stdin)


def folder_of(store: SqlStore) -> Path:
    assert store.file is not None
    return store.file.parent


@contextmanager
def held(store: SqlStore) -> Generator[int]:
    """Another process holds the session `s`; answers its id."""
    command = [sys.executable, "-c", HOLDER, str(folder_of(store))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def store_messages(
    store: SqlStore, messages: list[Message], session_id: str = "s", format_name: str = "openai-chat"
) -> None:
    async def work() -> None:
        async with opened(store, session_id, get_format(format_name)) as transcript:
            await transcript.append(messages)

    anyio.run(work)


def view_of(store: SqlStore) -> list[Message]:
    async def work() -> list[Message]:
        async with Host(store=store) as host, host.session("s") as session:
            return session.view

    return anyio.run(work)


# list


def begin(
    store: SqlStore,
    session_id: str,
    prompt: str,
    *,
    model: str = "gpt-5",
    folder: Path | str | None = None,
    age: float = 0,
) -> None:
    """A session as `hooksdk run` leaves one, `age` seconds old."""

    async def work() -> None:
        async with (
            Host(store=store) as host,
            host.session(session_id) as session,
            session.run(prompt, model=model, workspace_dir=None if folder is None else str(folder)) as run,
        ):
            await run.record(
                [{"role": "system", "content": "Be brief."}, OPENAI.user(prompt), OPENAI.reply("So be it.")]
            )

    anyio.run(work)
    set_changed(store, session_id, time.time() - age)


def set_changed(store: SqlStore, session_id: str, seconds: float) -> None:
    statement = "UPDATE hooksdk_sessions SET changed = :changed WHERE name = :name"
    change(store, statement, changed=seconds, name=json.dumps(session_id))


def test_the_list_tells_what_was_asked_of_which_model_where_and_when(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "ann", "What failed\nlast night?", folder=tmp_path, age=3 * 3600)
    begin(store, "bert", "Draw a cat.", model="claude-sonnet-4-5", folder=tmp_path / "cats", age=12 * 86400 + 60)
    header, ann, bert = (re.split(" {2,}", line) for line in sessions("list", folder=tmp_path).out.splitlines())
    assert header == ["id", "age", "model", "folder", "prompt"]
    assert ann == ["ann", "3 h", "gpt-5", ".", "What failed last night?"]
    assert bert == ["bert", "12 days", "claude-sonnet-4-5", "~/cats", "Draw a cat."]
    listed = sessions("list", "--json", folder=tmp_path).json()["sessions"]
    assert listed[0].pop("changed").startswith("20")
    assert listed[0] == {
        "id": "ann", "prompt": "What failed\nlast night?", "model": "gpt-5", "folder": str(tmp_path), "format": "openai-chat",
        "held_by": None, "problem": None,
    }  # fmt: skip


def test_the_list_reads_the_beginning_of_a_session_alone(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "ann", "What failed?")
    store_messages(store, [OPENAI.user("and then?")] * 9, "ann")
    change(store, "UPDATE hooksdk_messages SET body = 'no JSON' WHERE position = 11")
    assert "What failed?" in sessions("list", folder=tmp_path).out
    assert "damaged" not in sessions("list", folder=tmp_path).out
    assert "damaged: hooksdk sessions doctor" in sessions("list", "--sizes", folder=tmp_path).out


def test_the_list_says_what_each_session_used_alone_and_with_its_sub_agents(store: SqlStore, tmp_path: Path) -> None:
    async def talk() -> None:
        async with Host(store=store, config={"allow": []}) as host, host.session("ann") as session:
            async with session.run(provider="acme", model="small") as run:
                await run.record({"role": "user", "content": "Hello"})
                await run.record(
                    {"role": "assistant", "content": "a"}, usage={"input_tokens": 1_000, "output_tokens": 100}
                )
                async with session.child("helper") as child, child.run(provider="acme", model="small") as below:
                    await below.record({"role": "user", "content": "Hello"})
                    await below.record(
                        {"role": "assistant", "content": "b"}, usage={"input_tokens": 4_000, "output_tokens": 0}
                    )
            async with session.run(provider="acme", model="small") as run:
                await run.record({"role": "user", "content": "Hello"})

    anyio.run(talk)
    user = tmp_path / "none" / "hooksdk" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[prices]\n"acme:small" = { input = 1000.0, output = 1000.0 }\n')
    listed = sessions("list", "--used", "--json", folder=tmp_path).json()["sessions"]
    used = {one["id"]: one["used"] for one in listed}
    assert (used["ann"]["requests"], used["ann"]["prompt"], used["ann"]["dollars"]) == (1, 1_000, 1.1)
    assert (used["ann"]["with_subagents"]["prompt"], used["ann"]["with_subagents"]["dollars"]) == (5_000, 5.1)
    assert (used["helper"]["dollars"], used["helper"]["with_subagents"]["requests"]) == (4.0, 0)
    head, *rows = sessions("list", "--used", folder=tmp_path).out.splitlines()
    assert head.split() == ["id", "requests", "tokens", "paid", "with", "sub-agents", "paid", "age"]
    assert next(row.split() for row in rows if row.startswith("ann"))[:6] == [
        "ann",
        "1",
        "1,100",
        "$1.10",
        "5,100",
        "$5.10",
    ]


def test_the_list_with_sizes_tells_results_queued_trims_and_tokens(stored: SqlStore, tmp_path: Path) -> None:
    (summary,) = sessions("list", "--sizes", "--json", folder=tmp_path).json()["sessions"]
    assert summary.pop("changed").startswith("20")
    assert summary.pop("tokens") > 0
    assert summary == {
        "id": "s", "prompt": "question", "model": "", "folder": "", "format": "openai-chat", "messages": 8, "results": 3,
        "trimmed": 1, "queued": 1, "held_by": None, "problem": None,
    }  # fmt: skip
    table = sessions("list", "--sizes", folder=tmp_path)
    assert table.out.splitlines()[1].split()[:5] == ["s", "8", "3", "1", "1"]


# Which session is meant

MADE = ["7k2m9x4q", "7k2p1b1b", "0c9d4e5f60718293a4b5c6d7e8f90a1b"]
"""Two ids of `hooksdk run`, and one of `host.session()`, as `run` made them up to 0.2.0."""


def test_the_beginning_of_an_id_that_hooksdk_made_finds_the_session(store: SqlStore, tmp_path: Path) -> None:
    for number, session_id in enumerate(MADE):
        begin(store, session_id, f"prompt {number}")
    for typed, number in (("7k2m", 0), ("7k2p", 1), ("0c9d", 2), (MADE[2], 2)):
        assert f"\n  prompt {number}\n" in sessions("show", typed, folder=tmp_path).out
    assert sessions("results", "7k2m", "--json", folder=tmp_path).json()["session"] == MADE[0]
    shown = [line.split()[0] for line in sessions("list", folder=tmp_path).out.splitlines()[1:]]
    assert sorted(shown) == ["0c9d4e5f", "7k2m9x4q", "7k2p1b1b"]


def test_a_beginning_that_fits_several_sessions_says_which(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "7k2m9x4q", "Why is the build red?")
    begin(store, "7k2m9b4q", "Draw a cat.")
    done = sessions("show", "7k2m", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "'7k2m' fits 2 sessions" in done.err
    assert "  7k2m9x4q  Why is the build red?\n" in done.err
    assert "  7k2m9b4q  Draw a cat." in done.err


def test_a_name_that_somebody_gave_is_never_found_by_a_part_of_it(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "user-10", "private")
    begin(store, "12345678", "private")
    for typed in ("user-1", "1234567"):
        for arguments in (("show", typed), ("delete", typed, "--yes")):
            done = sessions(*arguments, folder=tmp_path)
            assert (done.code, done.out) == (1, "")
            assert f"there is no session '{typed}'" in done.complaint
    assert len(anyio.run(store.list_sessions)) == 2


def test_last_is_the_newest_session_of_this_folder_and_no_sub_agents(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "old", "old", folder=tmp_path, age=90)
    begin(store, "mine", "mine", folder=tmp_path, age=60)
    begin(store, "mine/1-abc", "of a sub-agent", folder=tmp_path, age=30)
    begin(store, "elsewhere", "elsewhere", folder="/somewhere/else")
    assert sessions("show", "last", folder=tmp_path).out.startswith("session mine · gpt-5 in ")
    # A store of its own has one project's sessions alone.
    own = SqlStore(tmp_path / "own")
    begin(own, "theirs", "theirs", folder="/somewhere/else")
    assert sessions("show", "last", "--store", "own", folder=tmp_path).out.startswith("session theirs · ")


def test_a_session_that_is_called_last_is_meant_by_its_name(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "last", "the one", age=90)
    begin(store, "newer", "the other")
    assert "the one" in sessions("show", "last", folder=tmp_path).out


def test_where_no_session_was_begun_last_says_so(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "theirs", "theirs", folder="/somewhere/else")
    done = sessions("show", "last", folder=tmp_path)
    assert done.complaint == (
        f"hooksdk: no session was begun in {tmp_path} yet. `hooksdk sessions list` shows those of other folders."
    )


# list, of odd stores


def test_the_session_that_was_changed_last_comes_first(store: SqlStore, tmp_path: Path) -> None:
    for number, session_id in enumerate(["new", "old"]):
        store_messages(store, [OPENAI.user("hello")], session_id)
        set_changed(store, session_id, 2e9 - number)
    listed = sessions("list", "--json", folder=tmp_path).json()["sessions"]
    assert [one["id"] for one in listed] == ["new", "old"]


def test_a_store_without_sessions_is_no_problem_and_is_not_made(tmp_path: Path) -> None:
    done = sessions("list", folder=tmp_path)
    assert (done.code, done.out) == (0, f"There are no sessions in {tmp_path}/kept/hooksdk.db.\n")
    assert not (tmp_path / "kept").exists()


def test_a_damaged_session_does_not_keep_the_others_from_being_listed(stored: SqlStore, tmp_path: Path) -> None:
    store_messages(stored, [OPENAI.user("hello")], "other")
    statement = "UPDATE hooksdk_messages SET body = 'no JSON' WHERE position = 0 AND session = :id"
    change(stored, statement, id=session_key("s"))
    for more in ((), ("--sizes",)):
        listed = {one["id"]: one for one in sessions("list", *more, "--json", folder=tmp_path).json()["sessions"]}
        assert listed["s"]["problem"]
        assert (listed["other"]["prompt"], listed["other"]["problem"]) == ("hello", None)
        assert "damaged: hooksdk sessions doctor" in sessions("list", *more, folder=tmp_path).out


@pytest.mark.parametrize("place", ["elsewhere", "postgres"])
def test_a_store_that_is_not_there_is_told(place: str, tmp_path: Path) -> None:
    done = sessions("list", "--store", place, folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert f"there is no folder or database {place}" in done.err


def test_sessions_in_memory_cannot_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('store = "memory"\n')
    done = sessions("list", folder=tmp_path)
    assert done.code == 1
    assert "--store" in done.complaint


# Looking at a session that is held


def test_a_held_session_can_be_looked_at_in_every_way(stored: SqlStore, tmp_path: Path) -> None:
    with held(stored) as process:
        (summary,) = sessions("list", "--json", folder=tmp_path).json()["sessions"]
        assert summary["held_by"].startswith(f"process {process} on ")
        assert f"held by process {process}" in sessions("show", "s", folder=tmp_path).out
        assert len(sessions("results", "s", "--json", folder=tmp_path).json()["results"]) == 3
        assert len(sessions("export", "s", folder=tmp_path).out.splitlines()) == 8


def test_a_held_session_is_neither_trimmed_nor_deleted_and_its_holder_is_named(
    stored: SqlStore, tmp_path: Path
) -> None:
    with held(stored) as process:
        for arguments in (("trim", "s", "r3"), ("restore", "s", "r1"), ("delete", "s", "--yes")):
            done = sessions(*arguments, folder=tmp_path)
            assert (done.code, done.out) == (1, "")
            assert f"held by process {process}" in done.complaint
    assert len(view_of(stored)) == 8


# show


def test_show_tells_roles_calls_and_results_and_what_stands_in_the_place_of_a_trimmed_one(
    stored: SqlStore, tmp_path: Path
) -> None:
    out = sessions("show", "s", folder=tmp_path).out
    assert out.startswith("session s · openai-chat · 8 messages, 3 results, ")
    assert "#0 user\n  question\n" in out
    assert '#1 assistant\n  → read_file {"path": "file1"}\n' in out
    note = "\n  [Result r1 of read_file was trimmed: 1,000 characters."
    assert "#2 result r1 of read_file 1,000 characters, 250 tokens trimmed: in its place the model sees" + note in out
    assert "#4 result r2 of read_file 1,000 characters, 250 tokens trim queued\n  result 2: xxx" in out
    assert "result 1: xxx" not in out


def test_show_full_prints_every_text_whole_and_view_what_the_model_sees(stored: SqlStore, tmp_path: Path) -> None:
    full = sessions("show", "s", "--full", folder=tmp_path).out
    assert all(body(number) in full for number in (1, 2, 3))
    view = sessions("show", "s", "--view", "--full", folder=tmp_path).out
    assert body(1) not in view
    assert body(2) in view


def test_long_texts_are_clipped_and_arguments_fill_one_line(store: SqlStore, tmp_path: Path) -> None:
    long = call(1, name="write")
    long = type(long)(long.id, long.name, {"text": "many\nlines\n" * 100})
    lines = "\n".join(f"line {number}" for number in range(100))
    result: Message = {"role": "tool", "tool_call_id": long.id, "content": lines}
    store_messages(store, [OPENAI.user("x" * 5_000), OPENAI.reply("", [long]), result])
    out = sessions("show", "s", folder=tmp_path).out
    assert "  … 5,000 characters in all: --full\n" in out
    assert max(map(len, out.splitlines())) < 700
    assert "line 7\n" in out
    assert "line 8\n" not in out
    assert len([line for line in out.splitlines() if "→ write" in line]) == 1
    assert "  line 99\n" in sessions("show", "s", "--full", folder=tmp_path).out


def test_a_compacted_session_shows_where_the_model_sees_a_shorter_form(store: SqlStore, tmp_path: Path) -> None:
    async def work() -> None:
        async with Host(store=store) as host, host.session("s") as session, session.run() as run:
            for message in history(OPENAI, [body(1)]):
                await run.record(message)
            async with run.compaction() as compaction:
                await compaction.replace([OPENAI.user("the summary")])
            await run.record(OPENAI.user("go on"))

    anyio.run(work)
    assert "the model sees a shorter form of what stands above" in sessions("show", "s", folder=tmp_path).out
    view = sessions("show", "s", "--view", folder=tmp_path).out
    assert "the summary" in view
    assert "result 1" not in view
    assert "go on" in view


def test_no_control_or_bidi_character_of_a_stored_text_reaches_the_terminal(store: SqlStore, tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;title\x07\u202eevil\u2066\x9b31m"
    made = call(1, name=f"tool{evil}")
    made = type(made)(made.id, made.name, {"path": evil})
    result: Message = {"role": "tool", "tool_call_id": made.id, "content": f"[red]{evil}"}
    store_messages(store, [OPENAI.user(evil), OPENAI.reply(evil, [made]), result], f"id {evil}")
    for arguments in (
        ("list",),
        ("show", f"id {evil}", "--full"),
        ("results", f"id {evil}"),
        ("show", evil),
        ("doctor",),
    ):
        for as_json in ((), ("--json",)):
            done = sessions(*arguments, *as_json, folder=tmp_path)
            assert all(char.isprintable() or char == "\n" for char in done.out + done.err)
    for file_format in ("json", "jsonl"):
        out = sessions("export", f"id {evil}", "--format", file_format, folder=tmp_path).out
        assert all(char.isprintable() or char == "\n" for char in out)
    assert "[red]" in sessions("show", f"id {evil}", folder=tmp_path).out


@pytest.mark.parametrize("name", ["openai-chat", "anthropic"])
def test_every_format_shows_its_calls_results_and_parts_that_are_no_text(
    name: str, store: SqlStore, tmp_path: Path
) -> None:
    form = get_format(name)
    picture: Message = {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "source": {}}]}
    store_messages(store, [picture, *history(form, [body(1)])[1:]], format_name=name)
    out = sessions("show", "s", folder=tmp_path).out
    assert "#0 user\n  see\n  [image]\n" in out
    assert "→ read_file" in out
    assert "#2 result r1 of read_file 1,000 characters" in out


def test_messages_in_a_format_of_the_host_s_own_are_shown_as_they_are_stored(store: SqlStore, tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(store, form=House()) as transcript:
            await transcript.append([OPENAI.user("hello")])

    anyio.run(work)
    out = sessions("show", "s", folder=tmp_path).out
    assert '{"role": "user", "content": "hello"}' in out
    assert "house" in out
    assert "'house', a format that only its host knows" in sessions("trim", "s", "r1", folder=tmp_path).complaint


def test_an_unknown_session_is_answered_with_the_nearest_one(stored: SqlStore, tmp_path: Path) -> None:
    store_messages(stored, [OPENAI.user("hello")], "monday")
    commands = [
        ("show", "monda"),
        ("results", "monda"),
        ("export", "monda"),
        ("trim", "monda", "r1"),
        ("restore", "monda", "r1"),
    ]
    for arguments in (*commands, ("delete", "monda", "--yes"), ("doctor", "monda")):
        done = sessions(*arguments, folder=tmp_path)
        assert (done.code, done.out) == (1, "")
        assert "there is no session 'monda' in" in done.complaint
        assert done.complaint.endswith("Did you mean 'monday'?")
    assert sorted(anyio.run(stored.list_sessions)) == ["monday", "s"]


# results, trim, restore


def test_results_tell_which_can_be_trimmed_and_why_not(stored: SqlStore, tmp_path: Path) -> None:
    rows = sessions("results", "s", folder=tmp_path).out.splitlines()
    assert rows[1].split(maxsplit=5) == ["r1", "read_file", "1,000", "250", "3", "it is trimmed already"]
    assert rows[2].endswith("its trim is queued")
    assert rows[3].endswith("possible")
    results = sessions("results", "s", "--json", folder=tmp_path).json()["results"]
    assert [(one["handle"], one["trimmable"], one["tokens"]) for one in results] == [
        ("r1", False, 250), ("r2", False, 250), ("r3", True, 250),
    ]  # fmt: skip


def test_a_trim_counts_at_once_and_restore_takes_it_back(stored: SqlStore, tmp_path: Path) -> None:
    done = sessions("trim", "s", "r3", "--replacement", "three of them", folder=tmp_path)
    assert done.code == 0
    assert done.out.startswith("r3  trimmed  1,000 to ")
    assert "three of them" in str(view_of(stored)[6])
    done = sessions("restore", "s", "r1", "r3", folder=tmp_path)
    assert (done.code, [line[:15] for line in done.out.splitlines()]) == (0, ["r1  whole again", "r3  whole again"])
    assert [view_of(stored)[at]["content"] for at in (2, 6)] == [body(1), body(3)]
    assert sessions("restore", "s", "r3", folder=tmp_path).out == "r3  was not trimmed\n"


def test_nothing_is_trimmed_when_one_of_the_handles_is_unknown(stored: SqlStore, tmp_path: Path) -> None:
    done = sessions("trim", "s", "r3", "r33", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "r33" in done.err
    assert view_of(stored)[6]["content"] == body(3)


def test_a_result_that_cannot_be_trimmed_makes_the_code_1_and_says_why(store: SqlStore, tmp_path: Path) -> None:
    store_messages(store, history(OPENAI, [body(1), "short"]))
    done = sessions("trim", "s", "r1", "r2", folder=tmp_path)
    assert done.code == 1
    trimmed, refused = done.out.splitlines()
    assert trimmed.startswith("r1  trimmed")
    assert refused == "r2  r2 cannot be trimmed: too short: a trim has to save 100 tokens and 30% of the result"
    document = sessions("trim", "s", "r1", "r2", "--json", folder=tmp_path).json()
    assert [one["status"] for one in document["results"]] == ["already_trimmed", "not_trimmed"]


def test_one_replacement_is_for_one_result(stored: SqlStore, tmp_path: Path) -> None:
    done = sessions("trim", "s", "r1", "r3", "--replacement", "x", folder=tmp_path)
    assert (done.code, view_of(stored)[6]["content"]) == (2, body(3))


# export


@pytest.mark.parametrize("file_format", ["jsonl", "json"])
def test_an_export_holds_the_messages_as_they_are_stored_or_seen(
    file_format: str, stored: SqlStore, tmp_path: Path
) -> None:
    def read(text: str) -> Any:
        return json.loads(text) if file_format == "json" else [json.loads(line) for line in text.splitlines()]

    messages = history(OPENAI, [body(number) for number in (1, 2, 3)])
    assert read(sessions("export", "s", "--format", file_format, folder=tmp_path).out) == messages
    done = sessions("export", "s", "-o", "out", "--view", "--format", file_format, folder=tmp_path)
    assert done.out == "8 messages in out\n"
    seen = read((tmp_path / "out").read_text())
    assert seen[3:] == messages[3:]
    assert seen[2]["content"].startswith("[Result r1")


def test_an_export_does_not_overwrite_a_file(stored: SqlStore, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    done = sessions("export", "s", "-o", "out", folder=tmp_path)
    assert done.code == 1
    assert "is there already" in done.complaint
    assert (tmp_path / "out").read_text() == "mine"


# delete


def test_a_session_is_deleted_and_others_stay(stored: SqlStore, tmp_path: Path) -> None:
    store_messages(stored, [OPENAI.user("hello")], "other")
    done = sessions("delete", "s", "--yes", "--json", folder=tmp_path)
    assert (done.code, done.json()) == (0, {"schema": 1, "deleted": ["s"]})
    assert anyio.run(stored.list_sessions) == ["other"]


def test_nothing_is_deleted_without_an_answer_or_when_one_session_is_unknown(stored: SqlStore, tmp_path: Path) -> None:
    unasked, unknown = sessions("delete", "s", folder=tmp_path), sessions("delete", "s", "t", "--yes", folder=tmp_path)
    assert (unasked.code, unknown.code) == (1, 1)
    assert "--yes" in unasked.complaint
    assert anyio.run(stored.list_sessions) == ["s"]


def test_sessions_that_are_older_are_deleted_and_one_that_is_held_stays(store: SqlStore, tmp_path: Path) -> None:
    begin(store, "old", "old", age=3 * 86_400)
    begin(store, "s", "held", age=3 * 86_400)
    begin(store, "new", "new", age=86_400)
    with held(store):
        done = sessions("delete", "--older", "2d", "--yes", folder=tmp_path)
    assert (done.code, done.out) == (0, "old  deleted\n")
    assert "s  stays: " in done.err
    assert anyio.run(store.list_sessions) == ["new", "s"]
    again = sessions("delete", "--older", "10d", "--json", "--yes", folder=tmp_path)
    assert (again.code, again.json()) == (0, {"schema": 1, "deleted": []})


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "expected either ids or --older DURATION"),
        (("s", "--older", "2d"), "expected either ids or --older DURATION"),
        (("--older", "soon"), "'soon' is no duration"),
    ],
)
def test_what_is_to_be_deleted_is_said_in_one_way(
    words: Sequence[str], problem: str, stored: SqlStore, tmp_path: Path
) -> None:
    assert problem in sessions("delete", *words, "--yes", folder=tmp_path).complaint
    assert anyio.run(stored.list_sessions) == ["s"]


class Asked(io.StringIO):
    """An output that tells when a question has been put."""

    def __init__(self, is_asked: Event) -> None:
        super().__init__()
        self._is_asked = is_asked

    def write(self, text: str) -> int:
        written = super().write(text)
        if "[y/N]" in self.getvalue():
            self._is_asked.set()
        return written


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize(("answer", "rest"), [("y", []), ("n", ["s"]), ("", ["s"])])
def test_a_person_is_asked_before_a_session_is_deleted(
    answer: str, rest: list[str], stored: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hooksdk.cli._sessions.changes import delete_sessions

    ours, theirs = os.openpty()
    with open(theirs) as terminal, ThreadPoolExecutor() as person:
        monkeypatch.setattr(sys, "stdin", terminal)
        is_asked = Event()
        monkeypatch.setattr(sys, "stdout", Asked(is_asked))
        # What is typed before the question is no answer to it.
        person.submit(lambda: is_asked.wait(60) and os.write(ours, f"{answer}\n".encode()))
        with pytest.raises(typer.Exit) as ended:
            delete_sessions(["s"], project=tmp_path, store=str(stored.file))
    os.close(ours)
    assert (anyio.run(stored.list_sessions), ended.value.exit_code) == (rest, 1 if rest else 0)


async def _trim(store: SqlStore) -> None:
    async with opened(store) as transcript:
        await Results(transcript, "p").trim("r3", "third")


def test_a_command_that_trims_applies_what_a_crashed_run_has_queued(stored: SqlStore, tmp_path: Path) -> None:
    anyio.run(_trim, stored)
    sessions("restore", "s", "r1", folder=tmp_path)
    (summary,) = sessions("list", "--sizes", "--json", folder=tmp_path).json()["sessions"]
    assert (summary["trimmed"], summary["queued"]) == (2, 0)
