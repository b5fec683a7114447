"""`hooksdk report`: what is taken for what, where the page goes, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anyio
import pytest
from commands import environment
from reports import STEERING, part, play_runs, read_page, rows, words
from warm import Done, run

from hooksdk import Host, Run
from hooksdk.stores import SqlStore
from hooksdk.stores.copies import export_session

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `trace.jsonl` and `sessions`."""
    folder = tmp_path_factory.mktemp("played")
    anyio.run(play_runs, folder)
    return folder


def report(folder: Path, *arguments: object) -> Done:
    return run(("report", *map(str, arguments)), folder=folder, environment=environment(folder), stdin="")


def test_a_trace_becomes_a_page_of_its_name(played: Path, tmp_path: Path) -> None:
    done = report(tmp_path, played / "trace.jsonl")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("trace.html: 2 runs, 0 messages")
    assert "No session was given" in words(read_page((tmp_path / "trace.html").read_text("utf-8")))


def test_a_session_and_its_trace_become_one_page(played: Path, tmp_path: Path) -> None:
    done = report(
        tmp_path, "test", "--store", played / "sessions", "--trace", played / "trace.jsonl", "-o", "both.html"
    )
    assert done.out.startswith("both.html: 2 runs, 14 messages")
    page = read_page((tmp_path / "both.html").read_text("utf-8"))
    assert "nothing is deleted here" in words(part(part(page, "Run 1"), "Decisions"))


def test_a_session_finds_its_own_trace_and_what_was_asked_is_the_headline(played: Path, tmp_path: Path) -> None:
    trace = (played / "trace.jsonl").read_text("utf-8")
    (tmp_path / "trace.jsonl.1").write_text(trace)  # put aside when the next file was begun
    (tmp_path / "trace.jsonl").write_text(trace.replace('"test"', '"other"'))
    (tmp_path / "hooksdk.toml").write_text('[plugins.trace_file.config]\npath = "trace.jsonl"\n')
    done = report(tmp_path, "last", "--store", played / "sessions")
    assert done.out.startswith("test.html: 2 runs, 14 messages, ")
    assert done.out.endswith(" kB\n")
    page = read_page((tmp_path / "test.html").read_text("utf-8"))
    assert "nothing is deleted here" in words(part(part(page, "Run 1"), "Decisions"))
    document = report(tmp_path, "test", "--store", played / "sessions", "--json").json()
    assert document["title"] == " ".join(document["sessions"][0]["messages"][0]["text"]["shown"].split())
    assert len(document["runs"]) == 2


def test_the_page_says_what_a_session_used_with_its_sub_agents(tmp_path: Path) -> None:
    async def asks(run: Run, tokens: int) -> None:
        await run.record({"role": "user", "content": "Hello"})
        await run.record({"role": "assistant", "content": "a"}, usage={"input_tokens": tokens, "output_tokens": 0})

    async def talk() -> None:
        async with (
            Host(store=SqlStore(tmp_path / "s"), config={"allow": []}) as host,
            host.session("ann") as session,
            session.run(provider="acme", model="small") as run,
            session.child() as child,
            child.run(provider="acme", model="small") as below,
        ):
            await asks(run, 1_000)
            await asks(below, 4_000)

    anyio.run(talk)
    user = tmp_path / "none" / "hooksdk" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[prices]\n"acme:small" = { input = 1000.0, output = 1000.0 }\n')
    assert report(tmp_path, "ann", "--store", tmp_path / "s").code == 0
    session = part(read_page((tmp_path / "ann.html").read_text("utf-8")), "Session ann")
    assert "$1.00" in words(part(session, "What was paid"))
    whole = words(part(session, "With its sub-agents"))
    assert "5,000" in whole
    assert "$5.00" in whole


def test_without_a_trace_of_it_the_page_has_the_session_alone(played: Path, tmp_path: Path) -> None:
    done = report(tmp_path, "test", "--store", played / "sessions")
    assert done.out.startswith("test.html: no trace, 14 messages")


