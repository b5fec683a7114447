"""What one server offers, and how it is asked for all of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, cast

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
Kind = Literal["tools", "prompts", "resources"]
"""What a server lists."""
KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources")


@dataclass(frozen=True, kw_only=True)
class ServerOffer:
    """What one MCP server offers."""

    server: str
    tools: tuple[types.Tool, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()
    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    instructions: str = ""
    capabilities: types.ServerCapabilities = field(default_factory=types.ServerCapabilities)
    """What the server says that it can."""


async def all_offered(session: ClientSession, server: str, redact: Callable[[str], str]) -> ServerOffer:
    """All that the server at the other end offers. Raises `MCPError` and `ValidationError` where its tools cannot be listed;
    what else cannot be is left out, and the log says so."""
    offer = ServerOffer(
        server=server,
        instructions=session.instructions or "",
        capabilities=session.server_capabilities or types.ServerCapabilities(),
    )
    offer = await list_anew(session, offer, "tools")
    for kind in KINDS[1:]:
        try:
            offer = await list_anew(session, offer, kind)
        except (MCPError, ValidationError) as error:
            if isinstance(error, MCPError) and error.code == types.CONNECTION_CLOSED:
                raise
            logger.warning("MCP server '%s': its %s could not be listed: %s", server, kind, redact(str(error)))
    return offer


async def list_anew(session: ClientSession, offer: ServerOffer, kind: Kind) -> ServerOffer:
    """The offer with one of its lists as it is now; what is the same stays the same objects. Raises `MCPError` and
    `ValidationError`."""
    if kind == "tools":
        return _with(offer, tools=await _all(session.list_tools, "tools"))
    if kind == "prompts":
        return (
            offer
            if offer.capabilities.prompts is None
            else _with(offer, prompts=await _all(session.list_prompts, "prompts"))
        )
    if offer.capabilities.resources is None:
        return offer
    resources = await _all(session.list_resources, "resources")
    templates = await _all(session.list_resource_templates, "resource_templates")
    return _with(offer, resources=resources, templates=templates)


def _with(offer: ServerOffer, **lists: tuple[Any, ...]) -> ServerOffer:
    return replace(offer, **{name: new for name, new in lists.items() if new != getattr(offer, name)})


async def _all(list_page: Callable[..., Awaitable[Any]], name: str) -> tuple[Any, ...]:
    entries: list[Any] = []
    cursor: str | None = None
    cursors: set[str] = set()
    while True:
        try:
            page = await list_page(params=types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return ()  # a server of other things alone
            raise
        entries += cast("list[Any]", getattr(page, name))
        cursor = page.next_cursor
        if not cursor or cursor in cursors:
            return tuple(entries)
        cursors.add(cursor)
