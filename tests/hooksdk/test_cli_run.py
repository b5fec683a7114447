"""`hooksdk run`: a real client of a scripted provider, real MCP servers, and every way in which a run may end."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")
pytest.importorskip("openai", reason="needs the extra `openai`")
pytest.importorskip("anthropic", reason="needs the extra `anthropic`")

from commands import COMMAND, Done, environment, hooksdk, install_plugin, write_servers
from mcp_servers import alive, script, until
from warm import CAN_FORK, start

from hooksdk.cli._app import run
from hooksdk.testing import Reply, Turn, call
from hooksdk.testing.server import ScriptedServer, refuse

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
MODEL = ("--model", "openai:any")
ASK = """
[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "mcp:plain:add"
title = "Add these?"
"""


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


Here = Callable[..., Done]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """The command in this process, for what ends before the model is asked: without a key, and with nothing to read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)

    def run_here(*arguments: str) -> Done:
        code = run(["run", *arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run_here


def add_up(turn: Turn) -> Any:
    """Asks for one sum, and tells what came back."""
    return call("add", a=2, b=3) if not turn.results else f"The answer is {turn.result.text}."


# What it prints, and where


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
async def test_the_answer_goes_to_stdout_and_everything_else_to_stderr(provider: str, tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(add_up) as server:
        done = await hooksdk(
            "run", "--model", f"{provider}:any", "--mcp", servers, "Add 2 and 3.", folder=tmp_path, server=server
        )
    assert (done.code, done.out) == (0, "The answer is 5.\n")
    assert "servers     6 tools (plain 6) after" in done.err
    assert "policies    no handler judges tool calls" in done.err
    assert "you         Add 2 and 3.\n" in done.err
    assert "turn 1   add\n         a=2, b=3\n         ✓ ok, " in done.err
    assert done.complaint.startswith("run         2 turns, 1 call; ")
    assert re.search(
        r"; \d+ tokens of schemas; the model used \d+ tokens, 0 % of its prompts from the cache; session \w+$",
        done.complaint,
    )


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
async def test_the_last_line_says_what_was_paid_and_of_which_day_the_price_is(provider: str, tmp_path: Path) -> None:
    async with ScriptedServer(["Fine.", "Still fine."]) as server:
        model = ["--model", f"{provider}:gpt-5"]
        done = await hooksdk("run", *model, "How are you?", folder=tmp_path, server=server)
        told = await hooksdk("run", *model, "--continue", "--json", "And now?", folder=tmp_path, server=server)
    price = r"\$0\.\d{4} by genai-prices [\d.]+ of 20\d\d-\d\d-\d\d"
    assert re.search(rf" tokens, 0 % of its prompts from the cache, {price}; session \w+$", done.complaint)
    cost = told.json()["cost"]
    assert (cost["requests"], [one["model"] for one in cost["models"]]) == (1, ["openai:gpt-5"]), "of this run alone"
    assert cost["dollars"] == pytest.approx((1.25 * cost["prompt"] + 10 * cost["output"]) / 1e6)


async def test_the_model_is_sent_the_system_message_the_prompt_and_the_key(tmp_path: Path) -> None:
    async with ScriptedServer(["Fine."]) as server:
        await hooksdk("run", *MODEL, "--system", "Be brief.", "How are you?", folder=tmp_path, server=server)
    assert [(one["role"], one["content"]) for one in server.requests[0].body["messages"]] == [
        ("system", "Be brief."),
        ("user", "How are you?"),
    ]
    assert server.requests[0].body["model"] == "any"
    assert server.requests[0].headers["authorization"] == "Bearer a key"


async def test_the_project_s_tool_search_counts_and_its_saving_is_told(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[plugins.tool_search.config]\nenabled = "on"\n')
    servers = write_servers(tmp_path / "mcp.json", house=script("many"))

    def through_the_bridge(turn: Turn) -> Any:
        if turn.number == 1:
            return call("tool_search", queries=["sweep the cellar"])
        if turn.number == 2:
            name = turn.result.json()["results"][0]["hits"][0]["name"]
            return call("tool_call", name=name, arguments={"minutes": 5})
        return turn.result.text

    async with ScriptedServer(through_the_bridge) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Sweep.", folder=tmp_path, server=server)
    assert done.out == "sweep_cellar is done\n"
    assert "tool search is on and offers 9 tools" in done.err
    assert "turn 2   sweep_cellar through tool_call" in done.err
    assert " tokens of schemas offered, " in done.complaint
    assert " % saved by search; " in done.complaint


async def test_a_call_in_a_script_is_told_as_one(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_monty", reason="code mode needs the extra 'code'")
    (tmp_path / "hooksdk.toml").write_text('[plugins.tool_search.config]\nenabled = "on"\nmode = "code"\n')
    servers = write_servers(tmp_path / "mcp.json", house=script("many"))

    def in_a_script(turn: Turn) -> Any:
        if turn.number == 1:
            return call("tool_search_code", code='await call("sweep_cellar", {"minutes": 5})')
        return turn.result.json()["value"]

    async with ScriptedServer(in_a_script) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Sweep.", folder=tmp_path, server=server)
    assert done.out == "sweep_cellar is done\n"
    assert "turn 1   tool_search_code\n" in done.err
    assert "turn 1.2 sweep_cellar in the script\n         minutes=5\n" in done.err


async def test_the_calls_of_a_batch_are_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[plugins.tool_search.config]\nenabled = "on"\n')
    servers = write_servers(tmp_path / "mcp.json", house=script("many"))

    def at_once(turn: Turn) -> Any:
        if turn.number == 1:
            return call("tool_call", calls=[{"name": "sweep_cellar", "arguments": {"minutes": 5}}] * 2)
        return " and ".join(one["result"] for one in turn.result.json()["results"])

    async with ScriptedServer(at_once) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Sweep.", folder=tmp_path, server=server)
    assert done.out == "sweep_cellar is done and sweep_cellar is done\n"
    assert "turn 1   tool_call\n" in done.err
    assert done.err.count("sweep_cellar one of several\n") == 2


async def test_a_small_context_window_brings_tool_search_on(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(["Fine."]) as server:
        await hooksdk(
            "run", *MODEL, "--context-window", "1000", "--mcp", servers, "Add.", folder=tmp_path, server=server
        )
    assert server.turns[0].offered == ["tool_search", "tool_describe", "tool_call", "add"]


async def test_json_is_one_document_on_stdout(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(add_up) as server:
        done = await hooksdk("run", *MODEL, "--json", "--mcp", servers, "Add.", folder=tmp_path, server=server)
    told = done.json()
    assert told.keys() == {"schema", "session", "text", "reason", "turns", "attempts", "stats", "cost"}
    assert (told["schema"], told["text"], told["reason"]) == (1, "The answer is 5.", "completed")
    assert (told["turns"], told["attempts"], told["stats"]["tool_calls"]) == (2, 1, {"ok": 1})
    assert (told["cost"]["requests"], told["cost"]["dollars"]) == (2, None)


@pytest.mark.parametrize("argument", [("-",), ()])
async def test_the_prompt_may_come_from_stdin(argument: tuple[str, ...], tmp_path: Path) -> None:
    async with ScriptedServer(lambda turn: turn.prompt.upper()) as server:
        done = await hooksdk("run", *MODEL, *argument, folder=tmp_path, server=server, stdin="say it\nlouder\n")
    assert done.out.strip() == "SAY IT\nLOUDER"


async def test_a_session_goes_on_where_it_stood(tmp_path: Path) -> None:
    kept = ("--session", "s1", "--store", "here")
    async with ScriptedServer(lambda turn: f"{len(turn.messages)} messages") as server:
        first = await hooksdk("run", *MODEL, *kept, "Count.", folder=tmp_path, server=server)
        second = await hooksdk("run", *MODEL, *kept, "Count.", folder=tmp_path, server=server)
    assert (first.out, second.out) == ("1 messages\n", "3 messages\n")
    assert second.complaint.endswith("session s1")
    assert f"store       {tmp_path / 'here' / 'hooksdk.db'}\n" in second.err
    assert f"transcript  {tmp_path / 'here' / 'hooksdk.db'}, session s1\n" in second.err
    assert (tmp_path / "here" / "hooksdk.db").is_file()
    assert not (tmp_path / "kept").exists()


async def test_a_new_session_has_a_short_id_and_continue_goes_on_with_it(tmp_path: Path) -> None:
    async with ScriptedServer(lambda turn: f"{len(turn.messages)} messages") as server:
        first = await hooksdk("run", *MODEL, "Count.", folder=tmp_path, server=server)
        second = await hooksdk("run", *MODEL, "--continue", "Count on.", folder=tmp_path, server=server)
        third = await hooksdk("run", *MODEL, "--session", "last", "Count on.", folder=tmp_path, server=server)
    made = first.complaint.rpartition(" ")[2]
    assert re.fullmatch(r"([0-9][b-z]){4}", made)
    assert f"look        hooksdk sessions show {made}\n" in first.err
    assert f"session     {made} goes on: 2 messages so far\n" in second.err
    assert (second.out, third.out) == ("3 messages\n", "5 messages\n")


async def test_the_beginning_of_a_made_id_goes_on_and_a_new_name_begins_a_session(tmp_path: Path) -> None:
    async with ScriptedServer(lambda turn: f"{len(turn.messages)} messages") as server:
        first = await hooksdk("run", *MODEL, "Count.", folder=tmp_path, server=server)
        made = first.complaint.rpartition(" ")[2]
        found = await hooksdk("run", *MODEL, "--session", made[:5], "Count.", folder=tmp_path, server=server)
        await hooksdk("run", *MODEL, "--session", "user-10", "Count.", folder=tmp_path, server=server)
        new = await hooksdk("run", *MODEL, "--session", "user-1", "Count.", folder=tmp_path, server=server)
    assert (found.out, new.out) == ("3 messages\n", "1 messages\n")
    assert "session     user-1 is new. Did you mean 'user-10'?\n" in new.err


async def test_a_session_that_goes_on_has_its_own_model_unless_another_is_named(tmp_path: Path) -> None:
    async with ScriptedServer(["One.", "Two.", "Three."]) as server:
        await hooksdk("run", *MODEL, "--session", "s1", "Count.", folder=tmp_path, server=server)
        await hooksdk("run", "--continue", "On.", folder=tmp_path, server=server)
        third = await hooksdk("run", "--session", "s1", "On.", folder=tmp_path, server=server)
        nobody = await hooksdk("run", "--session", "s2", "On.", folder=tmp_path, server=server)
        nothing = await hooksdk("run", "On.", folder=tmp_path, server=server)
    assert third.out == "Three.\n"
    assert [request.body["model"] for request in server.requests] == ["any"] * 3
    assert (nobody.code, nothing.code) == (1, 2)
    assert "there is no session 's2' in " in nobody.complaint
    assert "--model: give one, such as openai:gpt-5" in nothing.complaint


async def test_without_an_earlier_session_continue_ends_before_any_server_starts(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(["Fine."]) as server:
        done = await hooksdk("run", *MODEL, "--continue", "--mcp", servers, "And?", folder=tmp_path, server=server)
    assert (done.code, done.complaint) == (1, f"hooksdk: no session was begun in {tmp_path} yet.")
    assert "servers" not in done.err


async def test_a_run_without_any_reply_leaves_no_session_and_an_earlier_one_stays(tmp_path: Path) -> None:
    async with ScriptedServer(["Fine.", refuse(401, "No."), refuse(401, "No.")]) as server:
        await hooksdk("run", *MODEL, "--session", "s", "Count.", folder=tmp_path, server=server)
        await hooksdk("run", *MODEL, "--session", "new", "Count.", folder=tmp_path, server=server)
        await hooksdk("run", *MODEL, "--session", "s", "Count.", folder=tmp_path, server=server)
    listed = (await hooksdk("sessions", "list", "--sizes", "--json", folder=tmp_path)).json()["sessions"]
    assert [(one["id"], one["messages"]) for one in listed] == [("s", 3)]


async def test_a_traced_run_says_where_the_trace_is_and_how_to_look_at_it(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.trace_file]\nenabled = true\n")
    async with ScriptedServer(["Fine."]) as server:
        done = await hooksdk("run", *MODEL, "--session", "s", "How are you?", folder=tmp_path, server=server)
    assert f"trace       {tmp_path / 'kept' / 'trace.jsonl'}\n" in done.err
    assert "look        hooksdk report s\n" in done.err
    made = await hooksdk("report", "s", folder=tmp_path)
    assert made.out.startswith("s.html: 1 run, 2 messages, ")
    assert "<h1>How are you?</h1>" in (tmp_path / "s.html").read_text("utf-8")


@pytest.mark.in_ci(database=["sqlite"])
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_sessions_may_be_kept_in_a_database(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = "sqlite:///here.db"
    if database == "postgres":
        url = request.getfixturevalue("postgres").url().replace("hooksdk@", "hooksdk:s3cret@")
    command = ("run", *MODEL, "--session", "s1", "--store", url, "Count.")
    async with ScriptedServer(lambda turn: f"{len(turn.messages)} messages") as server:
        first, second = [await hooksdk(*command, folder=tmp_path, server=server) for _ in range(2)]
    assert (first.out, second.out) == ("1 messages\n", "3 messages\n")
    place = tmp_path / "here.db" if database == "sqlite" else url[:12]
    assert f"store       {place}" in second.err
    assert "look        hooksdk sessions show s1 --store " in second.err
    assert "s3cret" not in second.err
    assert not list(tmp_path.rglob("hooksdk.db"))


def test_a_store_that_is_none_is_refused_before_anything_is_asked(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    done = here(*MODEL, "--store", "mysql://ann:s3cret@host/db", "Count.")
    assert done.code == 3
    assert "'mysql://ann:***@host/db' is not a store: memory, jsonl" in done.err
    assert "s3cret" not in done.err


async def test_sessions_are_kept_in_the_state_folder_unless_the_configuration_says_otherwise(tmp_path: Path) -> None:
    async with ScriptedServer(lambda turn: f"{len(turn.messages)} messages") as server:
        first = await hooksdk("run", *MODEL, "--session", "s1", "Count.", folder=tmp_path, server=server)
        assert f"store       {tmp_path / 'kept' / 'hooksdk.db'}\n" in first.err
        assert (tmp_path / "kept" / "hooksdk.db").is_file()
        (tmp_path / "hooksdk.toml").write_text('store = "memory"\n')
        second = await hooksdk("run", *MODEL, "--session", "s1", "Count.", folder=tmp_path, server=server)
    assert second.out == "1 messages\n"
    assert "store       memory: gone when this command ends\n" in second.err


async def test_several_files_of_servers_are_started_together(tmp_path: Path) -> None:
    first = write_servers(tmp_path / "first.json")
    second = write_servers(tmp_path / "second.json", other=script("quick"))
    async with ScriptedServer(["Fine."]) as server:
        done = await hooksdk("run", *MODEL, "--mcp", first, "--mcp", second, "Look.", folder=tmp_path, server=server)
    assert "servers     12 tools (plain 6, other 6)" in done.err
    assert {"plain__add", "other__add"} <= set(server.turns[0].offered)


@pytest.mark.parametrize(
    ("provider", "reason", "limit"),
    [("openai", "length", "max_tokens"), ("openai-responses", "max_output_tokens", "max_output_tokens")],
)
async def test_a_reply_that_was_cut_off_is_said(provider: str, reason: str, limit: str, tmp_path: Path) -> None:
    async with ScriptedServer([Reply("Once upon", stop_reason=reason)]) as server:
        arguments = ("--model", f"{provider}:any", "--max-tokens", "2", "Tell.")
        done = await hooksdk("run", *arguments, folder=tmp_path, server=server)
    assert done.out == "Once upon\n"
    assert "cut off     the model's reply reached its limit of tokens" in done.err
    assert server.requests[0].body[limit] == 2


@pytest.mark.parametrize(
    ("provider", "reply", "refused"),
    [
        ("openai", "", False),
        ("openai", Reply("", stop_reason="content_filter"), True),
        ("openai-responses", Reply("", stop_reason="content_filter"), True),
        ("anthropic", Reply("", stop_reason="refusal"), True),
    ],
)
async def test_a_reply_without_text_is_said_and_so_is_a_refusal(
    provider: str, reply: Any, refused: bool, tmp_path: Path
) -> None:
    async with ScriptedServer([reply]) as server:
        done = await hooksdk("run", "--model", f"{provider}:any", "Tell.", folder=tmp_path, server=server)
    assert (done.code, done.out) == (0, "")
    assert "no answer   the model's last reply has no text" in done.err
    assert ("refused     the provider ended the model's reply: " in done.err) is refused


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end otherwise there")
async def test_that_nobody_reads_the_progress_does_not_cost_the_answer(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    async with ScriptedServer(["Fine."]) as server:
        done = await anyio.run_process(
            [*COMMAND, "run", *MODEL, "Tell."], cwd=tmp_path, env=environment(tmp_path, server), stderr=writing,
            check=False,
        )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"Fine.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_an_answer_that_finds_no_space_is_one_line(tmp_path: Path) -> None:
    async with ScriptedServer(["Fine."]) as server:
        with open("/dev/full", "wb") as full:
            done = await anyio.run_process(
                [*COMMAND, "run", *MODEL, "Tell."], cwd=tmp_path, env=environment(tmp_path, server), stdout=full,
                check=False,
            )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.decode().endswith("\nhooksdk: the output cannot be written: No space left on device\n")


async def test_an_answer_is_kept_where_the_encoding_of_stdout_lacks_its_characters(tmp_path: Path) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    async with ScriptedServer(["Café.", "Café."]) as server:
        plain = await hooksdk("run", *MODEL, "Go.", folder=tmp_path, server=server, variables=ascii_only)
        document = await hooksdk("run", *MODEL, "--json", "Go.", folder=tmp_path, server=server, variables=ascii_only)
    assert (plain.code, plain.out) == (0, "Caf\\xe9.\n")
    assert document.json()["text"] == "Café."


async def test_of_calls_that_run_at_a_time_each_end_says_whose_it_is(tmp_path: Path) -> None:
    def both(turn: Turn) -> Any:
        return [call("work", seconds=0.4), call("add", a=1, b=1)] if not turn.results else "Done."

    servers = write_servers(tmp_path / "mcp.json", plain=script("plain"))
    async with ScriptedServer(both) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Both.", folder=tmp_path, server=server)
    assert "✓ 1.2 add: ok, " in done.err


# Approvals


@pytest.mark.parametrize(
    ("option", "answer", "status"),
    [((), "y\n", "blocked"), (("--yes",), "", "ok"), (("--ask",), "y\n", "ok"), (("--ask",), "n\n", "blocked")],
    ids=["nobody is there", "--yes", "--ask, yes", "--ask, no"],
)
async def test_an_approval_is_refused_unless_somebody_grants_it(
    option: tuple[str, ...], answer: str, status: str, tmp_path: Path
) -> None:
    (tmp_path / "hooksdk.toml").write_text(ASK)
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(add_up) as server:
        done = await hooksdk(
            "run", *MODEL, *option, "--json", "--mcp", servers, "Add.", folder=tmp_path, server=server, stdin=answer
        )
    assert done.json()["stats"]["tool_calls"] == {status: 1}
    question = "Add these?" in done.err and "| arguments    a = 2\n|              b = 3\n" in done.err
    assert question is (option == ("--ask",))
    refused = "nobody can be asked here; run it on a terminal, or with --ask or --yes"
    assert (refused in done.err.partition("turn 1   add\n         a=2, b=3\n")[2]) is (not option), "below its call"


async def test_two_questions_are_asked_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text(ASK)
    servers = write_servers(tmp_path / "mcp.json")

    def two(turn: Turn) -> Any:
        return [call("add", a=1, b=1), call("add", a=2, b=2)] if not turn.results else "Done."

    async with ScriptedServer(two) as server:
        done = await hooksdk(
            "run", *MODEL, "--ask", "--json", "--mcp", servers, "Add.", folder=tmp_path, server=server, stdin="y\ny\n"
        )
    assert done.json()["stats"]["tool_calls"] == {"ok": 2}
    assert done.err.count("Allow it?") == 2


@pytest.mark.skipif(not CAN_FORK, reason="needs a pseudo-terminal, and commands that are forks")
async def test_on_a_terminal_the_person_is_asked(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text(ASK)
    servers = write_servers(tmp_path / "mcp.json")
    ours, theirs = os.openpty()
    async with ScriptedServer(add_up) as server:
        with open(tmp_path / "answer", "w") as out:
            command = start(
                ["run", *MODEL, "--mcp", servers, "Add."], folder=tmp_path, environment=environment(tmp_path, server),
                files=[theirs, out.fileno(), theirs],
            )  # fmt: skip
        os.close(theirs)
        told = await anyio.to_thread.run_sync(read_terminal, ours, "Allow it?", b"y\n")
        code = await anyio.to_thread.run_sync(command.wait)
    assert (code, (tmp_path / "answer").read_text()) == (0, "The answer is 5.\n")
    assert "Add these?" in told


def read_terminal(ours: int, question: str, answer: bytes) -> str:
    """All that is shown there; the question is answered as soon as it stands there."""
    shown = b""
    try:
        while piece := os.read(ours, 1000):
            before, shown = shown, shown + piece
            if question.encode() in shown and question.encode() not in before:
                os.write(ours, answer)
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
    return shown.decode()


# What ends a run


async def test_a_run_that_reaches_a_limit_ends_with_4_and_says_which(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(lambda turn: Reply("Working.", [call("add", a=1, b=1)])) as server:
        done = await hooksdk(
            "run", *MODEL, "--max-turns", "2", "--mcp", servers, "Add.", folder=tmp_path, server=server
        )
    assert (done.code, done.out) == (4, "Working.\n")
    assert done.complaint == "hooksdk: stopped at the limit of 2 turns (--max-turns)"


async def test_a_run_that_a_rules_limit_ends_says_who_ended_it_and_why(tmp_path: Path) -> None:
    rule = '[[plugins.tool_policy.config.rules]]\naction = "deny"\nlimit = { tokens = 1 }\nreason = "enough"\n'
    (tmp_path / "hooksdk.toml").write_text(rule)
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(lambda turn: Reply("Working.", [call("add", a=1, b=1)])) as server:
        arguments = [*MODEL, "--mcp", servers, "Add."]
        done = await hooksdk("run", *arguments, folder=tmp_path, server=server)
        told = (await hooksdk("run", "--json", *arguments, folder=tmp_path, server=server)).json()
    assert (done.code, done.out) == (4, "Working.\n")
    assert done.complaint.startswith("hooksdk: run blocked by plugin 'tool_policy': enough: used: ")
    assert (told["reason"], told["turns"], "of 1 token for this task" in told["blocked"]) == ("blocked", 1, True)


async def test_a_run_that_a_plugin_would_have_had_go_on_says_so(tmp_path: Path) -> None:
    user = tmp_path / "none" / "hooksdk"
    user.mkdir(parents=True)
    (user / "config.toml").write_text(f"plugins_file = '{user / 'own.py'}'\n")
    (user / "own.py").write_text(
        "from hooksdk import hooks\n\nclass Never:\n    @hooks.before_answer\n"
        "    def judge(self, event):\n        return hooks.Continue('not yet')\n"
    )
    async with ScriptedServer(["One.", "Two.", "Three.", "Four."]) as server:
        done = await hooksdk("run", *MODEL, "--json", "Go.", folder=tmp_path, server=server)
    assert (done.code, done.json()["text"], done.json()["overruled"]) == (0, "Four.", ["not yet"])
    assert "never would have it go on, and the limit is used up" in done.err


async def test_a_model_that_writes_a_call_as_text_is_told_how_to_call_as_often_as_asked(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    wrong = '{"name": "add", "arguments": {"a": 1, "b": 1}}'
    async with ScriptedServer([wrong, call("add", a=1, b=1), "2"]) as server:
        done = await hooksdk(
            "run", *MODEL, "--reminders", "1", "--mcp", servers, "Add.", folder=tmp_path, server=server
        )
    assert (done.code, done.out) == (0, "2\n")
    assert "the model wrote a call of add as text" in done.err


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "refuses the key (401); check OPENAI_API_KEY: No."),
        (404, "knows no model 'any' (404): No."),
        (400, "answered 400: No."),
    ],
)
async def test_what_the_provider_refuses_is_one_line(status: int, told: str, tmp_path: Path) -> None:
    async with ScriptedServer([refuse(status, text="No.")]) as server:
        done = await hooksdk("run", *MODEL, "Go.", folder=tmp_path, server=server)
        assert (done.code, done.out) == (1, "")
        assert done.complaint == f"hooksdk: openai at {server.openai_url} {told}"
    assert "Traceback" not in done.err


async def test_anthropic_s_errors_are_read_as_well(tmp_path: Path) -> None:
    async with ScriptedServer([refuse(401, text="No.")]) as server:
        done = await hooksdk("run", "--model", "anthropic:any", "Go.", folder=tmp_path, server=server)
    assert done.complaint.endswith("refuses the key (401); check ANTHROPIC_API_KEY: No.")


async def test_a_model_that_is_not_available_is_asked_again_and_that_is_said(tmp_path: Path) -> None:
    async with ScriptedServer([refuse(429, retry_after=0.1), "Here I am."]) as server:
        done = await hooksdk("run", *MODEL, "Go.", folder=tmp_path, server=server)
    assert (done.code, done.out) == (0, "Here I am.\n")
    assert "RateLimitError: Refused by the script. (asked again in 0.1 s)" in done.err


async def test_a_server_that_is_not_there_is_one_line_with_its_address(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        done = await hooksdk("run", *MODEL, "--base-url", url, "Go.", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert done.complaint.endswith(f"All connection attempts failed (at {url})")


@pytest.mark.parametrize(("provider", "key"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
def test_a_missing_key_is_named(provider: str, key: str, here: Here) -> None:
    done = here("--model", f"{provider}:any", "Go.")
    assert (done.code, done.out) == (1, "")
    assert done.complaint == f"hooksdk: {provider}: no key was found; set {key}"


async def test_a_missing_sdk_is_told_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text("raise ModuleNotFoundError('gone', name='openai')\n")
    # A name that would read as a picture, `:x:`, if names were looked through for such.
    done = await hooksdk("run", "--model", "openai:x", "Go.", folder=tmp_path, variables={"PYTHONPATH": str(tmp_path)})
    assert done.code == 1
    told = "the package 'openai' is not installed: pip install 'hooksdk[openai]'"
    assert done.err == f"hooksdk: --model openai:x: {told}\n"


async def test_a_server_that_does_not_start_is_left_out_and_said(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", plain=script("quick"), gone={"command": "no-such-program"})
    async with ScriptedServer(add_up) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Add.", folder=tmp_path, server=server)
    assert (done.code, done.out) == (0, "The answer is 5.\n")
    left_out = "left out    the MCP server 'gone': the command 'no-such-program' was not found"
    assert done.err.count("gone") == 1
    assert left_out in done.err


async def test_without_any_server_that_starts_the_model_is_not_asked(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", gone={"command": "no-such-program"})
    async with ScriptedServer([]) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Add.", folder=tmp_path, server=server)
    assert (done.code, done.out, server.requests) == (1, "", [])
    assert done.complaint == f"hooksdk: none of the MCP servers of {servers} is up"


async def test_a_server_that_ends_during_the_run_is_said(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", dying=script("dying"))

    def let_it_die(turn: Turn) -> Any:
        return call("die") if not turn.results else "It is gone."

    async with ScriptedServer(let_it_die) as server:
        done = await hooksdk("run", *MODEL, "--mcp", servers, "Go.", folder=tmp_path, server=server)
    assert (done.code, done.out) == (0, "It is gone.\n")
    assert "server      the MCP server 'dying' has ended" in done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "mcp.json: cannot be read: No such file or directory"),
        ("{", "mcp.json:1:2: is not JSON: Expecting property name enclosed in double quotes"),
        ('{"theme": "dark"}', "holds no MCP servers: expected an object such as"),
    ],
    ids=["missing", "no JSON", "no servers"],
)
def test_a_wrong_file_of_servers_is_a_wrong_configuration(
    text: str | None, told: str, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key")
    write_servers(Path("first.json"))
    if text is not None:
        Path("mcp.json").write_text(text)
    done = here(*MODEL, "--mcp", "first.json", "--mcp", "mcp.json", "Go.")
    assert (done.code, done.out) == (3, "")
    assert told in done.err
    assert len(done.err.splitlines()) == 1


async def test_a_plugin_without_its_grant_ends_it_with_the_command_that_gives_it(tmp_path: Path) -> None:
    code = "from hooksdk import hooks\nclass Watch:\n    @hooks.before_model_call\n    def look(self, event): ...\n"
    path = install_plugin(tmp_path / "site", code)
    async with ScriptedServer([]) as server:
        done = await hooksdk("run", *MODEL, "Go.", folder=tmp_path, server=server, variables=path)
    assert (done.code, done.out) == (1, "")
    assert done.complaint.endswith("Give it with: hooksdk plugins enable watch --grant conversation")


async def test_a_plugin_that_refuses_the_run_ends_it_with_its_reason(tmp_path: Path) -> None:
    code = """
from hooksdk import hooks
from hooksdk.hooks import Block
class Watch:
    @hooks.agent_start
    def refuse(self, event):
        return Block("closed on Sundays")
"""
    path = install_plugin(tmp_path / "site", code)
    async with ScriptedServer([]) as server:
        done = await hooksdk("run", *MODEL, "Go.", folder=tmp_path, server=server, variables=path)
    assert (done.code, done.complaint) == (1, "hooksdk: run blocked by plugin 'watch': closed on Sundays")


async def test_a_wrong_setting_of_the_project_ends_it_with_3(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.tool_search]\nenabeld = true\n")
    async with ScriptedServer([]) as server:
        done = await hooksdk("run", *MODEL, "Go.", folder=tmp_path, server=server)
    assert done.code == 3
    assert "Did you mean 'enabled'?" in done.complaint


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "opnai:x", "Go."), "there is no provider 'opnai'. Did you mean 'openai'?"),
        (("--model", "mine:x", "Go."), "there is no provider 'mine'. Known: openai, openai-responses, anthropic"),
        (("--model", "gpt-5", "Go."), "'gpt-5' is not PROVIDER:NAME, such as openai:gpt-5"),
        (("--model", "openai:", "Go."), "'openai:' is not PROVIDER:NAME"),
        (("Go.",), "--model: give one"),
        ((*MODEL, " "), "PROMPT: it is empty"),
        ((*MODEL,), "PROMPT: it is empty"),
        ((*MODEL, "--ask"), "--ask reads answers from stdin"),
        ((*MODEL, "--max-turns", "0", "Go."), "'--max-turns'"),
        ((*MODEL, "--session", "", "Go."), "--session: it is empty"),
        ((*MODEL, "--project", "nowhere", "Go."), "'nowhere' does not exist"),
    ],
)
def test_a_slip_on_the_command_line_is_one_line(arguments: tuple[str, ...], told: str, here: Here) -> None:
    done = here(*arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert len(done.err.splitlines()) == 1


# Ctrl-C


@pytest.mark.skipif(not CAN_FORK, reason="sends a signal to a command that is a fork")
@pytest.mark.parametrize("moment", ["model", "tool"])
async def test_ctrl_c_ends_the_run_as_cancelled_and_its_servers_with_it(moment: str, tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[plugins.trace_file.config]\npath = "trace.jsonl"\n')
    servers = write_servers(tmp_path / "mcp.json", plain=script("plain"))
    waiting = anyio.Event()
    pids: list[int] = []

    async def hold(turn: Turn) -> Any:
        if turn.number == 1:
            return call("process_id")
        pids.append(int(turn.result.text))
        waiting.set()
        if moment == "tool":
            return call("work", seconds=30)
        await anyio.sleep_forever()
        return None

    async with ScriptedServer(hold) as server:
        told, progress = os.pipe()
        with open(os.devnull) as nothing, open(tmp_path / "answer", "w") as out, open(told) as shown:
            command = start(
                ["run", *MODEL, "--mcp", servers, "Go."], folder=tmp_path, environment=environment(tmp_path, server),
                files=[nothing.fileno(), out.fileno(), progress],
            )  # fmt: skip
            os.close(progress)
            await waiting.wait()
            if moment == "tool":
                await anyio.to_thread.run_sync(read_until, shown, "work")
            command.interrupt()
            err = await anyio.to_thread.run_sync(shown.read)
            done = Done(await anyio.to_thread.run_sync(command.wait), (tmp_path / "answer").read_text(), err)
    assert (done.code, done.out, done.complaint) == (130, "", "hooksdk: stopped")
    assert "Traceback" not in done.err
    trace = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [record["reason"] for record in trace if record["kind"] == "run_ended"] == ["cancelled"]
    await until(lambda: not alive(pids[0]))


def read_until(stream: Any, word: str) -> None:
    for line in stream:
        if word in line:
            return
