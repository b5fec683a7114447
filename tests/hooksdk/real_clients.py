"""Real coding agents and their scripted model, each with a home of its own. `scripts/real_clients.sh FOLDER` installs them,
and `REAL_CLIENTS=FOLDER` lets the tests find them; nothing is installed here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import termios
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
import tomlkit
from scripted_servers import Scripted
from warm import Done

from hooksdk.cli._guard.program import OTHER_VARIABLES, PROGRAMS
from hooksdk.testing import Call, SeenResult, Turn
from hooksdk.testing.server import ScriptedServer

PROMPT = "Do what is to be done with the notes."
TIME_LIMIT = 150
"""Seconds for one run of an agent; a first start on a busy machine takes some."""


def program(name: str) -> Path:
    """The installed program, or a skip that says what is missing."""
    folder = os.environ.get("REAL_CLIENTS")
    if not folder:
        pytest.skip("REAL_CLIENTS is not set: scripts/real_clients.sh FOLDER installs the clients")
    found = Path(folder) / "node_modules" / ".bin" / name
    if not found.exists():
        pytest.skip(f"{name} is not in {folder}: scripts/real_clients.sh FOLDER {name} installs it")
    return found


@dataclass
class Agent:
    """How a coding agent is configured, started and asked once."""

    name: str
    """As `hooksdk gateway install --client` has it."""
    program: str
    arguments: Sequence[str]
    """Before the prompt."""
    file: str
    """Its configuration, in the home."""
    configuration: Callable[[ScriptedServer], dict[str, Any]]
    variables: Callable[[ScriptedServer], dict[str, str]]
    servers_key: str = "mcpServers"
    patience: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What its servers' entries say, so that it waits for one that is not the gateway."""
    at_terminal: Sequence[str] = ()
    """Before the prompt, when a person is there."""
    dialog: Sequence[tuple[str, str]] = ()
    """What the person reads when a policy asks, without blanks, and the keys that say yes to it."""
    at_home: Callable[[Path], dict[str, Any]] = lambda _project: {}
    """What its configuration says so that it asks a person nothing about itself."""
    opening: Call | None = None
    """What a model does first in this agent when it is not shown the servers' tools at once."""


def _claude(server: ScriptedServer) -> dict[str, str]:
    more = {"MCP_TIMEOUT": "120000", "MCP_CONNECTION_NONBLOCKING": "0"}
    return {**PROGRAMS["claude-code"].variables(server), **more}


def _at_claudes_home(project: Path) -> dict[str, Any]:
    return {
        "hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["none"], "rejected": []},
        "projects": {str(project): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }  # fmt: skip


def _codex(server: ScriptedServer) -> dict[str, Any]:
    return {**tomllib.loads(PROGRAMS["codex"].content(server, Path("/"))), "model_context_window": 200_000}


def _settings(agent: str) -> Callable[[ScriptedServer], dict[str, Any]]:
    return lambda server: json.loads(PROGRAMS[agent].content(server, Path("/")))


AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code", "claude", ("--allowedTools", "mcp__hooksdk", "mcp__notes", "-p"), ".claude.json",
            lambda _server: {}, _claude, opening=Call("WaitForMcpServers"),
            at_terminal=("--allowedTools", "mcp__hooksdk", "--"), at_home=_at_claudes_home,
            dialog=(('argumentpath:"a"', "\x1b[C"), ("allowforthissession", "\r"), ("Decision:allow", "\r")),
        ),
        Agent(
            "codex", "codex", ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            ".codex/config.toml", _codex, PROGRAMS["codex"].variables, "mcp_servers",
            {"required": True, "startup_timeout_sec": 120},
            at_home=lambda project: {"projects": {str(project): {"trust_level": "trusted"}}},
            dialog=(("AllowthehooksdkMCPserver", "\r"), ("1.allow", "\r")),
        ),
        Agent(
            "gemini", "gemini", ("--yolo", "--skip-trust", "-p"), ".gemini/settings.json", _settings("gemini"),
            PROGRAMS["gemini"].variables,
        ),
        Agent(
            "qwen", "qwen", ("--yolo", "-p"), ".qwen/settings.json", _settings("qwen"),
            PROGRAMS["qwen"].variables,
            opening=Call("tool_search", {"query": "select:mcp__hooksdk__tool_search,mcp__hooksdk__tool_call"}),
        ),
    )
}  # fmt: skip


