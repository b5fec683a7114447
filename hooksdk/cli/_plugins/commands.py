"""`hooksdk plugins`: looking at plugins and switching them. Nothing of an installed one is imported, but by
`inspect --runtime`, which does it in a process of its own; what is named with `--plugin` is imported right here."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.table import Table

from hooksdk.cli._configuration import load_config, read_config
from hooksdk.cli._console import CommandProblem, View, complain, one_line, says_yes, stderr_console
from hooksdk.cli._edits.configuration import Edit, edit_project
from hooksdk.cli._options import Json, Plugins, Project, import_plugins
from hooksdk.cli._plugins.authoring import make_manifests, new_package
from hooksdk.config import fold, trust_advice
from hooksdk.errors import PluginError, PluginRefused, did_you_mean, unknown_key
from hooksdk.hooks import GRANTS
from hooksdk.host import Plugin, look_at, survey
from hooksdk.manifest import find_manifest, needed_grants

if TYPE_CHECKING:
    from hooksdk.cli._plugins.probe import Probe

plugins_app = typer.Typer(help="Look at plugins and switch them.", no_args_is_help=True)

PluginId = Annotated[str, typer.Argument(metavar="ID")]


@plugins_app.command("list")
def list_plugins(plugin: Plugins = None, as_json: Json = False, project: Project = Path()) -> None:
    """List every plugin that a host here would know, loaded or not, with the reason: your own first.

    Installed plugins are not imported. The code is 1 when one is refused.
    """
    config = load_config(folder=project)
    known = sorted(survey(config, project, import_plugins(plugin)), key=lambda one: one.origin == "built-in")
    view = View({"plugins": [one.describe() for one in known]})
    view.markup(_table(known) if known else "No plugins are installed.")
    if any(_is_short(one) for one in known):
        view.markup("`hooksdk plugins inspect ID` shows all of one, `hooksdk plugins enable ID` switches one on.")
    view.show(as_json=as_json)
    names = [one.id for one in known]
    for name in config.plugins:
        if not any(fold(name) == fold(one) for one in names):
            complain(f"[plugins.{name}] is for a plugin that is not installed here.{did_you_mean(name, names)}")
    if any(one.status == "refused" for one in known):
        raise typer.Exit(1)


@plugins_app.command("inspect")
def inspect_plugin(
    plugin_id: PluginId,
    runtime: Annotated[bool, typer.Option("--runtime")] = False,
    seconds: Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS")] = 10.0,
    named: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show what a plugin says of itself, from its manifest; with --runtime what it does when it is imported.

    Options:
        runtime: Import it too, in a process of its own: this runs its code.
        seconds: How long its import may take.
    """
    plugin = _find(project, plugin_id, import_plugins(named))
    probe: Probe | None = None
    if runtime:
        from hooksdk.cli._plugins.probe import probe as look

        if plugin.entry is None:
            problem = "--runtime is for installed plugins" + ("; this one is imported already" if named else "")
            raise PluginRefused(plugin.id, problem, "Leave it out" if named else "")
        probe = look(plugin.id, project, seconds)
    facts = _facts(plugin)
    view = View({"plugin": facts, "runtime": None if probe is None else asdict(probe)}, indent=10)
    _tell_facts(view, plugin, facts)
    if probe is not None:
        _tell_probe(view, probe)
    view.show(as_json=as_json)
    if plugin.status == "refused" or (probe is not None and probe.outcome != "loaded"):
        raise typer.Exit(1)


