"""`hooksdk mcp`: files with MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import ImportFrom, Json, Project, ServerNames, need_mcp

mcp_app = typer.Typer(help="Look after files with MCP servers.", no_args_is_help=True)


@mcp_app.callback()
def _group() -> None:
    """Keeps `import` a command of its own while it is the only one."""


@mcp_app.command("import")
def import_servers(
    names: ServerNames = None,
    sources: ImportFrom = None,
    target: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Where they are added; by default the project's mcp.json."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be added, and write nothing.")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Find the MCP servers of Claude Desktop and Code, Cursor, VS Code, Cline, Windsurf, Zed, Gemini CLI and Codex, and add
    them to mcp.json."""
    need_mcp()
    from hooksdk.cli._mcp.import_servers import ImportOptions, add_servers

    options = ImportOptions(
        project=project, names=tuple(names or ()), sources=tuple(sources or ()), target=target or project / "mcp.json",
        dry_run=dry_run, as_json=as_json,
    )  # fmt: skip
    raise typer.Exit(add_servers(options))
