"""`hooksdk trust`: what a project's file would widen, and the operator's word that it may."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hooksdk.cli._config.around import agent_around
from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, print_json, safe, says_yes, stdout_console
from hooksdk.cli._edits.configuration import forget_trust, record_trust
from hooksdk.cli._mcp.files import project_files, servers_remark
from hooksdk.config import Config, Merged, PluginConfig, Remark, fold, look_up_file, resolve, trusted_digests
from hooksdk.errors import ConfigError
from hooksdk.guard import to_let_count
from hooksdk.host import installed_plugins, look_at


def trust_folder(folder: Path, *, yes: bool) -> int:
    """Show what would count, ask, and record it. Raises `CommandProblem` below an agent, which would be no person's word."""
    check_person()
    _, merged = read_config(folder=folder)
    console = stdout_console()
    settings = merged.to_look_at()
    files, missing = project_files(folder)
    _tell_of_guard(folder)
    assert merged.trust.digest  # taken now: what is shown is what is recorded, however long the answer takes
    held_back, let_count = to_let_count(merged.trust.folder)
    if not settings and not files and not held_back:
        console.print(f"{safe(merged.trust.folder)}: nothing here needs your trust", soft_wrap=True)
        return 0
    new = [trust for trust in ([merged.trust] if settings else []) + files if not trust.trusted]
    if not new and not held_back:
        console.print(f"{safe(merged.trust.folder)}: you trust it already, at what it holds now", soft_wrap=True)
        return 0
    _check_settings(merged)
    for trust in new:
        changed = ", changed since you trusted it" if trust.state == "changed" else ""
        place = merged.project if trust is merged.trust else trust.folder
        console.print(f"{safe(place)}{changed}: this would count", soft_wrap=True)
        own = [*settings, *merged.named_files(), *missing]
        for remark in own if trust is merged.trust else [servers_remark(trust)]:
            console.print(f"  {describe(remark)}", soft_wrap=True)
    for reason in held_back:
        console.print(f"the guard goes by the rules of before. This would count: {safe(reason)}", soft_wrap=True)
    if not yes:
        if not sys.stdin.isatty():
            raise CommandProblem("nobody is there to answer: --yes trusts it unasked")
        if not says_yes(console, f"Trust {safe(merged.trust.folder)} at this content?"):
            console.print("not trusted")
            return 1
    for path in {record_trust(trust) for trust in new}:
        console.print(f"trusted until it changes, in {safe(path)}", soft_wrap=True)
    let_count()
    if held_back:
        console.print("the guard's rules are the new ones from the next call on", soft_wrap=True)
    return 0


def check_person() -> None:
    """Raise `CommandProblem` where an agent has started the command."""
    if agent := agent_around():
        raise CommandProblem(
            f"trust is a person's word, and this was started by {agent}. Type it in a terminal of your own"
        )


def _tell_of_guard(folder: Path) -> None:
    """What here ends the guard before coding agents, or goes around it: the word of `hooksdk trust` is not about that."""
    from hooksdk.cli._guard.status import look_at

    look_at(resolve(folder)).tell(stdout_console())


def _check_settings(merged: Merged) -> None:
    """Raise `CommandProblem` for a mistake in the settings of a built-in plugin: it would be told after the question, when the
    first host starts. Other plugins are not imported for it."""
    for plugin in installed_plugins(Config()):
        settings = merged.own_settings.get(fold(plugin.id))
        if settings is None or plugin.origin != "built-in":
            continue
        values = {**settings.user, **settings.project.values}
        refusal = look_at(plugin, Config(plugins={plugin.id: PluginConfig(config=values)})).refusal
        if isinstance(refusal, ConfigError):
            raise CommandProblem(f"{merged.project}: {refusal} (correct it first: nothing was trusted)")


def describe(remark: Remark) -> str:
    """One entry, as rich prints it: its name, what it says, and what follows."""
    return f"[bold]{safe(remark.entry)}[/] = {value_text(remark.value)}  [dim]{safe(remark.why)}[/]"


def value_text(value: object) -> str:
    """A setting's value in one line, whole, as rich prints it."""
    return safe(json.dumps(value_as_json(value), ensure_ascii=False))


def value_as_json(value: object) -> Any:
    """A setting's value for a JSON document: TOML knows dates and `inf`, which are text there."""
    if isinstance(value, Mapping):
        return {str(key): value_as_json(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list):
        return [value_as_json(item) for item in cast("list[object]", value)]
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite and isinstance(value, (str, int, float, bool, type(None))) else str(value)


def list_trusted(*, as_json: bool) -> int:
    """Print the folders that are trusted, and whether they have changed."""
    digests = trusted_digests(os.environ)
    folders = [{"folder": name, "state": _state(Path(name))} for name in digests]
    if as_json:
        print_json({"schema": 1, "folders": folders})
        return 0
    console = stdout_console()
    for entry in folders:
        console.print(f"{safe(entry['state']):9} {safe(entry['folder'])}", soft_wrap=True)
    if not folders:
        console.print("You trust no folder.")
    return 0


def _state(folder: Path) -> str:
    if folder.is_file():
        return look_up_file(folder, trusted_digests(os.environ)).state
    if not folder.is_dir():
        return "gone"
    return read_config(folder=folder)[1].trust.state


def remove_trust(folder: Path) -> int:
    """Forget a folder. Raises `CommandProblem` below an agent."""
    check_person()
    resolved = resolve(folder)
    path = forget_trust(resolved)
    if path is None:
        raise CommandProblem(f"{resolved} is not among the folders that you trust: hooksdk trust --list")
    stdout_console().print(f"{safe(resolved)}: not trusted any more, in {safe(path)}", soft_wrap=True)
    return 0
