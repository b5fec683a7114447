"""`hooksdk replay`: what a policy would have done, as a table, a document, a snapshot and a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import environment, hooksdk, write_servers

from hooksdk import Host
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.config import Config
from hooksdk.formats import get_format
from hooksdk.stores import SqlStore

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

POLICY = """
from pydantic import BaseModel

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block, Rewrite, RewriteToolCall


class KeepFiles:
    class Config(BaseModel):
        reason: str = "stays"

    def __init__(self, config: Config) -> None:
        self.config = config

    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block(f"{event.arguments['path']} {self.config.reason}")


@hooks.rewrite_tool_call(tools="read_*")
def lower(event: RewriteToolCall) -> Rewrite:
    return Rewrite({"path": event.arguments["path"].lower()})
"""
SAID = "Something that nobody else should read."


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


def history() -> list[dict[str, Any]]:
    """Three calls of one run."""
    form = get_format("openai-chat")
    messages: list[dict[str, Any]] = [form.user(SAID)]
    for number, (tool, path) in enumerate([("read_file", "A.md"), ("delete_file", "b.md"), ("list_files", "c")]):
        call = ToolCall(f"c{number}", tool, {"path": path})
        messages += [form.reply("", [call]), *form.result_messages([(call, ToolResult(f"{SAID} {number}"))])]
    return [*messages, form.reply("Done.")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a policy and a recorded session."""
    (tmp_path / "mine.py").write_text(POLICY)
    (tmp_path / "session.jsonl").write_text("".join(json.dumps(one) + "\n" for one in history()))
    return tmp_path


async def test_the_table_shows_what_was_and_what_would_be(project: Path) -> None:
    done = await hooksdk("replay", "session.jsonl", "--plugin", "mine.py", folder=project)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()[1:4]]
    assert rows[0] == ["1", "read_file", 'path="A.md"', "ok", "rewrite", "mine:", "path", "=", '"a.md"']
    assert rows[1] == ["2", "delete_file", 'path="b.md"', "ok", "block", "keep_files:", "b.md", "stays"]
    assert rows[2] == ["3", "list_files", 'path="c"', "ok", "allow"]
    assert "3 calls: 1 rewritten, 1 blocked, 1 allowed\n2 would go otherwise than recorded" in done.out


async def test_diff_leaves_out_what_would_go_as_it_went(project: Path) -> None:
    done = await hooksdk("replay", "session.jsonl", "--plugin", "mine:KeepFiles", "--diff", folder=project)
    assert "delete_file" in done.out
    assert "read_file" not in done.out
    assert "list_files" not in done.out


async def test_one_document_says_all_of_it(project: Path) -> None:
    done = await hooksdk("replay", "session.jsonl", "--plugin", "mine.py", "--json", folder=project)
    document = done.json()
    assert document["schema"] == 1
    assert document["counts"] == {"rewrite": 1, "block": 1, "allow": 1}
    assert document["differ"] == 2
    assert document["calls"][1] == {
        "call": 2, "run": 1, "tool": "delete_file", "arguments": {"path": "b.md"}, "recorded": "ok", "decision": "block",
        "by": "keep_files", "reason": "b.md stays", "becomes": None, "differs": True,
    }  # fmt: skip


async def test_a_stored_session_is_named_by_its_id(project: Path) -> None:
    async with Host(store=SqlStore(project / "kept-here"), config=Config()) as host, host.session("ann") as session:
        await session.load(history(), "openai-chat")
    done = await hooksdk("replay", "ann", "--plugin", "mine.py", "--store", "kept-here", folder=project)
    assert "3 calls: 1 rewritten, 1 blocked, 1 allowed" in done.out
    done = await hooksdk("replay", "anne", "--plugin", "mine.py", "--store", "kept-here", folder=project)
    assert done.code == 1
    assert "Did you mean 'ann'?" in done.complaint


async def test_the_projects_settings_count_for_the_named_plugin_which_is_in_force_in_shadow_mode_too(
    project: Path,
) -> None:
    (project / "none" / "hooksdk").mkdir(parents=True)
    (project / "none" / "hooksdk" / "config.toml").write_text(
        '[plugins.keep_files]\nmode = "shadow"\nconfig = {reason = "is needed"}\n'
        '[[plugins.tool_policy.config.rules]]\ntools = "*"\naction = "deny"\nreason = "closed"\n'
    )
    done = await hooksdk("replay", "session.jsonl", "--plugin", "mine.py", "--json", folder=project)
    assert [(one["decision"], one["reason"]) for one in done.json()["calls"]] == [
        ("rewrite", ""), ("block", "b.md is needed"), ("allow", ""),
    ]  # fmt: skip
    done = await hooksdk("replay", "session.jsonl", "--all", "--plugin", "mine.py", "--json", folder=project)
    assert {one["by"] for one in done.json()["calls"]} == {"tool_policy"}


async def test_a_snapshot_that_says_the_same_is_0_and_one_that_does_not_is_1(project: Path) -> None:
    options = ("replay", "session.jsonl", "--plugin", "mine.py")
    assert (await hooksdk(*options, "--write", "a.json", folder=project)).code == 0
    assert "b.md" not in (project / "a.json").read_text()
    done = await hooksdk(*options, "--check", "a.json", folder=project)
    assert (done.code, "as in    a.json" in done.out) == (0, True)
    (project / "mine.py").write_text(POLICY.replace("delete_*", "list_*"))
    done = await hooksdk(*options, "--check", "a.json", folder=project)
    assert done.code == 1
    assert "differs  call 2, delete_file: was block by keep_files: {path} stays, now allow" in done.out
    done = await hooksdk(*options, "--check", "a.json", "--json", folder=project)
    assert (done.code, len(done.json()["check"])) == (1, 2)


