"""`hooksdk plugins new`: a package to begin with. `hooksdk plugins manifest`: manifests made from a project's code,
which is imported for it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
import json
import keyword
import re
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as files_in
from pathlib import Path
from string import Template
from typing import Annotated, Any, cast

import typer

from hooksdk.cli._console import CommandProblem, View
from hooksdk.cli._options import Json
from hooksdk.cli._plugins.validation import Validation, entries_of_project, folder_of, manifest_in
from hooksdk.config import Config
from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.hooks import GRANTS, HOOKS
from hooksdk.host import Plugin, look_at, plugins_at, survey
from hooksdk.manifest import ASKED_FOR, FILE_NAMES, SUFFIX, needed_grants, read_manifest

# What the plugin does that a new package begins with.
EXAMPLE = "Blocks tool calls whose arguments hold a forbidden text."
LONGEST_NAME = 40
# What a package's name may begin with, and a plugin's id need not.
PREFIX = "hooksdk_"
TEMPLATES = files_in("hooksdk.cli._plugins") / "package"
# The files that a package has once, however many plugins are in it.
PROJECT = ("pyproject.toml", "README.md", ".gitignore", ".github/workflows/tests.yml")


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


def new_package(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    plugin: Annotated[list[str] | None, typer.Option("--plugin", metavar="ID")] = None,
    as_json: Json = False,
) -> None:
    """Make a package with plugins that work: code, manifests, tests, README and CI, in a new folder.

    Options:
        name: The package's name, such as call-budget.
        plugin: A plugin in it; may be given several times. One by default.
    """
    package = _identifier(name, "NAME")
    distribution = package.replace("_", "-")
    if package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None:
        raise typer.BadParameter(f"there is a module '{package}' already: choose another name", param_hint="NAME")
    ids = [_plugin_id(one, "--plugin") for one in plugin or ()] or [_plugin_id(package.removeprefix(PREFIX), "NAME")]
    if len(set(ids)) < len(ids):
        raise typer.BadParameter(f"two plugins of one id: {', '.join(ids)}", param_hint="--plugin")
    folder = Path(distribution)
    if folder.exists():
        raise CommandProblem(f"{folder} exists already: choose another name, or move it away")
    plugins = [_words(one, package, alone=len(ids) == 1) for one in ids]
    files = files_of(distribution, package, plugins)
    manifests = _write(folder, files)
    paths = [*files, *(str(path.relative_to(folder)) for path in manifests)]
    view = View({"folder": str(folder), "plugins": ids, "files": sorted(paths)}, indent=8)
    view.lines("made", [f"{one['id']}: {folder / one['file']}" for one in plugins])
    view.line("next", f"cd {folder}")
    view.line("", "pip install -e '.[dev]'")
    view.line("", "pytest")
    view.markup(f"        hooksdk plugins enable {ids[0]}    # in the project that is to use it")
    view.show(as_json=as_json)


def _words(plugin_id: str, package: str, *, alone: bool) -> dict[str, str]:
    """The words for the templates of a plugin, which is the package itself where it is the only one."""
    return {
        "id": plugin_id,
        "module": package if alone else f"{package}.{plugin_id}",
        "file": f"src/{package}/{'__init__' if alone else plugin_id}.py",
        "cls": "".join(part.capitalize() for part in plugin_id.split("_")),
        "title": plugin_id.replace("_", " ").capitalize(),
        "example": EXAMPLE,
    }


def files_of(distribution: str, package: str, plugins: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Every file by its path in the project's folder, but the manifests, which are made of the code."""
    words = {
        "distribution": distribution,
        "package": package,
        "version": _oldest(importlib.metadata.version("hooksdk")),
        "entries": "\n".join(f'{one["id"]} = "{one["module"]}:{one["cls"]}"' for one in plugins),
        "settings": "".join(_filled("settings.md", one) for one in plugins),
        "enable": "\n".join(f"hooksdk plugins enable {one['id']}" for one in plugins),
    }
    files = {name: _filled(Path(name).name, words) for name in PROJECT}
    files[f"src/{package}/py.typed"] = ""
    if len(plugins) > 1:
        files[f"src/{package}/__init__.py"] = f'"""{distribution}: plugins for hooksdk."""\n'
    for one in plugins:
        files[one["file"]] = _filled("plugin.py", one)
        files[f"tests/test_{one['id']}.py"] = _filled("test_plugin.py", one)
    return files


def _oldest(version: str) -> str:
    """The oldest hooksdk that a new package promises to work with: this one, without its patch."""
    # A build before the release is older than the release.
    return ".".join(version.split(".")[:2]) + (".dev0" if ".dev" in version else "")


def _filled(template: str, words: Mapping[str, str]) -> str:
    return Template((TEMPLATES / f"{template}.txt").read_text("utf-8")).substitute(words)


def _write(folder: Path, files: Mapping[str, str]) -> Sequence[Path]:
    """Write the files and, made of them, the manifests; answers where these are."""
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandProblem(f"{folder} cannot be written: {error.strerror}") from None
    made = drafts(folder)
    for draft in made:
        draft.write()
    return [draft.path for draft in made]


def _identifier(name: str, option: str) -> str:
    """The name as Python writes it: `call_budget` for `Call Budget` or `CallBudget`. Raises a usage error where it
    cannot be."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip())
    folded = re.sub(r"[-_.\s]+", "_", parted).strip("_").lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", folded) or keyword.iskeyword(folded) or len(folded) > LONGEST_NAME:
        problem = (
            f"{name!r} cannot be a Python module: letters and digits, beginning with a letter, at most {LONGEST_NAME}"
        )
        raise typer.BadParameter(problem, param_hint=option)
    return folded


def _plugin_id(name: str, option: str) -> str:
    plugin_id = _identifier(name, option)
    if any(one.id == plugin_id and one.origin == "built-in" for one in survey(Config(), Path())):
        raise typer.BadParameter(f"'{plugin_id}' is a built-in plugin's id: choose another", param_hint=option)
    return plugin_id
