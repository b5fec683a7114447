"""`hooksdk gateway import`, `install`, `uninstall`, `login`, `logout` and `status`: the gateway in front of the clients of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._options import AskClientSecret, ImportFrom, Json, NoBrowser, ServerName, ServerNames, need_mcp

Client = Annotated[
    str,
    typer.Option(
        "--client",
        metavar="CLIENT",
        help="claude-code, claude-desktop, cursor, vscode, codex, windsurf, gemini, qwen, zed or cline.",
    ),
]
InProject = Annotated[
    bool, typer.Option("--project/--user", help="The file of this folder's project, or your own for all projects.")
]
InFolder = Annotated[
    bool, typer.Option("--local", help="Claude Code's servers of this folder alone, which it keeps in your own file.")
]
OfFile = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", help="Another file of the client, such as that of one of VS Code's profiles."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
SignInFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A file that has the server, such as a client's. By default all that gateways of yours have, and the project's "
        "mcp.json and .mcp.json, once trusted.",
    ),
]
OfToken = Annotated[
    str,
    typer.Option(
        "--token",
        metavar="NAME",
        help="For the clients of this token of `gateway.tokens`; each has sign-ins of its own.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it unasked.")]


def import_servers(
    names: ServerNames = None,
    sources: ImportFrom = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Another file than the gateway's own.")
    ] = None,
    in_project: InProject = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Find the MCP servers of the clients on this machine, and add them to the gateway's own file, which is shown first."""
    need_mcp()
    from hooksdk.cli._gateway.install import gateway_file
    from hooksdk.cli._mcp.import_servers import ImportOptions, add_servers

    here = Path()
    target = output or gateway_file("project" if in_project else "user", here)
    options = ImportOptions(
        project=here, names=tuple(names or ()), sources=tuple(sources or ()), target=target, dry_run=dry_run,
        as_json=as_json, ask=True, yes=yes,
    )  # fmt: skip
    raise typer.Exit(add_servers(options))


def install(
    client: Client,
    in_project: InProject = False,
    in_folder: InFolder = False,
    file: OfFile = None,
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="The profile of the configuration that the client gets.")
    ] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Put the gateway in the place of a client's servers, which go to the gateway's own file. The changes are shown first."""
    need_mcp()
    from hooksdk.cli._gateway.install import InstallOptions, install_gateway

    options = InstallOptions(
        client=client, scope=scope_of(in_project, in_folder, file), file=file, profile=profile, dry_run=dry_run, yes=yes, as_json=as_json
    )  # fmt: skip
    raise typer.Exit(install_gateway(options))


def uninstall(
    client: Client,
    in_project: InProject = False,
    in_folder: InFolder = False,
    file: OfFile = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give a client its servers back, exactly as they were. What was changed in its file since stays."""
    need_mcp()
    from hooksdk.cli._gateway.uninstall import UninstallOptions, uninstall_gateway

    options = UninstallOptions(
        client=client, scope=scope_of(in_project, in_folder, file), file=file, dry_run=dry_run, yes=yes, as_json=as_json
    )  # fmt: skip
    raise typer.Exit(uninstall_gateway(options))


def login(
    name: ServerName,
    config: SignInFiles = None,
    token: OfToken = "",
    no_browser: NoBrowser = False,
    client_secret: AskClientSecret = False,
) -> None:
    """Sign in to a server on the web, in the browser. Every gateway of yours that runs has its tools at once."""
    need_mcp()
    from hooksdk.cli._mcp.sign_in import SignInOptions, sign_in

    options = SignInOptions(
        name=name, files=tuple(config or ()), project=Path(), token=token, browser=not no_browser, client_secret=client_secret
    )  # fmt: skip
    raise typer.Exit(sign_in(options))


def logout(name: ServerName, config: SignInFiles = None, token: OfToken = "") -> None:
    """End a sign-in, at the server and here."""
    need_mcp()
    from hooksdk.cli._mcp.sign_in import SignInOptions, sign_out

    raise typer.Exit(sign_out(SignInOptions(name=name, files=tuple(config or ()), project=Path(), token=token)))


def status(as_json: Json = False) -> None:
    """Show the gateways that run: their servers and sessions, the tokens saved, the calls blocked and asked about."""
    need_mcp()
    from hooksdk.cli._gateway.status import show_status

    raise typer.Exit(show_status(as_json=as_json))


def scope_of(in_project: bool, in_folder: bool, file: Path | None) -> Literal["user", "project", "local"]:
    """The place that these options mean. Raises `CommandProblem` for more than one."""
    if in_project + in_folder + (file is not None) > 1:
        raise CommandProblem("--project, --local and --file are three places: give one of them")
    return "project" if in_project else "local" if in_folder else "user"
