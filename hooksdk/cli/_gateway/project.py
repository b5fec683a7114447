"""What a running gateway goes by: the project's configuration, its host and its servers, each as the files say now."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import anyio
from anyio.abc import TaskGroup, TaskStatus
from rich.console import Console

from hooksdk import Host
from hooksdk.cli._configuration import ConfigWatch
from hooksdk.cli._console import CommandProblem, one_line, print_line, safe
from hooksdk.cli._gateway.install import gateway_file
from hooksdk.cli._mcp.files import DEFAULT_NAMES, not_trusted, servers_files
from hooksdk.cli._mcp.servers import ServerWatch, read_mcp_files
from hooksdk.cli._project import store_spec
from hooksdk.config import Config, FileWatch, config_files
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.gateway.status import ServerLine
from hooksdk.mcp import LOCAL, Features, Reload, ServerStatus, SignInPage
from hooksdk.stores import open_store
from hooksdk.tasks import describe
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What the command line asks for."""

    config: tuple[Path, ...] = ()
    """Files with MCP servers."""
    profile: str | None = None
    http: str | None = None
    expose: str | None = None
    tls: dict[str, str] | None = None
    """As `[gateway.tls]` has it."""
    plugins: tuple[Any, ...] = ()
    store: str | None = None
    project: Path


@final
class GatewayProject:
    """A source of the gateway's tools that follows the project's files: it is asked before each request."""

    gateway: Gateway
    """Set once there is one: it is told what changes."""

    def __init__(self, options: ServeOptions, console: Console) -> None:
        """Reads all files, and starts nothing. Raises `ConfigError`, and `CommandProblem` where there are no servers."""
        self._options = options
        self._console = console
        overrides: dict[str, Any] = {"store": store_spec(options.store)} if options.store is not None else {}
        if own := {
            **({"expose": options.expose} if options.expose else {}),
            **({"tls": options.tls} if options.tls else {}),
        }:
            overrides["gateway"] = own
        self._watch = ConfigWatch(overrides, folder=options.project, check=self._check)
        self._places = FileWatch(self._all_places())
        self._say = ServerWatch(console)
        self._own: dict[Path, str] = {}
        """The files that nobody named on the command line, with the digests that are trusted."""
        config = self._watch.config
        files = dict.fromkeys(options.config, "") or self._find(config)
        if not files:
            raise CommandProblem(
                "there are no MCP servers: give a file with --config FILE, or find those of your clients with "
                "hooksdk gateway import"
            )
        self.files = tuple(map(str, files))
        settings = GatewayConfig.of(config)
        self.servers = read_mcp_files(
            list(files), self._tell_status, files, relay=settings.relay, lazy=True,
            holder=None if options.http is not None and (settings.tokens or settings.oidc) else LOCAL, on_change=lambda _server: self.gateway.tools_changed(),
        )  # fmt: skip
        # Not the host's own: the next one goes on with it.
        self.store = open_store(config.store or "jsonl")
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

    @property
    def features(self) -> Features:
        """Their prompts and resources."""
        return self.servers.features

    @property
    def missing(self) -> Mapping[str, str]:
        """The servers without tools, and why."""
        return self.servers.missing

    @property
    def signed_out(self) -> Mapping[str, str]:
        """The servers that wait for a person to sign in."""
        return self.servers.signed_out

    async def open_page(self, name: str) -> SignInPage | None:
        """A page on which a person signs in to one of them."""
        return await self.servers.open_page(name)

    async def tools_known(self) -> None:
        """Wait until the tools of all servers are known for the first time."""
        await self.servers.tools_known()

    def release(self, session_id: str) -> None:
        """A client's session is over."""
        self.servers.release(session_id)

    async def catch_up(self) -> Reload | None:
        """Apply what has changed in the files. What is broken is told, and changes nothing."""
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
        """Why the files as they are now do not count; empty where they do."""
        return "; ".join(filter(None, (self._watch.problem, self._host_problem, self._files_problem)))

    @property
    def server_lines(self) -> tuple[ServerLine, ...]:
        """How the servers are."""
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
        """Where files with servers may be, and what says so."""
        project, named = self._options.project, self._watch.config.mcp or DEFAULT_NAMES
        own = gateway_file("user", project)
        return [*(project / Path(name).expanduser() for name in named), own, *config_files(project, os.environ)]

    def _find(self, config: Config) -> dict[Path, str]:
        """The project's files of servers; where it has none, the gateway's own. One that is not trusted any more counts as it
        was."""
        files, unknown = servers_files(self._options.project, config)
        for trust in unknown:
            self._console.print(
                f"[yellow]not used[/]    {safe(not_trusted(trust, self._options.project, '--config'))}", soft_wrap=True
            )
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
        changes = [
            f"{names}: {', '.join(found)}"
            for names, found in (("added", reload.added), ("changed", reload.changed), ("removed", reload.removed))
            if found
        ]
        if changes:
            print_line(self._console, "servers", one_line("; ".join(changes)))


async def _keep(host: Host, *, task_status: TaskStatus[anyio.Event]) -> None:
    """Hold a host open until its event is set and nothing runs there any more."""
    leave = anyio.Event()
    async with host:
        task_status.started(leave)
        await leave.wait()
        await host.wait_idle()
