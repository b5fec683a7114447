"""The coding agents' own programs, each started once before a scripted model on loopback, so that the guard can be
tried.

The self-test of `guard install` gives a program a home of its own; `guard status --prove` starts it where it works.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from hooksdk.cli._guard.hooks import HookFile, hook_command
from hooksdk.guard import AGENTS, PROOF, PROOF_REASON
from hooksdk.testing import Call, Turn
from hooksdk.testing.server import ScriptedServer

# The most seconds of one run of a program, whose first start on a busy machine is slow.
SECONDS = 90
# The beginnings of variables that lead a program to the user's own settings, or to a real model.
OTHER_VARIABLES = ("HOOKSDK_", "OPENAI_", "ANTHROPIC_", "CLAUDE", "CODEX_", "GEMINI_", "GOOGLE_", "QWEN_", "XDG_")

Variables = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Program:
    """The way to start an agent's program once, without a question to a person.

    Attributes:
        arguments: The arguments before the prompt, in a home of its own.
        tool: The tool that runs commands.
        arguments_of: The tool's arguments for a command.
        variables: The variables that lead to the scripted model.
        hooks: The file of hooks, in the home.
        settings: The other settings, in the home: the same file, or another.
        content: The content of the settings, for a project.
        in_place: The arguments and more variables with which the program uses the scripted model and the user's own
            settings.
    """

    name: str
    arguments: Sequence[str]
    tool: str
    arguments_of: Callable[[str], dict[str, Any]] = lambda line: {"command": line}
    variables: Callable[[ScriptedServer], Variables]
    hooks: str
    settings: str
    content: Callable[[ScriptedServer, Path], str]
    in_place: Callable[[ScriptedServer, Variables], tuple[Sequence[str], Variables]]


def _claude_variables(server: ScriptedServer) -> Variables:
    quiet = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
    )
    return {"ANTHROPIC_BASE_URL": server.anthropic_url, "ANTHROPIC_API_KEY": "none", **dict.fromkeys(quiet, "1")}


def _claude_in_place(_server: ScriptedServer, variables: Variables) -> tuple[Sequence[str], Variables]:
    settings = {"env": {**variables, "CLAUDE_CODE_USE_BEDROCK": "", "CLAUDE_CODE_USE_VERTEX": ""}}
    return ("--settings", json.dumps(settings), "--allowedTools", "Bash", "-p"), {}


def _codex_content(server: ScriptedServer, project: Path) -> str:
    return f"""model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{server.openai_url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[projects.{json.dumps(str(project))}]
trust_level = "trusted"
"""


def _codex_in_place(server: ScriptedServer, _variables: Variables) -> tuple[Sequence[str], Variables]:
    # Without --dangerously-bypass-hook-trust: a hook that nobody has reviewed does not run.
    provider = f'{{name="scripted",base_url="{server.openai_url}",wire_api="responses",env_key="SCRIPTED_KEY"}}'
    settings = ('model="scripted"', 'model_provider="scripted"', f"model_providers.scripted={provider}")
    options = [word for setting in settings for word in ("-c", setting)]
    return ("exec", *options, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"), {}


def _gemini_variables(server: ScriptedServer) -> Variables:
    model = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": server.gemini_url, "GEMINI_MODEL": "gemini-2.5-pro"}
    return {**model, "GEMINI_TELEMETRY_ENABLED": "false"}


def _gemini_in_place(_server: ScriptedServer, variables: Variables) -> tuple[Sequence[str], Variables]:
    # Only settings say how it is signed in. One that would ask Google is led here too, and makes no call.
    return ("--yolo", "-p"), {"CODE_ASSIST_ENDPOINT": variables["GOOGLE_GEMINI_BASE_URL"]}


def _qwen_in_place(server: ScriptedServer, _variables: Variables) -> tuple[Sequence[str], Variables]:
    model = ("--auth-type", "openai", "--openai-api-key", "none", "--openai-base-url", server.openai_url)
    return ("--yolo", *model, "--model", "scripted", "-p"), {}


def _key_settings(kind: str, *switches: str) -> Callable[[ScriptedServer, Path], str]:
    settings = {
        "security": {"auth": {"selectedType": kind}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {switch: switch.startswith("disable") for switch in switches},
    }
    return lambda _server, _project: json.dumps(settings)


_UNASKED = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust")
PROGRAMS = {
    "claude-code": Program(
        name="claude",
        arguments=("--allowedTools", "Bash", "-p"),
        tool="Bash",
        variables=_claude_variables,
        hooks=".claude/settings.json",
        settings=".claude.json",
        content=lambda _server, _project: json.dumps({"hasCompletedOnboarding": True}),
        in_place=_claude_in_place,
    ),
    "codex": Program(
        name="codex",
        arguments=("exec", *_UNASKED),
        tool="exec_command",
        arguments_of=lambda line: {"cmd": line},
        variables=lambda _server: {"SCRIPTED_KEY": "none"},
        hooks=".codex/hooks.json",
        settings=".codex/config.toml",
        content=_codex_content,
        in_place=_codex_in_place,
    ),
    "gemini": Program(
        name="gemini",
        arguments=("--yolo", "--skip-trust", "-p"),
        tool="run_shell_command",
        variables=_gemini_variables,
        hooks=".gemini/settings.json",
        settings=".gemini/settings.json",
        content=_key_settings("gemini-api-key", "enableAutoUpdate", "enableAutoUpdateNotification"),
        in_place=_gemini_in_place,
    ),
    "qwen": Program(
        name="qwen",
        arguments=("--yolo", "-p"),
        tool="run_shell_command",
        arguments_of=lambda line: {"command": line, "description": "a test"},
        variables=lambda server: {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": server.openai_url,
            "OPENAI_MODEL": "scripted",
        },
        hooks=".qwen/settings.json",
        settings=".qwen/settings.json",
        content=_key_settings("openai", "disableAutoUpdate", "disableUpdateNag"),
        in_place=_qwen_in_place,
    ),
}


def find_program(agent: str) -> str | None:
    """The path of the agent's program, if it can be started here."""
    return shutil.which(PROGRAMS[agent].name)


class _Model:
    """A scripted model: it calls the program's shell with one line, and ends after the result.

    Attributes:
        read: The results that the program has told the model.
    """

    def __init__(self, program: Program, line: str) -> None:
        self._program, self._line = program, line
        self._calls = 0
        self.read: list[str] = []

    def __call__(self, turn: Turn) -> Call | str:
        if self._program.tool not in turn.offered:  # it asks for a title, or the like
            return "Fine."
        self.read += [one.text for one in turn.results]
        self._calls += 1
        return Call(self._program.tool, self._program.arguments_of(self._line)) if self._calls == 1 else "The end."


async def _start(command: Sequence[str], folder: Path, environment: Variables, output: int) -> bytes:
    """Start a program with a prompt, and wait for its end. What it printed, on stderr or else on stdout."""
    with anyio.move_on_after(SECONDS):
        done = await anyio.run_process(
            [*command, "Do what is to be done."],
            cwd=folder,
            env={**environment, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        return done.stderr or done.stdout or b""
    return b""


async def is_refused(
    agent: str, path: str, line: str, *, project: Path, trial: bool, more: Sequence[str], variables: Variables
) -> bool | None:
    """Let the program's model run a line in its shell, behind the guard's hooks. True when the line was not run, which
    would make a file named `ran`; None when the program made no call, so that nothing can be said of it. `more` goes to
    the hook's command, `variables` into its environment."""
    program, result, home = PROGRAMS[agent], project / "ran", project.parent / "home"
    result.unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OTHER_VARIABLES)}
    model = _Model(program, line)
    async with ScriptedServer(model) as server:
        settings, hooks = home / program.settings, home / program.hooks
        for file in (settings, hooks):
            file.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(program.content(server, project), "utf-8")
        text = hooks.read_text("utf-8") if hooks.exists() else ""
        hooks.write_text(_with_guard(HookFile(agent, "user", hooks), text, trial, more), "utf-8")
        environment |= {"HOME": str(home), **variables, **program.variables(server)}
        await _start([path, *program.arguments], project, environment, subprocess.DEVNULL)
    return not result.exists() if model.read or result.exists() else None


def _with_guard(file: HookFile, text: str, trial: bool, more: Sequence[str]) -> str:
    """The settings with the judging hook alone. Without a judge the others would end the run before its call."""
    settings = file.read(file.installed(text, trial=trial))
    judging = {event for event, kind in AGENTS[file.agent].events.items() if kind == "before_call"}
    settings["hooks"] = {event: groups for event, groups in settings["hooks"].items() if event in judging}
    for groups in settings["hooks"].values():
        groups[-1]["hooks"][0]["command"] = hook_command(file.agent, *more, trial=trial)
    return json.dumps(settings)


@dataclass(frozen=True)
class Proof:
    """The outcome of the call that must be refused.

    Attributes:
        program: None when it is not in the path.
        refused: True when the judge's own words came back.
        seen: The text that the model read, or the output of a program that did not make the call.
    """

    agent: str
    program: str | None
    refused: bool
    ran: bool
    seen: str

    def __str__(self) -> str:
        if self.program is None:
            return f"{self.agent}: its program `{PROGRAMS[self.agent].name}` is not in your PATH, so nothing is proven"
        if self.refused:
            return f"{self.agent}: {self.program} made a call in this folder, and the guard refused it"
        what = "made a call in this folder, and it ran" if self.ran else "made no call here that the guard refused"
        return f"{self.agent}: {self.program} {what}: {self.seen or 'it said nothing'}"


def prove(agent: str, folder: Path) -> Proof:
    """Start the agent's own program in this folder, with the settings that count there."""
    path = find_program(agent)
    return anyio.run(_prove, agent, path, folder) if path else Proof(agent, None, refused=False, ran=False, seen="")


async def _prove(agent: str, path: str, folder: Path) -> Proof:
    program = PROGRAMS[agent]
    with tempfile.TemporaryDirectory(prefix="guard-", ignore_cleanup_errors=True) as own:
        result = Path(own) / PROOF
        model = _Model(program, f"touch {shlex.quote(str(result))}")
        async with ScriptedServer(model) as server:
            variables = program.variables(server)
            arguments, more = program.in_place(server, variables)
            said = await _start([path, *arguments], folder, {**os.environ, **variables, **more}, subprocess.PIPE)
        ran = result.exists()
    seen = " ".join("\n".join(model.read).split() or said.decode(errors="replace").split())[:300]
    return Proof(agent, path, refused=not ran and any(PROOF_REASON in text for text in model.read), ran=ran, seen=seen)
