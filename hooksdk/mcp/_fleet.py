"""All servers of an `McpServers`: started, replaced by those of a newer configuration, and ended together."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from hooksdk.mcp._config import Reading
from hooksdk.mcp._connection import Connection
from hooksdk.mcp._files import Reload, Wanted
from hooksdk.mcp._life import Terms
from hooksdk.mcp._status import removed
from hooksdk.mcp._transport import NoiseFilter

logger = logging.getLogger("hooksdk")

_STOP_TIMEOUT = 2.0
"""Seconds that servers have to end in good order before what still runs is cancelled."""

_LISTED_AT_ONCE = 8
"""Servers that are started side by side only to be listed; what a call needs is started at once."""


class Fleet:
    """The servers that are wanted, each with its connection."""

    def __init__(self, terms: Terms) -> None:
        self.wanted = Wanted()
        self.connections: dict[str, Connection] = {}
        self._terms = terms
        self._group: TaskGroup | None = None
        self._noise = NoiseFilter()
        self._turns = anyio.Semaphore(_LISTED_AT_ONCE)

    @property
    def entered(self) -> bool:
        """True from `enter` to `stop`."""
        return self._group is not None

    def connection(self, name: str) -> Connection:
        """The server of this name as it is configured now. Raises `CallFailed`."""
        if name not in self.connections:
            raise removed(name)
        return self.connections[name]

    async def ready(self) -> None:
        """Wait until each server that is being started has answered or failed."""
        for connection in list(self.connections.values()):
            await connection.settled()

    async def tools_known(self) -> None:
        """Wait until the tools of each server are known, or it has failed."""
        for connection in list(self.connections.values()):
            if connection.status.state == "starting" and not connection.tools:
                await connection.settled()

    async def enter(self) -> None:
        """Start the servers; in `stop` everything ends that this began."""
        NoiseFilter.logger.addFilter(self._noise)
        self._group = group = anyio.create_task_group()
        await group.__aenter__()
        try:
            for status in self.wanted.refused.values():
                self._terms.report(status)
            for connection in self.connections.values():
                self._begin(connection)
            if self._terms.listings is None:
                await self.ready()
        except BaseException:
            await self._leave()
            raise

    async def stop(self) -> None:
        """End the servers, within a few seconds."""
        try:
            ends = [end for connection in self.connections.values() if (end := connection.stop())]
            with anyio.move_on_after(_STOP_TIMEOUT, shield=True):
                for end in ends:
                    await end.wait()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Cancel what still runs. The task group is not given the body's error, which it would wrap in a group."""
        group, self._group = self._group, None
        NoiseFilter.logger.removeFilter(self._noise)
        if group is not None:
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)

    def apply(self, readings: Iterable[Reading]) -> Reload:
        """Want these servers from now on. A connection whose entry is the same stays as it is; one that is not wanted any
        more ends when its calls are over, and nobody waits for that."""
        wanted = Wanted()
        for reading in readings:
            wanted.add(reading)
        told, self.wanted = self.wanted, wanted
        before, self.connections = self.connections, {}
        for name, spec in wanted.specs.items():
            known = before.get(name)
            if known is None or known.spec != spec:
                # What it had to offer is what there is to go on until it tells itself.
                known = Connection(spec, self._terms, known.offer if known is not None and not spec.disabled else None)
            self.connections[name] = known
        for notice in wanted.notices:
            if notice not in told.notices:
                logger.warning("%s", notice)
        others = {
            name: connection for name, connection in before.items() if self.connections.get(name) is not connection
        }
        fresh = [name for name, connection in self.connections.items() if before.get(name) is not connection]
        if self.entered:
            for key, status in wanted.refused.items():
                if told.refused.get(key) != status:
                    self._terms.report(status)
            for connection in others.values():
                self._spawn(connection.retire)
            for name in fresh:
                self._begin(self.connections[name])
            for name in {**others, **dict.fromkeys(fresh)}:
                self._terms.changed(name)
        return Reload(
            added=tuple(name for name in fresh if name not in before),
            changed=tuple(name for name in fresh if name in before),
            removed=tuple(name for name in others if name not in self.connections),
        )

    def _begin(self, connection: Connection) -> None:
        if connection.spec.disabled:
            self._terms.report(connection.status)
            return
        to_list = connection.open()
        self._spawn(connection.keep)
        if self._terms.listings is None:
            connection.wake()
        elif to_list:
            self._spawn(self._list_in_turn, connection)

    async def _list_in_turn(self, connection: Connection) -> None:
        async with self._turns:
            connection.wake()
            await connection.settled()

    def _spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Begin a task that knows nothing of whose call brought it about."""
        assert self._group is not None
        contextvars.Context().run(self._group.start_soon, work, *arguments)
