"""The tools, prompts and resources that one session's client is told of, and servers' messages about them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, final

import anyio
import mcp_types as types
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.calls import ToolResult
from hooksdk.errors import HookSDKError
from hooksdk.gateway._client import SessionClient, is_heard
from hooksdk.gateway._listing import SessionTools
from hooksdk.gateway._long_results import PREFIX
from hooksdk.gateway._offers import ClientOffers, shown_in, with_app_at
from hooksdk.gateway._results import as_error, as_mcp, pages_in
from hooksdk.mcp import Feature, ServerOffer
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

# The error code of protocol 2025-11-25; later protocols have none of its own.
RESOURCE_NOT_FOUND = -32002
# Seconds that a server has to hear that a client is gone which watched one of its resources.
UNSUBSCRIBE_TIME = 2.0


@final
class SessionOffers:
    """The offers to one session's client: tools, prompts and resources.

    Attributes:
        _client: The session's client.
        _tools: The session's tools.
        _links: The resources that results have linked to, each with the server of the result.
        _known: The servers' offers, and what the client may have of them; None before the first time.
        _lock: Held while that is settled.
        _watched: Resources whose changes the client hears of, each with the address that the client has for it.
        _page_ids: The ids of web pages that servers have asked the client to open.

    """

    def __init__(self, client: SessionClient, tools: SessionTools) -> None:
        self._client = client
        self._tools = tools
        self._links: dict[str, str] = {}
        self._known: tuple[list[ServerOffer], ClientOffers] | None = None
        self._lock = anyio.Lock()
        self._watched: dict[Feature, str] = {}
        self._page_ids: set[str] = set()

    async def list_tools(self) -> types.ListToolsResult:
        """The tools that the client is told of."""
        listing = await self._tools.listing(wait=self._tools.waits_for_servers)
        shown = f"{len(listing.tools):,} tools, {listing.tokens:,} tokens ({self._tools.expose}), of {listing.whole:,} tools"
        name = self._client.name or "a client"
        self._client.shared.counts.listed(listing.tokens_direct, listing.tokens, name, shown)
        return types.ListToolsResult(tools=[await self._with_app(tool) for tool in listing.tools])

    async def list_prompts(self) -> types.ListPromptsResult:
        """The prompts that the client may have."""
        return types.ListPromptsResult(prompts=list((await self.now()).prompts))

    async def list_resources(self) -> types.ListResourcesResult:
        """The resources that the client may have, after the session's long results."""
        offered = (await self.now()).resources
        return types.ListResourcesResult(resources=[*await self._tools.results.resources(), *offered])

    async def list_templates(self) -> types.ListResourceTemplatesResult:
        """The templates of resources that the client may have."""
        return types.ListResourceTemplatesResult(resource_templates=list((await self.now()).templates))

    async def _with_app(self, tool: types.Tool) -> types.Tool:
        """The tool, whose app has an address that leads to its server."""
        if not shown_in(tool) or (own := self._client.run.tools.get(tool.name)) is None:
            return tool
        offers = await self.now()
        return tool.model_copy(
            update={"meta": with_app_at(tool.meta or {}, lambda uri: offers.name_of(own.owner, uri))}
        )

    async def now(self, *, wait: bool = True) -> ClientOffers:
        """The prompts and resources that the client may have, under the names that it is told; the client is told
        where they have changed. With `wait` servers that were never listed have a few seconds to answer."""
        await self._tools.listing(wait=wait and self._tools.waits_for_servers)
        sources = self._client.shared.sources
        async with self._lock:
            given = sources.offers()
            if self._known is not None and self._known[0] == given:
                return self._known[1]
            tools = [tool for features in sources.features for tool in features.tools()]
            granted = await self._client.run.grant(tools)
            before, offers = self._known, ClientOffers(given, granted.__contains__, self._links)
            self._known = given, offers
        if before is not None and before[1].prompts != offers.prompts:
            await self._client.notify_change(PromptsListChanged())
        if before is not None and (before[1].resources, before[1].templates) != (offers.resources, offers.templates):
            await self._client.notify_change(ResourcesListChanged())
        return offers

    async def refresh(self) -> None:
        """Look whether anything that the client was told of has changed, and tell it."""
        with self._client.calling():
            if self._tools.is_known:
                await self._tools.listing(wait=False)
            if self._known is not None:
                await self.now(wait=False)

    async def prompt(self, name: str) -> Tool:
        """The tool that gets a prompt. Raises `MCPError` for one that is not offered."""
        with _not_offered({"name": name}, types.INVALID_PARAMS):
            feature = (await self.now()).prompt(name, withheld=True)
            return self._client.shared.sources.features_of(feature.server).prompt(feature)

    async def resource(self, uri: str) -> tuple[Feature, Tool]:
        """A resource, and the tool that reads it. Raises `MCPError` for one that is not offered."""
        is_modern = self._client.request.protocol_version in MODERN_PROTOCOL_VERSIONS
        with _not_offered({"uri": uri}, types.INVALID_PARAMS if is_modern else RESOURCE_NOT_FOUND):
            feature = (await self.now()).resource(uri)
            return feature, self._client.shared.sources.features_of(feature.server).resource(feature)

    async def complete(self, params: types.CompleteRequestParams) -> types.CompleteResult:
        """The values that the server of a prompt or of a template proposes for an argument."""
        offers = await self.now()
        with _not_offered(None, types.INVALID_PARAMS):
            if isinstance(params.ref, types.PromptReference):
                feature = offers.prompt(params.ref.name)
                ref: Any = params.ref.model_copy(update={"name": feature.own})
            else:
                feature = offers.template(params.ref.uri)
                ref = params.ref.model_copy(update={"uri": feature.own})
            features = self._client.shared.sources.features_of(feature.server)
        answer = await features.complete(feature.server, params.model_copy(update={"ref": ref}))
        if isinstance(answer, ToolResult):
            raise as_error(as_mcp(answer, ""))
        values = self._client.run.mask(list(answer.completion.values))
        return types.CompleteResult(completion=answer.completion.model_copy(update={"values": values}))

    async def with_links(self, server: str, result: ToolResult) -> ToolResult:
        """A result of this server, with addresses of resources under which the client can read them."""
        if result.plain or not self._client.shared.sources.features:
            return result
        try:
            blocks = (await self.now()).lead_back(server, before := result.blocks)
        except HookSDKError as problem:  # the call has run, and its result counts
            logger.warning("links of a result may lead nowhere: %s", problem)
            return result
        if blocks == before:
            return result
        return ToolResult(
            result.text, is_error=result.is_error, blocks=blocks, structured=result.structured, meta=result.meta
        )

    async def subscribe(self, uri: str) -> types.EmptyResult:
        """Tell the client from now on when a resource changes. Raises `MCPError` for one that it may not read."""
        if not uri.startswith(PREFIX):  # a long result never changes
            feature = await self.watchable(uri)
            if feature not in self._watched:
                await self._client.shared.sources.watch(feature, on=True)
                self._watched[feature] = uri
        return types.EmptyResult()

    async def watchable(self, uri: str) -> Feature:
        """The resource whose changes the client wants to hear of. Raises `MCPError` for one that it may not read."""
        feature, tool = await self.resource(uri)
        if (reason := (await self._client.run.grant([tool])).withheld.get(tool.name)) is not None:
            raise MCPError(types.INVALID_REQUEST, f"'{uri}' is withheld: {reason}")
        return feature

    async def unsubscribe(self, uri: str) -> types.EmptyResult:
        """Tell the client no more when a resource changes."""
        feature = next((feature for feature, its_uri in self._watched.items() if its_uri == uri), None)
        if feature is None:
            feature, _ = await self.resource(uri)
        if self._watched.pop(feature, None) is not None:
            await self._client.shared.sources.watch(feature, on=False)
        return types.EmptyResult()

    async def unsubscribe_all(self) -> None:
        """End all watching: the client is gone."""
        watched, self._watched = self._watched, {}
        for feature in watched:
            with (
                anyio.move_on_after(UNSUBSCRIBE_TIME, shield=True),
                contextlib.suppress(MCPError),
                self._client.calling(),
            ):
                await self._client.shared.sources.watch(feature, on=False)

    def note_pages(self, refusal: MCPError) -> MCPError:
        """The same error. The client is told when the web pages that it names are done."""
        self._page_ids |= pages_in(refusal)
        return refusal

    async def hear(self, server: str, message: types.ServerNotification) -> None:
        """Tell the client what a server says outside of any call, where the client wants to hear it."""
        client = self._client
        if not client.is_open or not client.identity.may_use(server):
            return
        if isinstance(message, types.ResourceUpdatedNotification):
            uri = self._watched.get(Feature(server, message.params.uri))
            if uri is not None:
                params = types.ResourceUpdatedNotificationParams(uri=uri)
                await client.notify(types.ResourceUpdatedNotification(params=params))
        elif isinstance(message, types.ElicitCompleteNotification):
            if message.params.elicitation_id in self._page_ids:
                await client.notify(message)
        elif isinstance(message, types.LoggingMessageNotification) and is_heard(message.params.level, client.log_level):
            said = message.params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"})
            params = types.LoggingMessageNotificationParams.model_validate(client.run.mask(said))
            await client.notify(types.LoggingMessageNotification(params=params))


@contextmanager
def _not_offered(data: Mapping[str, Any] | None, code: int) -> Generator[None]:
    """Raise `MCPError` for a name or an address that leads to nothing."""
    try:
        yield
    except LookupError as problem:
        raise MCPError(code, str(problem), data) from None
