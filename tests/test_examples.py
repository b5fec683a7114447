"""Every example runs, quickly, and prints what it promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

EXAMPLES = Path(__file__).parent.parent / "examples"
LINES = 60
SECONDS = 240
"""Each takes less than 1.5 s where nothing else runs."""
PROMISED = {
    "01_log_catalog.py": ["4 tools, attempt 1", "mcp:github:create_issue", "(title, labels)"],
    "02_policy.py": ["/etc/passwd is outside the workspace", "report.txt? -> no", "draft.txt is gone", "'blocked': 2"],
    "03_budget_for_a_task.py": ["session: see elsewhere", "tool: see elsewhere; Error: Blocked by", "calls_left: 0"],
    "04_plugin_with_tools.py": ["read_all{'most': 0} -> invalid", "asked for by a tool", "'b': 'call Ann'"],
    "05_trim_results.py": ["r1 (list_files): 6,689 -> ", "r1 can still be read: 6,689 characters"],
    "06_host_in_your_loop.py": ["plugin: add ok", "run completed after 2 model calls", "It is 5.0."],
    "07_mcp_servers.py": ["git: up, 12 tools", "git_log: ok, asked for by the bridge", "Message: Begin with a test"],
    "08_test_your_plugin.py": ["passed"],
    "09_code_mode.py": ["order_fruit: blocked, asked for by the code", "2 crates of apples", "at most five crates"],
    "10_done_when_tests_pass.py": [
        "All tests pass!\ntest_total.py has not run since the last change. Go on.",
        "Done.\ntest_total.py fails. Go on.",
        "Done now.\ntest_total.py has not run since the last change. Go on.\npassed\nDone, and tested.\ncompleted",
    ],
}
if hasattr(os, "WUNTRACED"):  # its worker is stopped by a signal
    PROMISED["fenced_bank.py"] = [
        "B asks: Run 'pay' again? It may have taken effect. No\nA wakes. Does it hold the session? False",
        "The bank: refused: fence 1, and another worker came with 2",
        "A ends: its session is another's\nPayments: []",
    ]


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_the_example_runs_and_prints_what_it_promises(name: str, tmp_path: Path):
    # The plain interpreter: an example must not lean on the settings of the tests.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    environment["PYTEST_ADDOPTS"] = (
        "-p no:asyncio"  # a plugin that the tests need, and that prints a warning of its own
    )
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for text in PROMISED[name]:
        assert text in done.stdout
    assert list(tmp_path.glob("*.jsonl")) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("[0-9]*.py")), ids=lambda path: path.name)
def test_the_example_is_short(path: Path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES
