"""`hooksdk guard policy`: rules to begin with, shown before they are written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import CommandProblem, print_json, safe, stdout_console
from hooksdk.cli._edits.configuration import add_to_project, added
from hooksdk.cli._edits.diff import confirm, print_diff
from hooksdk.cli._options import Json, Project
from hooksdk.config import trust_advice


def policy(
    project: Project = Path(),
    write: Annotated[bool, typer.Option("--write", help="Write them into the project's hooksdk.toml.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")] = False,
    as_json: Json = False,
) -> None:
    """Print rules to begin with for coding agents in a project, made for what is in its folder.

    Without --write nothing changes: read them, change what you like, and try them on what your agents did lately:

        hooksdk guard policy > rules.toml

        hooksdk guard try --policy rules.toml
    """
    from hooksdk.guard import starter_policy

    folder = project.resolve()
    text = starter_policy(folder)
    path = folder / "hooksdk.toml"
    if not write:
        if as_json:
            print_json({"schema": 1, "policy": text, "written": None})
        else:
            print(text, end="")
        return
    _check_room(folder)
    before = path.read_text("utf-8") if path.exists() else ""
    if not as_json:
        print_diff(path, before, added(before, text), ())
    if not yes and (as_json or not sys.stdin.isatty()):
        raise CommandProblem("nobody is there to answer: --yes writes the rules unasked")
    if not confirm(f"Write these rules to {path}?", yes=yes, as_json=as_json):
        raise typer.Exit(1)
    edit = add_to_project(folder, text)
    if as_json:
        print_json({"schema": 1, "policy": text, "written": str(path)})
        return
    console = stdout_console()
    console.print(
        f"[green]written[/]     {safe(path)}. `hooksdk guard try` says what they would have said lately.",
        soft_wrap=True,
    )
    if edit.remarks:
        console.print(
            f"[yellow]not trusted[/] {safe(trust_advice(folder))}, so that the rest of the file counts, too",
            soft_wrap=True,
        )


def _check_room(folder: Path) -> None:
    """Raises `CommandProblem` where a project has rules of its own, or its settings in another file."""
    section = load_config(folder=folder).plugin("tool_policy")
    if section is not None and section.config:
        raise CommandProblem(
            f"{folder} has rules of tool_policy already, and nothing is written beside them. `hooksdk guard policy` prints these; "
            "copy what you like"
        )
    pyproject = folder / "pyproject.toml"
    if (
        not (folder / "hooksdk.toml").exists()
        and pyproject.exists()
        and "[tool.hooksdk" in pyproject.read_text("utf-8")
    ):
        raise CommandProblem(
            f"{pyproject} has the settings of this project. `hooksdk guard policy` prints the rules; copy them there, each table "
            "with tool.hooksdk. before its name"
        )
