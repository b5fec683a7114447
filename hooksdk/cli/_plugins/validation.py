"""Checking a plugin's manifest before it is published: a manifest, a package, a project, a wheel or an installed
distribution. Nothing of the plugin is imported."""

from __future__ import annotations

import configparser
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hooksdk import schema
from hooksdk.config import Config, fold
from hooksdk.errors import ConfigError, PluginRefused, did_you_mean
from hooksdk.hooks import GRANTS, HOOKS
from hooksdk.host import Plugin, look_at
from hooksdk.manifest import ENTRY_POINTS, FILE_NAMES, SUFFIX, Manifest, file_names, needed_grants, read_manifest

AnyPath = Path | zipfile.Path


@dataclass
class Validation:
    """The outcome of checking plugins.

    Attributes:
        plugins: Those that were imported for it.
        notices: What an author may have meant: unknown keys, grants that operators will have to give unasked.
    """

    manifests: list[str] = field(default_factory=list[str])
    plugins: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    notices: list[str] = field(default_factory=list[str])


def validate(path: Path) -> Validation:
    """Check every plugin that a path holds."""
    validation = Validation()
    if path.suffix == ".whl":
        _validate_wheel(path, validation)
    elif path.is_file():
        _check_manifest(path, None, validation)
    elif path.name.endswith((".dist-info", ".egg-info")):
        _check_entries(_entries_of_text(path / "entry_points.txt", validation), [path.parent], validation)
    elif (path / "pyproject.toml").is_file():
        _check_entries(entries_of_project(path / "pyproject.toml", validation), [path, path / "src"], validation)
    elif manifest := manifest_in(path, ""):
        _check_manifest(manifest, _entry_of_package(path, validation), validation)
    elif manifests := sorted(path.glob(f"*{SUFFIX}")):
        for one in manifests:
            _check_manifest(one, one.name.removesuffix(SUFFIX), validation)
    else:
        names = " or ".join(FILE_NAMES)
        validation.problems.append(f"{path}: there is no {names} in it, and no pyproject.toml")
    return validation


def validate_holder(holder: Any, validation: Validation) -> None:
    """Check a module or class that is imported already, as a host would that is given it in code."""
    plugin = look_at(Plugin.of(holder), Config())
    validation.plugins.append(plugin.id)
    if isinstance(plugin.refusal, ConfigError):
        validation.notices.append(f"it needs settings: {plugin.refusal}")
    elif plugin.refusal is not None:
        validation.problems.append(str(plugin.refusal))


def _validate_wheel(path: Path, validation: Validation) -> None:
    try:
        root = zipfile.Path(path)
    except (OSError, zipfile.BadZipFile) as error:
        validation.problems.append(f"{path} cannot be read: {error}")
        return
    infos = [item for item in root.iterdir() if item.name.endswith(".dist-info")]
    if not infos:
        validation.problems.append(f"{path}: it has no .dist-info, so it is no wheel")
        return
    _check_entries(_entries_of_text(infos[0] / "entry_points.txt", validation), [root], validation)


def _check_entries(entries: dict[str, str] | None, roots: Sequence[AnyPath], validation: Validation) -> None:
    if entries == {}:
        validation.problems.append(f"it has no entry point in the group {ENTRY_POINTS}, so no host would find it")
    for name, value in (entries or {}).items():
        module = value.partition(":")[0].strip()
        folders = (folder_of(root, module) for root in roots)
        folder = next((folder for folder in folders if folder is not None), None)
        if folder is None:
            problem = f"the entry point '{name}' names the module '{module}', which is not there"
            validation.problems.append(problem)
        elif manifest := manifest_in(folder, name):
            _check_manifest(manifest, name, validation, entries or ())
        else:
            validation.problems.append(f"the plugin '{name}' has no {FILE_NAMES[0]} beside {module}")


def _entries_of_text(path: AnyPath, validation: Validation) -> dict[str, str] | None:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, KeyError, UnicodeDecodeError, configparser.Error) as error:
        validation.problems.append(f"{path} cannot be read: {error}")
        return None
    return dict(parser[ENTRY_POINTS]) if parser.has_section(ENTRY_POINTS) else {}


