"""The options of `hooksdk tools call`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import Json, Mcp, Plugins, Project, import_plugins


def call_tool(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool, as `hooksdk tools list` names it.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="The arguments: KEY=VALUE each, or one JSON object; - reads it from stdin."),
    ] = None,
    mcp: Mcp = None,
    plugin: Plugins = None,
    approve: Annotated[
        bool | None,
        typer.Option("--yes/--ask", help="Grant every approval, or ask on stdin; by default only a terminal is asked."),
    ] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:  # fmt: skip
    """Call one tool here as a model would: judged by the project's plugins, its arguments checked. Nothing is kept."""
    from hooksdk.cli._tools.call import Wish, call_once, read_arguments

    wish = Wish(name, read_arguments(arguments or []), tuple(mcp or ()), import_plugins(plugin), approve, project)
    raise typer.Exit(call_once(wish, as_json=as_json))
