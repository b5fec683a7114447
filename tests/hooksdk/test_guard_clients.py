"""The guard behind a real Claude Code: `REAL_CLIENTS=FOLDER pytest tests/hooksdk/test_guard_clients.py`, after
`scripts/real_clients.sh FOLDER claude`."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk.guard import client
from hooksdk.testing import Turn, call
from hooksdk.testing.server import ScriptedServer

CLAUDE = Path(os.environ.get("REAL_CLIENTS", "nowhere")) / "node_modules" / ".bin" / "claude"
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.anyio,
    pytest.mark.skipif(not CLAUDE.exists(), reason="set REAL_CLIENTS to a folder of scripts/real_clients.sh"),
]
RULES = """
[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "Bash"
command = ["rm"]
reason = "nothing is removed here"

[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "Write"
title = "Write it?"
"""
REDACTS = """
from hooksdk import ToolResult, hooks
from hooksdk.hooks import Replace


class Redacts:
    @hooks.transform_tool_result
    def redact(self, event):
        blocks = [{**one, "text": one["text"].replace("AKIA", "[key]")} for one in event.result.blocks]
        return Replace(ToolResult(blocks=blocks))
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def play(root: Path, *calls: Any) -> tuple[list[str], list[str]]:
    """What the model read after each of these calls, and the files of the project at the end."""
    project, config = root / "project", root / "config" / "hooksdk"
    for folder in (project, config, root / "home" / ".claude"):
        folder.mkdir(parents=True)
    (project / "hooksdk.toml").write_text(RULES)
    (config / "redacts.py").write_text(REDACTS)
    (config / "config.toml").write_text(f"plugins_file = '{config / 'redacts.py'}'\n")
    command = f"{sys.executable} -I -S {client.__file__} claude-code || exit 2"
    entry = [{"hooks": [{"type": "command", "command": command, "timeout": 60, "onFailure": "block"}]}]
    names = ("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd")
    settings = {"hooks": dict.fromkeys(names, entry), "permissions": {"allow": ["Bash", "Write"]}}
    (root / "home" / ".claude" / "settings.json").write_text(json.dumps(settings))
    results: list[str] = []
    asked = 0

    def script(turn: Turn) -> Any:
        nonlocal asked
        if "Bash" not in turn.offered:  # a title for the session, say
            return "A title."
        if asked:
            results.append(turn.result.text)
        asked += 1
        return calls[asked - 1] if asked <= len(calls) else "Done."

    async with ScriptedServer(script) as server:
        plain = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "CLAUDE", "HOOKSDK"))
        }
        variables = plain | {
            "HOME": str(root / "home"), "HOOKSDK_HOME": str(root / "state"), "XDG_CONFIG_HOME": str(root / "config"),
            "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.anthropic_url, "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        with anyio.fail_after(120):
            await anyio.run_process([str(CLAUDE), "-p", "do it"], cwd=project, env=variables)
    os.kill(json.loads((root / "state" / "guard" / "judge.json").read_text())["pid"], signal.SIGTERM)
    return results, sorted(path.name for path in project.iterdir())


async def test_a_denied_a_redacted_and_an_asked_call_in_a_run_without_a_person():
    with tempfile.TemporaryDirectory(prefix="guard-", ignore_cleanup_errors=True) as place:
        root = Path(place)
        write = call("Write", file_path=str(root / "project" / "w.txt"), content="hi")
        denied, shown = call("Bash", command="touch a; rm a"), call("Bash", command="echo AKIA1 > b; cat b")
        results, files = await play(root, denied, shown, write)
    assert "nothing is removed here" in results[0]
    assert results[1].startswith("[key]1")
    assert "Write it?" in results[2]
    assert files == ["b", "hooksdk.toml"]
