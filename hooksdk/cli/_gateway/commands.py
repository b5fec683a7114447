"""`hooksdk gateway`: one MCP server in front of all the others, and the commands around it; `hooksdk mcp`: files with MCP
servers."""

from __future__ import annotations

import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from hooksdk.cli._console import View, counted, one_line
from hooksdk.cli._groups import GroupWithOptions
from hooksdk.cli._options import (
    AskClientSecret,
    ClientOptions,
    DryRun,
    GatewayInstall,
    ImportFrom,
    InProject,
    Json,
    Mcp,
    NoBrowser,
    Plugins,
    Project,
    ServerName,
    ServerNames,
    Store,
    Yes,
    import_plugins,
    need_mcp,
    takes,
)
from hooksdk.gateway.status import GatewayStatus, running_gateways

gateway_app = typer.Typer(
    cls=GroupWithOptions,
    help="Run one MCP server in front of yours, with policies and tool search.",
    invoke_without_command=True,
)
mcp_app = typer.Typer(help="Look after files with MCP servers.", no_args_is_help=True)


@gateway_app.callback()
def serve(
    context: typer.Context,
    config: Annotated[list[Path] | None, typer.Option("--config", metavar="FILE")] = None,
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME")] = None,
    http: Annotated[str | None, typer.Option("--http", metavar="HOST:PORT")] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE")] = None,
    expose: Literal["auto", "bridge", "direct", "hybrid"] | None = None,
    plugin: Plugins = None,
    store: Store = None,
    project: Project = Path(),
) -> None:
    """Serve an MCP client: one server in front of all servers of a file, with plugins, policies and tool search
    between.

    Options:
        config: A file with the MCP servers behind the gateway; may be given several times. By default the project's
            mcp.json and .mcp.json, once trusted, and else the gateway's own, which `gateway import` fills.
        profile: The profile of the configuration that clients get.
        http: Serve streamable HTTP there instead of stdin and stdout.
        tls_cert: Serve https with this certificate (PEM), with --tls-key.
        tls_key: The key of the certificate (PEM).
        expose: auto: the bridge where it saves something. bridge: search and call. direct: every tool. hybrid: both,
            for pinned and read-only tools.
    """
    if context.invoked_subcommand is not None:
        return
    need_mcp()
    tls = {"cert": str(tls_cert.absolute()), "key": str(tls_key.absolute())} if tls_cert and tls_key else None
    if tls is None and (tls_cert or tls_key):
        raise typer.BadParameter("--tls-cert and --tls-key go together")
    if tls is not None and http is None:
        raise typer.BadParameter("TLS is for clients over HTTP: give --http HOST:PORT as well")
    from hooksdk.cli._gateway.serve import ServeOptions, serve_clients
    from hooksdk.gateway import own_streams

    # From here on: a plugin may print something as early as when it is imported.
    with own_streams() if http is None else nullcontext() as streams:
        options = ServeOptions(
            config=tuple(config or ()),
            profile=profile,
            http=http,
            expose=expose,
            tls=tls,
            plugins=import_plugins(plugin),
            store=store,
            project=project,
        )
        code = serve_clients(options, streams)
    raise typer.Exit(code)


SignInFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A file that has the server, such as a client's. By default all that gateways of yours have, and the "
        "project's mcp.json and .mcp.json, once trusted.",
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


