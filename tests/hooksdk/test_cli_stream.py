"""`hooksdk run` on a terminal: the model's words as they come, and the lines of the timeline around them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")
pytest.importorskip("openai", reason="needs the extra `openai`")
pytest.importorskip("anthropic", reason="needs the extra `anthropic`")

from commands import environment, hooksdk, write_servers
from mcp_servers import script
from rich.cells import cell_len
from warm import CAN_FORK, start

from hooksdk.testing import Turn, call, say
from hooksdk.testing.server import ScriptedServer, cut, hang
from tests.hooksdk.provider_rules import violations
from tests.hooksdk.providers import sent

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(not CAN_FORK, reason="needs a pseudo-terminal, and commands that are forks"),
]
GUARD = """
from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block

@hooks.before_tool_call(tools="add")
def judge(event: BeforeToolCall) -> Block:
    return Block("no sums")
"""
PROVIDERS = {"openai": "openai-chat", "openai-responses": "openai-responses", "anthropic": "anthropic"}
"""What `--model` names, and the format of its messages."""
STEERING = "\x1b[2Jevil\x1b]0;title\x07\u202e"


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


def add_up(turn: Turn) -> Any:
    """Says what it does, asks for one sum, and tells what came back."""
    return say("I add them.", call("add", a=2, b=3)) if not turn.results else f"The answer is {turn.result.text}."


async def on_terminal(
    folder: Path,
    server: ScriptedServer,
    *arguments: str,
    columns: int = 80,
    out: Any = None,
    until: bytes | None = None,
    variables: dict[str, str] | None = None,
) -> tuple[int, str]:
    """The command on a terminal of its own; answers its code and all that is shown. At `until` it is interrupted."""
    ours, theirs = os.openpty()
    where = {
        **environment(folder, server),
        "COLUMNS": str(columns),
        "TERM": "xterm",
        "NO_COLOR": "1",
        **(variables or {}),
    }
    files = [theirs, theirs if out is None else out.fileno(), theirs]
    command = start(["run", *arguments], folder=folder, environment=where, files=files)
    os.close(theirs)

    def read() -> str:
        shown = b""
        interrupted = False
        try:
            while piece := os.read(ours, 10_000):
                shown += piece
                if until is not None and until in shown and not interrupted:
                    interrupted = True
                    command.interrupt()
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        return shown.decode().replace("\r\n", "\n")

    shown = await anyio.to_thread.run_sync(read)
    code = await anyio.to_thread.run_sync(command.wait)
    return code, re.sub(r"\x1b\[[\d;]*m", "", shown)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_the_words_stand_there_as_they_come_and_each_once(provider: str, tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(add_up) as server:
        arguments = ("--model", f"{provider}:any", "--mcp", servers, "Add 2 and 3.")
        code, shown = await on_terminal(tmp_path, server, *arguments)
        assert all(request.body["stream"] for request in server.requests)
    assert code == 0
    lines = shown.splitlines()
    assert lines.count("I add them.") == lines.count("The answer is 5.") == 1
    assert lines.index("I add them.") < lines.index("turn 1   add") < lines.index("The answer is 5.")


async def test_a_pipe_gets_the_answer_alone_and_the_terminal_the_words(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    async with ScriptedServer(add_up) as server:
        with open(tmp_path / "answer", "wb") as out:
            arguments = ("--model", "openai:any", "--mcp", servers, "Add 2 and 3.")
            code, shown = await on_terminal(tmp_path, server, *arguments, out=out)
    assert (code, (tmp_path / "answer").read_text()) == (0, "The answer is 5.\n")
    assert {"I add them.", "The answer is 5."} <= set(shown.splitlines())


async def test_without_a_terminal_nothing_is_streamed(tmp_path: Path) -> None:
    async with ScriptedServer(["Fine."]) as server:
        done = await hooksdk("run", "--model", "openai:any", "How are you?", folder=tmp_path, server=server)
        assert not server.requests[0].body["stream"]
    assert done.out == "Fine.\n"
    assert "Fine." not in done.err


async def test_what_models_and_servers_write_cannot_steer_the_terminal(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")

    def steer(turn: Turn) -> Any:
        return say(STEERING, call("echo_back", text=STEERING), call(STEERING)) if not turn.results else STEERING

    async with ScriptedServer(steer) as server:
        arguments = ("--model", "openai:any", "--mcp", servers, f"Say {STEERING}")
        _, shown = await on_terminal(tmp_path, server, *arguments)
        piped = await hooksdk("run", *arguments, folder=tmp_path, server=server)
    for text in (shown, piped.err):
        assert "evil" in text
        assert not [part for part in ("\x1b[2J", "\x1b]", "\x07", "\u202e") if part in text]


@pytest.mark.parametrize("columns", [60, 80, 120])
async def test_no_line_of_ours_is_too_long_for_the_terminal(columns: int, tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    prompt = "Add 2 and 3, " + "and tell me all that there is to be told about the sum, " * 4 + "please."
    async with ScriptedServer(add_up) as server:
        arguments = ("--model", "openai:any", "--mcp", servers, "--store", "kept", prompt)
        _, shown = await on_terminal(tmp_path, server, *arguments, columns=columns)
    words = set(prompt.split())
    assert words <= set(shown.split())
    too_long = [line for line in shown.splitlines() if cell_len(line) > columns]
    # What is longer than the terminal is one word, such as a path, and stands alone.
    assert [line for line in too_long if len(line.split()) > 1] == []


async def test_it_says_where_the_transcript_is_and_how_to_go_on(tmp_path: Path) -> None:
    async with ScriptedServer(lambda turn: f"{len(turn.messages)} messages") as server:
        first = await hooksdk(
            "run", "--model", "openai:any", "--store", "kept", "Count.", folder=tmp_path, server=server
        )
        transcript = re.search(r"^transcript  (.*), session \S+$", first.err, re.MULTILINE)
        assert transcript is not None
        assert Path(transcript[1]) == tmp_path / "kept" / "hooksdk.db"
        again = re.search(r"^go on       hooksdk (run .*) PROMPT$", first.err, re.MULTILINE)
        assert again is not None
        second = await hooksdk(*again[1].split(), "Count on.", folder=tmp_path, server=server)
        assert second.out == "3 messages\n"
        look = re.search(r"^look        hooksdk (sessions show .*)$", first.err, re.MULTILINE)
        assert look is not None
        assert "Count on." in (await hooksdk(*look[1].split(), folder=tmp_path, server=server)).out


async def test_how_to_go_on_names_the_plugins_again(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(GUARD)
    servers = write_servers(tmp_path / "mcp.json")
    kept = ("--model", "openai:any", "--mcp", servers, "--store", "kept", "--plugin", "guard.py")
    script = [call("add", a=2, b=3), "No.", call("add", a=2, b=3), "No."]
    async with ScriptedServer(script) as server:
        first = await hooksdk("run", *kept, "Add.", folder=tmp_path, server=server)
        again = re.search(r"^go on       hooksdk (run .*) PROMPT$", first.err, re.MULTILINE)
        assert again is not None
        second = await hooksdk(*shlex.split(again[1]), "Add again.", folder=tmp_path, server=server)
    assert "Blocked by guard: no sums" in first.err
    assert "Blocked by guard: no sums" in second.err


async def test_a_stream_that_breaks_off_is_said_and_the_answer_comes_anew(tmp_path: Path) -> None:
    async with ScriptedServer([cut("Once upon a time there"), "Once."]) as server:
        code, shown = await on_terminal(tmp_path, server, "--model", "openai:any", "Tell.")
    assert code == 0
    lines = shown.splitlines()
    notice = next(at for at, line in enumerate(lines) if line.startswith("model       "))
    assert "Once." in lines[notice:]


@pytest.mark.in_ci(every=3)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_ctrl_c_in_the_middle_of_the_words_leaves_a_session_that_goes_on(provider: str, tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    script: list[Any] = [say("I add.", call("add", a=2, b=3)), hang("Once upon a time there was a"), "Here I am."]
    kept = ("--model", f"{provider}:any", "--mcp", servers, "--session", "s1")
    async with ScriptedServer(script) as server:
        code, shown = await on_terminal(tmp_path, server, *kept, "Tell.", until=b"Once")
        assert code == 130
        assert shown.splitlines()[-1] == "hooksdk: stopped"
        assert re.search(r"^Once.*$", shown, re.MULTILINE), "what came so far stands there, and ends its line"
        done = await hooksdk("run", *kept, "Are you there?", folder=tmp_path, server=server)
        assert (done.code, done.out) == (0, "Here I am.\n")
        for request in server.requests:
            assert violations(PROVIDERS[provider], sent(request)) == []


async def test_two_equal_calls_in_one_turn_are_told_apart(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", plain=script("plain"))

    def twice(turn: Turn) -> Any:
        return [call("work", seconds=1.5), call("work", seconds=0.1)] if not turn.results else "Done."

    async with ScriptedServer(twice) as server:
        done = await hooksdk("run", "--model", "openai:any", "--mcp", servers, "Go.", folder=tmp_path, server=server)
    order: Callable[[str], int] = done.err.index
    assert order("turn 1   work\n         seconds=1.5\n") < order("turn 1.2 work\n         seconds=0.1\n")
    assert order("✓ 1.2 work: ok") < order("✓ 1 work: ok")


async def test_the_first_line_of_an_error_is_told(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    script = [call("add", a=2, b="many"), "No."]
    async with ScriptedServer(script) as server:
        done = await hooksdk("run", "--model", "openai:any", "--mcp", servers, "Go.", folder=tmp_path, server=server)
    assert re.search(r"! invalid, \d+ characters, .* ms\n {11}The tool add was not invoked: ", done.err)
