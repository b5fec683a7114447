"""Every settings file of an agent that counts in a folder, and its entries that end the guard's hooks or go around
them.

Files are listed in agents.toml, entries in a table here. Their effects were seen in the agents' own programs:
docs/reference/guard.md.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hooksdk.cli._guard.hooks import (
    FACTS,
    FOLDERS,
    LOADERS,
    TITLE,
    hook_command,
    is_guards,
    managed_file,
    matching_files,
    own_folder,
)
from hooksdk.values import as_list, as_object, is_object, plain_json

Whose = Literal["user", "project", "managed"]
# The most bytes of a file of settings that is read.
MAX_BYTES = 4_000_000
# A key of an entry that stands for each key of its level.
_ANY = "*"


@dataclass(frozen=True)
class SettingsFile:
    """A file that an agent reads."""

    whose: Whose
    path: Path


@dataclass(frozen=True)
class Finding:
    """An entry of an agent's settings that ends the guard's hooks, or may go around them.

    Attributes:
        entry: Its keys, and its value where that is short; empty where the file cannot be read.
        ends: False for what may well be meant, such as a hook of the project's own.
    """

    agent: str
    file: str
    entry: str
    problem: str
    ends: bool = True

    def __str__(self) -> str:
        return f"{self.file} says {self.entry}, so {self.problem}" if self.entry else f"{self.file} {self.problem}"


@dataclass(frozen=True)
class _Switch:
    """An entry that keeps hooks from running. Of several files with the entry the strongest decides, unless each `adds`
    its own.

    Attributes:
        keys: The keys of the entry, with dots between.
        whose: The files in which it counts.
        older: Its older name.
        spares_managed: True when the hooks of the agent's managed file run all the same.
    """

    keys: str
    is_off: Callable[[Any], bool]
    problem: str
    whose: tuple[Whose, ...] = ("user", "project", "managed")
    older: str = ""
    adds: bool = False
    ends: bool = True
    spares_managed: bool = False


def _is_true(value: Any) -> bool:
    return value is True


def _is_false(value: Any) -> bool:
    return value is False


def _is_strict(value: Any) -> bool:
    """True for Claude Code's switch that takes customization from plugins alone: of hooks among others."""
    return value is True or "hooks" in as_list(value)


def _may_be_false(value: Any) -> bool:
    """True for what JavaScript takes for false, null excepted, and for a text in which Gemini CLI puts a variable's
    value."""
    return value in (False, "") or "$" in str(value)


def _names_guard(value: Any) -> bool:
    """True for the name of a hook of the guard's, which in the machine's own file is `TITLE` and a secret, and for a
    name with a variable's value in it."""
    names = [value] if isinstance(value, str) else as_list(value)
    return any(TITLE in str(name) or "$" in str(name) or is_guards(name) for name in names)


def _loads_code(value: Any) -> bool:
    """True for options of Node.js that load code; others are everyday ones. A backslash hides a letter of an option."""
    return re.search(r"-r\b|-require|-import|loader|\\", str(value)) is not None


def _has_others(value: Any) -> bool:
    """True for hooks that differ from this guard's in any letter: a project may write what looks like it."""
    ours = {hook_command(agent, trial=trial) for agent in FOLDERS for trial in (False, True)}
    entries = [entry for group in as_list(value) for entry in as_list(as_object(group).get("hooks"))]
    return not all(as_object(entry).get("command") in ours for entry in entries)


def _variable(name: str, problem: str, is_off: Callable[[Any], bool] = bool, *, ends: bool = True) -> _Switch:
    """A variable that the settings give to the agent, and the agent to its hooks."""
    return _Switch(f"env.{name}", is_off, problem, ends=ends)


def _others(*events: str) -> list[_Switch]:
    problem = "another hook runs before calls, which may change or allow a call that the guard has judged"
    return [_Switch(f"hooks.{event}", _has_others, problem, ("project",), adds=True, ends=False) for event in events]


