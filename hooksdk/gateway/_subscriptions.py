"""Streams of changes, which clients of the stateless protocol ask for with `subscriptions/listen`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, final

import anyio
import mcp_types as types
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.exceptions import MCPError

from hooksdk.gateway._client import Request
from hooksdk.gateway._session import GatewaySession, SessionOf
from hooksdk.mcp import Feature, ScopeKey

logger = logging.getLogger("hooksdk")

# Is told of a changed resource, and for which clients its server is.
Hear = Callable[[Feature, ScopeKey], None]


@final
@dataclass(eq=False)
class _ClientBus:
    """The events for one stream: changed lists, as for everybody, and the resources that its client asked for.

    Attributes:
        uris: The resources, each with the address that the client has for it.
    """

    _bus: SubscriptionBus
    _resource_listeners: set[Hear]
    session: GatewaySession | None = None
    uris: dict[Feature, str] = field(default_factory=dict[Feature, str])

    async def publish(self, event: ServerEvent) -> None:
        await self._bus.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def changed(feature: Feature, key: ScopeKey) -> None:
            session, uri = self.session, self.uris.get(feature)
            if uri is not None and session is not None and key.is_of(session.identity.name, session.id):
                listener(ResourceUpdated(uri))

        unsubscribe = self._bus.subscribe(listener)
        self._resource_listeners.add(changed)

        def stop() -> None:
            unsubscribe()
            self._resource_listeners.discard(changed)

        return stop


@final
@dataclass(eq=False)
class ChangeStreams:
    """Serves `subscriptions/listen`."""

    _bus: SubscriptionBus
    _resource_listeners: set[Hear]
    _session_of: SessionOf
    _watch: Callable[..., Awaitable[None]]

    async def __call__(
        self, context: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell the client of changes until it leaves. The acknowledgement leaves out resources that the client may
        not read, or that their servers do not watch."""
        client_bus = _ClientBus(self._bus, self._resource_listeners)
        wanted = params.notifications.resource_subscriptions or []
        try:
            if wanted:
                client_bus.session = session = await self._session_of(context)
                with session.serving(context):
                    for uri in dict.fromkeys(wanted):
                        await self._begin(session, uri, client_bus.uris)
            honored: dict[str, Any] = {"resource_subscriptions": list(client_bus.uris.values()) or None}
            params = params.model_copy(update={"notifications": params.notifications.model_copy(update=honored)})
            return await ListenHandler(client_bus)(context, params)
        finally:
            if client_bus.session is not None:
                with anyio.CancelScope(shield=True), client_bus.session.client.calling():
                    for feature in client_bus.uris:
                        await self._watch(feature, on=False)

    async def _begin(self, session: GatewaySession, uri: str, uris: dict[Feature, str]) -> None:
        try:
            feature = await session.offers.watchable(uri)
            if feature not in uris:
                await self._watch(feature, on=True)
                uris[feature] = uri
        except MCPError as problem:
            logger.info("a client does not hear of changes of '%s': %s", uri, problem)