class Desk:
    """An agent's home, the project that it is started in, and one server, `notes`."""

    def __init__(
        self, folder: Path, agent: Agent, server: ScriptedServer, *tools: dict[str, Any], entry: Mapping[str, Any] | None = None
    ) -> None:  # fmt: skip
        """`entry` is of another server in the place of a scripted one with these tools."""
        self.agent = agent
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir(parents=True)
        self.notes = Scripted(folder / "notes", *tools)
        self.configuration = self.home / agent.file
        self.configuration.parent.mkdir(parents=True, exist_ok=True)
        content = {
            **agent.configuration(server),
            **agent.at_home(self.project),
            agent.servers_key: {"notes": {**(entry or self.notes.entry), **agent.patience}},
        }
        text = tomlkit.dumps(content) if self.configuration.suffix == ".toml" else json.dumps(content, indent=2)
        self.configuration.write_text(text)
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith(OTHER_VARIABLES)}
        self._environment |= {"HOME": str(self.home), "HOOKSDK_HOME": str(self.home / "kept"), "NO_PROXY": "127.0.0.1"}
        self._environment |= agent.variables(server)
        self.variables: dict[str, str] = {}
        """More of them, for what is started from now on."""

    async def gateway(self, *arguments: str) -> Done:
        """`hooksdk gateway` with these arguments, as the agent's user types it."""
        client = ["--client", self.agent.name, "--yes"]
        return await self._run([sys.executable, "-P", "-m", "hooksdk", "gateway", *arguments, *client])

    async def guard(self, *arguments: str) -> Done:
        """`hooksdk guard` with these arguments, as the agent's user types it."""
        client = ["--client", self.agent.name, "--yes"]
        return await self._run([sys.executable, "-P", "-m", "hooksdk", "guard", *arguments, *client])

    async def hooksdk(self, *arguments: str) -> Done:
        """`hooksdk` with these arguments, as the agent's user types it."""
        return await self._run([sys.executable, "-P", "-m", "hooksdk", *arguments])

    async def ask(self, *more: str, prompt: str = PROMPT) -> Done:
        """Start the agent, with the prompt, and wait for its end."""
        return await self._run([str(program(self.agent.program)), *self.agent.arguments, *more, prompt])

    async def sit_down(self) -> None:
        """Start the agent in a terminal, with the prompt, and answer as the person whom a policy asks. Ends it afterwards."""
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (50, 140))
        process = await anyio.open_process(
            [str(program(self.agent.program)), *self.agent.at_terminal, PROMPT],
            cwd=self.project, env={**self._environment, "TERM": "xterm-256color"},
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        seen = b""
        try:
            for words, keys in self.agent.dialog:
                seen = b""
                with anyio.fail_after(TIME_LIMIT):
                    while words not in _words(seen):
                        seen += await anyio.to_thread.run_sync(os.read, ours, 65536, abandon_on_cancel=True)
                await anyio.sleep(1)  # it may not take keys before it has drawn itself
                os.write(ours, keys.encode())
            with anyio.fail_after(TIME_LIMIT):
                while "Theend:" not in _words(seen):
                    seen += await anyio.to_thread.run_sync(os.read, ours, 65536, abandon_on_cancel=True)
        except TimeoutError:
            raise AssertionError(f"not seen in the terminal: {_words(seen)[-2000:]}") from None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            self._end_daemons()
            os.close(ours)

    def _end_daemons(self) -> None:
        """Codex leaves programs behind that it has installed into its home, each in a session of its own."""
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if place.read_bytes().startswith(os.fsencode(self.home)):
                    os.kill(int(place.parent.name), signal.SIGKILL)

    def configure(self, text: str) -> None:
        """The user's own `config.toml` of hooksdk."""
        file = self.home / ".config" / "hooksdk" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def servers(self) -> dict[str, Any]:
        """What the agent's configuration says of servers."""
        text = self.configuration.read_text()
        content = tomllib.loads(text) if self.configuration.suffix == ".toml" else json.loads(text)
        return content[self.agent.servers_key]

    async def _run(self, command: Sequence[str]) -> Done:
        with anyio.fail_after(TIME_LIMIT):
            done = await anyio.run_process(
                command,
                cwd=self.project,
                env={**self._environment, **self.variables},
                check=False,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def _words(drawn: bytes) -> str:
    """What a terminal was told to draw, without blanks and without the ways of the cursor."""
    plain = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[^\[\]])", "", drawn.decode(errors="replace"))
    return "".join(plain.split())


class Plan:
    """A model that takes one step after another, and then says what the last one brought. What an agent asks besides, such
    as for a title, is answered with a word."""

    def __init__(self, agent: Agent, *steps: tuple[str, dict[str, Any]]) -> None:
        self.opening = agent.opening
        self.openings = 20
        self.steps = list(steps)
        self.asked = 0
        self.offered: list[str] = []
        """The names of the servers' tools, as the agent calls them, when the model saw them first."""
        self.results: list[SeenResult] = []
        """What came back from the steps."""

    def __call__(self, turn: Turn) -> Call | str:
        names = [name for name in turn.offered if "hooksdk" in name or "notes" in name]
        if not names:
            opening, self.openings = self.opening, self.openings - 1
            if opening is None or opening.tool not in turn.offered or self.openings < 0:
                return "Fine."
            return opening
        self.offered = self.offered or names
        self.asked += 1
        self.results += turn.results if self.asked > 1 else ()
        if self.asked > len(self.steps):
            return f"The end: {turn.results[-1].text if turn.results else 'nothing was called'}"
        tool, arguments = self.steps[self.asked - 1]
        return Call(next((name for name in names if re.search(rf"(_|\.){tool}$", name)), tool), arguments)
