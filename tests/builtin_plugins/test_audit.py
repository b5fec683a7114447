"""The plugin `audit`: what it writes, several writers, crashes, files that are put aside, and a disk that is full."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import stat
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from builtin_plugins.audit import Audit
from builtin_plugins.audit._recorder import Recorder, StoreChain
from builtin_plugins.audit._writer import FileChain
from hooksdk import Approval, ApprovalRequest, Host, MemoryStore, ToolCall, hooks
from hooksdk.approvals import digest_of
from hooksdk.audit import (
    Head,
    Report,
    StoredValues,
    file_source,
    load_key,
    public_text,
    read_public_key,
    read_records,
    read_store,
    verify,
)
from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.hooks import Ask, BeforeToolCall, Block
from hooksdk.transcript import Store
from tests.builtin_plugins.chains import KEY, OTHER_KEY, append_from, kinds, write
from tests.stage import make, reply

pytestmark = pytest.mark.anyio


class Judges:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | Ask | None:
        path = event.arguments.get("path")
        return Block("no") if path == "no" else Ask("May it?", rule="paths") if path == "ask" else None


async def ann(request: ApprovalRequest) -> Approval:
    return Approval(True, by="ann")


def a_host(
    *plugins: Any, store: Store | None = None, record_first: bool = False, approver: Any = ann, **config: Any
) -> Host:
    settings = {"allow": ["audit"], "plugins": {"audit": {"config": config}}}
    return Host(plugins, store=store or MemoryStore(), config=settings, approver=approver, record_first=record_first)


async def play(host: Host, *paths: str, session_id: str = "s") -> list[str]:
    """One run with a call for each of these paths; answers what the model reads."""
    async with host.session(session_id) as session, session.run() as run:
        await run.resolve_tools([make(), make("act")])
        texts: list[str] = []
        for number, path in enumerate(paths):
            call = ToolCall(f"c{number}", "act" if path == "act" else "read_file", {"path": path})
            await run.record(reply(call))
            texts.append((await run.call_tool(call)).text)
        return texts


def checked(home: Path) -> Report:
    return verify([file_source(home / "audit" / "audit.jsonl")], read_public_key(str(home / "audit" / "key.pub")))


def records(path: Path, kind: str) -> list[Mapping[str, Any]]:
    return [record.fields for record in read_records(path) if record.kind == kind]


# What it writes


async def test_decisions_answers_and_ends_of_a_run_are_a_whole_chain_in_the_users_state_folder(home: Path) -> None:
    async with a_host(Judges) as host:
        await play(host, "a", "no", "ask")
    path = home / "audit" / "audit.jsonl"
    assert checked(home).damage is None
    assert {
        "run_started",
        "decision",
        "approval_asked",
        "approval_answered",
        "call_let_through",
        "call_finished",
        "run_ended",
    } <= set(kinds(path))
    assert [one["decision"] for one in records(path, "decision")] == ["Block", "Ask"]
    assert [one["status"] for one in records(path, "call_finished")] == ["ok", "blocked", "ok"]


async def test_a_call_is_recorded_with_who_judged_it_what_was_asked_and_who_said_yes(home: Path) -> None:
    async with a_host(Judges) as host:
        await play(host, "ask")
    (call,) = records(home / "audit" / "audit.jsonl", "call_let_through")
    assert (call["name"], call["judged_by"], call["approved_by"]) == ("read_file", ["judges"], "ann")
    assert [(one["plugin"], one["rule"]) for one in call["granted"]] == [("judges", "paths")]
    assert call["arguments_sha256"] == digest_of({"path": "ask"})
    (end,) = records(home / "audit" / "audit.jsonl", "call_finished")
    assert (end["effect_id"], end["arguments_sha256"]) == (call["effect_id"], call["arguments_sha256"])


@pytest.mark.parametrize("arguments", [False, True])
async def test_arguments_and_titles_are_digests_unless_they_are_asked_for(home: Path, *, arguments: bool) -> None:
    async with a_host(Judges, arguments=arguments) as host:
        await play(host, "ask", "hunter2")
    text = (home / "audit" / "audit.jsonl").read_text()
    assert ("hunter2" in text, "May it?" in text) == (arguments, arguments)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"path": "hunter2"}, {"path": "hunter2"}),
        ('{"path": "hunter2"}', {"path": "hunter2"}),
        ('{"path": "hunter2', '{"path": "hunter2'),
        ("[]", "[]"),
        (None, {}),
        ({}, {}),
    ],
)
async def test_the_digest_of_a_call_to_an_unknown_tool_is_that_of_what_it_was_called_with(
    home: Path, given: Any, meant: Any
) -> None:
    async with a_host() as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make()])
        for number, name in enumerate(("invented", "read_file")):
            call = ToolCall(f"c{number}", name, given)
            await run.record(reply(call))
            await run.call_tool(call)
    ends = records(home / "audit" / "audit.jsonl", "call_finished")
    assert [one["arguments_sha256"] for one in ends] == [digest_of(meant)] * 2


@pytest.mark.parametrize("arguments", [False, True])
async def test_an_invented_name_brings_neither_secrets_nor_long_text_into_the_chain(
    home: Path, *, arguments: bool
) -> None:
    name = "sk-live-hunter2" + "x" * 5_000
    async with a_host(arguments=arguments) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make()])
        call = ToolCall("c1", name, {})
        await run.record(reply(call))
        await run.call_tool(call)
    path = home / "audit" / "audit.jsonl"
    (end,) = records(path, "call_finished")
    assert (end["status"], end["name_sha256"]) == ("unknown", digest_of(name))
    assert ("hunter2" in path.read_text(), "x" * 200 in path.read_text()) == (arguments, False)


async def test_a_call_in_doubt_that_is_settled_is_recorded(home: Path) -> None:
    async with a_host() as host, host.session("s") as session:
        async with session.run() as run:
            await run.resolve_tools([make("act")])
            call = ToolCall("c1", "act", {})
            await run.record(reply(call))
            judged = await run.judge(call)
            await judged.begin()
        await session.settle("c1", "it was done")
    path = home / "audit" / "audit.jsonl"
    assert [one["in_doubt"] for one in records(path, "call_finished")] == [True]
    assert [one["effect_id"] for one in records(path, "settled")] == [
        one["effect_id"] for one in records(path, "call_let_through")
    ]


async def test_the_chain_goes_on_in_the_next_process(home: Path) -> None:
    for _ in range(2):
        async with a_host() as host:
            await play(host, "a")
    assert checked(home).damage is None
    assert kinds(home / "audit" / "audit.jsonl").count("chain_begun") == 1


@pytest.mark.both_loops
async def test_a_chain_in_the_store_is_verified_there(store: Store, home: Path) -> None:
    async with a_host(Judges, store=store, to="store", record_first=True) as host:
        await play(host, "a", "no")
    source = await read_store(store, "store")
    report = verify([source], read_public_key(str(home / "audit" / "key.pub")))
    assert (report.damage, report.first) == (None, 1)
    assert report.records == 9


async def test_two_writers_of_one_store_take_turns() -> None:
    values = StoredValues(store := MemoryStore())
    one, two = StoreChain(KEY), StoreChain(KEY)
    for chain in (one, two, two, one, one, two):
        await chain.append(values, {"kind": "decision"})
    report = verify([await read_store(store, "store")], KEY.public_key())
    assert (report.damage, report.records) == (None, 7)


async def test_a_chain_is_not_gone_on_with_by_another_key(tmp_path: Path) -> None:
    values = StoredValues(MemoryStore())
    await StoreChain(KEY).append(values, {"kind": "decision"})
    with pytest.raises(OSError, match="begun with another key"):
        await StoreChain(OTHER_KEY).append(values, {"kind": "decision"})
    write(tmp_path)
    with pytest.raises(OSError, match="begun with another key"):
        write(tmp_path, key=OTHER_KEY)


# The key


async def test_the_key_is_made_once_for_its_user_alone_and_its_public_half_is_logged(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        async with a_host() as host:
            await play(host)
    path = home / "audit" / "key.pem"
    public = public_text(load_key(path)[0].public_key())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert caplog.text.count(public) == 1
    assert Audit.public_key(Audit.Config()) == public


async def test_a_key_that_others_can_read_is_refused(home: Path) -> None:
    load_key(home / "audit" / "key.pem")
    (home / "audit" / "key.pem").chmod(0o640)
    with pytest.raises(PluginRefused, match="others can read this key"):
        async with a_host():
            pass


def test_processes_that_make_the_key_at_once_have_one(tmp_path: Path) -> None:
    keys = [load_key(tmp_path / "key.pem")[0] for _ in range(3)]
    assert len({public_text(key.public_key()) for key in keys}) == 1
    with pytest.raises(ConfigError, match="there is no key"):
        load_key(tmp_path / "none.pem", make=False)


# Several writers


@pytest.mark.heavy
def test_several_processes_and_threads_write_one_chain_across_files(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_from, args=(path, f"p{n}", 40)) for n in range(2)]
    threads = [threading.Thread(target=append_from, args=(path, f"t{n}", 40)) for n in range(2)]
    for one in (*processes, *threads):
        one.start()
    for one in (*processes, *threads):
        one.join()
    files = Audit.files(Audit.Config(path=str(path)))
    report = verify([file_source(one) for one in files], KEY.public_key())
    decisions = sum(kinds(one).count("decision") for one in files)
    assert (report.damage, decisions, len(files) > 5) == (None, 160, True)


# Crashes


@pytest.mark.parametrize("size", [1, 40, -1, -2])
def test_a_line_that_a_crash_left_unfinished_is_marked_and_the_chain_stays_whole(tmp_path: Path, size: int) -> None:
    written = write(tmp_path)
    whole = written.path.read_bytes()
    last = written.lines()[-1]
    written.path.write_bytes(whole[: -len(last) - 1] + last[:size])
    assert "did not finish" in written.check().notes[0]
    written = write(tmp_path, 2)
    report = written.check()
    assert (report.damage, kinds(written.path).count("line_torn")) == (None, 1)
    assert "did not finish" in report.notes[0]
    written.put([line for line in written.lines() if line.startswith(b'{"n"') and line.endswith(b'"}')])
    assert written.check().damage is not None  # the unfinished line is not to be taken out of it


def test_a_record_of_which_the_end_of_the_line_alone_is_missing_counts(tmp_path: Path) -> None:
    written = write(tmp_path)
    written.path.write_bytes(written.path.read_bytes()[:-1])
    assert written.check().records == 6
    report = write(tmp_path, 1).check()
    assert (report.damage, report.records, report.notes) == (None, 7, [])


def test_a_chain_whose_very_first_line_was_not_finished_begins_again(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_bytes(b'{"n":1,"prev"')
    assert write(tmp_path).check().records == 6


def test_a_file_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_text("my\nnotes\n")
    with pytest.raises(OSError, match="holds no chain"):
        write(tmp_path)
    assert (tmp_path / "audit.jsonl").read_text() == "my\nnotes\n"


def test_whoever_cuts_a_chain_while_it_is_written_is_found_without_a_head(tmp_path: Path) -> None:
    chain = FileChain(tmp_path / "audit.jsonl", KEY)
    for _ in range(3):
        chain.append({"kind": "decision"})
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "audit.jsonl").write_bytes(b"".join(lines[:2]))
    chain.append({"kind": "decision"})
    chain.close()
    damage = verify([file_source(tmp_path / "audit.jsonl")], KEY.public_key()).damage
    assert damage is not None
    assert (damage.kind, damage.record) == ("left_out", 3)


# Files that are put aside


def test_the_chain_goes_on_across_files(tmp_path: Path) -> None:
    written = write(tmp_path, 5, max_bytes=800)
    assert [kinds(one)[0] for one in written.files] == ["chain_begun", "file_begun", "file_begun"]
    assert written.check().damage is None


def test_what_keep_removes_is_removed_on_purpose_by_the_chains_own_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr("builtin_plugins.audit._writer.time.time", lambda: now[0])
    chain = FileChain(tmp_path / "audit.jsonl", KEY, keep_days=3)
    for _ in range(6):
        chain.append({"kind": "decision"})
        now[0] += 86_400
    chain.close()
    files = Audit.files(Audit.Config(path=str(tmp_path / "audit.jsonl")))
    assert [one.name for one in files] == ["audit.00003.jsonl", "audit.00004.jsonl", "audit.00005.jsonl", "audit.jsonl"]
    sources = [file_source(one) for one in files]
    report = verify(sources, KEY.public_key())
    assert report.damage is None
    assert "`keep` removed them" in report.notes[0]
    damage = verify(sources[1:], KEY.public_key()).damage
    assert damage is not None
    assert damage.kind == "left_out"


def test_a_writer_that_died_while_it_removed_files_leaves_a_whole_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write(tmp_path, 4, max_bytes=400)
    later = time.time() + 5 * 86_400
    monkeypatch.setattr("builtin_plugins.audit._writer.time.time", lambda: later)
    aside = {one: one.read_bytes() for one in written.files[:-1]}
    chain = FileChain(written.path, KEY, keep_days=3)
    chain.start()
    chain.close()
    assert not any(one.exists() for one in aside)
    *_, newest = aside
    newest.write_bytes(aside[newest])
    assert written.check().damage is None
    newest.write_bytes(aside[newest].replace(b'"call_id":"c2"', b'"call_id":"c9"'))
    damage = written.check().damage
    assert damage is not None
    assert damage.kind == "changed"


# What goes wrong


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_record_that_cannot_be_written_is_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = FileChain(tmp_path / "audit.jsonl", KEY)
    chain.append({"kind": "decision"})
    write_some, full = os.write, [True]

    def write_half(fd: int, data: Any) -> int:
        if full[0] and len(data) > 100:
            write_some(fd, bytes(data)[:50])
            raise OSError(28, "No space left on device")
        return write_some(fd, data)

    monkeypatch.setattr("builtin_plugins.audit._writer.os.write", write_half)
    with pytest.raises(OSError, match="No space"):
        chain.append({"kind": "decision"})
    full[0] = False
    chain.append({"kind": "decision"})
    chain.close()
    report = verify([file_source(tmp_path / "audit.jsonl")], KEY.public_key())
    assert (report.damage, report.records, report.notes) == (None, 3, [])


@pytest.mark.both_loops
@pytest.mark.parametrize("record_first", [False, True])
async def test_a_disk_that_fails_holds_calls_back_where_the_host_records_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, home: Path, *, record_first: bool
) -> None:
    async with a_host(record_first=record_first) as host:
        append = FileChain.append

        def fail(self: FileChain, fields: Mapping[str, Any], *, durable: bool = False) -> Head:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(FileChain, "append", fail)
        (text,) = await play(host, "a")
        assert text.startswith("'read_file' was not run" if record_first else "ran with")
        monkeypatch.setattr(FileChain, "append", append)
        (text,) = await play(host, "a", session_id="t")
        assert text.startswith("ran with")
    assert checked(home).damage is None
    assert records(home / "audit" / "audit.jsonl", "records_lost")
    assert "No space left" in caplog.text


@pytest.mark.both_loops
async def test_records_that_are_lost_are_told_once_however_many_write_at_once(tmp_path: Path) -> None:
    path, values = tmp_path / "audit.jsonl", StoredValues(MemoryStore())
    recorder = Recorder(FileChain(path, KEY))
    path.mkdir()
    for _ in range(3):
        with pytest.raises(OSError, match="audit cannot write"):
            await recorder.append(values, {"kind": "decision"})
    path.rmdir()
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(recorder.append, values, {"kind": "decision"})
    assert [record.fields["records"] for record in read_records(path) if record.kind == "records_lost"] == [3]
    assert kinds(path).count("decision") == 5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"head_url": "http://example.org/heads"}, "must begin with https://"),
        ({"to": "store", "keep": 3}, "path and keep are for files"),
        ({"keep": 0}, "greater than or equal to 1"),
    ],
)
def test_a_wrong_setting_is_refused_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        a_host(**settings)


def test_a_project_says_nothing_of_the_chain_before_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.audit.config]\npath = '/dev/null'\narguments = true\n")
    host = Host(folder=tmp_path, config={"allow": ["audit"]})
    config = next(one.config for one in host.plugins if one.id == "audit")
    assert (config.path, config.arguments) == (None, False)


# Heads that are sent elsewhere


class Receiver(BaseHTTPRequestHandler):
    heads: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.heads.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has
        pass


@pytest.mark.heavy
async def test_heads_are_sent_where_they_are_kept_elsewhere(home: Path) -> None:
    Receiver.heads = []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        async with a_host(head_url=f"http://127.0.0.1:{server.server_port}/") as host:
            await play(host, "a")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    head = Head.of(Receiver.heads[-1]["head"])
    path = home / "audit" / "audit.jsonl"
    key = read_public_key(Receiver.heads[-1]["key"])
    assert verify([file_source(path)], key, [head]).damage is None
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    damage = verify([file_source(path)], key, [head]).damage
    assert damage is not None
    assert damage.kind == "cut"


async def test_a_receiver_that_is_not_there_hurts_no_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hooksdk"):
        async with a_host(head_url="http://127.0.0.1:9/") as host:
            assert (await play(host, "a"))[0].startswith("ran with")
    assert "the head could not be sent to 127.0.0.1" in caplog.text
