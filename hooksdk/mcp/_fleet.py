"""All servers of an `McpServers`, which are started, replaced by those of a newer configuration, and ended together."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from hooksdk.calls import ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.errors import HookSDKError, ToolError
from hooksdk.mcp._config import Reading, ServerSpec
from hooksdk.mcp._connection import Connection
from hooksdk.mcp._files import Reload, Wanted
from hooksdk.mcp._life import Terms, secrets_of
from hooksdk.mcp._offer import failed
from hooksdk.mcp._relay import Client, RunningCall, current_client
from hooksdk.mcp._scope import LOCAL, ScopeKey
from hooksdk.mcp._status import CallFailed, ServerStatus, removed
from hooksdk.mcp._transport import NoiseFilter

logger = logging.getLogger("hooksdk")

# Seconds that servers have to end in good order before they are cancelled.
_STOP_TIMEOUT = 2.0

# Seconds without a call after which a process of a single token or session is ended, where no `idle` is set: its client
# may never come again.
OWN_IDLE = 600.0

# Servers that are started at once only to be listed; a server that a call needs is started without that limit.
_LISTED_AT_ONCE = 8


class Fleet:
    """The configured servers, each with its connection, and beside it the connections of single tokens and sessions.

    Attributes:
        wanted: The servers of the present configuration.
        connections: The connection of each server that its clients share, by name.

    """

    def __init__(self, terms: Terms, holder: str | None = LOCAL) -> None:
        """`holder` has the connections that were opened without a client's call."""
        self.wanted = Wanted()
        self.connections: dict[str, Connection] = {}
        self._holder = holder
        self._base = ScopeKey(holder=holder or LOCAL)
        # The connections of single tokens and sessions, by the server's name and the clients that they are for.
        self._own: dict[tuple[str, ScopeKey], Connection] = {}
        # Servers that are not started before their first client comes; True for one that is to be listed then.
        self._held: dict[str, bool] = {}
        # The servers whose secrets each session knows.
        self._told: dict[str, set[str]] = {}
        self._terms = terms
        self._group: TaskGroup | None = None
        self._noise = NoiseFilter()
        self._turns = anyio.Semaphore(_LISTED_AT_ONCE)

    @property
    def entered(self) -> bool:
        """True from `enter` to `stop`."""
        return self._group is not None

    def connection(self, name: str) -> Connection:
        """The connection of a server for the calls of the present client. Raises `CallFailed` for an unknown name."""
        if name not in self.connections:
            raise removed(name)
        base, client = self.connections[name], current_client.get()
        key = self._key_of(base.spec, client)
        if key == base.key or not self.entered or base.spec.disabled:
            if client is not None and self._held.pop(name, False):
                base.client = client
                self._list(base)
            return base
        own = self._own.get((name, key))
        if own is None:
            offer = None if base.spec.is_personal else base.offering.offer
            own = self._own[name, key] = Connection(base.spec, self._own_terms(base, key), offer, key)
            own.client = client
            to_list = own.open()
            self.start_soon(own.keep)
            if to_list and base.spec.is_personal:
                self._list(own)
        return own

    async def tell_secrets(self, connection: Connection) -> None:
        """Tell a session that calls a server the secrets of that server once, so that the session can mask them: the
        process may have been started for another session."""
        client = current_client.get()
        if client is None or not connection.spec.asks_secrets:
            return
        told = self._told.setdefault(client.id, set())
        if connection.spec.name not in told:
            told.add(connection.spec.name)
            with suppress(HookSDKError):  # then the server does not have them, or has earlier ones
                await secrets_of(connection.spec, client)

    async def call(
        self,
        name: str,
        context: ToolContext | None,
        send: Callable[[Connection, RunningCall], Awaitable[ToolResult]],
        *,
        reads: bool = False,
    ) -> ToolResult:
        """The result of a call that `send` makes of a server, for the client of now; the reason where there is none.
        Raises `ToolError` where the call may have taken effect, but for one that only reads."""
        call = RunningCall(context)
        try:
            connection = self.connection(name)
            await self.tell_secrets(connection)
            return await send(connection, call)
        except CallFailed as failure:
            if failure.in_doubt and context is not None:
                raise ToolError(str(failure), in_doubt=not reads) from None
            return failed(failure)
        finally:
            call.end()

    def listed(self) -> list[Connection]:
        """The connections whose tools the present client sees."""
        return [
            self.connection(name) if base.spec.is_personal or name in self._held else base
            for name, base in self.connections.items()
        ]

    def status(self) -> list[ServerStatus]:
        """The status of each server, in the order of the files, and after it those of its single tokens and
        sessions."""
        statuses: list[ServerStatus] = []
        for name, base in self.connections.items():
            status = replace(base.status, scope=base.spec.own_scope)
            statuses.append(replace(status, state="idle") if self.is_held(base) else status)
            statuses += [
                _told_of(own.spec, own.key, own.status) for place, own in self._own.items() if place[0] == name
            ]
        return [*statuses, *self.wanted.refused.values()]

    def is_held(self, connection: Connection) -> bool:
        """True for a server that is not started before its first client comes."""
        return connection.spec.name in self._held and connection.key == self._base

    def release(self, session: str) -> None:
        """End the processes of a session that is over."""
        self._told.pop(session, None)
        for place, own in list(self._own.items()):
            if own.key.session == session:
                del self._own[place]
                self.start_soon(own.retire)

    def _key_of(self, spec: ServerSpec, client: Client | None) -> ScopeKey:
        """The clients that share a connection with this client."""
        if client is None or spec.own_scope == "gateway":
            return self._base
        return ScopeKey(holder=client.holder, session=client.id if spec.own_scope == "session" else "")

    def _own_terms(self, base: Connection, key: ScopeKey) -> Terms:
        """The settings of a connection of a single token or session."""

        def report(status: ServerStatus) -> None:
            self._terms.report(_told_of(base.spec, key, status))

        def changed(name: str) -> None:
            own = self._own.get((name, key))
            if own is not None and own.tools and not base.spec.is_personal:
                base.offering.offer = own.offering.offer  # all clients are offered the same
            self._terms.changed(name)

        kept = self._terms.listings
        return replace(
            self._terms,
            report=report,
            changed=changed,
            idle=self._terms.idle or OWN_IDLE,
            rests=True,
            listings=kept and kept.of(key.holder),
        )

    @property
    def everyone(self) -> list[Connection]:
        """All connections, with those of single tokens and sessions, and the second ones in the older protocol."""
        known = [*self.connections.values(), *self._own.values()]
        return [*known, *(one.older for one in known if one.older is not None)]

    async def ready(self) -> None:
        """Wait until each server that is being started has answered or failed."""
        own = (one for one in self._own.values() if one.spec.is_personal)
        for connection in [*self.connections.values(), *own]:
            if not self.is_held(connection):
                await connection.settled()

    async def tools_known(self) -> None:
        """Wait until the tools of each server are known to the present client, or the server has failed."""
        for connection in self.listed():
            if connection.status.state == "starting" and not connection.tools and not self.is_held(connection):
                await connection.settled()

    async def enter(self) -> None:
        """Start the servers; `stop` ends them."""
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
            ends = [end for connection in self.everyone if (end := connection.stop())]
            with anyio.move_on_after(_STOP_TIMEOUT, shield=True):
                for end in ends:
                    await end.wait()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Cancel the tasks that still run. The task group is not given the body's error, which it would wrap in a
        group."""
        group, self._group = self._group, None
        self._own.clear()
        NoiseFilter.logger.removeFilter(self._noise)
        if group is not None:
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)

    def apply(self, readings: Iterable[Reading]) -> Reload:
        """Go by this configuration. A connection whose entry is the same stays as it is; one that is not wanted any
        more ends when its calls are over, which is not waited for."""
        wanted = Wanted()
        for reading in readings:
            wanted.add(reading)
        told, self.wanted = self.wanted, wanted
        before, self.connections = self.connections, {}
        for name, spec in wanted.specs.items():
            known = before.get(name)
            if known is None or known.spec != spec:
                # The earlier offer counts until the server tells of its own.
                offer = known.offering.offer if known is not None and not spec.disabled else None
                known = Connection(spec, self._terms, offer, self._base)
            self.connections[name] = known
        for notice in wanted.notices:
            if notice not in told.notices:
                logger.warning("%s", notice)
        others = {
            name: connection for name, connection in before.items() if self.connections.get(name) is not connection
        }
        for name in others:
            self._held.pop(name, None)
        fresh = [name for name, connection in self.connections.items() if before.get(name) is not connection]
        if self.entered:
            for key, status in wanted.refused.items():
                if told.refused.get(key) != status:
                    self._terms.report(status)
            own = [self._own.pop(place) for place in list(self._own) if place[0] in others]
            for connection in [*others.values(), *own]:
                self.start_soon(connection.retire)
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
        name, spec = connection.spec.name, connection.spec
        self._held.pop(name, None)
        if spec.disabled:
            self._terms.report(connection.status)
            return
        to_list = connection.open()
        self.start_soon(connection.keep)
        if spec.asks_secrets or (spec.is_personal and self._holder is None):
            self._held[name] = to_list
        elif self._terms.listings is None:
            connection.wake()
        elif to_list:
            self._list(connection)

    def _list(self, connection: Connection) -> None:
        self.start_soon(self._list_in_turn, connection)

    async def _list_in_turn(self, connection: Connection) -> None:
        async with self._turns:
            connection.wake()
            await connection.settled()

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Begin a task that ends with the servers, without the context of the call that causes it."""
        assert self._group is not None
        contextvars.Context().run(self._group.start_soon, work, *arguments)


def _told_of(spec: ServerSpec, key: ScopeKey, status: ServerStatus) -> ServerStatus:
    """The status of a connection, with the clients that it is for."""
    return replace(status, scope=spec.own_scope, holder=key.holder)
