"""Clients of the stateless protocol that want to hear of changes: they ask for a stream of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, final

import anyio
import mcp_types as types
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent, SubscriptionBus
from mcp.shared.exceptions import MCPError

from hooksdk.gateway._client import Request
from hooksdk.gateway._session import GatewaySession, SessionOf
from hooksdk.mcp import Feature, ScopeKey

logger = logging.getLogger("hooksdk")

Hear = Callable[[Feature, ScopeKey], None]


@final
class ResourceChanges:
    """Tells of resources that have changed, by what their servers call them."""

    def __init__(self) -> None:
        self._listeners: dict[object, Hear] = {}

    async def publish(self, feature: Feature, key: ScopeKey) -> None:
        """A resource has changed, for those clients that share the connection."""
        for listener in tuple(self._listeners.values()):
            listener(feature, key)

    def subscribe(self, listener: Hear) -> Callable[[], None]:
        """Tell this one, until what this answers is called."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None


@final
class _OneClient:
    """What one stream hears of: changed lists as everybody does, and the resources that it asked for, as its client calls them."""

    def __init__(
        self,
        bus: SubscriptionBus,
        changes: ResourceChanges,
        uris: Mapping[Feature, str],
        session: GatewaySession | None,
    ) -> None:
        self._session = session
        self._bus = bus
        self._changes = changes
        self._uris = uris

    async def publish(self, event: ServerEvent) -> None:
        await self._bus.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def changed(feature: Feature, key: ScopeKey) -> None:
            session, uri = self._session, self._uris.get(feature)
            if uri is not None and session is not None and key.is_of(session.identity.name, session.id):
                listener(ResourceUpdated(uri))

        stops = [self._bus.subscribe(listener), self._changes.subscribe(changed)]

        def stop() -> None:
            for one in stops:
                one()

        return stop


@final
class Listening:
    """Serves `subscriptions/listen`."""

    def __init__(
        self, bus: SubscriptionBus, changes: ResourceChanges, session_of: SessionOf,
        watch: Callable[..., Awaitable[None]],
    ) -> None:  # fmt: skip
        self._bus = bus
        self._changes = changes
        self._session_of = session_of
        self._watch = watch

    async def __call__(
        self, context: Request, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Tell the client until it leaves. What it may not read, or what its server cannot watch, is left out of what is
        acknowledged."""
        uris: dict[Feature, str] = {}
        session: GatewaySession | None = None
        wanted = params.notifications.resource_subscriptions or []
        try:
            if wanted:
                session = await self._session_of(context)
                with session.serving(context):
                    for uri in dict.fromkeys(wanted):
                        await self._begin(session, uri, uris)
            honored: dict[str, Any] = {"resource_subscriptions": list(uris.values()) or None}
            params = params.model_copy(update={"notifications": params.notifications.model_copy(update=honored)})
            return await ListenHandler(_OneClient(self._bus, self._changes, uris, session))(context, params)
        finally:
            if session is not None:
                with anyio.CancelScope(shield=True), session.client.calling():
                    for feature in uris:
                        await self._watch(feature, on=False)

    async def _begin(self, session: GatewaySession, uri: str, uris: dict[Feature, str]) -> None:
        try:
            feature = await session.offers.watchable(uri)
            if feature not in uris:
                await self._watch(feature, on=True)
                uris[feature] = uri
        except MCPError as problem:
            logger.info("a client does not hear of changes of '%s': %s", uri, problem)