async def test_definitions_come_from_servers_which_are_not_called(project: Path) -> None:
    pytest.importorskip("mcp")
    form = get_format("openai-chat")
    calls = [ToolCall("c1", "add", {"a": 1, "b": 2}), ToolCall("c2", "add", {"a": "one"})]
    messages = [form.user("Add."), form.reply("", calls)]
    (project / "sums.json").write_text(json.dumps(messages))
    servers = write_servers(project / "mcp.json")
    done = await hooksdk("replay", "sums.json", "--plugin", "mine.py", "--mcp", servers, "--json", folder=project)
    assert [one["decision"] for one in done.json()["calls"]] == ["allow", "invalid"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["session.jsonl"], 2, "name a plugin with --plugin FILE"),
        (["session.jsonl", "--plugin", "min.py"], 1, "Did you mean 'mine.py'?"),
        (["session.jsonl", "--plugin", "mine:KeepFile"], 1, "Did you mean 'KeepFiles'?"),
        (["session.jsonl", "--plugin", "tool_polcy"], 1, "Did you mean 'tool_policy'?"),
        (["sessions.jsonl", "--plugin", "mine.py"], 1, "there is no file sessions.jsonl"),
        (["session.jsonl", "--plugin", "mine.py", "--check", "none.json"], 3, "--write makes one"),
        (["session.jsonl", "--all", "--as-test", "test_it.py"], 1, "--as-test needs --plugin"),
    ],
)
async def test_what_is_wrong_is_one_line_with_the_cure(
    project: Path, arguments: list[str], code: int, complaint: str
) -> None:  # fmt: skip
    done = await hooksdk("replay", *arguments, folder=project)
    assert (done.code, done.out) == (code, "")
    assert complaint in done.complaint


# --as-test


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest as whoever was given the test."""
    found = {name: value for name, value in environment(folder).items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**found, "PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False
    )


@pytest.mark.in_ci(False)
async def test_a_test_is_written_that_passes_and_fails_when_the_policy_changes(project: Path) -> None:
    done = await hooksdk(
        "replay", "session.jsonl", "--plugin", "mine.py", "--as-test", "tests/test_mine.py", folder=project
    )
    assert done.code == 0, done.err
    assert sorted(path.name for path in (project / "tests").iterdir()) == [
        "test_mine.py", "test_mine.session.jsonl", "test_mine.test_the_decisions_stay.decisions.json",
    ]  # fmt: skip
    assert SAID not in "".join(path.read_text() for path in (project / "tests").iterdir())
    (project / "session.jsonl").unlink()
    passed = pytest_in(project, "tests")
    assert "1 passed" in passed.stdout, passed.stdout + passed.stderr
    (project / "mine.py").write_text(POLICY.replace("stays", "remains"))
    failed = pytest_in(project, "tests")
    assert (
        "call 2, delete_file: was block by keep_files: {path} stays, now block by keep_files: {path} remains"
        in failed.stdout
    )
    assert "1 passed" in pytest_in(project, "tests", "--hooksdk-update").stdout
    assert "1 passed" in pytest_in(project, "tests").stdout
    done = await hooksdk(
        "replay", "tests/test_mine.session.jsonl", "--plugin", "mine.py", "--as-test", "tests/test_mine", folder=project
    )
    assert done.code == 1
    assert "is there already" in done.complaint


async def test_a_test_takes_the_settings_the_definitions_and_what_was_said_with_it(project: Path) -> None:
    (project / "none" / "hooksdk").mkdir(parents=True)
    (project / "none" / "hooksdk" / "config.toml").write_text(
        '[plugins.keep_files.config]\nreason = "isn\'t \\"gone\\""\n'
    )
    (project / "tools.json").write_text('[{"id": "mcp:disk:delete_file"}]')
    done = await hooksdk(
        "replay", "session.jsonl", "--plugin", "mine:KeepFiles", "--tools", "tools.json", "--as-test", "test_mine.py", "--whole",
        "--values", folder=project,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert SAID in (project / "test_mine.session.jsonl").read_text()
    assert "b.md isn't" in (project / "test_mine.test_the_decisions_stay.decisions.json").read_text()
    passed = pytest_in(project, "test_mine.py")
    assert "1 passed" in passed.stdout, passed.stdout + passed.stderr


async def test_a_decision_that_hangs_on_what_was_said_is_told_when_that_is_left_out(project: Path) -> None:
    (project / "mine.py").write_text(
        "from hooksdk import hooks\nfrom hooksdk.hooks import AgentStart, Block\n\n\n@hooks.agent_start\n"
        "def judge(event: AgentStart) -> Block | None:\n    return Block('no') if 'nobody' in str(event.input) else None\n"
    )
    done = await hooksdk("replay", "session.jsonl", "--plugin", "mine.py", "--as-test", "test_mine.py", folder=project)
    assert "3 decisions are others; --whole keeps it" in done.out
