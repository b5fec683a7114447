"""`hooksdk demo --servers real`: real MCP servers, a real spreadsheet, and every way in which it may not work out."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console

pytest.importorskip("mcp", reason="the real servers need the extra `demo`")
openpyxl = pytest.importorskip("openpyxl", reason="the real servers need the extra `demo`")

from commands import environment
from warm import run

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._demo import real
from hooksdk.cli._demo.play import DemoOptions, play
from hooksdk.cli._demo.real import make_repository
from hooksdk.cli._demo.tools import commits
from hooksdk.formats import Message
from hooksdk.stores import SqlStore

pytestmark = pytest.mark.heavy

SUBJECTS = [one["message"] for one in commits()]
COMMAND = [sys.executable, "-m", "hooksdk", "demo", "--servers", "real"]
NEEDED = {name: real.PROGRAMS[name] for name in real.NEEDED}
"""Those without which there is no demo: each takes seconds of the processor to start."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("demo") / "place"
    done = subprocess.run(
        [*COMMAND, "--json", "--folder", str(folder)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def read_trace(played: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(played["trace"]).read_text().splitlines()]


@pytest.mark.in_ci(False)
def test_the_spreadsheet_holds_the_log_of_the_repository(played: dict[str, Any]) -> None:
    sheet = openpyxl.load_workbook(played["spreadsheet"])["Log"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert rows[0] == ["commit", "author", "date", "message"]
    assert [row[3] for row in rows[1:]] == list(reversed(SUBJECTS))
    repository = Path(played["trace"]).parent / "repository"
    log = subprocess.run(
        ["git", "-C", str(repository), "log", "--format=%h"], capture_output=True, text=True, check=True
    )
    assert all(row[0].startswith(commit) for row, commit in zip(rows[1:], log.stdout.split(), strict=True))


def test_tool_search_comes_on_by_itself_and_saves_most_of_the_schemas(played: dict[str, Any]) -> None:
    assert played["tools"] == 118
    assert played["tokens_direct"] > 20_000
    assert played["tokens_offered"] < played["tokens_direct"] / 8


def test_one_call_is_blocked_by_the_policy_and_the_rest_work(played: dict[str, Any]) -> None:
    assert played["tool_calls"] == {"ok": 8, "blocked": 1}


def test_one_long_result_is_trimmed_at_the_end_of_the_run(played: dict[str, Any]) -> None:
    assert [result["tool"] for result in played["results"] if result["trimmed"]] == ["git_log"]
    assert played["view_characters"] < played["transcript_characters"] - 4000


def read_transcript(played: dict[str, Any]) -> list[Message]:
    """The stored messages of the demo's only session."""

    async def read() -> list[Message]:
        store = SqlStore(f"sqlite:///{played['transcript']}")
        (session_id,) = await store.list_sessions()
        messages, _ = await store.read_session(session_id)
        await store.aclose()
        return messages

    return anyio.run(read)


def test_the_trim_is_queued_while_the_run_is_open_and_drained_after_it(played: dict[str, Any]) -> None:
    kinds = [record["kind"] for record in read_trace(played)]
    assert kinds.index("trim_queued") < kinds.index("trim_drained") < kinds.index("run_ended")
    last = next(
        message for message in reversed(read_transcript(played)) if '"queued":true' in str(message.get("content"))
    )
    assert '"already_trimmed":false' in last["content"]


def test_the_trace_names_the_real_tools_and_never_the_bridge_call(played: dict[str, Any]) -> None:
    started = [record["name"] for record in read_trace(played) if record["kind"] == "call_started"]
    assert started == [
        "tool_search", "git_log", "create_workbook", "create_workbook", "write_range", "read_range",
        "list-tool-results", "trim-tool-result", "list-tool-results",
    ]  # fmt: skip


def test_the_transcript_is_whole_and_keeps_what_the_model_wrote(played: dict[str, Any]) -> None:
    text = json.dumps(read_transcript(played), ensure_ascii=False)
    assert "tool_call" in text
    assert SUBJECTS[0] in text


def run_here(place: Path) -> str:
    """The demo in this process; answers what it prints."""
    printed = io.StringIO()
    console = Console(file=printed, width=200, highlight=False)
    anyio.run(play, place, console, DemoOptions(real=True, folder=place))
    return printed.getvalue()


@pytest.mark.in_ci(False)
def test_it_leaves_a_file_of_its_servers_that_the_other_commands_take(played: dict[str, Any], tmp_path: Path) -> None:
    left = json.loads(Path(played["mcp"]).read_text())["mcpServers"]
    assert left == real.entries()  # which have just been started, all of them
    two = tmp_path / "mcp.json"
    two.write_text(json.dumps({"mcpServers": {name: left[name] for name in ("git", "time")}}))
    listed = run(["tools", "list", "--mcp", str(two), "--json"], folder=tmp_path, environment=environment(tmp_path))
    assert listed.code == 0, listed.err
    owners = {tool["id"].split(":")[1] for tool in listed.json()["tools"] if tool["id"].startswith("mcp:")}
    assert owners == {"git", "time"}


@pytest.mark.in_ci(False)
def test_without_the_bulk_of_the_tools_everything_is_offered_and_the_job_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "PROGRAMS", NEEDED)
    told = run_here(tmp_path)
    assert "all are offered" in told
    assert "through tool_call" not in told
    assert (tmp_path / "workspace" / "weather-station.xlsx").is_file()


@pytest.mark.in_ci(False)
def test_a_server_that_is_not_needed_and_does_not_start_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "PROGRAMS", {**NEEDED, "word": real.PROGRAMS["word"], "fetch": ["no-such-program"]})
    told = run_here(tmp_path)
    assert "left out    the MCP server 'fetch'" in told
    assert "30 commits, all of them" in told


def test_a_server_that_is_needed_and_does_not_start_ends_the_demo_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real, "PROGRAMS", {**NEEDED, "excel": ["no-such-program"]})
    with pytest.raises(
        CommandProblem, match=r"^the MCP server 'excel' did not start: .*no-such-program.*hooksdk\[demo\]"
    ):
        run_here(tmp_path)


