"""Serving MCP clients: the project's plugins and servers behind one server, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import anyio
from rich.console import Console

from hooksdk.cli._console import counted, one_line, print_line, stderr_console, warnings_shown
from hooksdk.cli._gateway.project import GatewayProject, ServeOptions
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway
from hooksdk.gateway.status import StatusFile

__all__ = ["ServeOptions", "serve_clients"]

STATUS_PAUSE = 1.0
"""Seconds between two writes of the status, at least."""


def serve_clients(options: ServeOptions, streams: tuple[int, int] | None) -> int:
    """Serve until the client leaves, or somebody stops the program. Answers the exit code. `streams` are stdin and stdout of
    the protocol; None: HTTP."""
    console = stderr_console()
    with warnings_shown(console):
        anyio.run(_serve, options, streams, console)
    return 0


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, or of a port alone, which means this machine. Raises `ConfigError`."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigError("--http", (f"{text!r} is not HOST:PORT, such as 127.0.0.1:8931",))
    return host, int(port)


async def _serve(options: ServeOptions, streams: tuple[int, int] | None, console: Console) -> None:
    address = parse_address(options.http) if options.http is not None else None
    project = GatewayProject(options, console)
    gateway = project.gateway = Gateway(project.host, project, folder=options.project)
    gateway.identity("local", options.profile, transport="stdio")  # a wrong name is told before anything is started
    if address is not None:
        gateway.check_address(address[0])
    status = StatusFile(
        transport="stdio" if address is None else "http", config=project.files,
        profile=options.profile or gateway.config.profile or "",
    )  # fmt: skip

    def update(**fields: str) -> None:
        status.update(
            servers=project.server_lines,
            problem=project.problem,
            config=project.files,
            **gateway.counts.as_dict(),
            **fields,
        )

    async def write_status() -> None:
        while True:
            update()
            await anyio.sleep(STATUS_PAUSE)
            await gateway.counts.news()

    def listening(url: str) -> None:
        print_line(console, "serving", one_line(url))
        update(address=url)

    def stopping(calls: int) -> None:
        wait = f"waits up to {gateway.config.stop_wait:g} s for {counted(calls, 'open call')}; Ctrl-C ends them now"
        print_line(console, "stopping", wait)

    problem: Exception | None = None
    with status:  # around its writer, which would write it anew
        async with anyio.create_task_group() as group:
            # Asked to end: in good order, so that the servers are stopped, too.
            # The host is left last.
            asked = anyio.CancelScope()
            with contextlib.suppress(RuntimeError):  # Windows has no such signal; a thread gets none
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.cancel)
            try:
                await project.start(group)
                with asked:
                    async with project.servers, gateway:
                        print_line(console, "policies", one_line(project.host.judging))
                        print_line(console, "servers", one_line(_known(project)))
                        if address is not None and (line := _sharing(project, gateway)):
                            print_line(console, "sessions", one_line(line))
                        group.start_soon(write_status)
                        if address is None:
                            if streams is not None and os.isatty(streams[0]):
                                print_line(console, "waiting", "for a client at stdin and stdout; Ctrl-C ends it")
                            await gateway.serve_stdio(options.profile, streams=streams)
                        else:
                            await gateway.serve_http(
                                *address, profile=options.profile, on_listening=listening, on_stopping=stopping
                            )
            except Exception as error:  # not wrapped in a group's
                problem = error
            finally:
                group.cancel_scope.cancel()
    await project.store.aclose()
    if problem is not None:
        raise problem


def _sharing(project: GatewayProject, gateway: Gateway) -> str:
    """With whom a gateway that others may stand beside shares its sessions; empty where none can."""
    if (name := gateway.config.deployment) is not None:
        return f"shared by all gateways of the deployment '{name}'"
    is_on_a_server = str(project.store).startswith("postgresql:")
    return "this gateway's own; those behind one address need [gateway] deployment" if is_on_a_server else ""


def _known(project: GatewayProject) -> str:
    """What is known of the servers before any of them is started."""
    lines = [one for one in project.server_lines if one.state != "disabled"]
    held = [one.name for one in lines if one.state == "idle" and not one.tools and one.scope != "gateway"]
    known = [one for one in lines if one.state == "idle" and one.name not in held]
    tools = counted(sum(one.tools for one in known), "tool")
    others = [one.name for one in lines if one.state == "starting"]
    asked = f"; asked for theirs: {', '.join(others)}" if others else ""
    asked += f"; asked for each client: {', '.join(held)}" if held else ""
    return f"{tools} of {counted(len(known), 'server')} known, each is started by its first call{asked}"
