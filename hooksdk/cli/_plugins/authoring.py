"""`hooksdk plugins manifest`: manifests made from a project's code, which is imported for it."""

from __future__ import annotations

import contextlib
import inspect
import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from hooksdk.cli._options import Json
from hooksdk.cli._plugins.validation import Validation, entries_of_project, folder_of, manifest_in
from hooksdk.cli._view import View
from hooksdk.config import Config
from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.hooks import GRANTS, HOOKS
from hooksdk.host import Plugin, look_at, plugins_at
from hooksdk.manifest import ASKED_FOR, FILE_NAMES, SUFFIX, needed_grants, read_manifest

# What the plugin does that a new package begins with.
EXAMPLE = "Blocks tool calls whose arguments hold a forbidden text."


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A plugin's manifest as its code would have it.

    Attributes:
        path: Where it lies, or would.
        known: What is there now; empty where nothing is.
    """

    plugin: str
    path: Path
    known: Mapping[str, Any]
    document: Mapping[str, Any]

    @property
    def differing(self) -> list[str]:
        """The keys in which the file and the code differ."""
        return [key for key in {**self.document, **self.known} if self.known.get(key) != self.document.get(key)]

    def write(self) -> None:
        """Write it."""
        self.path.write_text(json.dumps(self.document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_manifests(
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, file_okay=False)] = Path(),
    write: Annotated[bool, typer.Option("--write")] = False,
    as_json: Json = False,
) -> None:
    """Compare the manifests of a project of yours with its code, which is imported, and write them.

    Without --write the code is 1 when one differs.

    Options:
        path: The project's folder.
        write: Write what differs.
    """
    made = drafts(path)
    differing = [draft for draft in made if draft.differing]
    for draft in differing if write else ():
        draft.write()
    manifests = [
        {"plugin": one.plugin, "path": str(one.path), "differing": one.differing, "document": one.document}
        for one in made
    ]
    view = View({"written": write, "manifests": manifests}, indent=9)
    for draft in made:
        word = "fine" if not draft.differing else "written" if write else "differs"
        view.line(word, f"{draft.path}{': ' * bool(draft.differing)}{', '.join(draft.differing)}")
    if differing and not write:
        view.line("", "hooksdk plugins manifest --write")
    view.show(as_json=as_json)
    raise typer.Exit(int(bool(differing) and not write))


def drafts(project: Path) -> list[Draft]:
    """Draft the manifests of all plugins that a project's pyproject.toml names. Raises `PluginRefused` where it names
    none, and for a plugin that cannot be loaded."""
    validation = Validation()
    entries = entries_of_project(project / "pyproject.toml", validation) or {}
    if validation.problems or not entries:
        problem = (
            validation.problems[0]
            if validation.problems
            else 'no plugin under [project.entry-points."hooksdk.plugins"]'
        )
        raise PluginRefused(project.resolve().name, f"its pyproject.toml: {problem}", "Name the project's folder")
    places: dict[str, tuple[Path, str]] = {}
    for plugin_id, value in entries.items():
        module, _, name = value.partition(":")
        folders = (cast("Path | None", folder_of(root, module.strip())) for root in (project / "src", project))
        folder = next((one for one in folders if one is not None), None)
        if folder is None:
            raise PluginRefused(plugin_id, f"its entry point names the module '{module}', which is not there")
        places[plugin_id] = folder, name.strip()
    return [
        _draft(plugin_id, entries[plugin_id], *places[plugin_id], _alone(plugin_id, places)) for plugin_id in places
    ]


def _alone(plugin_id: str, places: Mapping[str, tuple[Path, str]]) -> bool:
    """True for the only plugin of its folder, which can have the manifest of the folder."""
    return [folder for folder, _ in places.values()].count(places[plugin_id][0]) == 1


def _draft(plugin_id: str, value: str, folder: Path, name: str, alone: bool) -> Draft:
    last = value.partition(":")[0].strip().rpartition(".")[2]
    file = folder / f"{last}.py"
    try:
        (holder,) = plugins_at(f"{file if file.is_file() else folder}:{name}")
    except PluginRefused as error:
        raise PluginRefused(plugin_id, error.problem, error.advice) from error.__cause__
    path = cast("Path | None", manifest_in(folder, plugin_id))
    if path is None or (not alone and path.name in FILE_NAMES and read_manifest(path, plugin_id).id != plugin_id):
        path = folder / (FILE_NAMES[0] if alone else f"{plugin_id}{SUFFIX}")
    known: dict[str, Any] = {}
    if path.is_file():
        read_manifest(path, plugin_id)
        known = json.loads(path.read_text(encoding="utf-8-sig"))
    return Draft(plugin=plugin_id, path=path, known=known, document=manifest_of(holder, plugin_id, known))


def manifest_of(holder: Any, plugin_id: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a plugin. Hooks, tools, the grants that they need and the schema of `Config` are written anew
    from the code. What only the author knows stays as it is, but for the description of `plugins new`'s example: the
    docstring's first line takes its place."""
    plugin = look_at(Plugin(id=plugin_id, origin="code", holder=holder), Config())
    if plugin.refusal is not None and not isinstance(plugin.refusal, ConfigError):  # which is settings that it needs
        raise plugin.refusal
    asked = [*cast("Iterable[str]", known.get("permissions", ()))]
    needs = {*needed_grants(plugin.hooks, plugin.tools, ()), *_answers(holder, plugin.hooks)}
    permissions = [grant for grant in GRANTS if grant in needs or (grant in asked and grant in ASKED_FOR)]
    contracts: dict[str, Any] = known.get("contracts", {})
    others: list[str] = []
    if "assemble_tools" in plugin.hooks:  # what it offers there shows only at run time
        others = contracts.get("tools", [])
    tools = [*plugin.tools, *(name for name in others if name not in plugin.tools)]
    own_words = (holder.__doc__ or "").strip().partition("\n")[0]
    described = known.get("description", "")
    description = own_words if own_words and described in {"", EXAMPLE} else described
    document: dict[str, Any] = {
        **known,
        "id": plugin_id,
        "name": known.get("name") or plugin_id.replace("_", " ").replace("-", " ").capitalize(),
        "description": description,
        "contracts": {**contracts, "hooks": plugin.hooks, "tools": tools},
        "permissions": permissions,
    }
    schema = plugin.config_schema
    return document if schema is None else {**document, "configSchema": schema}


def _answers(holder: Any, hooks: Iterable[str]) -> set[str]:
    """The grants for answers that handlers declare to give, such as an `Answer` of `before_tool_call`."""
    grants: set[str] = set()
    for _, member in inspect.getmembers_static(holder):
        options: Any = getattr(member, "hooksdk_impl", None)
        hook = options and HOOKS[options["specname"] or member.__name__]
        if hook and hook.name in hooks:
            kinds = _declared(member)
            grants |= {grant for kind, grant in hook.answer_grants.items() if kind in kinds}
    return grants


def _declared(function: Any) -> set[Any]:
    """The types that a handler's annotation says it answers with; none where only the type checker knows its names."""
    with contextlib.suppress(Exception):
        answer: Any = typing.get_type_hints(function).get("return")
        return {answer, *typing.get_args(answer)}
    return set()