@pytest.mark.parametrize("kind", ["messages", "journal"])
def test_a_sessions_own_file_stands_for_the_session(played: Path, tmp_path: Path, kind: str) -> None:
    files = anyio.run(export_session, SqlStore(played / "sessions"), "test", tmp_path / "files")
    (path,) = [path for path in files if path.name.endswith(f".{kind}.jsonl")]
    done = report(tmp_path, path, "-o", "s.html")
    assert done.code == 0, done.err
    assert "read_file" in words(part(read_page((tmp_path / "s.html").read_text("utf-8")), "Trims"))
    assert sorted((tmp_path / "files").iterdir()) == sorted(files)


def test_a_file_of_messages_is_shown_as_a_session(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text(json.dumps([{"role": "user", "content": "Hello there"}]))
    assert report(tmp_path, "talk.json").out.startswith("talk.html: no trace, 1 message, ")
    assert "Hello there" in (tmp_path / "talk.html").read_text("utf-8")


def test_the_page_goes_to_stdout(played: Path, tmp_path: Path) -> None:
    done = report(tmp_path, played / "trace.jsonl", "-o", "-")
    assert done.out.startswith("<!doctype html>")
    assert list(tmp_path.glob("*.html")) == []


def test_json_prints_what_the_page_holds(played: Path, tmp_path: Path) -> None:
    document = report(
        tmp_path, "test", "--store", played / "sessions", "--trace", played / "trace.jsonl", "--json"
    ).json()
    assert document["schema"] == 1
    assert [run["calls"] for run in document["runs"]] == [7, 1]
    assert document["sessions"][0]["trims"][0]["reason"] == "it is long"


def test_one_run_of_a_trace_is_shown_alone(played: Path, tmp_path: Path) -> None:
    ids = [one["run_id"] for one in report(tmp_path, played / "trace.jsonl", "--json").json()["runs"]]
    done = report(tmp_path, played / "trace.jsonl", "--run", ids[1], "--json")
    assert [one["run_id"] for one in done.json()["runs"]] == [ids[1]]
    wrong = report(tmp_path, played / "trace.jsonl", "--run", ids[1][:-1])
    assert wrong.code == 1
    assert f"Did you mean '{ids[1]}'" in wrong.complaint


def test_records_of_other_sessions_are_left_out_and_those_of_sub_agents_stay(played: Path, tmp_path: Path) -> None:
    head = {"schema": 1, "time": 1.0, "attempt": 1, "agent_id": "main"}
    others = [
        {**head, "kind": "session_started", "session_id": "child", "run_id": "", "resumed": False, "parent": "test"},
        {**head, "kind": "run_started", "session_id": "child", "run_id": "run-c", "trigger": "subagent", "model": None},
        {**head, "kind": "run_started", "session_id": "stranger", "run_id": "run-s", "trigger": "user", "model": None},
    ]
    trace = (played / "trace.jsonl").read_text() + "".join(json.dumps(one) + "\n" for one in others)
    (tmp_path / "trace.jsonl").write_text(trace)
    done = report(tmp_path, "test", "--store", played / "sessions", "--trace", "trace.jsonl", "-o", "-")
    assert sorted(row[1] for row in rows(part(read_page(done.out), "Runs"))) == ["child", "test", "test"]


def test_torn_lines_and_lost_records_are_told(played: Path, tmp_path: Path) -> None:
    lost = {"schema": 1, "time": 1.0, "kind": "records_lost", "records": 12}
    text = (played / "trace.jsonl").read_text() + '{"kind": "hoo\n' + json.dumps(lost) + "\n"
    (tmp_path / "trace.jsonl").write_text(text)
    page = words(read_page(report(tmp_path, "trace.jsonl", "-o", "-").out))
    assert "1 line of it could not be read; 12 records were lost when it was written" in page


def test_a_report_is_written_anew_and_another_file_is_not_overwritten(played: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("<p>my notes")
    refused = report(tmp_path, played / "trace.jsonl", "-o", "notes.html")
    assert refused.code == 1
    assert "notes.html is there already and is no report" in refused.complaint
    assert (tmp_path / "notes.html").read_text() == "<p>my notes"
    for _ in range(2):
        assert report(tmp_path, played / "trace.jsonl", "-o", "mine.html").code == 0


def test_only_its_owner_can_read_a_new_page(played: Path, tmp_path: Path) -> None:
    report(tmp_path, played / "trace.jsonl")
    assert (tmp_path / "trace.html").stat().st_mode & 0o077 == 0


def test_what_is_neither_file_nor_session_is_told_with_the_nearest(played: Path, tmp_path: Path) -> None:
    done = report(tmp_path, "tset", "--store", played / "sessions")
    assert done.code == 1
    assert "there is no session 'tset'" in done.complaint
    assert "Did you mean 'test'" in done.complaint
    folder = report(tmp_path, played)
    assert "is a folder: name a file in it" in folder.complaint


def test_a_file_of_something_else_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("dear diary\n")
    done = report(tmp_path, "a.txt")
    assert done.code == 1
    assert "a.txt is no trace: none of its 1 lines is a record" in done.complaint
    assert "Give a file of trace_file, a session's id, or a history" in done.complaint
    (tmp_path / "empty.jsonl").write_text("")
    assert "it is empty" in report(tmp_path, "empty.jsonl").complaint


def test_a_trace_is_not_given_twice(played: Path, tmp_path: Path) -> None:
    done = report(tmp_path, played / "trace.jsonl", "--trace", played / "trace.jsonl")
    assert done.code == 1
    assert "With --trace the first argument is a session" in done.complaint


@pytest.mark.parametrize("extra", [("-o", "x.html"), ("--open",)])
def test_json_goes_with_no_page(played: Path, tmp_path: Path, extra: tuple[str, ...]) -> None:
    done = report(tmp_path, played / "trace.jsonl", "--json", *extra)
    assert done.code == 2
    assert list(tmp_path.glob("*.html")) == []


def test_json_of_steering_text_cannot_steer_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "talk.json").write_text(json.dumps([{"role": "user", "content": STEERING}]))
    done = report(tmp_path, "talk.json", "--json")
    assert done.json()["sessions"][0]["messages"][0]["text"]["shown"] == STEERING.replace(
        "\ud800", "\ufffd"
    )  # no reader keeps half a pair
    assert all(char.isprintable() or char == "\n" for char in done.out)


def test_a_damaged_session_is_told_with_the_cure(played: Path, tmp_path: Path) -> None:
    _, journal = anyio.run(export_session, SqlStore(played / "sessions"), "test", tmp_path / "sessions")
    with journal.open("a") as file:
        file.write('{"kind": "trim", "m": 3}\n')
    for source in ((journal,), ("test", "--store", journal.parent)):
        done = report(tmp_path, *source)
        assert done.code == 1
        assert "hooksdk sessions doctor" in done.complaint


def test_the_page_is_opened_in_the_browser_that_the_user_has_set(played: Path, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    with_browser = {**environment(tmp_path), "BROWSER": f"{browser} %s"}
    done = run(("report", str(played / "trace.jsonl"), "--open"), folder=tmp_path, environment=with_browser)
    assert done.code == 0, done.err
    assert (tmp_path / "opened").read_text().strip() == (tmp_path / "trace.html").as_uri()


def test_what_was_paid_stands_on_the_page_by_the_user_s_own_prices(tmp_path: Path) -> None:
    anyio.run(play_runs, tmp_path)
    user = tmp_path / "none" / "hooksdk" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text('[prices."acme:scripted"]\ninput = 1000.0\noutput = 0.0\n')
    both = ("test", "--store", tmp_path / "sessions", "--trace", tmp_path / "trace.jsonl")
    report(tmp_path, *both, "-o", "both.html")
    page = read_page((tmp_path / "both.html").read_text("utf-8"))
    paid = part(page, "What was paid")
    ((model, requests, prompts, *_, dollars, bare),) = rows(paid)
    assert (model, requests, dollars) == ("scripted", "4", bare)
    assert dollars == f"${int(prompts.replace(',', '')) / 1_000:,.2f}"
    assert "prices: [prices]." in words(paid)
    assert re.search(r"in money \$[\d.]+ by \[prices\]", words(part(part(page, "Run 1"), "Cost")))
