"""Serving MCP clients: the project's plugins and servers behind one server, over stdio or HTTP."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console

from hooksdk import Host
from hooksdk.cli._console import CommandProblem, one_line, print_line, stderr_console, warnings_shown
from hooksdk.cli._project import open_servers, project_config
from hooksdk.config import Config
from hooksdk.gateway import Gateway

BRIDGED = {"bridge", "hybrid"}


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
    """Serve until the client leaves, or somebody stops the program. Answers the exit code."""
    console = stderr_console()
    with warnings_shown(console):
        anyio.run(_serve, options, streams, console)
    return 0


async def _serve(options: ServeOptions, streams: tuple[int, int] | None, console: Console) -> None:
    config = _config(options)
    async with (
        anyio.create_task_group() as group,
        Host(plugins=options.plugins, folder=options.project, config=config) as host,
    ):
        group.start_soon(_stop_when_told, group.cancel_scope)
        groups = await open_servers(host, options.config, console, project=options.project)
        if not groups:
            raise CommandProblem("there are no MCP servers: give a file with --config FILE")
        async with Gateway(host, *groups) as gateway:
            print_line(console, "policies", one_line(host.judging))
            assert streams is not None
            await gateway.serve_stdio(options.profile, streams=streams)
        group.cancel_scope.cancel()


async def _stop_when_told(scope: anyio.CancelScope) -> None:
    """End in good order, so that the servers are stopped, too."""
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


def _config(options: ServeOptions) -> Config:
    """The project's configuration under the command line's."""
    return project_config(options.project, options.store)
