"""MCP servers as tools: started together, shared by all sessions of a host, started again when they end.

    async with McpServers.from_file("mcp.json", on_status=print) as servers:
        async with Host(...) as host, host.session("s1") as session, session.run() as run:
            offered = await run.resolve_tools(servers.tools())

Needs `pip install 'hooksdk[mcp]'`. Works on asyncio and trio.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import mcp_types as types

from hooksdk._tasks.background import logger
from hooksdk.calls import ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.errors import ConfigError
from hooksdk.mcp._config import Reading, read_file, read_servers
from hooksdk.mcp._connection import CallFailed, Connection, ServerStatus, State
from hooksdk.mcp._fill import AskInput, ServerInput
from hooksdk.mcp._transport import NoiseFilter
from hooksdk.tools import Annotations, Tool

__all__ = ["AskInput", "McpServers", "ServerInput", "ServerStatus", "State"]

_STOP_TIMEOUT = 2.0
"""Seconds that servers have to end in good order before what still runs is cancelled."""

_ERROR_MARGIN = 1.0
"""Seconds by which a tool's own time limit is longer than the call's, so that the call's error text wins."""


class McpServers:
    """The MCP servers of a host, as an async context manager; their connections are shared by all sessions.

    `servers` is the usual `mcpServers` mapping of server names to entries: `command`, `args`, `env` and `cwd` for a
    local program, or `url` and `headers` for one behind streamable HTTP; `type`, `disabled` and `timeout` (seconds that
    one call may take) for both. `${VAR}`, `${env:VAR}` and `${VAR:-default}` are filled from the environment. A wrong
    entry raises `ConfigError`, and in a file counts as a server that failed; an unknown key is ignored, logged and listed
    in `notices`.

    Entering starts all servers at once. One that fails is reported and left out, never raised. Leaving ends all of
    them, child processes included, within a few seconds, after an error or a cancellation too. A server that ends in
    between is started again for the next call of one of its tools, or the next `tools()`; one that keeps failing is
    tried less and less often.

    Enter and leave it in the same task; its tools, `tools()` and `refresh()` may be used from any task of the loop.
    """

    def __init__(
        self,
        servers: Mapping[str, Any],
        *,
        start_timeout: float = 30.0,
        call_timeout: float = 60.0,
        on_status: Callable[[ServerStatus], None] | None = None,
    ) -> None:
        for option, seconds in (("start_timeout", start_timeout), ("call_timeout", call_timeout)):
            if not seconds > 0:
                raise ConfigError("McpServers", (f"{option}: expected seconds above 0, got {seconds!r}",))
        self._start_timeout = start_timeout
        self._call_timeout = call_timeout
        self._on_status = on_status
        self._group: anyio.abc.TaskGroup | None = None
        self._thread = 0
        self._noise = NoiseFilter()
        self._tools: dict[str, tuple[tuple[types.Tool, ...], list[Tool]]] = {}
        """By server: its own list, and the tools made of it."""
        self._refused: dict[str, ServerStatus] = {}
        self._connections: dict[str, Connection] = {}
        self.notices: tuple[str, ...] = ()
        """What was ignored in the mapping or the files, one line each."""
        self._take(read_servers(servers).need_all())

    @classmethod
    def from_file(
        cls,
        *paths: str | os.PathLike[str],
        start_timeout: float = 30.0,
        call_timeout: float = 60.0,
        on_status: Callable[[ServerStatus], None] | None = None,
        ask: AskInput | None = None,
        digests: Mapping[Path, str] | None = None,
    ) -> Self:
        """The servers of one or several files, as Claude Desktop and Code, Cursor, VS Code, Windsurf, Zed, Gemini CLI and
        Codex keep them. Raises `ConfigError` for a file that cannot be read, with the line of text that is no JSON.

        A server with a wrong entry, and one whose name an earlier file has, counts as one that failed. `ask` is called,
        while the files are read, for each `${input:NAME}` of VS Code's; without it such a server has failed, too. `digests`
        are `sha256:` and the hexadecimal digest that a file's content must have; another content is a `ConfigError`.
        """
        servers = cls({}, start_timeout=start_timeout, call_timeout=call_timeout, on_status=on_status)
        for path in paths:
            servers._take(read_file(path, ask=ask, digest=(digests or {}).get(Path(path), "")))
        return servers

    def _take(self, reading: Reading) -> None:
        for name, problems in reading.problems.items():
            self._refuse(name, problems, reading.where)
        for spec in reading.specs:
            if spec.name in self._connections:
                self._refuse(spec.name, ["another file has a server of this name; rename one of them"], reading.where)
            else:
                self._connections[spec.name] = Connection(spec, self._start_timeout, self._report)
        self.notices += tuple(reading.notices)
        for notice in reading.notices:
            logger.warning("%s", notice)

    def _refuse(self, name: str, problems: list[str], where: str) -> None:
        problem = f"{where}: {'; '.join(problem.lstrip(':, ') for problem in problems)}"
        key = name if name not in self._connections and name not in self._refused else f"{name} of {where}"
        self._refused[key] = ServerStatus(name=key, state="failed", problem=problem)

    @property
    def status(self) -> Mapping[str, ServerStatus]:
        """How each server is, by name: those that may be started in the order of the files, then the others."""
        statuses = {name: connection.status for name, connection in self._connections.items()}
        return MappingProxyType({**statuses, **self._refused})

    def tools(self) -> list[Tool]:
        """The tools of all servers as they are now; asks for a new start of each server that has ended.

        A server that has ended keeps its tools as long as it may be started again: the next call of one does so. Its
        tools go when that fails. The list of a server that says that its tools have changed counts from the next call
        of this method. Two servers may have a tool of one name: the run's catalog tells them apart.
        """
        tools: list[Tool] = []
        for name, connection in self._connections.items():
            if self._thread == threading.get_ident():
                connection.wake(patient=True)
            entries, own = self._tools.get(name, ((), []))
            if entries is not connection.tools:
                entries, own = connection.tools, [self._tool(connection, entry) for entry in connection.tools]
                self._tools[name] = entries, own
            tools += own
        return tools

    async def refresh(self) -> None:
        """List the tools of all servers anew, starting those that are not up. What fails is in `status`."""
        async with anyio.create_task_group() as group:
            for connection in self._connections.values():
                if not connection.spec.disabled:
                    group.start_soon(connection.refresh)

    async def __aenter__(self) -> Self:
        if self._group is not None:
            raise RuntimeError("these MCP servers are started already; enter an McpServers once at a time")
        self._thread = threading.get_ident()
        NoiseFilter.logger.addFilter(self._noise)
        self._group = group = anyio.create_task_group()
        await group.__aenter__()
        try:
            for status in self._refused.values():
                self._report(status)
            for connection in self._connections.values():
                if connection.spec.disabled:
                    self._report(connection.status)
                else:
                    await group.start(connection.keep)
            for connection in self._connections.values():
                await connection.settled()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            ends = [end for connection in self._connections.values() if (end := connection.stop())]
            with anyio.move_on_after(_STOP_TIMEOUT, shield=True):
                for end in ends:
                    await end.wait()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Cancel what still runs. The task group is not given the body's error, which it would wrap in a group."""
        group, self._group, self._thread = self._group, None, 0
        NoiseFilter.logger.removeFilter(self._noise)
        if group is not None:
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)

    def _report(self, status: ServerStatus) -> None:
        if self._on_status is None:
            if status.state == "failed":
                logger.warning("the MCP server '%s' failed: %s", status.name, status.problem)
            return
        try:
            self._on_status(status)
        except Exception:
            logger.exception("on_status raised for MCP server '%s'", status.name)

    def _tool(self, connection: Connection, entry: types.Tool) -> Tool:
        limit = connection.spec.timeout or self._call_timeout

        async def execute(arguments: dict[str, Any], context: ToolContext | None = None) -> ToolResult:
            running = True
            furthest = float("-inf")

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                nonlocal furthest
                if context is None or not running or progress < furthest:
                    return
                furthest = progress
                share = min(max(progress / total, 0.0), 1.0) if total else None
                await context.progress(message or (f"{progress:g} of {total:g}" if total else f"{progress:g}"), share)

            try:
                return _to_result(await connection.call(entry.name, arguments, limit, on_progress))
            except CallFailed as failure:
                return ToolResult.error(str(failure))
            finally:
                running = False

        hints = entry.annotations
        return Tool(
            name=entry.name,
            description=entry.description or "",
            parameters=entry.input_schema,
            source="mcp",
            owner=connection.spec.name,
            label=entry.title or (hints.title if hints else None) or "",
            annotations=Annotations.from_mcp(hints.model_dump(by_alias=True)) if hints else Annotations(),
            output_schema=entry.output_schema,
            execute=execute,
            timeout=limit + _ERROR_MARGIN,
        )


