"""The guard's hooks in the settings of an agent: the files, the entries, and the text with and without them."""

from __future__ import annotations

import math
import os
import re
import secrets
import shlex
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomlkit

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits import json_text
from hooksdk.cli._options import Scope
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.guard import AGENTS, client
from hooksdk.values import as_list, as_object, is_list, is_object, plain_json, read_json

TITLE = "hooksdk guard"
# The seconds that an agent waits for a hook: more than the hook itself waits, since at its own limit an agent runs the
# call.
SECONDS = 60
# Each agent's files, and what the guard cannot close there.
FACTS: Mapping[str, Mapping[str, Any]] = tomllib.loads(
    files("hooksdk.cli._guard").joinpath("agents.toml").read_text("utf-8")
)
FOLDERS: Mapping[str, str] = {agent: facts["folder"] for agent, facts in FACTS.items()}
OPEN = {agent: [*facts.get("open_for_users", ()), *facts["open"]] for agent, facts in FACTS.items()}
_MANAGED: Mapping[str, Sequence[str]] = {agent: facts["managed"] for agent, facts in FACTS.items()}
# Variables by which every program runs other code.
LOADERS = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES")
_BEGIN, _END = "# hooksdk guard: begin", "# hooksdk guard: end"
"""The lines around the guard's part of a file of TOML."""
_IN_MILLISECONDS = {"gemini", "qwen"}