@gateway_app.command("import")
def import_servers(
    names: ServerNames = None,
    sources: ImportFrom = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None,
    in_project: InProject = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Find the MCP servers of the clients on this machine, and add them to the gateway's own file, which is shown
    first.

    Options:
        output: Another file than the gateway's own.
    """
    need_mcp()
    from hooksdk.cli._gateway.places import gateway_file
    from hooksdk.cli._mcp.import_servers import ImportOptions, add_servers

    here = Path()
    target = output or gateway_file("project" if in_project else "user", here)
    options = ImportOptions(
        project=here,
        names=names or (),
        sources=sources or (),
        target=target,
        dry_run=dry_run,
        as_json=as_json,
        ask=True,
        yes=yes,
    )
    raise typer.Exit(add_servers(options))


@gateway_app.command()
@takes(GatewayInstall)
def install(options: GatewayInstall) -> int:
    """Put the gateway in the place of a client's servers, which go to the gateway's own file. The changes are shown
    first."""
    need_mcp()
    from hooksdk.cli._gateway.install import install_gateway

    return install_gateway(options)


@gateway_app.command()
@takes(ClientOptions)
def uninstall(options: ClientOptions) -> int:
    """Give a client its servers back, exactly as they were. What was changed in its file since stays."""
    need_mcp()
    from hooksdk.cli._gateway.uninstall import uninstall_gateway

    return uninstall_gateway(options)


@gateway_app.command("try")
def try_out(
    client: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    since: Annotated[str, typer.Option(metavar="TIME")] = "1w",
    as_json: Json = False,
) -> None:
    """Say what the gateway would have saved of what your coding agents did lately, and which tools they called.

    Reads the transcripts that the agents keep of themselves, and starts your own servers to count their tools. No tool
    is called, and nothing is changed.

    Options:
        client: This agent alone: claude-code, codex, gemini or qwen; may be given several times.
        since: How far back: 12h, 1d or 1w.
    """
    need_mcp()
    from hooksdk.cli._gateway.trial import try_gateway

    try_gateway(client, since, as_json=as_json)


@gateway_app.command()
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

    options = SignInOptions(name=name, files=tuple(config or ()), project=Path(), token=token)
    raise typer.Exit(sign_in(options, browser=not no_browser, client_secret=client_secret))


@gateway_app.command()
def logout(name: ServerName, config: SignInFiles = None, token: OfToken = "") -> None:
    """End a sign-in, at the server and here."""
    need_mcp()
    from hooksdk.cli._mcp.sign_in import SignInOptions, sign_out

    raise typer.Exit(sign_out(SignInOptions(name=name, files=tuple(config or ()), project=Path(), token=token)))


@gateway_app.command()
def status(as_json: Json = False) -> None:
    """Show the gateways that run: their servers and sessions, the tokens saved, the calls blocked and asked about."""
    need_mcp()
    found = running_gateways()
    view = View({"gateways": [one.as_dict() for one in found]})
    if not found:
        view.markup("no gateway runs")
    for one in found:
        _add_status(view, one)
    view.show(as_json=as_json)


def _add_status(view: View, one: GatewayStatus) -> None:
    since = datetime.fromtimestamp(one.started, UTC).astimezone()
    about = (("for", one.client), ("profile", one.profile))
    more = "".join(f", {word} {one_line(value)}" for word, value in about if value)
    where = f"{one_line(one.address or one.transport)}{more}, since {since:%Y-%m-%d %H:%M}"
    view.markup(f"[bold]gateway {one.pid}[/]  {where}")
    view.line("  files", ", ".join(one.config) or "none")
    if one.problem:
        view.line("  not used", one.problem, "yellow")
    for server in one.servers:
        name = (
            f"  {one_line(server.name)}  of {one_line(server.holder)}, "
            if server.holder
            else f"{one_line(server.name)}  "
        )
        scope = f", one for each {one_line(server.scope)}" if server.scope != "gateway" and not server.holder else ""
        problem = f": {one_line(server.problem)}" if server.problem else ""
        state = f"{one_line(server.state)}, {counted(server.tools, 'tool')}"
        view.markup(f"  server    {name}{state}{scope}{problem}")
    view.line("  sessions", f"{one.sessions:,} open")
    view.lines("  shown", [f"{name}: {what}" for name, what in one.shown.items()])
    view.line("  tokens", f"{one.tokens_saved:,} of {one.tokens_direct:,} saved")
    ended = f"{one.blocked:,} blocked, {one.asked:,} asked about, {one.failed:,} failed"
    written = f"written {max(time.time() - one.changed, 0):.0f} s ago"
    view.markup(f"  calls     {one.calls:,}: {ended}  ({written})")


@mcp_app.command("import")
def import_to_mcp_json(
    names: ServerNames = None,
    sources: ImportFrom = None,
    target: Annotated[Path | None, typer.Option("--to", metavar="FILE")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Find the MCP servers of Claude Desktop and Code, Cursor, VS Code, Cline, Windsurf, Zed, Gemini CLI and Codex, and
    add them to mcp.json.

    Options:
        target: Where they are added; by default the project's mcp.json.
        dry_run: Show what would be added, and write nothing.
    """
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


@mcp_app.command("login")
def mcp_login(
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


@mcp_app.command("logout")
def mcp_logout(name: ServerName, mcp: Mcp = None, project: Project = Path()) -> None:
    """End a sign-in, at the server and here."""
    need_mcp()
    from hooksdk.cli._mcp.sign_in import SignInOptions, sign_out

    raise typer.Exit(sign_out(SignInOptions(name=name, files=tuple(mcp or ()), project=project)))
