"""`hooksdk config show`: the configuration that counts, who set each value, and what does not count. `hooksdk trust`:
the settings by which a project's file would widen what it may do, and the operator's yes to them. No plugin is
imported."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._config.around import agent_around
from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem, View, complain, safe, says_yes, stdout_console
from hooksdk.cli._edits.configuration import forget_trust, record_trust
from hooksdk.cli._mcp.files import project_files, servers_remark
from hooksdk.cli._options import Json, Project, nearest_project
from hooksdk.config import (
    Config,
    Merged,
    PluginConfig,
    Remark,
    fold,
    look_up_file,
    resolve,
    trust_advice,
    trusted_digests,
)
from hooksdk.errors import ConfigError
from hooksdk.gateway import GatewayConfig
from hooksdk.guard import to_let_count
from hooksdk.host import installed_plugins, look_at
from hooksdk.values import is_list, is_mapping

DEFAULT = "default"
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
trust_app = typer.Typer(add_completion=False)

# The place of a setting, such as `("plugins", "x", "grants")`.
Place = tuple[str, ...]


@config_app.command()
def show(
    origin: Annotated[bool, typer.Option("--origin")] = False, as_json: Json = False, project: Project = Path()
) -> None:
    """Show the configuration that counts here, and what does not count and why. No plugin is imported.

    Options:
        origin: Say who set each value.
    """
    config, merged = read_config(folder=project)
    defaults = config.model_dump(exclude={"plugins", "timeouts"})
    defaults["gateway"] = GatewayConfig.of(config).model_dump()
    settings = list(_entries({**defaults, **merged.data}))
    left_out = [(remark, False) for remark in merged.overruled] + [(one, True) for one in merged.missing_trust()]
    naming = [] if merged.trust.trusted else merged.naming
    for problem in merged.problems:
        complain(problem)
    view = View(
        {
            "project": {"source": merged.project, "folder": str(merged.trust.folder), "trust": merged.trust.state},
            "settings": [
                {"entry": ".".join(place), "value": value_as_json(value), "origin": _origin(merged, place)}
                for place, value in settings
            ],
            "left_out": [{**_entry(one), "why": one.why, "needs_trust": trust} for one, trust in left_out],
            "named_by_project": [one.entry for one in naming],
            "left_to_plugins": [_entry(one) for one in merged.left_to_plugins],
        }
    )
    for place, value in settings:
        who = f"  [dim]{safe(_origin(merged, place))}[/]" if origin else ""
        text = "" if value == {} else f" = {value_text(value)}"
        view.markup(f"{safe('.'.join(place))}{text}{who}")
    _add_remarks(view, "left out", merged.overruled)
    if missing := merged.missing_trust():
        _add_remarks(view, merged.why_untrusted, missing)
        view.markup(f"  {safe(trust_advice(merged.trust.folder))}")
    _add_remarks(
        view, "enabled by this project alone: of those plugins, the ones of other packages need your trust", naming
    )
    _add_remarks(view, "decided by the plugin when it is loaded", merged.left_to_plugins)
    view.show(as_json=as_json)


def _entry(remark: Remark) -> dict[str, Any]:
    return {"entry": remark.entry, "value": value_as_json(remark.value)}


def _entries(data: Mapping[str, Any], above: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every setting with its place, as deep as a source is remembered for."""
    for name, value in data.items():
        place = (*above, name)
        if is_mapping(value) and value and len(place) < 4 and place[0] in {"plugins", "timeouts"}:
            yield from _entries(value, place)
        else:
            yield place, value


def _origin(merged: Merged, place: Place) -> str:
    return merged.origins.get(place) or merged.origins.get(place[:-1]) or DEFAULT


def _add_remarks(view: View, heading: str, remarks: list[Remark]) -> None:
    if remarks:
        view.markup(f"\n[bold]{safe(heading)}[/]")
    for remark in remarks:
        view.markup(f"  {_described(remark)}")