@dataclass(frozen=True)
class HookFile:
    """The file in which an agent has its hooks."""

    agent: str
    scope: Scope
    path: Path

    def read(self, text: str) -> dict[str, Any]:
        """Parse the settings. Raises `ConfigError`."""
        plain = text.removeprefix("\ufeff")
        try:
            settings: Any = (
                tomllib.loads(plain) if self._is_toml else read_json(plain_json(plain)) if plain.strip() else {}
            )
        except ValueError as error:
            raise ConfigError(str(self.path), (str(error),)) from None
        hooks = settings.get("hooks", {}) if is_object(settings) else None
        if not is_object(hooks) or not all(is_list(groups) for event, groups in hooks.items() if event in self._events):
            raise ConfigError(str(self.path), ('expected an object such as {"hooks": {"EVENT": [...]}}',))
        return as_object(settings)

    def installed(self, text: str, *, trial: bool = False) -> str:
        """The text with the guard's hooks behind all others; with `trial` they refuse nothing. Raises `ConfigError`."""
        if self._is_toml:
            new = self.removed(text, like="")
            return self._checked(f"{new}{self._block(new, trial=trial)}", text, like="")
        new, name = self.removed(text, like=text), self._name(text)
        new = new if new.strip("\ufeff \t\r\n") else f"{new.rstrip()}{{}}\n"
        for event in self._events:
            new = json_text.add_item(new, ["hooks", event], self._group(event, name, trial=trial))
        for keys, value in self._pins.items():
            if value_at(self.read(new), keys) is None:
                new = json_text.set_member(new, keys[:-1], keys[-1], value)
        return self._checked(new, text, like=text)

    def removed(self, text: str, *, like: str) -> str:
        """The text without the guard's hooks, and without what is empty then, unless `like` has it. Raises
        `ConfigError`."""
        if self._is_toml:
            return self._checked(re.sub(rf"(?s)\n?{_BEGIN}\n.*?{_END}\n?", "", text), text, like=like)
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
        before, sections = self.read(like), {"hooks"}
        for keys, value in self._pins.items():
            if value_at(self.read(new), keys) == value and value_at(before, keys) is None:
                new = json_text.remove_member(new, keys[:-1], keys[-1])
                sections.update(keys[:-1])
        for section in sections:
            if section not in before and self.read(new).get(section) == {}:
                new = json_text.remove_member(new, [], section)
        return self._checked(new, text, like=like)

    def events(self, text: str) -> set[str]:
        """The agent's events with a hook of the guard. Raises `ConfigError`."""
        return {event for event, _, _ in self._groups(text)}

    @property
    def _is_toml(self) -> bool:
        return self.path.suffix == ".toml"

    @property
    def _pins(self) -> Mapping[tuple[str, ...], object]:
        pins: Mapping[str, object] = FACTS[self.agent]["pins"] if self.scope == "managed" else {}
        return {tuple(keys.split(".")): value for keys, value in pins.items()}

    @property
    def _events(self) -> Mapping[str, Any]:
        return AGENTS[self.agent].events

    def _groups(self, text: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """The entries with a hook of the guard: event, place, entry."""
        hooks = as_object(self.read(text).get("hooks"))
        for event in self._events:
            for at, group in enumerate(as_list(hooks.get(event))):
                if any(self._is_ours(entry) for entry in as_list(as_object(group).get("hooks"))):
                    yield event, at, as_object(group)

    def _is_ours(self, entry: Any) -> bool:
        return is_guards(as_object(entry).get("command"), self.agent)

    def _name(self, text: str) -> str:
        """The hooks' name for Gemini CLI and Qwen Code. A project can switch off a hook by its name, so the machine's
        own hooks have a secret one."""
        if self.scope != "managed":
            return TITLE
        names = [as_object(as_list(group.get("hooks"))[-1]).get("name") for _, _, group in self._groups(text)]
        return next((str(name) for name in names if name), f"{TITLE} {secrets.token_hex(8)}")

    def _block(self, text: str, *, trial: bool) -> str:
        hooks = {event: [self._group(event, TITLE, trial=trial)] for event in self._events}
        pins = {} if value_at(self.read(text), ("features", "hooks")) is True else {"features": {"hooks": True}}
        return f"\n{_BEGIN}\n{tomlkit.dumps({**pins, 'hooks': hooks})}{_END}\n"

    def _group(self, event: str, name: str, *, trial: bool) -> dict[str, Any]:
        kind, late = self._events[event], SECONDS * (1000 if self.agent in _IN_MILLISECONDS else 1)
        entry: dict[str, Any] = {"type": "command", "command": hook_command(self.agent, trial=trial), "timeout": late}
        if self.agent in _IN_MILLISECONDS:
            entry["name"] = name
        if self.agent == "claude-code" and kind == "before_call" and not trial:
            entry["onFailure"] = "block"
        return {"hooks": [entry]}

    def _checked(self, new: str, old: str, *, like: str) -> str:
        """The new text. Raises `ConfigError` unless it says the same as the old one but for the guard's hooks."""
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
        for keys, value in self._pins.items():
            if value_at(settings, keys) == value:
                table = {**(as_object(settings[keys[0]]) if keys[1:] else settings)}
                del table[keys[-1]]
                settings = {**settings, keys[0]: table} if keys[1:] else table
            if keys[1:] and settings.get(keys[0]) == {}:
                del settings[keys[0]]
        return {**settings, "hooks": hooks}


def open_in(agent: str, scope: Scope) -> list[str]:
    """The gaps that the guard cannot close in an agent, with its hooks in this place."""
    if scope != "managed":
        return [*OPEN[agent]]
    facts = FACTS[agent]
    return [*facts["open"], facts["open_managed"], f"each user of this machine must be able to run {sys.executable}"]


def hook_command(agent: str, *more: str, trial: bool = False) -> str:
    """The command of an agent's hooks. A shell that cannot start it refuses, too; with `trial` nothing is refused."""
    command = [sys.executable, "-I", "-S", str(client.__file__), agent, *more]
    return f"{shlex.join([*command, client.TRY])} || exit 0" if trial else f"{shlex.join(command)} || exit 2"


def is_guards(command: object, agent: str = "") -> bool:
    """True for the command of the guard's hooks, of any hooksdk, for this agent, or without a name for any agent."""
    pattern = rf"hooksdk[/\\]guard[/\\]client\.py'?\s+{re.escape(agent)}\b"
    return isinstance(command, str) and re.search(pattern, command) is not None


def value_at(settings: Any, keys: tuple[str, ...]) -> Any:
    """The value under these keys, if there is one."""
    for key in keys:
        settings = as_object(settings).get(key)
    return settings


def need_sockets() -> None:
    """Raise `CommandProblem` on a system without the guard."""
    if sys.platform == "win32":
        raise CommandProblem(
            "the guard needs Unix sockets, and Windows has none that Python offers: it is not there yet"
        )


def judge_folder(*, make: bool = True) -> Path:
    """The folder of the judge's files. Raises `CommandProblem` for an unusable one."""
    try:
        return Path(client.guard_folder(make=make))
    except client.NoJudge as error:
        raise CommandProblem(str(error)) from None


def how_long(until: float) -> str:
    """The end of a pause of the guard, in words."""
    if math.isinf(until):
        return "until `hooksdk guard on`"
    return f"until {datetime.fromtimestamp(until, UTC).astimezone():%H:%M on %Y-%m-%d}"


def pause_text() -> str:
    """That the guard is paused, and until when; empty while it is in force."""
    until = client.paused_until()
    return f"a person has paused the guard: it refuses nothing {how_long(until)}" if time.time() < until else ""


def check_agent(name: str) -> str:
    """The name of an agent. Raises `CommandProblem` for an unknown one."""
    if name not in AGENTS:
        known = did_you_mean(name, AGENTS) or f" Agents: {', '.join(AGENTS)}"
        raise CommandProblem(f"the guard knows no agent '{name}'.{known}")
    return name


def hook_file(agent: str, scope: Scope, project: Path, file: Path | None = None) -> HookFile:
    """The file of an agent's hooks. Raises `CommandProblem` for an agent without hooks in this place."""
    title = AGENTS[check_agent(agent)].title
    name = "hooks.json" if agent == "codex" else "settings.json"
    if file is not None:
        return HookFile(agent, scope, file.expanduser().absolute())
    if scope == "user":
        return HookFile(agent, scope, own_folder(agent) / name)
    if scope == "managed":
        return HookFile(agent, scope, managed_file(agent))
    if scope == "local" and agent != "claude-code":
        raise CommandProblem(f"{title} has no settings of a folder that stay yours; leave --local out")
    if agent == "codex":
        raise CommandProblem("Codex runs no hooks of a project that you do not trust; leave --project out")
    return HookFile(agent, scope, project / FOLDERS[agent] / ("settings.local.json" if scope == "local" else name))


def own_folder(agent: str) -> Path:
    """The agent's folder of this user."""
    home = os.environ.get("GEMINI_CLI_HOME", "") if agent == "gemini" else ""
    own = os.environ.get(FACTS[agent].get("folder_variable", "")) or Path(home or Path.home()) / FOLDERS[agent]
    return Path(own).expanduser().absolute()


def matching_files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files of a pattern in a folder; none where it does not exist. Raises `OSError` for one that may not be read:
    since Python 3.13 `Path.glob` finds nothing there, and does not say why."""
    with suppress(FileNotFoundError, NotADirectoryError):
        next(folder.iterdir(), None)
    return folder.glob(pattern)


def managed_file(agent: str) -> Path:
    """The machine's own file of the agent's hooks, whose entries no project overrules."""
    other = os.environ.get(FACTS[agent].get("managed_variable", ""))
    return Path(other or _MANAGED[agent][sys.platform == "darwin"]).absolute()
