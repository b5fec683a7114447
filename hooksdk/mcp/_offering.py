"""The offer of one server, kept up to date while it runs: the server tells of changed lists, and they are read
again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
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
from hooksdk.mcp._life import Life, LifeDispatcher, Terms
from hooksdk.mcp._listings import Listing
from hooksdk.mcp._offer import Kind, ServerOffer, all_offered, list_anew
from hooksdk.mcp._relay import Callers
from hooksdk.mcp._scope import ScopeKey
from hooksdk.mcp._status import CallFailed, describe
from hooksdk.mcp._transport import client_info

logger = logging.getLogger("hooksdk")

# The list that a notification tells of.
CHANGES: dict[type, Kind] = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}
# Seconds that a server has to take a log level.
_PATIENCE = 5.0
# Seconds before a server that has closed the stream of its changes is asked for another one.
_LISTEN_AGAIN = 5.0


@final
@dataclass(eq=False)
class Offering:
    """One server's offer, and the resources of it that are watched.

    Attributes:
        offer: The offer as it is known now. An earlier one counts until the server, or a kept listing, gives another.
        watched: Addresses of resources, each with the number of those that want to hear of its changes.
        _key: The clients that the connection is for.
        _on_listed: Is called when a list was read again.
        _news: Set when other resources are watched.
    """

    offer: ServerOffer
    _spec: ServerSpec
    _key: ScopeKey
    _terms: Terms
    _callers: Callers
    _on_listed: Callable[[], Awaitable[None]]
    watched: dict[str, int] = field(default_factory=dict[str, int], init=False)
    _news: anyio.Event = field(default_factory=anyio.Event, init=False)
    _stream: anyio.CancelScope | None = field(default=None, init=False)

    def read_kept(self) -> Listing | None:
        """Take the kept listing of the server's last run as its offer, if there is one."""
        listing = self._terms.listings.read(self._spec) if self._terms.listings else None
        if listing is not None:
            self.learn(listing.offer)
        return listing

    async def keep(self, version: str, *, handshake: bool | None) -> None:
        """Keep the offer for the next run, where servers are started when they are needed. With `handshake` the
        server speaks the older protocol alone."""
        if self._terms.listings is not None:
            await anyio.to_thread.run_sync(self._terms.listings.write, self._spec, self.offer, version, handshake)

    def learn(self, offer: ServerOffer) -> None:
        """Take a new offer. Tools that are equal stay the same objects."""
        if offer.tools == self.offer.tools:
            offer = replace(offer, tools=self.offer.tools)
        if offer != self.offer:
            self.offer = offer
            self._terms.changed(self._spec.name)

    async def ask_all(self, session: ClientSession) -> None:
        """Ask for all lists, at a start. Raises `MCPError`, and `ValidationError`."""
        self.learn(await all_offered(session, self._spec.name, self._spec.redact))

    def session(self, life: Life, read: Any, write: Any) -> ClientSession:
        """The connection over these streams; `hear` is called with the server's messages."""
        return ClientSession(
            dispatcher=LifeDispatcher(life, read, write),
            message_handler=partial(self.hear, life),
            client_info=client_info(),
            extensions=dict(self._terms.wishes.extensions) or None,
            **self._callers.callbacks(),
        )

    async def hear(self, life: Life, message: IncomingMessage) -> None:
        """Act on a message of the server that is no answer."""
        kind = CHANGES.get(type(message))
        if kind is not None and kind not in life.stale:
            life.stale.add(kind)
            await self.read_again(life, kind)
        elif isinstance(message, types.LoggingMessageNotification):
            if not await self._callers.log(message.params):
                await self._terms.hear(self._spec.name, message, self._key)
        elif isinstance(message, (types.ResourceUpdatedNotification, types.ElicitCompleteNotification)):
            await self._terms.hear(self._spec.name, message, self._key)

    async def read_again(self, life: Life, kind: Kind) -> None:
        """Read one list again; the old one stays where that fails."""
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

    async def read_all_again(self, life: Life) -> None:
        """Read all lists again."""
        for kind in CHANGES.values():
            await self.read_again(life, kind)

    async def watch(self, uri: str, *, session: ClientSession | None) -> None:
        """Watch a resource for changes. `session` is the connection, where there is one. Raises `CallFailed` where
        the server cannot."""
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
        """End one watch of a resource."""
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
        """Tell a server of protocol 2025-11-25 that has just started its log level and the watched resources."""
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
        """Set the log level, where a client has set one; a server of the stateless protocol is told it with each
        call."""
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
        """Listen to a server of protocol 2026-07-28, which tells of changes in a stream that it was asked for; `hear`
        is called with them. It runs until it is cancelled."""
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
        """Listen until the stream ends. False where the server has no such streams."""
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
