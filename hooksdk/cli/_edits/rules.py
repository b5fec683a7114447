"""Rules to begin with, which are shown before they are written into a project's file."""

from __future__ import annotations

from pathlib import Path

import typer

from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits.configuration import add_to_project, added, settings_file
from hooksdk.cli._edits.files import FileEdit, agreed, decoded, read_bytes
from hooksdk.cli._options import EditOptions
from hooksdk.cli._view import View
from hooksdk.config import trust_advice


def offer_rules(folder: Path, text: str, *, command: str, advice: str, write: bool, yes: bool, as_json: bool) -> None:
    """Print the rules; with `write` show what they add to the project's `hooksdk.toml`, ask, and write them. `command`
    prints the rules, and `advice` says what to try next. Raises `CommandProblem` when they cannot be written or nobody
    is there to answer, and `typer.Exit` for a no."""
    path = folder / "hooksdk.toml"
    view = View({"policy": text, "written": str(path) if write else None})
    if not write and not as_json:
        print(text, end="")
        return
    if write:
        _check_place(folder, command)
        before = read_bytes(path)
        edit = FileEdit(path, before, added(decoded(path, before), text).encode())
        options, unasked = EditOptions(yes=yes, as_json=as_json), "--yes writes the rules unasked"
        if not agreed([edit], f"Write these rules to {path}?", options, unasked=unasked):
            raise typer.Exit(1)
        remarks = add_to_project(folder, text).remarks
        view.line("written", f"{path}. {advice}", "green")
        if remarks:
            view.line("not trusted", f"{trust_advice(folder)}, so that the rest of the file counts, too", "yellow")
    view.show(as_json=as_json)


def _check_place(folder: Path, command: str) -> None:
    """Raise `CommandProblem` for a project with rules of its own, or with its settings in another file."""
    section = load_config(folder=folder).plugin("tool_policy")
    if section is not None and section.config:
        raise CommandProblem(
            f"{folder} has rules of tool_policy already, and nothing is written beside them. `{command}` prints these; "
            "copy what you like"
        )
    path, tables = settings_file(folder)
    if tables:
        raise CommandProblem(
            f"{path} has the settings of this project. `{command}` prints the rules; copy them there, each table "
            "with tool.hooksdk. before its name"
        )
