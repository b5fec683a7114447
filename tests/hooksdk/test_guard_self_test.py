"""The self-test of `hooksdk guard install`, where the agent's program is there: one that ignores its hooks, and one that does
nothing. The real ones are in test_guard_agents.py."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import guard_home
import pytest
from warm import Done, run

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform == "win32", reason="the guard needs Unix sockets"),
]
RUNS_ALL = """
import json, os, subprocess, urllib.request

body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Go."}], "tools": [{"name": "Bash", "input_schema": {"type": "object"}}]}
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), {"content-type": "application/json"}
)
with urllib.request.urlopen(request) as answer:
    (call,) = [block for block in json.load(answer)["content"] if block["type"] == "tool_use"]
subprocess.run(call["input"]["command"], shell=True)
"""
"""A Claude Code that runs what its model calls, and knows no hooks."""


class Home(guard_home.Home):
    """One with a Claude Code of our own in its path."""

    def install(self, program: str, *words: str) -> Done:
        return self.type(program, "install", "--client", "claude-code", "--yes", *words)

    def type(self, program: str, *words: str) -> Done:
        file = self.folder / "bin" / "claude"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!{sys.executable}\n{program}")
        file.chmod(0o755)
        path = f"{file.parent}:{self.variables['PATH']}"
        return run(("guard", *words), folder=self.project, environment={**self.variables, "PATH": path}, stdin="")


@pytest.fixture
def home() -> Iterator[Home]:
    with guard_home.short_folder() as folder:
        yield Home(folder)


def test_a_program_that_runs_the_calls_nonetheless_is_said_and_is_a_failure(home: Home):
    ran = home.install(RUNS_ALL)
    assert ran.code == 1, ran
    assert ran.out.count("RUNS        ") == 4
    assert f"tested      with {home.folder}/bin/claude, in a home of its own" in ran.out


def test_a_program_that_makes_no_call_leaves_the_test_to_the_recorded_protocol(home: Home):
    ran = home.install("raise SystemExit(1)")
    assert ran.code == 0, ran
    assert ran.out.count("refused     ") == 4
    assert "tested      with the recorded protocol" in ran.out


def test_json_names_the_program_that_made_the_calls(home: Home):
    document = json.loads(home.install(RUNS_ALL, "--json").out)
    assert Path(document["program"]) == home.folder / "bin" / "claude"
    assert set(document["refused"].values()) == {False}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (RUNS_ALL, "made a call in this folder, and it ran"),
        ("import sys; sys.exit('not signed in')", "made no call here that the guard refused: not signed in"),
    ],
)
def test_a_proof_in_which_nothing_was_refused_says_what_came_and_is_a_failure(home: Home, program: str, said: str):
    home.guard("install", "--client", "claude-code", "--yes")
    ran = home.type(program, "status", "--prove")
    assert (ran.code, f"claude-code: {home.folder}/bin/claude {said}" in ran.out) == (1, True), ran
    document = json.loads(home.type(program, "status", "--prove", "--json").out)
    (proof,) = document["proof"]
    assert (proof["refused"], proof["ran"]) == (False, program == RUNS_ALL)


def test_a_proof_without_the_agents_program_or_without_the_guard_proves_nothing(home: Home):
    nowhere = {**home.variables, "PATH": "/nowhere"}
    for installed in (False, True):
        if installed:
            home.guard("install", "--client", "qwen", "--yes")
        ran = run(("guard", "status", "--prove"), folder=home.project, environment=nowhere, stdin="")
        assert (ran.code, "`qwen` is not in your PATH, so nothing is proven" in ran.out) == (1, installed), ran
