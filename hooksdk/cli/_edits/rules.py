"""Rules to begin with, which are shown before they are written into a project's file."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import CommandProblem, print_json, safe, stdout_console
from hooksdk.cli._edits.configuration import add_to_project, added
from hooksdk.cli._edits.diff import confirm, print_diff
from hooksdk.config import trust_advice


def offer_rules(folder: Path, text: str, *, command: str, advice: str, write: bool, yes: bool, as_json: bool) -> None:
    """Print the rules, or with `write` add them to the project's file, as `_write` does."""
    if write:
        _write(folder, text, command=command, advice=advice, yes=yes, as_json=as_json)
    elif as_json:
        print_json({"schema": 1, "policy": text, "written": None})
    else:
        print(text, end="")


def _write(folder: Path, text: str, *, command: str, advice: str, yes: bool, as_json: bool) -> None:
    """Show what is added to `hooksdk.toml`, ask, and write it. `command` prints the rules, and `advice` is what to try next. Raises
    `CommandProblem` where there is no room for them, or nobody to ask, and `typer.Exit` for a no."""
    path = folder / "hooksdk.toml"
    _check_room(folder, command)
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
    console.print(f"[green]written[/]     {safe(path)}. {advice}", soft_wrap=True)
    if edit.remarks:
        console.print(
            f"[yellow]not trusted[/] {safe(trust_advice(folder))}, so that the rest of the file counts, too",
            soft_wrap=True,
        )


def _check_room(folder: Path, command: str) -> None:
    """Raises `CommandProblem` where a project has rules of its own, or its settings in another file."""
    section = load_config(folder=folder).plugin("tool_policy")
    if section is not None and section.config:
        raise CommandProblem(
            f"{folder} has rules of tool_policy already, and nothing is written beside them. `{command}` prints these; "
            "copy what you like"
        )
    pyproject = folder / "pyproject.toml"
    if (
        not (folder / "hooksdk.toml").exists()
        and pyproject.exists()
        and "[tool.hooksdk" in pyproject.read_text("utf-8")
    ):
        raise CommandProblem(
            f"{pyproject} has the settings of this project. `{command}` prints the rules; copy them there, each table "
            "with tool.hooksdk. before its name"
        )
