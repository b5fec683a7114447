"""Serving MCP clients: the project's plugins and servers behind one server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from hooksdk import Host
from hooksdk._config.gateway import with_overrides
from hooksdk.cli._console import CommandProblem, one_line, print_line, stderr_console, warnings_shown
from hooksdk.cli._project import open_servers, project_config
from hooksdk.config import Config, PluginConfig, fold
from hooksdk.gateway import Gateway
from hooksdk.gateway._http import check_address, parse_address

BRIDGED = {"bridge", "hybrid"}
SEARCH = "tool_search"


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What the command line asks for."""

    config: tuple[Path, ...] = ()
    """Files with MCP servers."""
    profile: str | None = None
    http: str | None = None
    expose: str | None = None
    plugins: tuple[Any, ...] = ()
    store: str | None = None
    project: Path


def serve(options: ServeOptions, streams: tuple[int, int] | None) -> int:
    """Serve until the client leaves, or somebody stops the program. Answers the exit code. `streams` are stdin and stdout of
    the protocol; None: HTTP."""
    console = stderr_console()
    config = _config(options)
    with warnings_shown(console):
        anyio.run(_serve, options, config, streams, console)
    return 0


async def _serve(options: ServeOptions, config: Config, streams: tuple[int, int] | None, console: Console) -> None:
    host = Host(plugins=options.plugins, folder=options.project, config=config)
    gateway = Gateway(host)
    gateway.identity("local", options.profile, transport="stdio")  # a wrong name is told before any server starts
    address = parse_address(options.http) if options.http is not None else None
    if address is not None:
        check_address(address[0], gateway.read_tokens())
    with anyio.CancelScope() as scope:
        # Asked to end: in good order, so that the servers are stopped, too.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scope.cancel)
        async with host:
            groups = await open_servers(
                host, options.config, console, project=options.project, relay=config.gateway.relay
            )
            if not groups:
                raise CommandProblem("there are no MCP servers: give a file with --config FILE")
            async with Gateway(host, *groups) as gateway:
                print_line(console, "policies", one_line(host.judging))
                if address is not None:
                    await gateway.serve_http(
                        *address, profile=options.profile,
                        on_listening=lambda url: print_line(console, "serving", one_line(url)),
                    )  # fmt: skip
                else:
                    await gateway.serve_stdio(options.profile, streams=streams)


def _config(options: ServeOptions) -> Config:
    """The project's configuration, with what the command line says over it."""
    config = project_config(options.project, options.store)
    gateway = with_overrides(config.gateway, {"expose": options.expose} if options.expose else {})
    config = config.model_copy(update={"gateway": gateway})
    if not BRIDGED & {gateway.expose, *(profile.expose for profile in gateway.profiles.values())}:
        return config
    section = config.plugin(SEARCH) or PluginConfig()
    on = section.model_copy(update={"enabled": True, "config": {**section.config, "enabled": "on"}})
    others = {name: one for name, one in config.plugins.items() if fold(name) != SEARCH}
    return config.model_copy(update={"plugins": {**others, SEARCH: on}})
