"""`hooksdk plugins new`: a package to begin with."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files as files_in
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._options import Json
from hooksdk.cli._plugins.authoring import EXAMPLE, drafts
from hooksdk.cli._view import View
from hooksdk.config import Config
from hooksdk.host import survey

LONGEST_NAME = 40
# What a package's name may begin with, and a plugin's id need not.
PREFIX = "hooksdk_"
TEMPLATES = files_in("hooksdk.cli._plugins") / "package"
# The files that a package has once, however many plugins are in it.
PROJECT = ("pyproject.toml", "README.md", ".gitignore", ".github/workflows/tests.yml")


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
    """What the templates put in for a plugin, which is the package itself where it is the only one."""
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
        # The oldest hooksdk that the new package promises to work with: this one, without its patch.
        "version": ".".join(importlib.metadata.version("hooksdk").split(".")[:2]),
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