@plugins_app.command("enable")
def enable_plugin(
    plugin_id: PluginId,
    grant: Annotated[list[str] | None, typer.Option(metavar="WORD")] = None,
    yes: Annotated[bool, typer.Option("--yes")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Switch a plugin on in the project's configuration. On a terminal you are asked for the grants that it needs.

    Options:
        grant: A grant to give; may be given several times.
        yes: Give every grant that it asks for.
    """
    words = list(grant or ())
    for word in words:
        if word not in GRANTS:
            raise typer.BadParameter(unknown_key(word, GRANTS, "a grant"), param_hint="--grant")
    plugin = _find(project, plugin_id)
    if isinstance(plugin.refusal, PluginError):
        raise plugin.refusal
    if problem := _why_not_configured(plugin, project):
        raise CommandProblem(f"every host here would refuse to start, so nothing was written. {problem}")
    needs = _needs(plugin)
    missing = [word for word in needs if not plugin.may(word) and word not in words]
    if missing and not words:
        if not yes and not _agrees(plugin, needs):
            raise typer.Exit(1)
        words = missing
    elif yes:
        words += missing
    edit = edit_project(project, plugin.id, enabled=True, grants=words)
    _complain_of_trust(edit)
    now = _find(project, plugin.id)
    view = View({"file": str(edit.path), "granted": words, "plugin": _facts(now)})
    grants = f", with {', '.join(words)}" if words else ""
    view.text(f"{plugin.id} is on{grants}: {edit.path}")
    view.show(as_json=as_json)
    if not now.loaded:
        complain(f"it is not loaded yet ({now.status}): {now.reason}")
        raise typer.Exit(1)


def _why_not_configured(plugin: Plugin, project: Path) -> str:
    """Why a built-in plugin refuses its settings here; empty where it does not. A stranger's plugin is never imported
    for this question."""
    if plugin.origin == "built-in":
        return str(look_at(plugin, read_config(folder=project)[0]).refusal or "")
    return ""


def _complain_of_trust(edit: Edit) -> None:
    if edit.remarks:
        entries = ", ".join(dict.fromkeys(remark.entry for remark in edit.remarks))
        advice = trust_advice(edit.path.parent.resolve())
        complain(f"{edit.path} is not trusted, and has more to look at: {entries}. {advice}")


@plugins_app.command("disable")
def disable_plugin(plugin_id: PluginId, as_json: Json = False, project: Project = Path()) -> None:
    """Switch a plugin off in the project's configuration, and take its grants back there."""
    plugin = _find(project, plugin_id)
    edit = edit_project(project, plugin.id, enabled=False, grants=[])
    _complain_of_trust(edit)
    section = read_config(folder=project)[0].plugin(plugin.id)
    remaining = list(section.grants) if section else []
    revoked = [word for word in plugin.grants if word not in remaining]
    view = View({"file": str(edit.path), "revoked": revoked, "plugin": _facts(_find(project, plugin.id))})
    grants = f", and its grants are taken back ({', '.join(revoked)})" if revoked else ""
    view.text(f"{plugin.id} is off{grants}: {edit.path}")
    view.show(as_json=as_json)
    if remaining:
        complain(f"another file still grants it {', '.join(remaining)}: see `hooksdk config show --origin`")


@plugins_app.command("validate")
def validate_plugin(
    path: Annotated[Path | None, typer.Argument(metavar="PATH", exists=True)] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Check a plugin before it is published: a manifest, a package's or project's folder, a wheel or a .dist-info.

    With --plugin a file of your own is checked as a host would check it. The code is 1 when there is a problem.
    """
    from hooksdk.cli._plugins.validation import Validation, validate, validate_holder

    path = path or (None if plugin else Path())
    validation = validate(path) if path else Validation()
    for holder in import_plugins(plugin):
        validate_holder(holder, validation)
    view = View({"path": str(path) if path else None, **asdict(validation)}, indent=9)
    view.lines("notice", validation.notices)
    view.lines("problem", validation.problems)
    if not validation.problems:
        view.text(f"fine: {', '.join([*validation.manifests, *validation.plugins])}")
    view.show(as_json=as_json)
    if validation.problems:
        raise typer.Exit(1)


def _find(project: Path, plugin_id: str, holders: Sequence[Any] = ()) -> Plugin:
    """The plugin with this id. One that was named with `--plugin` comes first, then a built-in one, then an installed
    one that took the same id. Remarks about the configuration are left out: the caller asks about one plugin."""
    config, _ = read_config(folder=project)
    known = survey(config, project, holders)
    same_id = [plugin for plugin in known if fold(plugin.id) == fold(plugin_id)]
    if not same_id:
        ids = [plugin.id for plugin in known]
        hint = did_you_mean(plugin_id, ids) or " `hooksdk plugins list` shows those that are."
        raise PluginRefused(plugin_id, f"it is not installed here.{hint}")
    return next((plugin for plugin in same_id if plugin.origin in {"code", "built-in"}), same_id[0])


def _needs(plugin: Plugin) -> Mapping[str, Sequence[str]]:
    """The grants that a plugin asks for, in its manifest's permissions or by what its contracts list."""
    if plugin.manifest is None or plugin.origin != "installed":
        return {}
    contracts = plugin.manifest.contracts
    return dict(needed_grants(contracts.hooks or (), contracts.tools or (), plugin.manifest.permissions).items())


def _agrees(plugin: Plugin, needs: Mapping[str, Sequence[str]]) -> bool:
    """Ask the person at the terminal for every grant that is missing; where nobody is, say what to type."""
    console = stderr_console()
    console.print(f"{one_line(plugin.id)} of {one_line(plugin.distribution)} asks for:", soft_wrap=True)
    for word, users in needs.items():
        asked = one_line(f"{_in_words(word)} ({', '.join(users)})")
        console.print(f"  {asked}", soft_wrap=True)
    if sys.stdin.isatty() and sys.stderr.isatty():
        if says_yes(console, "Grant this and switch it on?"):
            return True
        complain("nothing is changed")
    else:
        options = " ".join(f"--grant {word}" for word in needs if not plugin.may(word))
        complain(
            f"nothing is changed, since nobody can be asked here. Type: hooksdk plugins enable {plugin.id} {options}"
        )
    return False


def _in_words(grant: str) -> str:
    words: Mapping[str, str] = {**GRANTS}
    return f"{grant}: {words.get(grant, 'unknown, and ignored')}"


def _facts(plugin: Plugin) -> dict[str, Any]:
    """All that is known of a plugin without importing it, as JSON."""
    manifest, entry = plugin.manifest, plugin.entry
    module = entry.value.partition(":")[0].strip() if entry else ""
    path = find_manifest(module, plugin.id) if module else None
    schema = manifest.config_schema if manifest else None
    return {
        **plugin.describe(),
        "name": manifest.name if manifest else "",
        "entry_point": entry.value if entry else None,
        "manifest": str(path) if path else None,
        "needs": {word: list(users) for word, users in _needs(plugin).items()},
        "config_schema": schema or plugin.config_schema,
        "notices": manifest.notices if manifest else [],
    }


def _tell_facts(view: View, plugin: Plugin, facts: Mapping[str, Any]) -> None:
    asks = [
        f"{_in_words(word)} ({', '.join(users)})" + ("" if plugin.may(word) else "; not granted")
        for word, users in facts["needs"].items()
    ]
    lines: Mapping[str, Sequence[str | None]] = {
        "plugin": [" ".join(str(facts[key]) for key in ("id", "version", "name") if facts[key])],
        "does": [facts["description"]],
        "status": [f"{plugin.status}: {plugin.reason}" if plugin.reason else plugin.status],
        "from": [f"{plugin.origin}, {plugin.distribution}" if plugin.distribution else plugin.origin],
        "code": [facts["entry_point"]],
        "manifest": [facts["manifest"]],
        "hooks": [_names(facts["hooks"])],
        "tools": [_names(facts["tools"])],
        "asks for": asks or ["no grants"],
        "settings": _settings(facts["config_schema"]),
        "notices": facts["notices"],
    }
    _tell(view, lines)


def _tell_probe(view: View, probe: Probe) -> None:
    lines: Mapping[str, Sequence[str | None]] = {
        "imported": [f"{probe.outcome}: {probe.problem}" if probe.problem else probe.outcome],
        "hooks": [_names(probe.hooks)],
        "tools": [_names(probe.tools)],
        "needs": [_in_words(word) for word in probe.grants] or ["no grants"],
        "settings": _settings(probe.config_schema),
        "printed": probe.output.splitlines(),
    }
    view.markup()
    _tell(view, lines)


def _tell(view: View, lines: Mapping[str, Sequence[str | None]]) -> None:
    for heading, texts in lines.items():
        for number, text in enumerate(filter(None, texts)):
            view.line("" if number else heading, text, "bold")


def _settings(config_schema: Mapping[str, Any] | None) -> list[str]:
    properties: object = (config_schema or {}).get("properties")
    return [_names([*cast("dict[str, Any]", properties)])] if isinstance(properties, dict) else []


def _names(names: Sequence[str] | None) -> str:
    return "not said in its manifest" if names is None else ", ".join(names) or "none"


def _table(known: Sequence[Plugin]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("plugin", "status", "from", "hooks, tools and what it does"):
        table.add_column(heading, overflow="fold")
    colours: dict[str, str] = {"loaded": "green", "refused": "red", "denied": "yellow"}
    for plugin in known:
        name = f"{plugin.id} {plugin.version}" if plugin.origin == "installed" else plugin.id
        source = plugin.distribution if plugin.origin == "installed" else plugin.origin
        status = f"[{colours.get(plugin.status, 'dim')}]{plugin.status}[/]"
        table.add_row(one_line(name), status, one_line(source), _description(plugin, plugin.describe()))
    return table


def _is_short(plugin: Plugin) -> bool:
    """True for a built-in one with nothing wrong: what it does is enough."""
    return plugin.origin == "built-in" and plugin.status in {"loaded", "off"}


def _description(plugin: Plugin, entry: Mapping[str, Any]) -> str:
    if _is_short(plugin):
        return one_line(entry["description"])
    lines = [one_line(entry["description"])] if entry["description"] else []
    lines += [f"[dim]{what}: {one_line(', '.join(entry[what]))}[/]" for what in ("hooks", "tools") if entry[what]]
    if plugin.origin == "installed" and (plugin.grants or entry["permissions"]):
        words = ", ".join(entry["permissions"]) or "nothing"
        lines.append(f"[dim]asks for {one_line(words)}; granted: {one_line(', '.join(plugin.grants)) or 'nothing'}[/]")
    lines += [
        f"[yellow]its manifest: {one_line(slip)}[/]" for slip in (plugin.manifest.slips if plugin.manifest else ())
    ]
    if plugin.reason:
        lines.append(f"[yellow]{one_line(plugin.reason)}[/]")
    return "\n".join(lines)


plugins_app.command("new")(new_package)
plugins_app.command("manifest")(make_manifests)