_NONE_RUN, _YOURS, _GUARDS = "no hook runs", "no hook of yours runs", "the guard's hooks do not run"
_LOADED = "what it says comes before each hook, and may end it"
_LIBRARIES = "each hook may load other libraries from there"
_REPLACED = "other settings count in the place of the machine's own"
_UNRECORDED = "no transcript tells of calls that no judge has seen"
_IN_ALL = (
    *(_variable(name, _LOADED) for name in (*LOADERS, "SHELLOPTS")),
    # The loader looks at the name alone: with it the libraries of a program are listed, and the program is not run.
    _variable("LD_TRACE_LOADED_OBJECTS", _NONE_RUN, lambda value: value is not None),
    _variable("LD_LIBRARY_PATH", _LIBRARIES, ends=False),
    _variable("DYLD_LIBRARY_PATH", _LIBRARIES, ends=False),
)
_BASH_ENV = _variable("BASH_ENV", _LOADED)
_SWITCHES: Mapping[str, tuple[_Switch, ...]] = {
    "claude-code": (
        _Switch("disableAllHooks", _is_true, _NONE_RUN, ("user", "project"), spares_managed=True),
        _Switch("disableAllHooks", _is_true, _NONE_RUN, ("managed",)),
        _Switch("allowManagedHooksOnly", _is_true, _YOURS, ("managed",), spares_managed=True),
        _Switch("strictPluginOnlyCustomization", _is_strict, _YOURS, ("managed",), spares_managed=True),
        _variable("CLAUDE_CODE_SHELL_PREFIX", "this program gets each hook, and may leave it out"),
        _variable("CLAUDE_CODE_SIMPLE", _NONE_RUN),
        *_IN_ALL,
        *_others("PreToolUse", "PermissionRequest"),
        _variable("CLAUDE_CODE_SAFE_MODE", "hooks of yours may not run", ends=False),
        _variable("CLAUDE_CODE_SKIP_PROMPT_HISTORY", _UNRECORDED, ends=False),
    ),
    "codex": (
        _Switch("features.hooks", _is_false, _NONE_RUN, older="features.codex_hooks"),
        _Switch("allow_managed_hooks_only", _is_true, _YOURS, ("managed",), spares_managed=True),
        _Switch(f"hooks.state.{_ANY}.enabled", _is_false, "this hook does not run", adds=True, ends=False),
        _BASH_ENV,
        *_IN_ALL,
        *_others("PreToolUse", "PermissionRequest"),
    ),
    "gemini": (
        _Switch("hooksConfig.enabled", _may_be_false, _NONE_RUN),
        _Switch("hooks", lambda value: not is_object(value), _YOURS),
        _Switch("hooksConfig.disabled", _names_guard, _GUARDS, ("project",), adds=True, spares_managed=True),
        _Switch("hooksConfig.disabled", _names_guard, _GUARDS, ("user", "managed"), adds=True),
        _BASH_ENV,
        *_IN_ALL,
        *_others("BeforeTool"),
    ),
    "qwen": (
        _Switch("disableAllHooks", lambda value: value not in (None, False, ""), _NONE_RUN),
        _variable("QWEN_CODE_SIMPLE", _NONE_RUN),
        _variable("QWEN_CODE_SYSTEM_SETTINGS_PATH", _REPLACED),
        _variable("QWEN_CODE_SYSTEM_DEFAULTS_PATH", _REPLACED),
        _BASH_ENV,
        _variable("NODE_OPTIONS", "what it names runs in the agent, and may leave out its hooks", _loads_code),
        *_IN_ALL,
        *_others("PreToolUse", "PermissionRequest"),
    ),
}


def _matching(place: Path, name: str) -> list[Path]:
    """The files of a pattern; for an unreadable folder the pattern itself, which then cannot be read."""
    try:
        return sorted(matching_files(place.parent, name[1:]))
    except OSError:
        return [Path(f"{place}{name}")]


def settings_files(agent: str, folder: Path) -> list[SettingsFile]:
    """Every file of settings that counts when the agent is started in this folder, existing or not, the weakest
    first."""
    managed = managed_file(agent)
    above = [folder, *folder.parents]
    root = next((at for at, up in enumerate(above) if os.access(up / ".git", os.F_OK)), 0)
    places = {
        "own": [own_folder(agent)],
        "here": [folder / FOLDERS[agent]],
        "managed": [managed],
        "machine": [managed.parent],
        "above": [up / FOLDERS[agent] for up in reversed(above[: root + 1])],
        "nearest": _variables_file(agent, above),
    }
    found: dict[Path, SettingsFile] = {}
    for whose, template in FACTS[agent]["files"]:
        word, _, name = template.removeprefix("{").partition("}")
        for place in places[word]:
            paths = _matching(place, name) if _ANY in name else [Path(f"{place}{name}")]
            for path in paths:
                found.setdefault(path, SettingsFile(whose, path))
    return [*found.values()]


