"""`hooksdk gateway install` says what the tools cost, and `hooksdk gateway try` what the search would have saved."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from scripted_servers import Scripted
from test_gateway_install import Desk, desk

__all__ = ["desk"]
pytestmark = pytest.mark.heavy
CLAUDE = "home/.claude.json"


def notes(desk: Desk, count: int) -> Path:
    path = {"type": "object", "properties": {"path": {"type": "string", "description": "Which note, by its path."}}}
    tools = [
        {"name": f"task_{number}", "description": "Do a thing with a note, and say how.", "inputSchema": path}
        for number in range(count)
    ]
    entry = Scripted(desk.home.parent / "notes", *tools).entry
    return desk.write(CLAUDE, {"mcpServers": {"notes": entry, "gone": {"command": "no-such"}}})


@pytest.mark.parametrize(
    ("count", "more", "hides"), [(60, (), True), (3, (), False), (3, ("--expose", "bridge"), True)]
)
def test_install_says_what_the_tools_cost_and_hides_where_that_saves(
    desk: Desk, count: int, more: tuple[str, ...], hides: bool
) -> None:
    file = notes(desk, count)
    before = file.read_bytes()
    done = desk.type("install", "--client", "claude-code", "--yes", "--json", *more).json()
    figures = done["figures"]
    assert (figures["tools"], figures["behind"], figures["hides"], [*figures["not_started"]]) == (
        count,
        4,
        hides,
        ["gone"],
    )
    args = json.loads(file.read_text())["mcpServers"]["hooksdk"]["args"]
    assert args[len(args) - len(more) :] == [*more] or not more
    assert desk.type("uninstall", "--client", "claude-code", "--yes").code == 0
    assert file.read_bytes() == before


def test_the_command_line_that_differs_from_the_settings_is_told(desk: Desk) -> None:
    notes(desk, 60)
    desk.write("home/.config/hooksdk/config.toml", '[gateway]\nexpose = "direct"\n')
    shown = desk.type("install", "--client", "claude-code", "--dry-run").out
    assert "every tool (direct)" in shown
    shown = desk.type("install", "--client", "claude-code", "--dry-run", "--expose", "bridge").out
    assert 'your settings say expose = "direct"' in shown
    assert "the search (bridge)" in shown


def test_a_misspelt_expose_changes_nothing(desk: Desk) -> None:
    file = notes(desk, 3)
    before = file.read_bytes()
    done = desk.type("install", "--client", "claude-code", "--yes", "--expose", "brigde")
    assert (done.code, file.read_bytes()) == (2, before)


def test_try_reads_the_transcripts_and_names_the_tools_that_were_called(desk: Desk) -> None:
    notes(desk, 60)
    call: dict[str, object] = {"type": "tool_use", "name": "mcp__notes__task_7", "input": {}}
    line = {"type": "assistant", "sessionId": "s", "cwd": "/", "timestamp": datetime.now(UTC).isoformat()}
    desk.write("home/.claude/projects/p/s.jsonl", json.dumps({**line, "message": {"content": [call]}}) + "\n")
    one = desk.type("try", "--client", "claude-code", "--json").json()["clients"]["claude-code"]
    assert (one["calls"], one["sessions"], one["called"]) == (1, 1, {"mcp__notes__task_7": 1})
    assert one["saved_at_least"] == 2 * one["figures"]["saved"] > 2_000
