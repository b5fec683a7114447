"""A project as the commands use it: its configuration, its MCP servers, and its store, in which no command leaves a
trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from rich.console import Console

from hooksdk import Config, Host, MemoryStore
from hooksdk.approvals import Approver
from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import CommandProblem, print_line, safe
from hooksdk.cli._mcp.files import not_trusted, servers_files
from hooksdk.formats import Message
from hooksdk.stores import SessionLog, Store, open_store
from hooksdk.transcript import Entry

if TYPE_CHECKING:
    from hooksdk.mcp import McpServers


def project_config(project: Path, store: str | Path | None = None) -> Config:
    """The project's configuration. A command is a new process each time, so sessions and plugins' values are in files,
    unless the configuration, or `store` (a folder or a URL), says otherwise. Raises `ConfigError`."""
    config = load_config({"store": store_spec(store)} if store is not None else None, folder=project)
    return config if config.store is not None else config.model_copy(update={"store": "jsonl"})


def store_spec(store: str | Path) -> str:
    """The configuration's name of the store of `--store`: a database's URL, or a folder."""
    if not str(store).strip():  # such as a variable that is not set
        raise CommandProblem(
            "--store: expected a folder or a URL, got an empty text; leave it out for the configuration's"
        )
    return str(store) if "://" in str(store) else f"jsonl:{store}"


# The plugin that writes a chain of records, and its space in a store.
AUDIT = "audit"


def without_records(config: Config) -> Config:
    """The configuration for made-up calls, which are not written into the audit's chain: no call waits for that."""
    return config.model_copy(update={"deny": [*config.deny, AUDIT], "record_first": False})


async def open_host(
    stack: AsyncExitStack,
    config: Config,
    project: Path,
    plugins: Sequence[Any],
    approver: Approver | None = None,
    *,
    records: bool = False,
) -> Host:
    """A host of the project, until `stack` closes. Its changes in the store end with the command. `records` is for
    tools that really run: only then the host writes the audit's chain, which stays."""
    config = config if records else without_records(config)
    store = ThrowawayStore(open_store(config.store, config.sessions))
    stack.push_async_callback(store.aclose)
    host = Host(plugins, store=store, config=config, folder=project, approver=approver)
    return await stack.enter_async_context(host)


async def open_servers(
    host: Host, given: Sequence[Path], console: Console, *, project: Path | None = None, only: str = ""
) -> list[McpServers]:
    """Start the servers of the given files, or else of the project's, and keep them until the host closes; `only` this
    one if there is such a server. A server that fails is left out with a message. Raises `CommandProblem` when none is
    left, and `ConfigError` for a wrong file."""
    files = dict.fromkeys(given, "")
    if project is not None and not given:
        files, unknown = servers_files(project, host.config)
        for trust in unknown:
            print_line(console, "[yellow]not used[/]", safe(not_trusted(trust, project)))
    if not files:
        return []
    if not given:
        print_line(console, "servers", f"of {safe(', '.join(map(str, files)))}")
    try:
        from hooksdk.cli._mcp.servers import ServerWatch, asks_person, statuses
        from hooksdk.mcp import McpServers
    except ModuleNotFoundError:
        raise CommandProblem("MCP servers need the package 'mcp': pip install 'hooksdk[mcp]'") from None
    watch = ServerWatch(console)
    read = partial(McpServers.from_file, *files, on_status=watch, ask=asks_person(), digests=files)
    servers = read(only=[only] if only else None)
    groups = [servers if servers.status else read()]
    await watch.start(host, groups)
    states = {status.state for status in statuses(groups)}
    if states and states <= {"failed", "needs sign-in", "disabled"}:
        raise CommandProblem(f"none of the MCP servers of {', '.join(map(str, files))} is up")
    return groups


@final
class ThrowawayStore:
    """A store whose changes end with the command. It has the values that plugins have stored, and no session."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._memory = MemoryStore()
        # The spaces that are copied into memory already.
        self._spaces: set[str] = set()

    async def _space(self, space: str) -> Store:
        """The store with a plugin's space: a copy since the first use, but for the audit's chain."""
        if space == AUDIT:
            return self._store
        if space not in self._spaces:
            self._spaces.add(space)
            for key in await self._store.list_keys(space):
                await self._memory.set_value(space, key, await self._store.get_value(space, key))
        return self._memory

    def forget(self) -> None:
        """Drop every change, such as the counts of a limit, and begin again with the stored values. No session may be
        open."""
        self._memory = MemoryStore()
        self._spaces.clear()

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> SessionLog:
        """Open a session in memory."""
        return await self._memory.open_session(session_id, wait=wait)

    async def read_session(self, session_id: str) -> tuple[list[Message], list[Entry]]:
        """Read a session that was opened here."""
        return await self._memory.read_session(session_id)

    async def delete_session(self, session_id: str, *, wait: float = 5.0) -> bool:
        """Remove a session that was opened here."""
        return await self._memory.delete_session(session_id, wait=wait)

    async def session_exists(self, session_id: str) -> bool:
        """True for a session that was opened here."""
        return await self._memory.session_exists(session_id)

    async def list_sessions(self) -> list[str]:
        """The sessions that were opened here."""
        return await self._memory.list_sessions()

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value."""
        return await (await self._space(space)).get_value(space, key, default)

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Change a value until the command ends."""
        await (await self._space(space)).set_value(space, key, value)

    async def change_value(self, space: str, key: str, old: Any, new: Any) -> bool:
        """Change a value until the command ends."""
        return await (await self._space(space)).change_value(space, key, old, new)

    async def delete_value(self, space: str, key: str) -> None:
        """Change a value until the command ends."""
        await (await self._space(space)).delete_value(space, key)

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space."""
        return await (await self._space(space)).list_keys(space)

    async def aclose(self) -> None:
        """Close the store whose values were read."""
        await self._store.aclose()
