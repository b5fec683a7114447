"""The offer of one server: how it is asked for, and whether a call still fits it. Tools and results in hooksdk's
form."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, cast

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from hooksdk import schema
from hooksdk.calls import ToolResult
from hooksdk.errors import did_you_mean
from hooksdk.mcp._relay import OWN_META
from hooksdk.mcp._status import CallFailed
from hooksdk.tools import Annotations, Tool

logger = logging.getLogger("hooksdk")

T = TypeVar("T")
# The lists of a server.
Kind = Literal["tools", "prompts", "resources"]
# Fields of a server's tool that are only for clients.
FOR_CLIENTS = {"meta", "icons", "title", "annotations"}
KINDS: tuple[Kind, ...] = ("tools", "prompts", "resources")
# The key in a result's `meta` for the code and the data of an error that a server answered instead of a result.
ERROR = "hooksdk/error"
# The key in a block's `_meta` for the role of a prompt's message.
ROLE = "hooksdk/role"
# Seconds by which a tool's own time limit is longer than the call's, so that the call's error text wins.
ERROR_MARGIN = 1.0


@dataclass(frozen=True, kw_only=True)
class ServerOffer:
    """The tools, prompts and resources of one MCP server.

    Attributes:
        capabilities: The capabilities that the server declares.
    """

    server: str
    tools: tuple[types.Tool, ...] = ()
    prompts: tuple[types.Prompt, ...] = ()
    resources: tuple[types.Resource, ...] = ()
    templates: tuple[types.ResourceTemplate, ...] = ()
    instructions: str = ""
    capabilities: types.ServerCapabilities = field(default_factory=types.ServerCapabilities)


async def all_offered(session: ClientSession, server: str, redact: Callable[[str], str]) -> ServerOffer:
    """The whole offer of a server. Raises `MCPError` and `ValidationError` where its tools cannot be listed; other
    lists that fail are left out, and the log says so."""
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
    """The offer with one of its lists read again; entries that are equal stay the same objects. Raises `MCPError` and
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
                return ()  # the server has other lists alone
            raise
        entries += cast("list[Any]", getattr(page, name))
        cursor = page.next_cursor
        if not cursor or cursor in cursors:
            return tuple(entries)
        cursors.add(cursor)


def check_offered(server: str, tool: types.Tool, offered: Sequence[types.Tool], arguments: Mapping[str, Any]) -> None:
    """Compare a tool, as a call of it was judged, with its server's present offer. Raises `CallFailed` where it is
    gone, where the arguments do not fit it any more, and where its hints have changed."""
    now = next((one for one in offered if one.name == tool.name), None)
    if now is tool:
        return
    if now is None:
        raise CallFailed(_gone(server, tool.name, [one.name for one in offered]))
    if hints(now) != hints(tool):
        raise CallFailed(_changed(server, tool.name, "its server says otherwise now what it does to its surroundings"))
    if now.input_schema != tool.input_schema and (problems := schema.check(now.input_schema, arguments)):
        difference = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:3])
        raise CallFailed(_changed(server, tool.name, f"the arguments do not fit it any more ({difference})"))


def as_tool(entry: types.Tool, owner: str, execute: Callable[..., Awaitable[ToolResult]], timeout: float) -> Tool:
    """The tool of an entry in a server's list."""
    title = entry.annotations.title if entry.annotations else None
    return Tool(
        name=entry.name,
        description=entry.description or "",
        parameters=entry.input_schema,
        source="mcp",
        owner=owner,
        label=entry.title or title or "",
        annotations=hints(entry),
        output_schema=entry.output_schema,
        meta=entry.model_dump(by_alias=True, mode="json", exclude_none=True, include=FOR_CLIENTS) or None,
        execute=execute,
        timeout=timeout,
    )


def hints(tool: types.Tool) -> Annotations:
    """The hints of the server on what the tool does to its surroundings."""
    return Annotations.from_mcp(tool.annotations.model_dump(by_alias=True)) if tool.annotations else Annotations()


def _gone(server: str, name: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    now = f"It now has: {', '.join(names[:10])}{more}." if names else "It now has none."
    return f"The MCP server '{server}' no longer has a tool '{name}'.{did_you_mean(name, names)} {now}"


def _changed(server: str, name: str, difference: str) -> str:
    return (
        f"'{name}' of the MCP server '{server}' has changed since it was listed and was not called: {difference}. "
        "Look the tool up again before you call it."
    )


def failed(failure: CallFailed) -> ToolResult:
    """The result of a failed call. It keeps the code and the data of the server's error, for clients that can act on
    them."""
    error = failure.error
    if error is None:
        return ToolResult.error(str(failure))
    about: dict[str, Any] = {"code": error.code}
    if error.data is not None:
        about["data"] = error.data
    return ToolResult(str(failure), is_error=True, meta={ERROR: about})


def own_meta_left_out(meta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The `_meta` of a result without the protocol's own entries, which are about one connection."""
    return {key: value for key, value in (meta or {}).items() if not key.startswith(OWN_META)} or None


def to_result(answer: types.CallToolResult) -> ToolResult:
    """The result with the content of an answer. Its text describes blocks that are no text, for models that only read
    text."""
    blocks = [block.model_dump(by_alias=True, mode="json", exclude_none=True) for block in answer.content]
    texts = [plain_text(block) for block in blocks]
    if not blocks and answer.structured_content is not None:
        texts = [json.dumps(answer.structured_content, ensure_ascii=False)]
    if not blocks and not texts and answer.is_error:
        texts = ["The tool reported an error, without a text."]
    plain = all(block.keys() == {"type", "text"} for block in blocks) and len(blocks) < 2
    return ToolResult(
        "\n".join(texts),
        is_error=answer.is_error,
        blocks=() if plain else blocks,
        structured=answer.structured_content,
        meta=own_meta_left_out(answer.meta),
    )


def plain_text(block: dict[str, Any]) -> str:
    """The text for a block where only text can be read."""
    kind = block["type"]
    if kind == "text":
        return block["text"]
    if kind == "resource_link":
        return f"[resource {block['uri']}: {block.get('title') or block['name']}]"
    inner: dict[str, Any] = block.get("resource", block)
    if "text" in inner:
        return inner["text"]
    size = len(inner.get("data", inner.get("blob", ""))) * 3 // 4
    uri = f" {inner['uri']}" if "uri" in inner else ""
    return f"[{kind}{uri}, {inner.get('mimeType', 'unknown type')}, {size:,} bytes]"