@trust_app.command()
def trust(
    folder: Annotated[Path, typer.Argument(callback=nearest_project)] = Path(),
    yes: Annotated[bool, typer.Option("--yes")] = False,
    show_list: Annotated[bool, typer.Option("--list")] = False,
    remove: Annotated[bool, typer.Option("--remove")] = False,
    as_json: Json = False,
) -> None:
    """Show what a folder's configuration would widen, such as running its plugins file, and trust it until it
    changes.

    Options:
        folder: The project's folder; by default the one of this folder.
        yes: Trust it without asking.
        show_list: List the folders that you trust.
        remove: Trust the folder no longer.
    """
    if show_list + remove + yes > 1 or (as_json and not show_list):
        raise typer.BadParameter("--list, --remove and --yes exclude each other, and --json goes with --list")
    if show_list:
        _list_trusted(as_json=as_json)
    elif remove:
        _remove_trust(folder)
    elif folder.is_dir():
        raise typer.Exit(_trust_folder(folder, yes=yes))
    else:
        raise typer.BadParameter(f"{folder} is not a folder")


def _trust_folder(folder: Path, *, yes: bool) -> int:
    """Show the settings that would count, ask, and record the trust. Raises `CommandProblem` for an agent."""
    _check_person()
    _, merged = read_config(folder=folder)
    console = stdout_console()
    settings = merged.to_look_at()
    files, missing = project_files(folder)
    _tell_of_guard(folder)
    assert merged.trust.digest  # taken now: the content that is shown is recorded, however long the answer takes
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
            console.print(f"  {_described(remark)}", soft_wrap=True)
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


def _check_person() -> None:
    """Raise `CommandProblem` for a command that an agent has started."""
    if agent := agent_around():
        cure = "Type it in a terminal of your own"
        raise CommandProblem(f"trust is a person's word, and this was started by {agent}. {cure}")


def _tell_of_guard(folder: Path) -> None:
    """Print what ends the guard before coding agents here, or goes around it, which no trust allows."""
    from hooksdk.cli._guard.install import look_at

    view = View({})
    look_at(resolve(folder)).add_to(view)
    view.show(as_json=False)


def _check_settings(merged: Merged) -> None:
    """Raise `CommandProblem` for a mistake in the settings of a built-in plugin, before the question: otherwise the
    first host would tell. Other plugins are not imported for it."""
    for plugin in installed_plugins(Config()):
        settings = merged.own_settings.get(fold(plugin.id))
        if settings is None or plugin.origin != "built-in":
            continue
        values = {**settings.user, **settings.project.values}
        refusal = look_at(plugin, Config(plugins={plugin.id: PluginConfig(config=values)})).refusal
        if isinstance(refusal, ConfigError):
            raise CommandProblem(f"{merged.project}: {refusal} (correct it first: nothing was trusted)")


def _described(remark: Remark) -> str:
    """One entry as rich's markup: its name, its value, and the consequence."""
    return f"[bold]{safe(remark.entry)}[/] = {value_text(remark.value)}  [dim]{safe(remark.why)}[/]"


def value_text(value: object) -> str:
    """A setting's value in one line, whole, as rich prints it."""
    return safe(json.dumps(value_as_json(value), ensure_ascii=False))


def value_as_json(value: object) -> Any:
    """A setting's value for a JSON document: TOML knows dates and `inf`, which are text there."""
    if is_mapping(value):
        return {str(key): value_as_json(item) for key, item in value.items()}
    if is_list(value):
        return [value_as_json(item) for item in value]
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite and isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _list_trusted(*, as_json: bool) -> None:
    """Print the folders that are trusted, and whether they have changed."""
    folders = [{"folder": name, "state": _state(Path(name))} for name in trusted_digests(os.environ)]
    view = View({"folders": folders}, indent=10)
    for entry in folders:
        view.line(entry["state"], entry["folder"])
    if not folders:
        view.markup("You trust no folder.")
    view.show(as_json=as_json)


def _state(folder: Path) -> str:
    if folder.is_file():
        return look_up_file(folder, trusted_digests(os.environ)).state
    if not folder.is_dir():
        return "gone"
    return read_config(folder=folder)[1].trust.state


def _remove_trust(folder: Path) -> None:
    """Forget a folder. Raises `CommandProblem` for an agent."""
    _check_person()
    resolved = resolve(folder)
    path = forget_trust(resolved)
    if path is None:
        raise CommandProblem(f"{resolved} is not among the folders that you trust: hooksdk trust --list")
    stdout_console().print(f"{safe(resolved)}: not trusted any more, in {safe(path)}", soft_wrap=True)
