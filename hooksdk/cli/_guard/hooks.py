"""The guard's hooks in the settings of an agent: where they go, what they are, and the text with and without them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits import json_text
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.guard import AGENTS, client
from hooksdk.values import as_list, as_object, is_list, is_object, plain_json, read_json

Scope = Literal["user", "project", "local"]
TITLE = "hooksdk guard"
SECONDS = 60
"""How long an agent waits for a hook: longer than the hook itself waits, since an agent whose own limit is over runs the call."""
_FOLDERS = {"claude-code": ".claude", "codex": ".codex", "gemini": ".gemini", "qwen": ".qwen"}
_FOLDER_VARIABLES = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
_IN_MILLISECONDS = {"gemini", "qwen"}

OPEN: Mapping[str, tuple[str, ...]] = {
    "claude-code": (
        "a redactor that fails after a call shows the model the original result",
        "before 2.1.330 Claude Code runs a call whose hook is ended by its own time limit of 60 s",
    ),
    "codex": (
        "Codex skips hooks that you have not reviewed, without a word: start it once in a terminal and look at its hooks",
        "Codex runs a call whose hook is ended by its own time limit of 60 s",
        "a call whose arguments a policy has changed is not asked about by Codex itself",
    ),
    "gemini": ("Gemini CLI runs a call whose hook is ended by its own time limit of 60 s",),
    "qwen": (
        "Qwen Code runs a call whose hook is ended by its own time limit of 60 s",
        "a call whose arguments a policy changes is refused, and the model told the others: Qwen Code takes none from a hook",
        "what a failed call says reaches the model as it is: Qwen Code lets nobody change it",
    ),
}
"""What the guard cannot close in each agent, as it was seen in the programs themselves."""


@dataclass(frozen=True)
class HookFile:
    """The file in which an agent has its hooks."""

    agent: str
    scope: Scope
    path: Path

    def read(self, text: str) -> dict[str, Any]:
        """All settings in it. Raises `ConfigError`."""
        plain = plain_json(text.removeprefix("\ufeff"))
        try:
            settings: Any = read_json(plain) if plain.strip() else {}
        except ValueError as error:
            raise ConfigError(str(self.path), (str(error),)) from None
        hooks = settings.get("hooks", {}) if is_object(settings) else None
        if not is_object(hooks) or not all(is_list(groups) for event, groups in hooks.items() if event in self._events):
            raise ConfigError(str(self.path), ('expected an object such as {"hooks": {"EVENT": [...]}}',))
        return as_object(settings)

    def installed(self, text: str, *, trial: bool = False) -> str:
        """The text with the guard's hooks as they are now, behind all others; with `trial` they refuse nothing. Raises
        `ConfigError`."""
        new = self.removed(text, like=text)
        new = new if new.strip("\ufeff \t\r\n") else f"{new.rstrip()}{{}}\n"
        for event in self._events:
            new = json_text.add_item(new, ["hooks", event], self._group(event, trial=trial))
        return self._checked(new, text, like=text)

    def removed(self, text: str, *, like: str) -> str:
        """The text without the guard's hooks. What is empty then goes, unless it was there in `like`. Raises `ConfigError`."""
        new = text
        for event, at, group in reversed([*self._groups(text)]):
            entries = as_list(group.get("hooks"))
            places = [place for place, entry in enumerate(entries) if self._is_ours(entry)]
            if len(places) == len(entries):
                new = json_text.remove_member(new, ["hooks", event], f"{at}")
            else:
                for place in reversed(places):
                    new = json_text.remove_member(new, ["hooks", event, f"{at}", "hooks"], f"{place}")
        before = as_object(self.read(like).get("hooks"))
        for event in self._events:
            if event not in before and as_object(self.read(new).get("hooks")).get(event) == []:
                new = json_text.remove_member(new, ["hooks"], event)
        if "hooks" not in self.read(like) and self.read(new).get("hooks") == {}:
            new = json_text.remove_member(new, [], "hooks")
        return self._checked(new, text, like=like)

    def events(self, text: str) -> set[str]:
        """The agent's hooks behind which the guard is. Raises `ConfigError`."""
        return {event for event, _, _ in self._groups(text)}

    def notes(self, text: str) -> list[str]:
        """What else in these settings keeps the guard from working."""
        off = self.read(text).get("disableAllHooks") is True
        return [f"{self.path} says disableAllHooks, so no hook runs"] if off else []

    @property
    def _events(self) -> Mapping[str, Any]:
        return AGENTS[self.agent].events

    def _groups(self, text: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """The entries with hooks of ours among theirs: event, place, entry."""
        hooks = as_object(self.read(text).get("hooks"))
        for event in self._events:
            for at, group in enumerate(as_list(hooks.get(event))):
                if any(self._is_ours(entry) for entry in as_list(as_object(group).get("hooks"))):
                    yield event, at, as_object(group)

    def _is_ours(self, entry: Any) -> bool:
        command = as_object(entry).get("command")
        pattern = rf"hooksdk[/\\]guard[/\\]client\.py'?\s+{re.escape(self.agent)}\b"
        return isinstance(command, str) and re.search(pattern, command) is not None

    def _group(self, event: str, *, trial: bool) -> dict[str, Any]:
        kind, late = self._events[event], SECONDS * (1000 if self.agent in _IN_MILLISECONDS else 1)
        entry: dict[str, Any] = {"type": "command", "command": hook_command(self.agent, trial=trial), "timeout": late}
        if self.agent in _IN_MILLISECONDS:
            entry["name"] = TITLE
        if self.agent == "claude-code" and kind == "before_call" and not trial:
            entry["onFailure"] = "block"
        return {"hooks": [entry]}

    def _checked(self, new: str, old: str, *, like: str) -> str:
        """The new text, when it says the same as the old one but for our hooks."""
        if self._others(new, like) != self._others(old, like):
            raise ConfigError(str(self.path), ("its hooks cannot be changed without changing more of it",))
        return new

    def _others(self, text: str, like: str) -> Any:
        settings, before = self.read(text), as_object(self.read(like).get("hooks"))
        hooks: dict[str, Any] = {}
        for event, groups in as_object(settings.get("hooks")).items():
            left: list[Any] = []
            for group in as_list(groups) if event in self._events else []:
                entries = as_list(as_object(group).get("hooks"))
                rest = [entry for entry in entries if not self._is_ours(entry)]
                if rest or not entries:
                    left.append({**as_object(group), "hooks": rest} if entries else group)
            if event not in self._events:
                hooks[event] = groups
            elif left or event in before:
                hooks[event] = left
        return {**settings, "hooks": hooks}


def hook_command(agent: str, *more: str, trial: bool = False) -> str:
    """What an agent's hooks run. A shell that cannot start it refuses, too; with `trial` nothing is refused."""
    command = [sys.executable, "-I", "-S", str(client.__file__), agent, *more]
    return f"{shlex.join([*command, client.TRY])} || exit 0" if trial else f"{shlex.join(command)} || exit 2"


def need_sockets() -> None:
    """Raise `CommandProblem` where the guard cannot be."""
    if sys.platform == "win32":
        raise CommandProblem(
            "the guard needs Unix sockets, and Windows has none that Python offers: it is not there yet"
        )


def judge_folder(*, make: bool = True) -> Path:
    """Where the judge has its files. Raises `CommandProblem` for a folder that cannot be used, as `client.guard_folder` says."""
    try:
        return Path(client.guard_folder(make=make))
    except client.NoJudge as error:
        raise CommandProblem(str(error)) from None


def check_agent(name: str) -> str:
    """The name again. Raises `CommandProblem` for one that is no agent's."""
    if name not in AGENTS:
        known = did_you_mean(name, AGENTS) or f" Agents: {', '.join(AGENTS)}"
        raise CommandProblem(f"the guard knows no agent '{name}'.{known}")
    return name


def hook_file(agent: str, scope: Scope, project: Path, file: Path | None = None) -> HookFile:
    """Where an agent has its hooks. Raises `CommandProblem` for an agent that has none in this place."""
    title, folder = AGENTS[check_agent(agent)].title, _FOLDERS[agent]
    name = "hooks.json" if agent == "codex" else "settings.json"
    if file is not None:
        return HookFile(agent, scope, file.expanduser().absolute())
    if scope == "user":
        own = os.environ.get(_FOLDER_VARIABLES.get(agent, "")) or Path.home() / folder
        return HookFile(agent, scope, Path(own).expanduser().absolute() / name)
    if scope == "local" and agent != "claude-code":
        raise CommandProblem(f"{title} has no settings of a folder that stay yours; leave --local out")
    if agent == "codex":
        raise CommandProblem("Codex reads no hooks of a project; leave --project out")
    return HookFile(agent, scope, project / folder / ("settings.local.json" if scope == "local" else name))
