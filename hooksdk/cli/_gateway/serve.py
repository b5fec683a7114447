"""Serving MCP clients: the project's plugins and servers behind one server, each as the project's files say now."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from rich.console import Console

from hooksdk import Host
from hooksdk.cli._configuration import ConfigWatch
from hooksdk.cli._console import CommandProblem, counted, one_line, print_line, safe, stderr_console, warnings_shown
from hooksdk.cli._gateway.places import gateway_file
from hooksdk.cli._mcp.files import DEFAULT_NAMES, not_trusted, servers_files
from hooksdk.cli._mcp.servers import ServerWatch, asks_person
from hooksdk.cli._project import store_spec
from hooksdk.config import Config, FileWatch, config_files
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.gateway.status import ServerLine, StatusFile
from hooksdk.mcp import LOCAL, McpServers, Reload, ServerStatus
from hooksdk.stores import open_store
from hooksdk.tasks import describe
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

# Seconds between two writes of the status, at least.
_STATUS_PAUSE = 1.0
# The members of a gateway's source that a project leaves to its servers.
_OF_SERVERS = {"features", "missing", "open_page", "release", "signed_out", "tools_known"}


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of the command line.

    Attributes:
        config: Files with MCP servers.
        tls: The same keys as `[gateway.tls]`.
    """

    config: tuple[Path, ...] = ()
    profile: str | None = None
    http: str | None = None
    expose: str | None = None
    tls: dict[str, str] | None = None
    plugins: tuple[Any, ...] = ()
    store: str | None = None
    project: Path


@final
class GatewayProject:
    """A source of the gateway's tools that follows the project's files: the gateway asks it before each request.

    Attributes:
        gateway: The gateway, which is told of changes; set by its maker.
    """

    gateway: Gateway

    def __init__(self, options: ServeOptions, console: Console) -> None:
        """Read all files, and start nothing. Raises `ConfigError`, and `CommandProblem` without any server."""
        self._options = options
        self._console = console
        overrides: dict[str, Any] = {"store": store_spec(options.store)} if options.store is not None else {}
        typed = (("expose", options.expose), ("tls", options.tls))
        if own := {name: value for name, value in typed if value}:
            overrides["gateway"] = own
        self._watch = ConfigWatch(overrides, folder=options.project, check=self._check)
        self._places = FileWatch(self._all_places())
        self._say = ServerWatch(console)
        # The files that the command line does not name, with their trusted digests.
        self._own: dict[Path, str] = {}
        config = self._watch.config
        files = dict.fromkeys(options.config, "") or self._find(config)
        if not files:
            cure = "give a file with --config FILE, or find those of your clients with hooksdk gateway import"
            raise CommandProblem(f"there are no MCP servers: {cure}")
        self.files = tuple(map(str, files))
        settings = GatewayConfig.of(config)
        has_holders = options.http is not None and (settings.tokens or settings.oidc)
        self.servers = McpServers.from_file(
            *files,
            on_status=self._tell_status,
            ask=asks_person(),
            digests=files,
            relay=settings.relay,
            lazy=True,
            holder=None if has_holders else LOCAL,
            on_change=lambda _server: self.gateway.tools_changed(),
        )
        # Not the host's own: the next host goes on with the same store.
        self.store = open_store(config.store or "jsonl", config.sessions)
        self.host = self._host(config)
        self._leave_host = anyio.Event()
        self._group: TaskGroup | None = None
        self._lock = anyio.Lock(fast_acquire=True)
        self._host_problem = ""
        self._files_problem = ""

    async def start(self, group: TaskGroup) -> None:
        """Open the host; it is left when the group is cancelled."""
        self._group = group
        self._leave_host = await group.start(_keep, self.host)

    def tools(self) -> list[Tool]:
        """The servers' tools as they are now."""
        return self.servers.tools()

    def __getattr__(self, name: str) -> Any:
        """The other members of a source are the servers' own."""
        if name not in _OF_SERVERS:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)
        return getattr(self.servers, name)

    async def catch_up(self) -> Reload | None:
        """Apply the changes of the files. A broken file is told of, and changes nothing."""
        async with self._lock:
            if self._watch.catch_up():
                await self._change_host()
            places_changed = self._places.changed()
            reload = await self._look_for_files() if places_changed and not self._options.config else None
            reload = reload or await self.servers.catch_up()
            if reload is not None:
                self._tell(reload)
            return reload

    @property
    def problem(self) -> str:
        """The reason why the files as they are now do not count; empty when they do."""
        return "; ".join(filter(None, (self._watch.problem, self._host_problem, self._files_problem)))

    @property
    def server_lines(self) -> tuple[ServerLine, ...]:
        """The states of the servers."""
        return tuple(
            ServerLine(
                name=one.name, state=one.state, tools=one.tools, problem=one.problem, scope=one.scope, holder=one.holder
            )
            for one in self.servers.connections
        )

    def _host(self, config: Config) -> Host:
        return Host(plugins=self._options.plugins, folder=self._options.project, config=config, store=self.store)

    def _check(self, config: Config) -> None:
        self.gateway.check(GatewayConfig.of(config))
        self._host(config)

    async def _change_host(self) -> None:
        host = self._host(self._watch.config)
        assert self._group is not None
        try:
            leave = await self._group.start(_keep, host)
            await self.gateway.use(host)
        except Exception as error:
            self._host_problem = f"the plugins could not be started anew: {describe(error)}"
            logger.warning("the configuration stays as it was: %s", self._host_problem)
            return
        self._host_problem = ""
        self._leave_host.set()
        self.host, self._leave_host = host, leave
        print_line(self._console, "changed", one_line(f"the configuration; {host.judging}"))

    def _all_places(self) -> list[Path]:
        """The possible files with servers, and the configuration that names them."""
        project, named = self._options.project, self._watch.config.mcp or DEFAULT_NAMES
        own = gateway_file("user", project)
        return [*(project / Path(name).expanduser() for name in named), own, *config_files(project, os.environ)]

    def _find(self, config: Config) -> dict[Path, str]:
        """The project's files of servers, or else the gateway's own. A file that is not trusted any more counts with
        its trusted content."""
        files, unknown = servers_files(self._options.project, config)
        for trust in unknown:
            why = not_trusted(trust, self._options.project, "--config")
            print_line(self._console, "[yellow]not used[/]", safe(why))
            if trust.folder in self._own:
                files[trust.folder] = self._own[trust.folder]
        own = gateway_file("user", self._options.project)
        if not files and own.is_file():
            files = {own: ""}
        if files and not self._own:
            print_line(self._console, "servers", one_line(f"of {', '.join(map(str, files))}"))
        self._own = files
        return files

    async def _look_for_files(self) -> Reload | None:
        before = self._own
        self._places = FileWatch(self._all_places())
        files = self._find(self._watch.config)
        if not files:
            return None if not before else await self.servers.replace({})
        self.files = tuple(map(str, files))
        return None if files == before else await self.servers.reload(*files, digests=files)

    def _tell_status(self, status: ServerStatus) -> None:
        self._say(status)
        if hasattr(self, "gateway"):
            self.gateway.counts.touch()

    def _tell(self, reload: Reload) -> None:
        self._files_problem = "; ".join(reload.problems)
        found = {"added": reload.added, "changed": reload.changed, "removed": reload.removed}
        if changes := [f"{what}: {', '.join(names)}" for what, names in found.items() if names]:
            print_line(self._console, "servers", one_line("; ".join(changes)))


