"""`hooksdk audit`: verifying, showing and exporting a chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, Host, ToolCall, hooks
from hooksdk.audit import load_key, public_text, read_records
from hooksdk.cli._app import run
from hooksdk.hooks import Ask, BeforeToolCall
from hooksdk.stores import SqlStore
from hooksdk.stores.copies import export_session, import_session, read_old_session
from tests.builtin_plugins.chains import KEY, Written, write
from tests.stage import make, reply

PUB = public_text(KEY.public_key())
pytestmark = pytest.mark.heavy


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return write(tmp_path, 4, max_bytes=800)


def verify(*arguments: object, key: str = PUB) -> int:
    return run(["audit", "verify", *map(str, arguments), "--key", key])


def test_a_whole_chain_is_verified_with_the_files_that_were_put_aside(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(written.files) > 1
    assert verify(written.path) == 0
    out = capsys.readouterr().out
    assert out.startswith("whole    6 records, each as it was signed\n")
    assert f"head     {written.heads[-1]}" in out
    assert "without --head a cut end" in out


def test_the_first_record_that_is_wrong_is_named_and_the_code_is_1(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    first = written.files[0]
    first.write_bytes(first.read_bytes().replace(b'"call_id":"c1"', b'"call_id":"c9"'))
    assert verify(written.path) == 1
    assert capsys.readouterr().out.startswith(f"changed  record 3: {first}, line 3 is not as it was signed")
    assert verify(written.path, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["whole"], document["damage"]["kind"], document["damage"]["record"]) == (False, "changed", 3)


def test_a_cut_end_is_seen_against_a_head(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    written.put(written.lines()[:-1])
    assert verify(written.path) == 0
    assert verify(written.path, "--head", written.heads[-1]) == 1
    assert "cut off  record 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.jsonl", "--key", PUB], "there is no file nowhere.jsonl"),
        (["~nobody-here/audit.jsonl", "--key", PUB], "there is no file ~nobody-here/audit.jsonl"),
        (["FILE", "--key", "mine"], "is neither a key"),
        (["FILE", "--key", "~nobody-here/key.pub"], "is neither a key"),
        (["FILE", "--key", "ed25519:AAAA"], "is no public key"),
        (["FILE", "--key", PUB, "--head", "7"], "is no head: expected NUMBER:HASH"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(
    written: Written, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["audit", "verify", *(str(written.path) if one == "FILE" else one for one in arguments)])
    assert code in {1, 3}
    assert words in capsys.readouterr().err


def test_a_private_key_that_is_given_for_the_public_one_is_not_printed(
    written: Written, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = tmp_path / "key.pem"
    load_key(private)
    assert verify(written.path, key=str(private)) == 3
    said = capsys.readouterr().err
    assert "this is a private key" in said
    assert not any(line in said for line in private.read_text().splitlines())


def test_the_head_of_a_chain_and_the_key_of_the_configuration(
    written: Written, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", "head", str(written.path)]) == 0
    assert capsys.readouterr().out == f"{written.heads[-1]}\n"
    assert run(["audit", "key"]) == 3
    assert "there is no key" in capsys.readouterr().err
    assert run(["audit", "head"]) == 1
    assert "there is no chain here yet" in capsys.readouterr().err


def test_records_are_shown_and_chosen(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "show", str(written.path), "--call", "c1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2
    assert shown[1].split()[0] == "3"
    assert run(["audit", "show", str(written.path), "--kind", "decision", "--last", "2", "--json"]) == 0
    assert [one["call_id"] for one in json.loads(capsys.readouterr().out)["records"]] == ["c2", "c3"]


def test_an_export_is_in_the_form_of_cloud_events_and_holds_the_chain_itself(written: Written, tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    assert run(["audit", "export", str(written.path), "-o", str(out)]) == 0
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert {"specversion", "id", "source", "type", "time", "datacontenttype", "data"} <= events[0].keys()
    assert all(name.isalnum() and name.islower() for event in events for name in event)  # as the specification asks
    assert [event["subject"] for event in events if event["type"] == "hooksdk.audit.decision"] == ["s"] * 4
    lines = [event["signedline"] for event in events]
    starts = [
        at
        for at, event in enumerate(events)
        if event["type"] in {"hooksdk.audit.chain_begun", "hooksdk.audit.file_begun"}
    ]
    files: list[Path] = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        files.append(tmp_path / f"again-{start}.jsonl")
        files[-1].write_text("".join(f"{line}\n" for line in lines[start:stop]))
    assert verify(*files) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_export_to_a_full_disk_is_one_clear_line(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "export", str(written.path), "-o", "/dev/full"]) == 1
    assert "the output cannot be read or written: No space left" in capsys.readouterr().err


def test_one_batch_is_one_document(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", "export", str(written.path), "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["1", "2", "3", "4", "5", "6"]


# A session beside its chain


class AsksForOne:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask | None:
        return Ask("May it?") if event.arguments.get("path") == "a" else None


POLICY = """
from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block

