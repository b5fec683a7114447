"""The tools of one session, as its client was told of them last."""

from __future__ import annotations

import logging
from typing import final

import anyio
from mcp.server.subscriptions import ToolsListChanged

from hooksdk.gateway._listing import ClientListing, HintTrust
from hooksdk.gateway._long_results import LongResults
from hooksdk.gateway._pages import SessionPages
from hooksdk.gateway._session_client import SessionClient
from hooksdk.tools import Expose, Tool

logger = logging.getLogger("hooksdk")


@final
class SessionTools:
    """The tools of one session.

    Attributes:
        expose: Whether the client is told of all tools, or of a bridge to them.
        pages: Pages for signing in to servers, and the tool that opens them.
        results: Long results, and the tool that reads them.
        is_known: True once the tools were resolved for the first time.
        _client: The session's client.
        _trust: The servers whose word counts that a tool only reads.
        _resolved: The list of tools, and before it what it was made of; None before the first time.
        _lock: Held while the tools are resolved.

    """

    def __init__(self, client: SessionClient) -> None:
        config, deployment = client.shared.config, client.shared.ids.deployment
        self.expose: Expose = client.identity.profile.expose or config.expose
        self.pages = SessionPages(client.shared.sources, client.shared.start_soon, config.approvals.wait)
        kept_in = deployment.store if deployment is not None and client.is_shared else None
        self.results = LongResults(config.max_result_chars, config.kept_result_bytes, kept_in, client.id)
        self._client = client
        self._trust = HintTrust(frozenset(client.shared.config.trusted_hints))
        self._resolved: tuple[object, ClientListing] | None = None
        self._lock = anyio.Lock()

    @property
    def is_known(self) -> bool:
        return self._resolved is not None

    @property
    def waits_for_servers(self) -> bool:
        """True where a list depends on the servers' first listings: a bridge is the same whatever stands behind it."""
        return self.expose != "bridge"

    async def listing(self, *, wait: bool = True) -> ClientListing:
        """The tools as they are now; the client is told where they have changed. With `wait` servers that were never
        listed have a few seconds to answer."""
        client, sources = self._client, self._client.shared.sources
        if wait:
            await sources.listed(client.name)
        run = client.run
        tools, missing = sources.look()
        basis = tools, missing, self.pages.servers()
        if (known := self._listing_of(basis)) is not None:
            return known
        async with self._lock:
            if (known := self._listing_of(basis)) is not None:
                return known
            pages = self.pages.tools(client.request)
            offered = await run.resolve_tools(
                [*tools, *self.results.tools, *pages], missing=self.pages.missing(missing, pages)
            )
            before, listing = self._resolved, ClientListing(run.tools, offered, self.expose, self._trust, tools)
            self._resolved = basis, listing
        if before is None:
            self._warn_without_bridge(offered)
        elif before[1].tools != listing.tools:
            await client.notify_change(ToolsListChanged())
        return listing

    def _listing_of(self, basis: object) -> ClientListing | None:
        return self._resolved[1] if self._resolved is not None and self._resolved[0] == basis else None

    def _warn_without_bridge(self, offered: list[Tool]) -> None:
        if self.expose in ("bridge", "hybrid") and not any(tool.bridge for tool in offered):
            logger.warning('expose = "%s", and no plugin offers a bridge: every tool is listed', self.expose)
