"""The coding agents' own programs for the guard's self-test: each with a home of its own, before a scripted model on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from hooksdk.cli._guard.hooks import HookFile, hook_command
from hooksdk.guard import AGENTS
from hooksdk.testing import Call, Turn
from hooksdk.testing.server import ScriptedServer

SECONDS = 90
"""How long one run of a program may take; its first start on a busy machine takes some."""
OTHER_VARIABLES = ("HOOKSDK_", "OPENAI_", "ANTHROPIC_", "CLAUDE", "CODEX_", "GEMINI_", "GOOGLE_", "QWEN_", "XDG_")
"""Beginnings of variables that lead a program to the user's own settings, or to a real model."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """How an agent's program is started once, so that it asks a person nothing."""

    name: str
    arguments: Sequence[str]
    """Before the prompt."""
    tool: str
    """Its tool that runs commands."""
    arguments_of: Callable[[str], dict[str, Any]]
    variables: Callable[[ScriptedServer], dict[str, str]]
    hooks: str
    """Its file of hooks, in the home."""
    settings: str
    """Its other settings, in the home: the same file, or another."""
    content: Callable[[ScriptedServer, Path], str]
    """What stands in the settings; the path is the project's."""


def _claude_variables(server: ScriptedServer) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": server.anthropic_url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1",
    }  # fmt: skip


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


def _key_settings(kind: str, *switches: str) -> Callable[[ScriptedServer, Path], str]:
    settings = {
        "security": {"auth": {"selectedType": kind}}, "privacy": {"usageStatisticsEnabled": False},
        "general": {switch: switch.startswith("disable") for switch in switches},
    }  # fmt: skip
    return lambda _server, _project: json.dumps(settings)


PROGRAMS = {
    "claude-code": Program(
        name="claude", arguments=("--allowedTools", "Bash", "-p"), tool="Bash",
        arguments_of=lambda line: {"command": line}, variables=_claude_variables,
        hooks=".claude/settings.json", settings=".claude.json",
        content=lambda _server, _project: json.dumps({"hasCompletedOnboarding": True}),
    ),
    "codex": Program(
        name="codex", arguments=("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"),
        tool="exec_command", arguments_of=lambda line: {"cmd": line}, variables=lambda _server: {"SCRIPTED_KEY": "none"},
        hooks=".codex/hooks.json", settings=".codex/config.toml", content=_codex_content,
    ),
    "gemini": Program(
        name="gemini", arguments=("--yolo", "--skip-trust", "-p"), tool="run_shell_command",
        arguments_of=lambda line: {"command": line},
        variables=lambda server: {
            "GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": server.gemini_url, "GEMINI_MODEL": "gemini-2.5-pro",
            "GEMINI_TELEMETRY_ENABLED": "false",
        },
        hooks=".gemini/settings.json", settings=".gemini/settings.json",
        content=_key_settings("gemini-api-key", "enableAutoUpdate", "enableAutoUpdateNotification"),
    ),
    "qwen": Program(
        name="qwen", arguments=("--yolo", "-p"), tool="run_shell_command",
        arguments_of=lambda line: {"command": line, "description": "a test"},
        variables=lambda server: {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": server.openai_url, "OPENAI_MODEL": "scripted"},
        hooks=".qwen/settings.json", settings=".qwen/settings.json",
        content=_key_settings("openai", "disableAutoUpdate", "disableUpdateNag"),
    ),
}  # fmt: skip


def find_program(agent: str) -> str | None:
    """Where the agent's program is, if it can be started here."""
    return shutil.which(PROGRAMS[agent].name)


async def is_refused(
    agent: str, path: str, line: str, *, project: Path, trial: bool, more: Sequence[str], variables: Mapping[str, str]
) -> bool | None:
    """Have the program's model run this line in its shell, behind the guard's hooks: True where the call came to nothing, which
    is a line that makes no file named `ran`; None where the program made no call, so that nothing can be said of it.
    `more` goes to the hook's command, `variables` into its environment."""
    program, calls, result = PROGRAMS[agent], 0, project / "ran"
    result.unlink(missing_ok=True)
    is_answered = False

    def script(turn: Turn) -> Call | str:
        nonlocal calls, is_answered
        if program.tool not in turn.offered:  # it asks for a title, or the like
            return "Fine."
        is_answered = is_answered or bool(calls and turn.results)
        calls += 1
        return Call(program.tool, program.arguments_of(line)) if calls == 1 else "The end."

    home = project.parent / "home"
    shutil.rmtree(home, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OTHER_VARIABLES)}
    async with ScriptedServer(script) as server:
        settings, hooks = home / program.settings, home / program.hooks
        for file in (settings, hooks):
            file.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(program.content(server, project), "utf-8")
        text = hooks.read_text("utf-8") if hooks.exists() else ""
        hooks.write_text(_with_guard(HookFile(agent, "user", hooks), text, trial, more), "utf-8")
        environment |= {"HOME": str(home), "NO_PROXY": "127.0.0.1", **variables, **program.variables(server)}
        with anyio.move_on_after(SECONDS):
            await anyio.run_process(
                [path, *program.arguments, "Do what is to be done."], cwd=project, env=environment, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
    return not result.exists() if is_answered or result.exists() else None


def _with_guard(file: HookFile, text: str, trial: bool, more: Sequence[str]) -> str:
    """The settings with the one hook that judges. The others would end the run before its call where there is no judge."""
    settings = file.read(file.installed(text, trial=trial))
    judging = {event for event, kind in AGENTS[file.agent].events.items() if kind == "before_call"}
    settings["hooks"] = {event: groups for event, groups in settings["hooks"].items() if event in judging}
    for groups in settings["hooks"].values():
        groups[-1]["hooks"][0]["command"] = hook_command(file.agent, *more, trial=trial)
    return json.dumps(settings)
