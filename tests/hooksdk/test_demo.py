"""`hooksdk demo` on the demo's own plugins: the job is done, the story is told, and nothing stays behind unasked."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.cells import cell_len
from rich.console import Console
from warm import Done, run

from hooksdk.agent import Limits
from hooksdk.cli._demo.play import OFFICE, DemoOptions, play
from hooksdk.cli._demo.tools import Commits, Tables, commits, make_history, other_tools
from hooksdk.desk.console import PROMPT
from hooksdk.stores import SqlStore
from hooksdk.testing import call, open_session
from hooksdk.testing import play as play_script

pytestmark = pytest.mark.heavy

SUBJECTS = [one["message"] for one in commits()]
COMMAND = [sys.executable, "-m", "hooksdk", "demo"]
SPREADSHEET = "weather-station.csv"
LIMITS = Limits(turns=50)


def demo(*options: str, environment: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    done = run(["demo", *options], folder=Path.cwd(), environment=environment or os.environ, stdin=stdin)
    assert "Traceback" not in done.err
    return done


def demo_process(*options: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """The demo as a process of its own, where it counts how Python starts."""
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=200, check=False, **more)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = demo_process("--json", "--folder", str(tmp_path_factory.mktemp("demo") / "place"))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def run_here(place: Path, *, width: int = 200, terminal: bool = False) -> str:
    """The demo in this process; answers what it prints."""
    printed = io.StringIO()
    console = Console(
        file=printed, width=width, highlight=False, emoji=False, force_terminal=terminal, color_system=None
    )
    anyio.run(play, place, console, DemoOptions(folder=place))
    return printed.getvalue()


# The job


def test_the_spreadsheet_holds_the_log_of_the_repository(played: dict[str, Any]) -> None:
    rows = list(csv.reader(io.StringIO(Path(played["spreadsheet"]).read_text("utf-8"))))
    assert rows[0] == ["commit", "author", "date", "message"]
    assert [row[3] for row in rows[1:]] == list(reversed(SUBJECTS))


def test_tool_search_comes_on_by_itself_and_saves_most_of_the_schemas(played: dict[str, Any]) -> None:
    assert played["tools"] == 58
    assert played["tokens_direct"] > 4_500
    assert played["tokens_offered"] < played["tokens_direct"] / 2.5  # with what was prefetched and revealed


def test_one_call_is_blocked_by_the_policy_and_the_rest_work(played: dict[str, Any]) -> None:
    assert played["tool_calls"] == {"ok": 8, "blocked": 1}


def test_one_long_result_is_trimmed_at_the_end_of_the_run(played: dict[str, Any]) -> None:
    assert [result["tool"] for result in played["results"] if result["trimmed"]] == ["commit_log"]
    assert played["view_characters"] < played["transcript_characters"] - 4000


def test_the_trim_is_queued_while_the_run_is_open_and_drained_after_it(played: dict[str, Any]) -> None:
    kinds = [json.loads(line)["kind"] for line in Path(played["trace"]).read_text().splitlines()]
    assert kinds.index("trim_queued") < kinds.index("trim_drained") < kinds.index("run_ended")


def test_the_transcript_is_whole(played: dict[str, Any]) -> None:
    async def read() -> str:
        async with aclosing(SqlStore(f"sqlite:///{played['transcript']}")) as store:
            (session_id,) = await store.list_sessions()
            return json.dumps(await store.read_session(session_id), ensure_ascii=False)

    text = anyio.run(read)
    assert all(subject in text for subject in SUBJECTS)


# What is shown


def test_the_story_tells_what_was_asked_searched_found_called_refused_and_approved(tmp_path: Path) -> None:
    told = run_here(tmp_path)
    for line in (
        "you         Make a spreadsheet of the log of our repository, and check that it is right.",
        "tool search is on and offers 11 tools",
        "5 of them for what was asked",
        "revealed    by tool_search: write_rows",
        "policies    2 handlers judge tool calls: tool_policy, tool_results",
        "show the commit log of a repository: commit_log, ",
        "create a new spreadsheet: create_spreadsheet, ",
        '/repository", max_count=100',
        "turn 3   create_spreadsheet",
        "tool_policy says Block",
        f"Blocked by tool_policy: spreadsheets belong in {tmp_path}/workspace",
        "tool_policy asks: Create a spreadsheet? (warning)",
        "granted by the demo",
        "stored, and applied once the run is over",
        "after the run: r2 (commit_log) is shortened, 1,",
        f"answer      30 commits, all of them in {SPREADSHEET}.",
    ):
        assert line in told


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_no_line_is_too_long_and_nothing_is_broken_inside_a_word(width: int) -> None:
    with tempfile.TemporaryDirectory(prefix="hooksdk-demo-") as folder:
        wide = run_here(Path(folder), width=1000, terminal=True)
    with tempfile.TemporaryDirectory(prefix="hooksdk-demo-") as other:
        narrow = run_here(Path(other), width=width, terminal=True)
        narrow = narrow.replace(other, folder)
    assert max(cell_len(line) for line in narrow.splitlines()) <= width
    whole = set(wide.split())
    broken = [word for word in narrow.split() if word not in whole and not re.search(r"[…\d]|ms", word)]
    assert broken == []
    assert f"{folder}/repository" in narrow.split()
    for line in narrow.splitlines():
        assert re.match(r"\S| {2,}\S|$", line), "what goes on is indented"


def test_without_a_terminal_each_thing_is_one_plain_line() -> None:
    done = demo(environment={**os.environ, "COLUMNS": "40"})
    assert "\x1b" not in done.out
    assert "you         Make a spreadsheet of the log of our repository, and check that it is right.\n" in done.out
    assert re.search(r"\ntime          \d+\.\d s from the command to here\n$", done.out)


def on_a_terminal(*options: str, answer: str = "y", **variables: str) -> tuple[int, str]:
    """The demo on a terminal of 80 columns, where a person answers the question; its code, and what was shown."""
    ours, theirs = os.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    clean |= {"COLUMNS": "80", "TERM": "xterm", **variables}
    process = subprocess.Popen([*COMMAND, *options], env=clean, stdout=theirs, stdin=theirs, stderr=theirs)
    os.close(theirs)
    shown, is_answered = b"", False
    try:
        while piece := os.read(ours, 10_000):
            shown += piece
            if b"Allow it?" in shown and not is_answered:
                is_answered = True
                os.write(ours, f"{answer}\n".encode())
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return process.wait(60), shown.decode().replace("\r", "")


def plain(shown: str) -> list[str]:
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown).splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_there_is_colour_unless_somebody_wants_none(colour: bool) -> None:
    code, shown = on_a_terminal("--yes", **({} if colour else {"NO_COLOR": "1"}))
    assert code == 0
    assert ("\x1b[32m" in shown) is colour


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_the_person_is_asked_and_the_whole_story_fits_80_by_24() -> None:
    code, shown = on_a_terminal()
    lines = plain(shown)
    assert code == 0
    assert len(lines) <= 24
    assert max(map(cell_len, lines)) <= 80
    assert any(line.startswith("Allow it?") for line in lines)
    told = "\n".join(lines)
    assert "3 create_spreadsheet \N{BALLOT X} Blocked by tool_policy: spreadsheets belong in workspace" in told
    assert "4 create_spreadsheet \N{CHECK MARK} approved" in told
    assert "hooksdk-demo-" not in told.partition("A call needs")[0], "no temporary path before the question"
    assert lines[-1] == "seen    1 call blocked, 1 asked about, 1 result trimmed, 66 % fewer tool tokens"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_yes_grants_what_is_asked_without_a_question() -> None:
    code, shown = on_a_terminal("--yes")
    lines = plain(shown)
    assert (code, "Allow it?" in shown) == (0, False)
    assert "4 tool_policy asks: Create a spreadsheet?" in lines
    assert len(lines) <= 24


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_no_at_the_terminal_is_told_too() -> None:
    code, shown = on_a_terminal(answer="n")
    assert code == 1
    assert "I was not allowed to make the spreadsheet" in shown
    assert plain(shown)[-1].startswith("seen    2 calls blocked, 1 asked about, ")


def test_the_time_is_that_of_the_clock_from_the_start_of_the_command(tmp_path: Path) -> None:
    begun = time.time()
    told = json.loads(demo_process("--json", "--folder", str(tmp_path / "place")).stdout)
    ended = time.time()
    records = [json.loads(line) for line in Path(told["trace"]).read_text().splitlines()]
    # The run is only a part of it, and what comes before the process and after its end is not in it.
    assert records[-1]["time"] - records[0]["time"] < told["seconds"] <= ended - begun + 0.1


# What stays


def temporary(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp")}


def test_nothing_stays_behind_unless_it_is_kept(tmp_path: Path) -> None:
    done = demo(environment=temporary(tmp_path))
    assert done.code == 0
    assert os.listdir(tmp_path / "tmp") == []
    assert "files         removed; to look at them: hooksdk demo --keep\n" in done.out
    told = json.loads(demo("--json", environment={**os.environ, "TMPDIR": str(tmp_path / "tmp")}).out)
    assert (told["spreadsheet"], told["transcript"], told["trace"], told["complete"]) == (None, None, None, True)


def test_kept_files_are_where_it_says(tmp_path: Path) -> None:
    done = demo("--keep", environment=temporary(tmp_path))
    (folder,) = (tmp_path / "tmp").iterdir()
    assert f"folder        {folder}\n" in done.out
    assert f"spreadsheet   workspace/{SPREADSHEET}\n" in done.out
    assert "transcript    sessions/hooksdk.db\n" in done.out
    assert [path.name for path in (folder / "sessions").iterdir()] == ["hooksdk.db"]
    assert (folder / "workspace" / SPREADSHEET).is_file()
    assert (folder / "trace.jsonl").is_file()


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = demo("--folder", str(tmp_path))
    assert done.code == 1
    assert "is not empty: name a new folder" in done.err
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_one_leaves_nothing(how: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--interactive"], env={**temporary(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A test run in the background ignores Ctrl-C, and its children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "Allow it?" in line or "approval" in line:
            break
    assert os.listdir(tmp_path / "tmp")
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "hooksdk: stopped\n")
    assert os.listdir(tmp_path / "tmp") == []


# The person


@pytest.mark.parametrize(("answer", "made"), [("y\n", True), ("", False)])
def test_interactive_asks_the_person(answer: str, made: bool, tmp_path: Path) -> None:
    place = tmp_path / "place"
    done = demo("--interactive", "--folder", str(place), stdin=answer)
    assert f"{PROMPT}{answer.strip()}\n" in done.out
    assert done.out.index("turn 4") < done.out.index("Allow it?"), "the question stands below its call"
    assert (place / "workspace" / SPREADSHEET).exists() is made
    assert done.code == (0 if made else 1)
    assert ("I was not allowed to make the spreadsheet" in done.out) is not made


# What it needs


def test_it_needs_neither_git_nor_mcp_nor_any_other_program(tmp_path: Path) -> None:
    block = tmp_path / "blocked"
    block.mkdir()
    for name in ("mcp", "openai", "anthropic", "openpyxl"):
        (block / f"{name}.py").write_text(f"raise ModuleNotFoundError('gone', name='{name}')\n")
    done = demo_process(env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(block)})
    assert done.returncode == 0, done.stderr
    assert "30 commits, all of them in" in done.stdout
    real = demo_process("--servers", "real", env={**os.environ, "PYTHONPATH": str(block)})
    assert real.returncode == 1
    assert real.stderr == "hooksdk: --servers real needs mcp: pip install 'hooksdk[demo]'\n"


# Its tools are no stage props


@pytest.mark.anyio
async def test_every_tool_of_the_demo_has_a_description_of_each_parameter() -> None:
    async with open_session(*OFFICE) as session, session.run() as run:
        await run.resolve_tools(other_tools())
        tools = [tool for tool in run.tools if tool.source == "plugin"]
    assert len(tools) == 55
    for tool in tools:
        assert len(tool.description) > 10, tool.id
        parameters: dict[str, Any] = tool.parameters or {}
        for name, parameter in parameters.get("properties", {}).items():
            assert parameter.get("description"), f"{tool.id}: {name}"


USES: dict[type, list[tuple[str, dict[str, Any], str]]] = {
    Commits: [
        ("commit_log", {"repo_path": "R"}, "Message: Release 1.0"),
        ("commit_log", {"repo_path": "nowhere"}, "nowhere is no repository"),
    ],
    Tables: [
        ("create_spreadsheet", {"path": "T/t.csv", "columns": ["name", "age"]}, "with 2 columns"),
        ("create_spreadsheet", {"path": "T/t.csv", "columns": ["name"]}, "is there already"),
        ("write_rows", {"path": "T/t.csv", "rows": [["a", "3"], ["b", "2"]], "at_row": 2}, "which has 3 rows now"),
        ("write_rows", {"path": "T/t.csv", "rows": [["b"]], "at_row": 2}, "row 1 of yours has 1 values"),
        ("read_rows", {"path": "T/t.csv", "first_row": 2, "last_row": 2}, '{"values": [["a", "3"]]}'),
        ("read_rows", {"path": "T/none.csv", "first_row": 1, "last_row": 1}, "cannot be read: No such file"),
    ],
}  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("plugin", OFFICE, ids=lambda plugin: plugin.plugin_id)
async def test_every_tool_of_the_demo_does_what_it_says(plugin: type, tmp_path: Path) -> None:
    make_history(tmp_path / "R")

    def placed(value: Any) -> Any:
        inside = isinstance(value, str) and (value == "R" or value.startswith("T/"))
        return str(tmp_path / value) if inside else value

    uses = [(name, {key: placed(each) for key, each in given.items()}, told) for name, given, told in USES[plugin]]
    async with open_session(plugin) as session:
        played = await play_script(session, [*[call(name, **given) for name, given, _ in uses], "Done."], limits=LIMITS)
    for (name, _, told), one in zip(uses, played.calls, strict=True):
        assert told in one.result.text, name
    async with open_session(plugin) as session, session.run() as run:
        await run.resolve_tools()
        own = {tool.name for tool in run.tools}
    assert own - {name for name, _, _ in uses} <= {"commit_log"}, "each is used"