async def _keep(host: Host, *, task_status: TaskStatus[anyio.Event]) -> None:
    """Hold a host open until its event is set and its last run has ended."""
    leave = anyio.Event()
    async with host:
        task_status.started(leave)
        await leave.wait()
        await host.wait_idle()


def serve_clients(options: ServeOptions, streams: tuple[int, int] | None) -> int:
    """Serve until the client leaves, or somebody stops the program. The exit code. `streams` are stdin and stdout of
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
    transport, profile = "stdio" if address is None else "http", options.profile or gateway.config.profile or ""
    status = StatusFile(transport=transport, config=project.files, profile=profile)

    def update(**fields: str) -> None:
        counts, problem = gateway.counts.as_dict(), project.problem
        status.update(servers=project.server_lines, problem=problem, config=project.files, **counts, **fields)

    async def write_status() -> None:
        while True:
            update()
            await anyio.sleep(_STATUS_PAUSE)
            await gateway.counts.news()

    def listening(url: str) -> None:
        print_line(console, "serving", one_line(url))
        update(address=url)

    def stopping(calls: int) -> None:
        wait = f"waits up to {gateway.config.stop_wait:g} s for {counted(calls, 'open call')}; Ctrl-C ends them now"
        print_line(console, "stopping", wait)

    problem: Exception | None = None
    with status:  # it is removed after its writer has ended
        async with anyio.create_task_group() as group:
            # A request to end: the servers are stopped in good order, and the host is left last.
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
    """The gateways that share this one's sessions, in words; empty for a store that no other gateway can use."""
    if (name := gateway.config.deployment) is not None:
        return f"shared by all gateways of the deployment '{name}'"
    is_on_a_server = str(project.store).startswith("postgresql:")
    return "this gateway's own; those behind one address need [gateway] deployment" if is_on_a_server else ""


def _known(project: GatewayProject) -> str:
    """The tools that are known before any server is started, in words."""
    lines = [one for one in project.server_lines if one.state != "disabled"]
    held = [one.name for one in lines if one.state == "idle" and not one.tools and one.scope != "gateway"]
    known = [one for one in lines if one.state == "idle" and one.name not in held]
    tools = counted(sum(one.tools for one in known), "tool")
    others = [one.name for one in lines if one.state == "starting"]
    asked = f"; asked for theirs: {', '.join(others)}" if others else ""
    asked += f"; asked for each client: {', '.join(held)}" if held else ""
    return f"{tools} of {counted(len(known), 'server')} known, each is started by its first call{asked}"
