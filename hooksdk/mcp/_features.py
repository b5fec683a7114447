"""The prompts and resources of servers, which are read as tools are called, and the servers' messages outside of
calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, final

import anyio
import mcp_types as types
from mcp.client.session import ClientSession

from hooksdk.calls import ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.mcp._connection import Connection
from hooksdk.mcp._fleet import Fleet
from hooksdk.mcp._life import Terms
from hooksdk.mcp._offer import ERROR_MARGIN, ROLE, ServerOffer, failed, own_meta_left_out, plain_text
from hooksdk.mcp._relay import RunningCall, send_call
from hooksdk.mcp._scope import ScopeKey
from hooksdk.mcp._status import CallFailed
from hooksdk.tools import Annotations, Tool

logger = logging.getLogger("hooksdk")

_READS = Annotations(read_only=True, destructive=False, idempotent=True)
# The levels of log messages, from the most to the fewest messages.
LEVELS: tuple[types.LoggingLevel, ...] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
# Offers whose tools are kept; of more, the newest.
MOST_OFFERS = 200


class Feature(NamedTuple):
    """A prompt or a resource, by its server's own name for it.

    Attributes:
        own: The name, or the address.
    """

    server: str
    own: str


class Listener(Protocol):
    """A listener to servers' messages outside of calls."""

    async def __call__(self, server: str, message: types.ServerNotification, key: ScopeKey) -> None:
        """Take a message: a resource was updated, or a log message belongs to no call. `key` says for which clients
        it is."""
        ...