def _variables_file(agent: str, above: Iterable[Path]) -> list[Path]:
    """The one `.env` that the agent reads: the nearest upwards, or else the user's."""
    folders = [folder for up in above for folder in (up / FOLDERS[agent], up)]
    paths = [folder / ".env" for folder in (*folders, own_folder(agent), Path.home())]
    return [path for path in paths if os.access(path, os.R_OK)][:1]


def look_for_switches(agent: str, folder: Path, more: Iterable[Path] = ()) -> Iterator[Finding]:
    """The entries of the agent's settings that end the guard's hooks in this folder, or may go around them; `more` are
    files of the user's that the agent is told to read."""
    files = settings_files(agent, folder)
    known = {file.path for file in files}
    read: list[tuple[SettingsFile, dict[str, Any]]] = []
    for file in [*(SettingsFile("user", path) for path in more if path not in known), *files]:
        try:
            read.append((file, _read(file.path)))
        except (OSError, ValueError, RecursionError) as error:
            problem = f"cannot be read, so what it says of hooks is not known: {error}"
            yield Finding(agent, str(file.path), "", problem, ends=False)
    is_managed = any(file.whose == "managed" and _guard_is_in(settings) for file, settings in read)
    for switch in _SWITCHES[agent]:
        deciding: dict[object, tuple[SettingsFile, tuple[str, ...], Any]] = {}
        for file, settings in read:
            for name in filter(None, (switch.keys, switch.older)):
                for keys, value in _values(settings, tuple(name.split("."))):
                    deciding[(file.path, keys) if switch.adds else ()] = file, keys, value
        for file, keys, value in deciding.values():
            if file.whose in switch.whose and switch.is_off(value) and not (switch.spares_managed and is_managed):
                shown = f" = {json.dumps(value)}" if isinstance(value, (bool, str)) else ""
                yield Finding(agent, str(file.path), f"{'.'.join(keys)}{shown}", switch.problem, switch.ends)


def has_guard(paths: Iterable[Path]) -> bool:
    """True when one of these files has the guard's hooks, written by anybody."""
    for path in paths:
        try:
            if _guard_is_in(_read(path)):
                return True
        except (OSError, ValueError, RecursionError):
            continue  # `look_for_switches` tells of it
    return False


def _guard_is_in(settings: Mapping[str, Any]) -> bool:
    groups = [as_object(group) for event in as_object(settings.get("hooks")).values() for group in as_list(event)]
    return any(is_guards(as_object(entry).get("command")) for group in groups for entry in as_list(group.get("hooks")))


# An assignment in a file of variables, as Node's reader takes it: a value in quotes may have several lines.
_ASSIGNMENT = re.compile(
    r"""(?mx)^[^\S\n]*(?:export\s+)?([A-Za-z0-9_.-]+)(?:\s*=|:(?=\s))
    (\s*'(?:\\'|[^'])*'|\s*"(?:\\"|[^"])*"|\s*`(?:\\`|[^`])*`|[^\#\n]+)?[^\S\n]*(?:\#.*)?$"""
)


def _read(path: Path) -> dict[str, Any]:
    """The settings in a file; none without a file."""
    if not path.is_file():  # a repository may have put a pipe there
        return {}
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
    text = path.read_text("utf-8", errors="replace").removeprefix("\ufeff")
    if path.name == ".env":
        lines = _ASSIGNMENT.finditer(re.sub("[\u2028\u2029]", "\n", text))
        return {"env": {line[1]: (line[2] or "").strip().strip("'\"`") for line in lines}}
    if path.suffix == ".toml":
        settings: Any = tomllib.loads(text)
    else:  # of two members with one name the last one counts, and a number may have any length, as in JavaScript
        settings = json.loads(plain_json(text), parse_int=float) if text.strip() else {}
    if not is_object(settings):
        raise ValueError("it is no object")
    return as_object(settings)


def _values(
    settings: Any, keys: tuple[str, ...], before: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values under these keys, each with its keys in the settings."""
    if not keys:
        yield before, settings
        return
    table = as_object(settings)
    for key in list(table) if keys[0] == _ANY else [key for key in keys[:1] if key in table]:
        yield from _values(table[key], keys[1:], (*before, key))