def _to_result(answer: types.CallToolResult) -> ToolResult:
    """The same content in MCP's shape. The text describes what is not text, for models that can read nothing else."""
    blocks = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in answer.content]
    texts = [_text(block) for block in blocks]
    if not blocks and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
    if not blocks and not texts and answer.is_error:
        texts = ["The tool reported an error, without a text."]
    plain = all(block.keys() == {"type", "text"} for block in blocks) and len(blocks) < 2
    # The protocol's own entries are about this connection, such as who the server is.
    meta = {key: value for key, value in (answer.meta or {}).items() if not key.startswith("io.modelcontextprotocol/")}
    return ToolResult(
        "\n".join(texts), is_error=answer.is_error, blocks=() if plain else blocks, structured=answer.structured_content,
        meta=meta or None,
    )  # fmt: skip


def _text(block: dict[str, Any]) -> str:
    kind = block["type"]
    if kind == "text":
        return block["text"]
    if kind == "resource_link":
        return f"[resource {block['uri']}: {block.get('title') or block['name']}]"
    inner: dict[str, Any] = block.get("resource", block)
    if "text" in inner:
        return inner["text"]
    size = len(inner.get("data", inner.get("blob", ""))) * 3 // 4
    uri = f" {inner['uri']}" if "uri" in inner else ""
    return f"[{kind}{uri}, {inner.get('mimeType', 'unknown type')}, {size:,} bytes]"
