"""`hooksdk mcp`: files with MCP servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import (
    AskClientSecret,
    ImportFrom,
    Json,
    Mcp,
    NoBrowser,
    Project,
    ServerName,
    ServerNames,
    need_mcp,
)

mcp_app = typer.Typer(help="Look after files with MCP servers.", no_args_is_help=True)


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
    """Find the MCP servers of Claude Desktop and Code, Cursor, VS Code, Cline, Windsurf, Zed, Gemini CLI and Codex, and
    add them to mcp.json."""
    need_mcp()
    from hooksdk.cli._mcp.import_servers import ImportOptions, add_servers

    options = ImportOptions(
        project=project,
        names=names or (),
        sources=sources or (),
        target=target or project / "mcp.json",
        dry_run=dry_run,
        as_json=as_json,
    )
    raise typer.Exit(add_servers(options))


@mcp_app.command()
def login(
    name: ServerName,
    mcp: Mcp = None,
    no_browser: NoBrowser = False,
    client_secret: AskClientSecret = False,
    project: Project = Path(),
) -> None:
    """Sign in to a server on the web, in the browser: all commands and gateways of yours are signed in then."""
    need_mcp()
    from hooksdk.cli._mcp.sign_in import SignInOptions, sign_in

    options = SignInOptions(name=name, files=tuple(mcp or ()), project=project)
    raise typer.Exit(sign_in(options, browser=not no_browser, client_secret=client_secret))


@mcp_app.command()
def logout(name: ServerName, mcp: Mcp = None, project: Project = Path()) -> None:
    """End a sign-in, at the server and here."""
    need_mcp()
    from hooksdk.cli._mcp.sign_in import SignInOptions, sign_out

    raise typer.Exit(sign_out(SignInOptions(name=name, files=tuple(mcp or ()), project=project)))
