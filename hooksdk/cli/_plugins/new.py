"""`hooksdk plugins new` and `hooksdk plugins manifest`: a package to begin with, and manifests made of its code."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import keyword
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._console import CommandProblem, print_json, printable
from hooksdk.cli._options import Json
from hooksdk.cli._plugins.templates import NewPlugin, files_of
from hooksdk.config import Config
from hooksdk.host import survey

LONGEST_NAME = 40
PREFIX = "hooksdk_"
"""What a package's name may begin with, and a plugin's id need not."""


def new_package(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The package's name, such as call-budget.")],
    plugin: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="ID", help="A plugin in it; may be given several times. One by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a package with plugins that work: code, manifests, tests, README and CI, in a new folder."""
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
    alone = len(ids) == 1
    plugins = [NewPlugin(plugin_id=one, module=package if alone else f"{package}.{one}") for one in ids]
    files = files_of(distribution, package, _version(), plugins)
    manifests = _write(folder, files)
    if as_json:
        paths = [*files, *(str(path.relative_to(folder)) for path in manifests)]
        print_json({"schema": 1, "folder": str(folder), "plugins": ids, "files": sorted(paths)})
        return
    for one in plugins:
        print(f"made    {one.plugin_id}: {folder / one.file}")
    print(f"next    cd {folder}")
    print("        pip install -e '.[dev]'")
    print("        pytest")
    print(f"        hooksdk plugins enable {ids[0]}    # in the project that is to use it")


def _write(folder: Path, files: dict[str, str]) -> Sequence[Path]:
    """Write the files and, made of them, the manifests; answers where these are."""
    from hooksdk.cli._plugins.authoring import drafts

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
    """`call_budget` for `Call Budget`, `call-budget` and `CallBudget`. Raises a usage error for what cannot be a name."""
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


def _version() -> str:
    """The oldest hooksdk that the new package promises to work with: this one, without its patch."""
    return ".".join(importlib.metadata.version("hooksdk").split(".")[:2])


def make_manifests(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", exists=True, file_okay=False, help="The project's folder.")
    ] = Path(),
    write: Annotated[bool, typer.Option("--write", help="Write what differs.")] = False,
    as_json: Json = False,
) -> None:
    """Compare the manifests of a project of yours with its code, which is imported, and write them.

    Without --write the code is 1 when one differs.
    """
    from hooksdk.cli._plugins.authoring import drafts

    made = drafts(path)
    differing = [draft for draft in made if draft.differing]
    for draft in differing if write else ():
        draft.write()
    if as_json:
        print_json({
            "schema": 1, "written": write,
            "manifests": [
                {"plugin": one.plugin, "path": str(one.path), "differing": one.differing, "document": one.document} for one in made
            ],
        })  # fmt: skip
    else:
        for draft in made:
            word = "fine" if not draft.differing else "written" if write else "differs"
            print(printable(f"{word:<8} {draft.path}{': ' * bool(draft.differing)}{', '.join(draft.differing)}"))
    if differing and not write:
        if not as_json:
            print("         hooksdk plugins manifest --write")
        raise typer.Exit(1)
