"""`hooksdk guard pause`, `off`, `on`, `status` and `install --try`: what a person types."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import guard_home
import pytest
from commands import COMMAND
from guard_hooks import before, hook
from warm import run

from hooksdk.cli._gateway.places import is_gateway
from hooksdk.cli._guard.hooks import OPEN
from hooksdk.guard import AGENTS

pytestmark = pytest.mark.heavy
RULES = """
[[plugins.tool_policy.config.rules]]
action = "deny"
command = ["rm"]
"""


class Home(guard_home.Home):
    """One with a person at its terminal, and Claude Code's hook."""

    def type(self, *words: str, answer: str) -> tuple[int, str]:
        """At a terminal, and the answer to the question."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "guard", *words],
            cwd=self.project,
            env=self.variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while part := os.read(ours, 1024):
                seen += part
                if b"[y/N]" in seen and answer:
                    os.write(ours, f"{answer}\n".encode())
                    answer = ""
        os.close(ours)
        return process.wait(), " ".join(seen.decode().split())

    def ask(self, payload: dict[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the hook that is in Claude Code's settings, as it does."""
        settings = json.loads((self.folder / ".claude" / "settings.json").read_text())
        command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
        return subprocess.run(
            command, shell=True, cwd=self.project, env={**self.variables, **variables}, input=json.dumps(payload), text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip


@pytest.fixture
def home() -> Iterator[Home]:
    with guard_home.short_folder() as folder:
        (folder / "project" / "hooksdk.toml").write_text(RULES)
        yield Home(folder)
        with contextlib.suppress(OSError, ValueError):
            os.kill(json.loads((folder / "kept" / "guard" / "judge.json").read_text())["pid"], signal.SIGKILL)


def test_a_person_pauses_the_guard_and_switches_it_on_again(home: Home):
    home.guard("install", "--client", "claude-code", "--yes")
    call = before(home.project, command="rm a")
    assert '"deny"' in home.ask(call).stdout
    code, seen = home.type("pause", "10m", answer="y")
    assert code == 0, seen
    assert "Refuse nothing until" in seen
    assert "In force again: hooksdk guard on" in seen
    assert home.ask(call).stdout == ""
    assert home.guard("status").out.startswith("paused      a person has paused the guard: it refuses nothing until ")
    assert "typed at /dev/" in (home.folder / "kept" / "guard" / "judge.log").read_text()
    assert home.guard("on").out == "The guard is in force wherever it is installed.\n"
    assert '"deny"' in home.ask(call).stdout
    assert json.loads(home.guard("status", "--json").out)["paused"] is None


def test_off_lasts_until_it_is_switched_on_also_where_the_rules_are_broken(home: Home):
    home.guard("install", "--client", "claude-code", "--yes")
    (home.project / "hooksdk.toml").write_text("[plugins")
    call = before(home.project, command="rm a")
    assert home.ask(call).returncode == 2
    assert home.type("off", answer="y")[0] == 0
    passed = home.ask(call)
    assert passed.returncode == 0
    assert "hooksdk.toml" in json.loads(passed.stdout)["systemMessage"]
    home.guard("on")
    assert home.ask(call).returncode == 2


@pytest.mark.parametrize("words", [("pause", "10m"), ("off",)])
def test_without_a_terminal_it_is_not_paused(home: Home, words: tuple[str, ...]):
    done = home.guard(*words)
    assert done.code == 1
    assert "paused by a person at a terminal" in done.err
    assert "in force" in home.guard("on").out


def test_a_no_changes_nothing(home: Home):
    code, seen = home.type("off", answer="n")
    assert (code, "nothing was changed" in seen) == (1, True)
    assert not (home.folder / "kept" / "guard" / "paused").exists()


@pytest.mark.parametrize("duration", ["10", "m", "0m", "-5m", "ten minutes"])
def test_what_is_no_duration_is_said(home: Home, duration: str):
    done = home.guard("pause", "--", duration)
    assert done.code == 1
    assert f"'{duration}' is no duration: expected a whole number and s, m, h or d" in done.complaint


@pytest.mark.in_ci(every=2)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_trial_refuses_nothing_whatever_goes_wrong(home: Home, agent: str):
    done = home.guard("install", "--client", agent, "--try", "--yes")
    assert done.code == 0, done
    assert done.out.count("runs        ") == 4
    assert "REFUSED" not in done.out
    assert f"in force    hooksdk guard install --client {agent}" in done.out
    assert "tried     it refuses nothing here" in home.guard("status").out
    again = home.guard("install", "--client", agent, "--yes")
    assert again.out.count("refused     ") == 4
    assert "tried     " not in home.guard("status").out
    assert home.guard("uninstall", "--client", agent, "--yes").code == 0


def test_a_hook_of_a_trial_says_nothing_of_a_denied_call(home: Home):
    home.guard("install", "--client", "claude-code", "--try", "--yes")
    done = home.ask(before(home.project, command="rm a"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert home.ask(before(home.project), HOOKSDK_GUARD_DIR="/").returncode == 0


def test_the_status_says_what_the_judge_has_done(home: Home):
    home.guard("install", "--client", "claude-code", "--yes")
    home.ask(before(home.project, command="rm a"))
    home.ask(before(home.project, command="ls", session="s2"))
    home.ask(hook(home.project, "Stop"))
    assert "2 calls judged, 2 open sessions, rules of " in home.guard("status").out
    judge = json.loads(home.guard("status", "--json").out)["judge"]
    assert (judge["calls"], judge["sessions"], judge["projects"]) == (2, 2, [str(home.project)])


def test_doctor_names_a_pause_and_a_trial(home: Home):
    home.guard("install", "--client", "claude-code", "--try", "--yes")
    assert home.type("off", answer="y")[0] == 0
    told = home.hooksdk("doctor").out
    told = " ".join(told.split())
    assert "a person has paused the guard: it refuses nothing until `hooksdk guard on`" in told
    assert "it refuses nothing here, since it was installed with --try" in told


def test_claude_code_without_a_person_gets_the_number_of_the_question(home: Home):
    (home.project / "hooksdk.toml").write_text(RULES.replace("deny", "ask"))
    home.guard("install", "--client", "claude-code", "--yes")
    asked = json.loads(home.ask(before(home.project, command="rm a")).stdout)["hookSpecificOutput"]
    assert asked["permissionDecision"] == "ask"
    alone = home.ask(before(home.project, call_id="t2", command="rm b"), CLAUDE_CODE_ENTRYPOINT="sdk-cli")
    refusal = json.loads(alone.stdout)["hookSpecificOutput"]
    assert refusal["permissionDecision"] == "deny"
    assert "hooksdk approvals grant 1" in refusal["permissionDecisionReason"]
    granted = home.hooksdk("approvals", "grant", "1")
    assert granted.code == 0, granted
    again = home.ask(before(home.project, call_id="t3", command="rm b"), CLAUDE_CODE_ENTRYPOINT="sdk-cli")
    assert (again.returncode, again.stdout) == (0, "")


@pytest.fixture
def gateway(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The gateway, put before the servers of each agent of this user."""
    for name in ("HOME", "HOOKSDK_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, home.variables[name])
    monkeypatch.delenv("CODEX_HOME", raising=False)
    for agent in AGENTS:
        done = home.hooksdk("gateway", "install", "--client", agent, "--yes")
        assert done.code == 0, done
    return home


@pytest.mark.in_ci(every=2)
@pytest.mark.parametrize("agent", AGENTS)
def test_the_gateway_that_was_installed_is_known(gateway: Home, agent: str):
    assert is_gateway(agent, "hooksdk", gateway.project)
    assert not is_gateway(agent, "notes", gateway.project)
    gateway.hooksdk("gateway", "uninstall", "--client", agent, "--yes")
    assert not is_gateway(agent, "hooksdk", gateway.project)


def test_another_program_under_its_name_is_not_the_gateway(gateway: Home):
    settings = gateway.folder / ".claude.json"
    written = settings.read_text()
    settings.write_text(written.replace('"gateway"', '"-c"'))
    assert not is_gateway("claude-code", "hooksdk", gateway.project)
    settings.write_text(written)
    assert is_gateway("claude-code", "hooksdk", gateway.project)


@pytest.mark.parametrize("where", ["project", "folder"])
def test_a_second_server_of_its_name_means_that_nobody_knows_which_one_is_called(gateway: Home, where: str):
    servers = {"mcpServers": {"hooksdk": {"command": "theirs"}}}
    if where == "project":
        (gateway.project / ".mcp.json").write_text(json.dumps(servers))
    else:
        settings = gateway.folder / ".claude.json"
        whole = json.loads(settings.read_text())
        text = settings.read_text().rstrip().removesuffix("}").rstrip()
        settings.write_text(f'{text}, "projects": {json.dumps({str(gateway.project): servers})}}}')
        assert json.loads(settings.read_text())["mcpServers"] == whole["mcpServers"]
    assert not is_gateway("claude-code", "hooksdk", gateway.project)


def test_settings_that_cannot_be_read_name_no_gateway(gateway: Home):
    (gateway.project / ".mcp.json").write_text("{")
    assert not is_gateway("claude-code", "hooksdk", gateway.project)


def test_the_judge_needs_no_package_of_mcp(home: Home):
    home.guard("install", "--client", "claude-code", "--yes")
    (home.folder / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = sys.modules['mcp_types'] = None\n")
    path = os.pathsep.join(filter(None, [str(home.folder), os.environ.get("PYTHONPATH")]))
    hook = home.ask(before(home.project, command="rm a"), PYTHONPATH=path)
    assert '"deny"' in hook.stdout, hook


@pytest.mark.parametrize("more", [(), ("--try",)])
def test_install_says_when_the_judge_does_not_work(home: Home, more: tuple[str, ...]):
    (home.folder / "anyio.py").write_text("raise ImportError('broken')\n")
    path = os.pathsep.join(filter(None, [str(home.folder), os.environ.get("PYTHONPATH")]))
    words = ["guard", "install", "--client", "claude-code", "--yes", *more]
    done = run(words, folder=home.project, environment={**home.variables, "PYTHONPATH": path}, stdin="")
    assert done.code == 1
    assert (
        "problem     the judge does not work, so no rule counts: hooksdk guard: the judge does not start." in done.out
    )


@pytest.mark.parametrize("agent", OPEN)
def test_the_page_of_an_agent_names_what_stays_open_in_it(agent: str):
    pages = Path(__file__).parents[2] / "docs" / "how-to" / "guard"
    [page] = [text for path in pages.glob("*.md") if f"--client {agent} " in (text := path.read_text("utf-8"))]
    for each in OPEN[agent]:
        assert f"- {each[0].upper()}{each[1:]}.\n" in page
