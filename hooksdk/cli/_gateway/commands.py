"""`hooksdk gateway`: one MCP server in front of all the others, and the commands around it."""

from __future__ import annotations

import enum
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._gateway import client_commands
from hooksdk.cli._groups import GroupWithOptions
from hooksdk.cli._options import Plugins, Project, Store, import_plugins, need_mcp

gateway_app = typer.Typer(
    cls=GroupWithOptions,
    help="Run one MCP server in front of yours, with policies and tool search.",
    invoke_without_command=True,
)


class Expose(enum.StrEnum):
    """Which tools a client is shown."""

    bridge = "bridge"
    direct = "direct"
    hybrid = "hybrid"


@gateway_app.callback()
def serve(
    context: typer.Context,
    config: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="A file with the MCP servers behind the gateway; may be given several times. By default the project's "
            "mcp.json and .mcp.json, once trusted, and else the gateway's own, which `gateway import` fills.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME", help="The profile of the configuration that clients get."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there instead of stdin and stdout."),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option("--tls-cert", metavar="FILE", help="Serve https with this certificate (PEM), with --tls-key."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate (PEM).")
    ] = None,
    expose: Annotated[
        Expose | None,
        typer.Option(help="bridge: search and call. direct: every tool. hybrid: both, for pinned and read-only tools."),
    ] = None,
    plugin: Plugins = None,
    store: Store = None,
    project: Project = Path(),
) -> None:
    """Serve an MCP client: one server in front of all servers of a file, with plugins, policies and tool search between."""
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
            config=tuple(config or ()), profile=profile, http=http, expose=expose.value if expose else None, tls=tls,
            plugins=import_plugins(plugin), store=store, project=project,
        )  # fmt: skip
        code = serve_clients(options, streams)
    raise typer.Exit(code)


gateway_app.command("import")(client_commands.import_servers)
gateway_app.command()(client_commands.install)
gateway_app.command()(client_commands.uninstall)
gateway_app.command()(client_commands.login)
gateway_app.command()(client_commands.logout)
gateway_app.command()(client_commands.status)
