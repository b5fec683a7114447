"""`hooksdk guard policy`: rules to begin with, shown before they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._edits.rules import offer_rules
from hooksdk.cli._options import Json, Project


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
    advice = "`hooksdk guard try` says what they would have said lately."
    offer_rules(folder, text, command="hooksdk guard policy", advice=advice, write=write, yes=yes, as_json=as_json)