@final
@dataclass(eq=False)
class Features:
    """The prompts and resources of the servers of an `McpServers`."""

    _fleet: Fleet
    _terms: Terms
    # Seconds that a request may take, unless the server's entry has a limit.
    _limit: float
    _listeners: list[Listener] = field(default_factory=list[Listener], init=False)
    # The tools of each offer, by the id of the offer, which is kept with them.
    _made: dict[int, tuple[ServerOffer, dict[str, Tool]]] = field(
        default_factory=dict[int, tuple[ServerOffer, dict[str, Tool]]], init=False
    )

    def offers(self) -> list[ServerOffer]:
        """The offer of each server as far as it is known; no server is asked."""
        return [one.offering.offer for one in self._fleet.listed() if not one.spec.disabled]

    def tools(self) -> list[Tool]:
        """A tool for each listed prompt, resource and template, so that policies can say who may have which; the same
        objects while nothing changes. They are not for models."""
        return [tool for offer in self.offers() for tool in self._tools_of(offer).values()]

    def _tools_of(self, offer: ServerOffer) -> Mapping[str, Tool]:
        known = self._made.get(id(offer))
        if known is None:
            made = [self._prompt(offer.server, one) for one in offer.prompts]
            made += [self._resource(offer.server, one.uri, one) for one in offer.resources]
            made += [self._resource(offer.server, one.uri_template, one) for one in offer.templates]
            known = self._made[id(offer)] = offer, {tool.name: tool for tool in made}
            if len(self._made) > MOST_OFFERS:
                del self._made[next(iter(self._made))]
        return known[1]

    def _listed(self, server: str, name: str) -> Tool | None:
        offer = next((offer for offer in self.offers() if offer.server == server), None)
        return None if offer is None else self._tools_of(offer).get(name)

    def prompt(self, feature: Feature) -> Tool:
        """The tool `prompt:SERVER:NAME`, which gets this prompt. Its result has a block for each message, with the
        role in the block's `_meta`. Raises `LookupError` for a prompt that is not listed."""
        if (tool := self._listed(feature.server, f"prompt:{feature.server}:{feature.own}")) is None:
            raise LookupError(f"'{feature.server}' has no prompt '{feature.own}' any more")
        return tool

    def resource(self, feature: Feature) -> Tool:
        """The tool `resource:SERVER:URI`, which reads this resource, listed or not. Its result has a block for each
        of the contents."""
        listed = self._listed(feature.server, f"resource:{feature.server}:{feature.own}")
        return listed or self._resource(feature.server, feature.own, None)

    def _prompt(self, server: str, prompt: types.Prompt) -> Tool:

        async def send(session: ClientSession, call: RunningCall, arguments: dict[str, Any]) -> ToolResult:
            texts = {name: str(value) for name, value in arguments.items()}
            params = types.GetPromptRequestParams(name=prompt.name, arguments=texts or None, _meta=call.meta)
            answer = await send_call(session, call, types.GetPromptRequest(params=params), types.GetPromptResult)
            blocks: list[dict[str, Any]] = []
            for message in answer.messages:
                block = message.content.model_dump(by_alias=True, mode="json", exclude_none=True)
                blocks.append({**block, "_meta": {**block.get("_meta", {}), ROLE: message.role}})
            structured = {"description": answer.description} if answer.description else None
            text = "\n".join(plain_text(block) for block in blocks)
            return ToolResult(text, blocks=blocks, structured=structured, meta=own_meta_left_out(answer.meta))

        asked = prompt.arguments or []
        properties = {
            one.name: {"type": "string", **({"description": one.description} if one.description else {})}
            for one in asked
        }
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [one.name for one in asked if one.required],
        }
        return self._tool(
            "prompt", server, prompt.name, send, parameters, description=prompt.description, title=prompt.title
        )

    def _resource(self, server: str, uri: str, entry: types.Resource | types.ResourceTemplate | None) -> Tool:

        async def send(session: ClientSession, call: RunningCall, arguments: dict[str, Any]) -> ToolResult:
            params = types.ReadResourceRequestParams(uri=str(arguments["uri"]), _meta=call.meta)
            answer = await send_call(session, call, types.ReadResourceRequest(params=params), types.ReadResourceResult)
            contents = [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in answer.contents]
            blocks = [{"type": "resource", "resource": one} for one in contents]
            text = "\n".join(plain_text(block) for block in blocks)
            return ToolResult(text, blocks=blocks, meta=own_meta_left_out(answer.meta))

        parameters = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
        description, title = (entry.description, entry.title or entry.name) if entry is not None else (None, None)
        return self._tool("resource", server, uri, send, parameters, description=description, title=title)

    def _tool(
        self,
        source: Any,
        server: str,
        own_name: str,
        send: Callable[[ClientSession, RunningCall, dict[str, Any]], Awaitable[ToolResult]],
        parameters: Mapping[str, Any],
        *,
        description: str | None,
        title: str | None,
    ) -> Tool:
        known = self._fleet.connections.get(server)
        limit = (known.spec.timeout if known is not None else None) or self._limit

        async def execute(arguments: dict[str, Any], context: ToolContext | None = None) -> ToolResult:
            async def request(connection: Connection, call: RunningCall) -> ToolResult:
                return await connection.request(own_name, limit, call, lambda session: send(session, call, arguments))

            return await self._fleet.call(server, context, request, reads=True)

        return Tool(
            name=f"{source}:{server}:{own_name}",
            own_name=own_name,
            source=source,
            owner=server,
            execute=execute,
            description=description or "",
            label=title or "",
            parameters=parameters,
            annotations=_READS,
            timeout=limit + ERROR_MARGIN,
        )

    async def complete(self, server: str, params: types.CompleteRequestParams) -> types.CompleteResult | ToolResult:
        """The values that the server proposes for an argument; a `ToolResult` says why there are none."""
        call = RunningCall(None)
        params = params.model_copy(update={"meta": call.meta})
        try:
            return await self._fleet.connection(server).request(
                params.argument.name,
                self._limit,
                call,
                lambda session: session.send_request(types.CompleteRequest(params=params), types.CompleteResult),
            )
        except CallFailed as failure:
            return failed(failure)
        finally:
            call.end()

    async def watch(self, feature: Feature, *, on: bool = True) -> ToolResult | None:
        """Begin or end to watch a resource; each watch is ended once. The answer says why that failed; else it is
        None."""
        try:
            await self._fleet.connection(feature.server).watch(feature.own, on=on)
        except CallFailed as failure:
            return failed(failure)
        return None

    async def log(self, level: types.LoggingLevel | None) -> None:
        """Set the level from which on the servers log."""
        if level is None or level == self._terms.wishes.log_level:
            return
        self._terms.wishes.log_level = level
        async with anyio.create_task_group() as group:
            for connection in self._fleet.everyone:
                group.start_soon(_set_level, connection)

    def declare(self, extensions: Mapping[str, dict[str, Any]]) -> None:
        """Tell servers, when they are started, of these extensions of the protocol, such as that clients show the
        apps of tools."""
        self._terms.wishes.extensions.update(extensions)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener to servers' messages. Calling the answer removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def tell(self, server: str, message: types.ServerNotification, key: ScopeKey) -> None:
        """Pass a server's message to all listeners."""
        for listener in tuple(self._listeners):
            try:
                await listener(server, message, key)
            except Exception:
                logger.exception("what MCP server '%s' says could not be passed on", server)


async def _set_level(connection: Connection) -> None:
    if connection.session is not None:
        await connection.offering.set_level(connection.session)


def most_of(levels: Sequence[types.LoggingLevel | None]) -> types.LoggingLevel | None:
    """The level among these at which the most is logged; None where none is given."""
    return next((level for level in LEVELS if level in levels), None)