def test_without_git_it_ends_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "hooksdk: --servers real needs git on the PATH: install git, then run it again"


WITH_TWO = f"""
from hooksdk.cli import main
from hooksdk.cli._demo import real

real.PROGRAMS = {NEEDED}
main()
"""


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in found.splitlines()]
    direct = [child for child, parent in pairs if parent == pid]
    return direct + [grandchild for child in direct for grandchild in children_of(child)]


@pytest.mark.in_ci(moment=["servers"])
@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps to see the child processes")
@pytest.mark.parametrize("moment", ["repository", "servers", " +approval"])
def test_ctrl_c_ends_it_in_one_line_and_leaves_no_process_behind(moment: str, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-c", WITH_TWO, "demo", "--servers", "real", "--interactive", "--folder", str(tmp_path / "place")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A test run in the background ignores Ctrl-C, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert demo.stdout is not None
    for line in demo.stdout:
        if re.match(moment, line):
            break
    wait_until(lambda: bool(children_of(demo.pid)))
    started = children_of(demo.pid)
    time.sleep(0.5 if "approval" in moment else 0)  # the question comes a moment later
    demo.send_signal(signal.SIGINT)
    demo.wait(timeout=120)  # with its input still open: nobody presses Enter
    _, told = demo.communicate(timeout=120)
    assert (demo.returncode, told) == (130, "hooksdk: stopped\n")
    wait_until(lambda: not any(is_alive(pid) for pid in started))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(done: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends, "not within the time"
        time.sleep(0.02)


def test_the_repository_is_a_real_one(tmp_path: Path) -> None:
    assert make_repository(tmp_path / "made") == len(SUBJECTS)
    done = subprocess.run(
        ["git", "-C", str(tmp_path / "made"), "fsck", "--strict"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    status = subprocess.run(
        ["git", "-C", str(tmp_path / "made"), "status", "--porcelain"], capture_output=True, text=True, check=True
    )
    assert status.stdout == ""