def entries_of_project(path: Path, validation: Validation) -> dict[str, str] | None:
    """The plugins that a pyproject.toml names, by id. None, and a problem in `validation`, where it cannot be read."""
    try:
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        validation.problems.append(f"{path} cannot be read: {error}")
        return None
    for key in ("project", "entry-points", ENTRY_POINTS):
        found = cast("dict[str, Any]", found).get(key, {}) if isinstance(found, dict) else {}
    if not isinstance(found, dict):
        return {}
    return {name: str(value) for name, value in cast("dict[str, Any]", found).items()}


def _entry_of_package(folder: Path, validation: Validation) -> str | None:
    """The entry point that a project around this package gives it, if it can be seen from here."""
    folder = folder.resolve()
    for root in (folder.parent, folder.parent.parent):
        if (root / "pyproject.toml").is_file():
            entries = entries_of_project(root / "pyproject.toml", validation) or {}
            modules = {name: value.partition(":")[0].strip() for name, value in entries.items()}
            return next((name for name, module in modules.items() if module.split(".")[0] == folder.name), None)
    return None


def folder_of(root: AnyPath, module: str) -> AnyPath | None:
    """The folder in which a module's manifest must lie."""
    folder = root
    for part in module.split("."):
        if (folder / part).is_dir():
            folder = folder / part
        else:
            return folder if (folder / f"{part}.py").is_file() else None
    return folder


def manifest_in(folder: AnyPath, entry: str) -> AnyPath | None:
    """The manifest of the plugin with this id in its folder, or None."""
    return next((folder / name for name in file_names(entry) if (folder / name).is_file()), None)


def _check_manifest(path: AnyPath, entry: str | None, validation: Validation, entries: Iterable[str] = ()) -> None:
    """Check one; `entries` are all the entry points of its distribution."""
    where = str(path)
    validation.manifests.append(where)
    try:
        manifest = read_manifest(path, entry or "")
    except PluginRefused as error:
        validation.problems.append(f"{where}: {error.problem}")
        return
    validation.problems += [f"{where}: {problem}" for problem in _problems_of(manifest, entry, entries)]
    validation.notices += [f"{where}: {notice}" for notice in _notices_of(manifest)]


def _problems_of(manifest: Manifest, entry: str | None, entries: Iterable[str]) -> list[str]:
    problems: list[str] = []
    if entry is not None and fold(manifest.id) != fold(entry):
        shared = fold(manifest.id) in map(fold, entries)
        advice = f"Write {entry}{SUFFIX} beside it for that one" if shared else "Make them equal"
        problems.append(f"its id is '{manifest.id}', and its entry point is called '{entry}'. {advice}")
    for word in manifest.permissions:
        if word not in GRANTS:
            hint = did_you_mean(word, GRANTS) or f" Known: {', '.join(GRANTS)}."
            problems.append(f"permissions: '{word}' is no grant.{hint}")
    for hook in manifest.contracts.hooks or ():
        if hook not in HOOKS:
            problems.append(f"contracts.hooks: '{hook}' is not a hook.{did_you_mean(hook, HOOKS)}")
    problems += ["contracts.tools: a name is empty" for tool in manifest.contracts.tools or () if not tool.strip()]
    if manifest.config_schema is not None:
        problem = schema.check_schema(manifest.config_schema)
        if problem:
            problems.append(f"configSchema is not a JSON Schema: {problem}")
        elif manifest.config_schema.get("type", "object") != "object":
            problems.append('configSchema: a configuration is a table of settings, so its "type" is "object"')
    return problems


def _notices_of(manifest: Manifest) -> list[str]:
    contracts = manifest.contracts
    needs = needed_grants(contracts.hooks or (), contracts.tools or (), ())
    unasked = (
        f"it needs the grant '{grant}' for {', '.join(users)}, and does not ask for it under permissions"
        for grant, users in needs.items()
        if grant not in manifest.permissions
    )
    unknown_keys = (notice for notice in manifest.notices if "is not a key" in notice)
    return [*unknown_keys, *unasked]
