"""What one server offers, kept up to date while it runs: it says what changes, and is asked for that anew."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, final

import anyio
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._life import Life, Terms
from hooksdk.mcp._listings import Listing
from hooksdk.mcp._offer import Kind, ServerOffer, all_offered, list_anew
from hooksdk.mcp._protocol import DeclaringDispatcher
from hooksdk.mcp._relay import Callers
from hooksdk.mcp._scope import EVERYBODY, ScopeKey
from hooksdk.mcp._status import CallFailed, describe
from hooksdk.mcp._transport import client_info

logger = logging.getLogger("hooksdk")

CHANGES: dict[type, Kind] = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}
"""Which list is another after which notification."""
_PATIENCE = 5.0
"""Seconds that a server has to take a log level: nobody waits longer for that."""
_LISTEN_AGAIN = 5.0
"""Seconds after which a server that has closed the stream of its changes is asked for another one."""


@final
class Offering:
    """One server's offer."""

    def __init__(
        self,
        spec: ServerSpec,
        terms: Terms,
        callers: Callers,
        offer: ServerOffer | None,
        on_listed: Callable[[], Awaitable[None]],
        key: ScopeKey,
    ) -> None:
        """`offer` is what to go on until the server, or a listing that was kept, tells of another one; `on_listed` is called when
        a list was read again."""
        self.offer = offer or ServerOffer(server=spec.name)
        self.watched: dict[str, int] = {}
        """Addresses of resources whose changes somebody wants to hear of, and how many do."""
        self._spec = spec
        self._key = EVERYBODY if spec.own_scope == "gateway" else key
        self._terms = terms
        self._callers = callers
        self._on_listed = on_listed
        self._news = anyio.Event()
        """Set when other resources are watched."""
        self._stream: anyio.CancelScope | None = None

    def read_kept(self) -> Listing | None:
        """What was kept of the server's last listing counts from now on."""
        listing = self._terms.listings.read(self._spec) if self._terms.listings else None
        if listing is not None:
            self.learn(listing.offer)
        return listing

    async def keep(self, version: str, *, handshake: bool | None) -> None:
        """Keep it for the next time, where servers are started only when they are needed; with `handshake` the server speaks the
        older protocol alone."""
        if self._terms.listings is not None:
            await anyio.to_thread.run_sync(self._terms.listings.write, self._spec, self.offer, version, handshake)

    def learn(self, offer: ServerOffer) -> None:
        """What the server offers. The same tools stay the same objects."""
        if offer.tools == self.offer.tools:
            offer = replace(offer, tools=self.offer.tools)
        if offer != self.offer:
            self.offer = offer
            self._terms.changed(self._spec.name)

    async def ask_all(self, session: ClientSession) -> None:
        """Ask for everything, at a start. Raises `MCPError`, and `ValidationError`."""
        self.learn(await all_offered(session, self._spec.name, self._spec.redact))

    def session(self, life: Life, read: Any, write: Any) -> ClientSession:
        """The connection over these streams; `hear` gets what the server says."""
        return ClientSession(
            dispatcher=DeclaringDispatcher(read, write),
            message_handler=partial(self.hear, life),
            client_info=client_info(),
            extensions=dict(self._terms.wishes.extensions) or None,
            **self._callers.callbacks(),
        )

    async def hear(self, life: Life, message: IncomingMessage) -> None:
        """What the server says of itself."""
        kind = CHANGES.get(type(message))
        if kind is not None and kind not in life.stale:
            life.stale.add(kind)
            await self.ask_again(life, kind)
        elif isinstance(message, types.LoggingMessageNotification):
            if not await self._callers.log(message.params):
                await self._terms.hear(self._spec.name, message, self._key)
        elif isinstance(message, (types.ResourceUpdatedNotification, types.ElicitCompleteNotification)):
            await self._terms.hear(self._spec.name, message, self._key)

    async def ask_again(self, life: Life, kind: Kind) -> None:
        """Read one list anew; the old one stays where that fails."""
        async with life.listing:
            life.stale.discard(kind)
            if not life.usable or life.session is None:
                return
            limit = self._spec.start_timeout or self._terms.start_timeout
            problem = f"no answer within {limit:g} s"
            try:
                with anyio.move_on_after(limit):
                    self.learn(await list_anew(life.session, self.offer, kind))
                    problem = ""
            except (MCPError, ValidationError) as error:
                problem = describe(self._spec, error)
            if problem:
                life.doubtful = True
                logger.warning("MCP server '%s': its %s could not be listed: %s", self._spec.name, kind, problem)
            else:
                await self._on_listed()

    async def ask_all_again(self, life: Life) -> None:
        """Read every list anew."""
        for kind in CHANGES.values():
            await self.ask_again(life, kind)

    async def watch(self, uri: str, *, session: ClientSession | None) -> None:
        """Hear of changes of this resource; `session` is the connection, where there is one."""
        said = self.offer.capabilities.resources
        if said is None or not said.subscribe:
            raise CallFailed(f"The MCP server '{self._spec.name}' does not say when a resource changes.")
        self.watched[uri] = self.watched.get(uri, 0) + 1
        if self.watched[uri] == 1:
            try:
                await self._say_watched(session, types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)))
            except BaseException:
                del self.watched[uri]
                raise

    async def unwatch(self, uri: str, *, session: ClientSession | None) -> None:
        """One hears of them no more."""
        if uri not in self.watched:
            return
        self.watched[uri] -= 1
        if not self.watched[uri]:
            del self.watched[uri]
            request = types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri))
            await self._say_watched(session, request)

    async def _say_watched(
        self, session: ClientSession | None, request: types.SubscribeRequest | types.UnsubscribeRequest
    ) -> None:
        if session is None:
            return
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._news.set()
            if self._stream is not None:
                self._stream.cancel()  # it is opened anew
        else:
            await session.send_request(request, types.EmptyResult)

    async def begin(self, session: ClientSession) -> None:
        """Tell a server of protocol 2025-11-25 that has just started what is wanted of it."""
        if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return
        await self.set_level(session)
        for uri in sorted(self.watched):
            try:
                request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
                await session.send_request(request, types.EmptyResult)
            except MCPError as error:
                logger.warning(
                    "MCP server '%s': %s cannot be watched: %s", self._spec.name, uri, describe(self._spec, error)
                )

    async def set_level(self, session: ClientSession) -> None:
        """Say how much it is to log, where somebody has said so; a server of the stateless protocol is told with each call."""
        level = self._terms.wishes.log_level
        if (
            level is None
            or self.offer.capabilities.logging is None
            or session.protocol_version in MODERN_PROTOCOL_VERSIONS
        ):
            return
        try:
            with anyio.move_on_after(_PATIENCE):
                request = types.SetLevelRequest(params=types.SetLevelRequestParams(level=level))
                await session.send_request(request, types.EmptyResult)
        except MCPError as error:
            logger.warning("MCP server '%s' takes no log level: %s", self._spec.name, describe(self._spec, error))

    async def listen(self, session: ClientSession) -> None:
        """Hear what changes at a server of protocol 2026-07-28, which says so in a stream that it was asked for; `hear` gets what
        comes. Until it is cancelled."""
        said = self.offer.capabilities
        tools = bool(said.tools and said.tools.list_changed)
        prompts = bool(said.prompts and said.prompts.list_changed)
        resources = bool(said.resources and said.resources.list_changed)
        if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        while True:
            self._news = news = anyio.Event()
            if tools or prompts or resources or self.watched:
                with anyio.CancelScope() as self._stream:
                    if not await self._listen_once(session, tools, prompts, resources):
                        return
                if news.is_set():
                    continue
                with anyio.move_on_after(_LISTEN_AGAIN):
                    await news.wait()
            else:
                await news.wait()

    async def _listen_once(self, session: ClientSession, tools: bool, prompts: bool, resources: bool) -> bool:
        """Until the stream ends. False where the server has no such streams."""
        try:
            async with listen(
                session,
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
                resource_subscriptions=sorted(self.watched),
            ) as changes:
                async for _change in changes:
                    pass  # `hear` is told of it as well
        except MCPError as error:
            logger.debug("MCP server '%s' does not say what changes: %s", self._spec.name, describe(self._spec, error))
            return error.code != types.METHOD_NOT_FOUND
        except SubscriptionLost:
            pass
        return True
