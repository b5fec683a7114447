"""MCP servers as tools: started together, shared by all sessions of a host, started again when they end.

    async with McpServers.from_file("mcp.json", on_status=print) as servers:
        async with Host(...) as host, host.session("s1") as session, session.run() as run:
            offered = await run.resolve_tools(servers.tools())

Needs `pip install 'hooksdk[mcp]'`. Works on asyncio and trio.

Status: stable.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import anyio
import mcp_types as types

from hooksdk.calls import ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.mcp._config import ServerSpec, check_entry, read_servers
from hooksdk.mcp._connection import Connection
from hooksdk.mcp._features import LEVELS, Feature, Features, Listener, most_of
from hooksdk.mcp._files import Reload, ServerFiles
from hooksdk.mcp._fill import AskInput, ServerInput
from hooksdk.mcp._fleet import Fleet
from hooksdk.mcp._life import Terms
from hooksdk.mcp._listings import Listings
from hooksdk.mcp._offer import ERROR, ERROR_MARGIN, ROLE, ServerOffer, as_tool, to_result
from hooksdk.mcp._relay import ASKED, Client, RunningCall, SilentClient, current_client, is_own_meta
from hooksdk.mcp._scope import LOCAL, Scope, ScopeKey
from hooksdk.mcp._sign_ins import Pages, ServerSignIns
from hooksdk.mcp._status import CallFailed, ServerStatus, SignInNeeded, State
from hooksdk.mcp.sign_in._store import SignInPage, SignInProblem, SignIns
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

T = TypeVar("T")

__all__ = [
    "ERROR",
    "LEVELS",
    "LOCAL",
    "ROLE",
    "AskInput",
    "Client",
    "Feature",
    "Features",
    "Listener",
    "McpServers",
    "Reload",
    "Scope",
    "ScopeKey",
    "ServerInput",
    "ServerOffer",
    "ServerSignIns",
    "ServerStatus",
    "SignInPage",
    "SilentClient",
    "State",
    "check_entry",
    "current_client",
    "is_own_meta",
    "most_of",
]


class _Made(NamedTuple):
    """The tools of a server, and the entry and list that they were made from."""

    spec: ServerSpec
    entries: tuple[types.Tool, ...]
    tools: list[Tool]


class McpServers:
    """The MCP servers of a host, as an async context manager; their connections are shared by all sessions.

    `servers` is the usual `mcpServers` mapping of server names to entries: `command`, `args`, `env` and `cwd` for a
    local program, or `url` and `headers` for one behind streamable HTTP; `type`, `disabled`, `timeout` (seconds that
    one call may take), `start_timeout` and `idle` for both. `${VAR}`, `${env:VAR}` and `${VAR:-default}` are filled
    from the environment. A wrong entry raises `ConfigError`, and in a file counts as a server that failed; an unknown
    key is ignored, logged and listed in `notices`.

    Entering starts all servers at once. One that fails is reported, never raised. Leaving ends all of
    them, child processes included, within a few seconds, after an error or a cancellation too. A server that ends in
    between is started again for the next call of one of its tools, or the next `tools()`; one that keeps failing is
    tried less and less often.

    With `lazy` entering starts nothing that was listed before: such a server is started by the first call of one of
    its tools. The others are started in the background, and have tools when they have answered; `ready()` waits for
    that. What servers offer is kept in the user's cache folder, or in the folder `listings`, and asked anew after a
    day or when the server's program is another. With `idle`, a server that was not called for so many seconds is
    ended until the next call (that of its entry counts first); without it, one that was called once runs until the
    end.

    `relay` names what servers may ask of the client whose call they are serving: `elicitation`, `sampling`, `roots`.
    That is a client of a `Gateway`; elsewhere nobody answers, and without `relay` servers are told that there is no
    such thing.

    A server on the web that answers nobody who is not signed in waits as `needs sign-in` until somebody is:
    `sign_ins.sign_in`, or `hooksdk gateway login NAME` on a terminal. `sign_ins` is where sign-ins are kept, by
    default for the user.

    The `scope` of an entry says which of a gateway's clients share a process of it: `gateway` (all), `token` or
    `session`. Whose call it is says `current_client`; elsewhere all share one. `holder` is who has the connections
    that no client's call has brought about; None: nobody, and servers that depend on who asks wait for a client.
    `release` ends those of one session.

    `on_status` is told how a server is, and `on_change` the name of one that offers something else than before.
    `features` is what they offer beside their tools.

    Enter and leave it in the same task; everything else may be used from any task of the loop.

    Attributes:
        features: Prompts and resources.
        sign_ins: Signs people in to servers on the web that ask for it.
    """

    def __init__(
        self,
        servers: Mapping[str, Any],
        *,
        start_timeout: float = 30.0,
        call_timeout: float = 60.0,
        lazy: bool = False,
        idle: float | None = None,
        listings: str | os.PathLike[str] | None = None,
        relay: Collection[str] = (),
        holder: str | None = LOCAL,
        on_status: Callable[[ServerStatus], None] | None = None,
        on_change: Callable[[str], None] | None = None,
        sign_ins: SignIns | None = None,
    ) -> None:
        limits = {"start_timeout": start_timeout, "call_timeout": call_timeout, "idle": idle}
        for option, seconds in limits.items():
            if seconds is not None and not seconds > 0:
                raise ConfigError("McpServers", (f"{option}: expected seconds above 0, got {seconds!r}",))
        for option in ("idle", "listings") if not lazy else ():
            if {"idle": idle, "listings": listings}[option] is not None:
                raise ConfigError("McpServers", (f"{option}: counts with lazy=True alone",))
        for kind in relay:
            if kind not in ASKED:
                known = f"expected {', '.join(ASKED)}, got {kind!r}.{did_you_mean(kind, ASKED)}"
                raise ConfigError("McpServers", (f"relay: {known}",))
        terms = Terms(
            start_timeout=start_timeout,
            report=self._report,
            changed=self._tell_change,
            hear=self._hear,
            idle=idle,
            relay=frozenset(relay),
            listings=Listings(Path(listings).expanduser() if listings is not None else None) if lazy else None,
            rests=lazy,
            sign_ins=sign_ins or SignIns(),
        )
        self._call_timeout = call_timeout
        self._on_status = on_status
        self._on_change = on_change
        self._thread = 0
        self._tools: dict[tuple[str, ScopeKey], _Made] = {}
        self._fleet = Fleet(terms, holder)
        self.features = Features(self._fleet, terms, call_timeout)
        self.sign_ins = ServerSignIns(lambda: self._fleet.wanted, terms.sign_ins)
        self._pages = Pages(terms.sign_ins, self._fleet.start_soon)
        self._files = ServerFiles()
        self._fleet.apply([read_servers(servers).need_all()])

    @classmethod
    def from_file(
        cls,
        *paths: str | os.PathLike[str],
        start_timeout: float = 30.0,
        call_timeout: float = 60.0,
        lazy: bool = False,
        idle: float | None = None,
        listings: str | os.PathLike[str] | None = None,
        relay: Collection[str] = (),
        holder: str | None = LOCAL,
        on_status: Callable[[ServerStatus], None] | None = None,
        on_change: Callable[[str], None] | None = None,
        sign_ins: SignIns | None = None,
        ask: AskInput | None = None,
        digests: Mapping[Path, str] | None = None,
        only: Collection[str] | None = None,
    ) -> Self:
        """The servers of one or several files, as Claude Desktop and Code, Cursor, VS Code, Windsurf, Zed, Gemini CLI
        and Codex keep them. Raises `ConfigError` for a file that cannot be read, with the line of text that is no
        JSON.

        A server with a wrong entry, and one whose name an earlier file has, counts as one that failed. `ask` is
        called, while the files are read, for each `${input:NAME}` of VS Code's; without it such a server has failed,
        too. `digests` are `sha256:` and the hexadecimal digest that a file's content must have; another content is a
        `ConfigError`. Of the servers none but those that `only` names count.
        """
        servers = cls(
            {},
            start_timeout=start_timeout,
            call_timeout=call_timeout,
            lazy=lazy,
            idle=idle,
            listings=listings,
            relay=relay,
            holder=holder,
            on_status=on_status,
            on_change=on_change,
            sign_ins=sign_ins,
        )
        servers._files = ServerFiles(paths, ask=ask, digests=digests, only=only)
        servers._fleet.apply(servers._files.read())
        return servers

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices of what was ignored in the mapping or the files, one line each."""
        return self._fleet.wanted.notices

    @property
    def status(self) -> Mapping[str, ServerStatus]:
        """The status of each server, by name: servers that may be started in the order of the files, then the
        others."""
        return MappingProxyType({one.name: one for one in self.connections if not one.holder})

    @property
    def connections(self) -> Sequence[ServerStatus]:
        """The status of each server, and after it those of single tokens and sessions, which have a `holder`."""
        return self._fleet.status()

    @property
    def missing(self) -> Mapping[str, str]:
        """The servers that cannot be called now, or whose tools are not known yet, by name, and why, in one line."""
        missing = {name: status.problem for name, status in self._fleet.wanted.refused.items()}
        for one in self._listed():
            if one.status.failed or (one.status.state == "starting" and not one.tools):
                why = one.status.problem or "it is being started, and its tools are not known yet"
                missing[one.spec.name] = why
        return missing

    def tools(self) -> list[Tool]:
        """The tools of all servers as they are now; asks for a new start of each server that has ended.

        A server that has ended, or cannot be reached, keeps the tools that it listed last: the next call of one
        starts it again, or says why that failed. The list of a server that says that its tools have changed counts
        from the next call of this method. Two servers may have a tool of one name: the run's catalog tells them
        apart.
        """
        tools: list[Tool] = []
        for connection in self._listed():
            if self._thread == threading.get_ident():
                connection.wake(patient=True)
            place = connection.spec.name, connection.key
            known = self._tools.get(place)
            if known is None or known.spec is not connection.spec or known.entries is not connection.tools:
                own = [self._tool(connection, entry) for entry in connection.tools]
                known = self._tools[place] = _Made(connection.spec, connection.tools, own)
            tools += known.tools
        return tools

    def _listed(self) -> list[Connection]:
        """The connections whose tools the present client sees. From another thread none is begun."""
        here = self._thread == threading.get_ident()
        return self._fleet.listed() if here else [*self._fleet.connections.values()]

    def release(self, session: str) -> None:
        """End the processes that a single session has: the client's session of this `id` is over."""
        self._tools = {place: made for place, made in self._tools.items() if place[1].session != session}
        self._fleet.release(session)

    async def ready(self) -> None:
        """Wait until each server that is being started, or asked for its tools, has answered or failed. How long that
        may take is what `start_timeout` says."""
        await self._fleet.ready()

    async def tools_known(self) -> None:
        """Wait until the tools of each server are known, however long ago they were listed, or it has failed."""
        await self._fleet.tools_known()

    async def refresh(self) -> None:
        """Read the lists of all servers again, and start those that are not up. A failure is in `status`."""
        async with anyio.create_task_group() as group:
            for connection in self._listed():
                if not connection.spec.disabled and not self._fleet.is_held(connection):
                    group.start_soon(connection.refresh)

    @property
    def signed_out(self) -> Mapping[str, str]:
        """The servers that wait for the person of the present client to sign in, by name, and what the person types."""
        return {one.spec.name: one.status.problem for one in self._listed() if one.status.signed_out}

    async def open_page(self, name: str) -> SignInPage | None:
        """A page on which that person signs in to one of them; None where it is not needed any more, or cannot be
        had."""
        try:
            connection = self._fleet.connection(name)
            for _ in range(2):  # a person may have signed in after the connection that refuses now was opened
                connection.wake(patient=True)
                await connection.settled()
            if connection.status.state == "needs sign-in":
                return await self._pages.open(self.sign_ins.target(name, connection.key.holder))
        except (CallFailed, SignInProblem):  # the server is gone
            pass
        return None

    async def catch_up(self) -> Reload | None:
        """Apply the files if one of them has changed since they were last read; None when none has. Without a change
        it costs one question to the file system for each file, so it may be called before every call."""
        return await self.reload() if self._files.changed() else None

    async def reload(self, *paths: str | os.PathLike[str], digests: Mapping[Path, str] | None = None) -> Reload:
        """Read the files again, and apply them to the next call. With `paths`, these files count from now on; with
        `digests`, these are what the files' content must be.

        New servers are started (with `lazy`, as when entering; `ready()` waits for it), those that are gone or
        changed are ended once the calls that they have taken are over, and the others are not touched. What is broken
        changes nothing: the servers of a file that cannot be read, or has another digest, and the server of a wrong
        entry stay as they were; that is logged and in the `problems` of the answer. Nothing is raised. Of a mapping
        given in code there is nothing to read.
        """
        self._files = self._files.successor(paths, digests)
        if not self._files.paths:
            return Reload()
        self._files.changed()
        readings, problems = self._files.read_again()
        for problem in problems:
            logger.warning("%s; the servers that it had before stay", problem)
        return replace(self._fleet.apply(readings), problems=tuple(problems))

    async def replace(self, servers: Mapping[str, Any]) -> Reload:
        """Take these servers instead, in the same way; files do not count any more. Raises `ConfigError` for a wrong
        entry, and changes nothing then."""
        reading = read_servers(servers).need_all()
        self._files = ServerFiles()
        return self._fleet.apply([reading])

    async def __aenter__(self) -> Self:
        if self._fleet.entered:
            raise RuntimeError("these MCP servers are started already; enter an McpServers once at a time")
        self._thread = threading.get_ident()
        await self._fleet.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread = 0
        await self._fleet.stop()

    def _report(self, status: ServerStatus) -> None:
        if self._on_status is not None:
            _tell(self._on_status, status, "on_status", status.name)
        elif status.failed:
            logger.warning("the MCP server '%s' failed: %s", status.name, status.problem)

    def _tell_change(self, name: str) -> None:
        if self._on_change is not None:
            _tell(self._on_change, name, "on_change", name)

    async def _hear(self, server: str, message: types.ServerNotification, key: ScopeKey) -> None:
        await self.features.tell(server, message, key)

    def _tool(self, connection: Connection, entry: types.Tool) -> Tool:
        owner, limit = connection.spec.name, connection.spec.timeout or self._call_timeout

        async def execute(arguments: dict[str, Any], context: ToolContext | None = None) -> ToolResult:
            async def call(connection: Connection, call: RunningCall) -> ToolResult:
                try:
                    return to_result(await connection.call(entry, arguments, limit, call))
                except SignInNeeded:
                    if call.client is not None and call.client.shows_pages:
                        page = await self.open_page(owner)
                        if page is not None:
                            await call.client.show_page(page)
                    raise

            return await self._fleet.call(owner, context, call)

        return as_tool(entry, owner, execute, limit + ERROR_MARGIN)


def _tell(listener: Callable[[T], None], news: T, option: str, server: str) -> None:
    try:
        listener(news)
    except Exception:
        logger.exception("%s raised for MCP server '%s'", option, server)