@hooks.before_tool_call
def judge(event: BeforeToolCall) -> Block | None:
    return Block("not a") if event.arguments["path"] == "a" else None
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose session `s` has two calls, with its chain; a third one began and was left."""
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "hooksdk.toml").write_text("[plugins.audit]\n")

    async def approver(request: ApprovalRequest) -> Approval:
        return Approval(True, by="ann")

    async def play() -> None:
        store = SqlStore(tmp_path / "sessions")
        host = Host([AsksForOne], store=store, folder=tmp_path, approver=approver)
        async with host, host.session("s") as session, session.run("go") as run:
            await run.resolve_tools([make()])
            await run.record({"role": "user", "content": "go"})
            calls = [ToolCall(f"c{n}", "read_file", {"path": path}) for n, path in enumerate("abc")]
            await run.record(reply(*calls))
            for call in calls[:2]:
                await run.call_tool(call)
            await (await run.judge(calls[2])).begin()

    anyio.run(play)
    return tmp_path


def replay(project: Path, home: Path, *more: str) -> int:
    chain = home / "audit" / "audit.jsonl"
    where = ["--store", str(project / "sessions"), "--project", str(project)]
    return run(["replay", str(chain), "--plugin", str(project / "mine.py"), *where, *more])


def test_a_replay_runs_from_a_chain_with_the_session_beside_it(
    project: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(project, home) == 0
    out = capsys.readouterr().out
    assert "ok, yes by ann" in out
    assert "2 allowed" in out
    assert "1 blocked" in out
    assert replay(project, home, "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [call["chain"]["status"] for call in document["calls"]] == ["ok", "ok", "error"]
    assert document["chain"] == []


def test_a_session_that_was_changed_does_not_fit_its_chain(
    project: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def tell_otherwise() -> None:
        store = SqlStore(project / "sessions")
        messages, journal = await export_session(store, "s", project / "files")
        changed = messages.read_text().replace('path\\":\\"b', 'path\\":\\"z').replace('path\\": \\"b', 'path\\": \\"z')
        messages.write_text(changed)
        await store.delete_session("s")
        await import_session(store, read_old_session(journal))
        await store.aclose()

    anyio.run(tell_otherwise)
    assert replay(project, home) == 1
    assert "call 2 (read_file): the session has other arguments than those that ran" in capsys.readouterr().out


def test_a_chain_of_several_sessions_asks_which_one(
    project: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(project, home, "--session", "t") == 1
    assert "tells of no call of session 't'" in capsys.readouterr().err


def test_a_doubt_that_the_command_settles_is_recorded(project: Path, home: Path) -> None:
    where = ["--store", str(project / "sessions"), "--project", str(project)]
    assert run(["sessions", "settle", "s", "c2", "it was done", *where]) == 0
    last = list(read_records(home / "audit" / "audit.jsonl"))[-1]
    assert (last.kind, last.fields["call_id"], last.fields["by"]) == ("settled", "c2", "hooksdk sessions settle")
    assert verify(home / "audit" / "audit.jsonl", key=str(home / "audit" / "key.pub")) == 0


@pytest.mark.parametrize(
    ("command", "records"),
    [
        (["tools", "list"], False),
        (["policy", "check", "read_file", "path=a"], False),
        (["replay", "SESSION", "--all"], False),
        (["tools", "call", "greet", "name=Ada"], True),
    ],
)
def test_only_a_call_that_really_runs_is_recorded(
    tmp_path: Path, home: Path, command: list[str], *, records: bool
) -> None:
    (tmp_path / "hooksdk.toml").write_text("record_first = true\n[plugins.audit]\n")
    (tmp_path / "greets.py").write_text(GREETS)
    (tmp_path / "talk.json").write_text(
        json.dumps([{"role": "user", "content": "go"}, reply(ToolCall("c1", "greet", {"name": "Ada"}))])
    )
    words = [str(tmp_path / "talk.json") if word == "SESSION" else word for word in command]
    plugin = ["--plugin", str(tmp_path / "greets.py")]
    assert run([*words, *plugin, "--project", str(tmp_path)]) == 0
    chain = home / "audit" / "audit.jsonl"
    names = (
        [record.fields["name"] for record in read_records(chain) if record.kind == "call_let_through"]
        if chain.exists()
        else []
    )
    assert names == (["greet"] if records else [])


GREETS = """
from hooksdk import tool

@tool
def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello {name}"
"""
