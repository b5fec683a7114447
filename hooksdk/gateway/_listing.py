"""The tools of one session: those that its run offers, as their servers describe them and its client is told of
them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final

import anyio
import mcp_types as types
from mcp.server.subscriptions import ToolsListChanged

from hooksdk.calls import ToolCall
from hooksdk.catalog import Catalog, full_names, readings
from hooksdk.gateway._client import SessionClient
from hooksdk.gateway._long_results import RECALL, LongResults, is_recall
from hooksdk.gateway._pages import SessionPages
from hooksdk.schema import estimate_tokens
from hooksdk.tools import Annotations, Expose, Tool
from hooksdk.values import as_object

logger = logging.getLogger("hooksdk")

# The end of the name under which a caller runs tools that only read.
READ_ONLY = "_readonly"
READING = "Use it for those that only read: it runs no others."
# Callers inside of callers that are looked through for the tool that is called in the end. Such a call runs nothing.
MOST_BRIDGES = 3


@final
@dataclass(frozen=True)
class Caller:
    """A bridge that calls other tools. Its schema has one text, the name of the tool, and one object, the tool's
    arguments."""

    tool: Tool
    name_key: str
    arguments_key: str

    @classmethod
    def of(cls, tool: Tool) -> Caller | None:
        """The caller that a tool is; None for any other tool."""
        if not tool.bridge or tool.annotations.read_only:
            return None
        kinds = {
            key: as_object(part).get("type")
            for key, part in as_object((tool.parameters or {}).get("properties")).items()
        }
        texts, objects = ([key for key in kinds if kinds[key] == kind] for kind in ("string", "object"))
        return cls(tool, texts[0], objects[0]) if len(texts) == len(objects) == 1 else None


def why_not_read_only(tool: Tool, trusted: frozenset[str], caller: str = "") -> str | None:
    """Why a tool may not be called where only reading is allowed; None where it may. The hint of a server counts where
    the operator trusts the server: `trusted` are the names, `*` stands for all. `caller` is the bridge that may call
    the tool."""
    if tool.bridge and not tool.annotations.read_only:
        return f"'{tool.name}' was not run: it may do more than read. Call it directly."
    if tool.annotations.read_only is not True:
        return f"'{tool.name}' was not run: it is not known to read only. Call it through {caller}."
    if tool.source == "mcp" and not trusted & {"*", tool.owner}:
        told = f"that it only reads is the word of '{tool.owner}', which nobody has vouched for here"
        return f"'{tool.name}' was not run: {told}. Call it through {caller}."
    return None


@final
class ClientListing:
    """The tools of one session as its client is told of them.

    Attributes:
        tools: The tools of the list.
        whole: The number of all tools.
        tokens_direct: Estimated tokens of the schemas of all tools.
        tokens: Estimated tokens of the schemas in the list.

    """

    def __init__(
        self,
        catalog: Catalog,
        offered: Sequence[Tool],
        expose: Expose,
        trusted: frozenset[str],
        given: Sequence[Tool] = (),
    ) -> None:
        """`offered` are the tools that the run offers, of those in the `catalog` and beside them; `given` are all
        that the sources have, with those that are withheld from the client. The hints of `trusted` servers count."""
        self._trusted = trusted
        self._catalog = catalog
        granted = {tool.id for tool in catalog}
        withheld = [tool for tool in given if tool.id not in granted]
        self._withheld = {*catalog.withheld, *(name for tool in withheld for name in (tool.id, *full_names(tool)))}
        added = {tool.name: tool for tool in offered if tool.id not in granted}
        owners = {tool.owner for tool in added.values() if tool.bridge}
        # The plugins of bridges may offer more tools.
        search = {name: tool for name, tool in added.items() if tool.owner in owners}
        shown = [tool for tool in offered if tool.name not in search]
        if expose == "direct":
            shown = [*catalog, *(tool for tool in shown if tool.name in added)]
        names = {tool.name for tool in shown}
        if expose == "hybrid":
            shown += [tool for tool in catalog if tool.name not in names and why_not_read_only(tool, trusted) is None]
            names = {tool.name for tool in shown}
        self._recall = next((tool.name for tool in catalog if is_recall(tool)), None)
        hidden = any(tool.name not in names and tool.name != self._recall for tool in catalog)
        # With expose = "bridge" the bridge is there before there are tools to find: those that come later are found
        # then.
        listed = search if hidden or expose == "bridge" else {}
        callers = {name: caller for name, tool in search.items() if (caller := Caller.of(tool))}
        if not (listed and callers):
            shown += [tool for tool in catalog if tool.name == self._recall and tool.name not in names]
        self._way = next(iter(callers.values()), None) if self._recall not in {tool.name for tool in shown} else None
        # Where the bridge is listed its names are its own; a tool that is called alike goes by its owner's name, too.
        self._reading = {
            twin: caller
            for name, caller in callers.items()
            if (twin := name + READ_ONLY) not in added and (listed or catalog.get(twin) is None)
        }
        self._callers = {**callers, **self._reading}
        self.tools: tuple[types.Tool, ...] = (
            *(one for tool in listed.values() for one in self._bridge(tool)),
            *(
                _as_mcp(tool, name=f"{tool.owner}__{tool.own_name}" if tool.name in self._reading else "")
                for tool in shown
            ),
        )
        self.whole = len(catalog)
        self.tokens_direct = catalog.tokens
        self.tokens = sum(
            estimate_tokens({"name": one.name, "description": one.description, "parameters": one.input_schema})
            for one in self.tools
        )

    def _bridge(self, tool: Tool) -> list[types.Tool]:
        """A tool of the bridge; a caller comes after its twin that only runs tools which read."""
        twin = tool.name + READ_ONLY
        if twin not in self._reading:
            return [_as_mcp(tool)]
        reading = tool.copy(description=f"{tool.description} {READING}", annotations=Annotations(read_only=True))
        return [_as_mcp(reading, name=twin), _as_mcp(tool)]

    def is_withheld(self, name: str, arguments: dict[str, Any]) -> bool:
        """True for a call of a tool that the client may not use, by any of its names, also through a bridge."""
        called, _ = self._look_through(name, arguments)
        if not isinstance(called, str) or self._catalog.meant(called) is not None:
            return False
        return not self._withheld.isdisjoint(readings(called))

    def target(self, name: str, arguments: dict[str, Any]) -> tuple[Tool | None, object]:
        """The tool that a call reaches in the end, through bridges, and its arguments, as far as both are known
        before it is judged."""
        called, given = self._look_through(name, arguments)
        return (self._catalog.get(called) if isinstance(called, str) else None), given

    def _look_through(self, name: str, arguments: dict[str, Any]) -> tuple[object, object]:
        called: object = name
        given: object = arguments
        for _ in range(MOST_BRIDGES):
            if not isinstance(called, str) or (caller := self._callers.get(called)) is None:
                break
            written = as_object(given)
            called, given = written.get(caller.name_key), written.get(caller.arguments_key)
        return called, given

    def recall(self, arguments: str) -> str | None:
        """The call of `recall-tool-result` with these arguments, in words; None where the client may not make it."""
        if self._recall is None or (way := self._way) is None:
            return None if self._recall is None else f"{self._recall} {arguments}"
        twin = way.tool.name + READ_ONLY
        call = twin if twin in self._reading else way.tool.name
        return f'{call} {{"{way.name_key}": "{self._recall}", "{way.arguments_key}": {arguments}}}'

    def call(
        self, call_id: str, name: str, arguments: dict[str, Any]
    ) -> tuple[ToolCall, Callable[[Tool], str | None] | None]:
        """The call that a client makes, and a restriction on its tool beside the policies."""
        if (caller := self._reading.get(name)) is not None:
            bridge = caller.tool.name
            return ToolCall(call_id, bridge, arguments), partial(
                why_not_read_only, trusted=self._trusted, caller=bridge
            )
        if name == RECALL and self._recall is not None:  # under another name where a plugin has a tool of this name
            name = self._recall
        return ToolCall(call_id, name, arguments), None


def _as_mcp(tool: Tool, name: str = "") -> types.Tool:
    """A tool with its schema and annotations. Its output schema is left out: a plugin may change the result, and
    clients refuse one that does not fit."""
    parameters = tool.parameters or {"properties": {}}
    said = tool.meta or {}
    hints_title = as_object(said.get("annotations")).get("title")
    title = None if tool.label == hints_title and "title" not in said else tool.label
    return types.Tool(
        name=name or tool.name,
        title=title or None,
        description=tool.description or None,
        input_schema={"type": "object", **parameters},
        annotations=_hints(tool.annotations, hints_title),
        icons=_icons(said),
        _meta=as_object(said.get("_meta")) or None,
    )


def _icons(said: Mapping[str, Any]) -> list[types.Icon] | None:
    icons = said.get("icons")
    return [types.Icon.model_validate(icon) for icon in cast("list[Any]", icons)] if isinstance(icons, list) else None


def _hints(said: Annotations, title: str | None) -> types.ToolAnnotations | None:
    if said == Annotations() and title is None:
        return None
    return types.ToolAnnotations(
        title=title,
        read_only_hint=said.read_only,
        destructive_hint=said.destructive,
        idempotent_hint=said.idempotent,
        open_world_hint=said.open_world,
    )


@final
class SessionTools:
    """The tools of one session.

    Attributes:
        expose: Whether the client is told of all tools, or of a bridge to them.
        pages: Pages for signing in to servers, and the tool that opens them.
        results: Long results, and the tool that reads them.
        is_known: True once the tools were resolved for the first time.
        _client: The session's client.
        _resolved: The list of tools, and before it what it was made of; None before the first time.
        _lock: Held while the tools are resolved.

    """

    def __init__(self, client: SessionClient) -> None:
        config, deployment = client.shared.config, client.shared.ids.deployment
        self.expose: Expose = client.identity.profile.expose or config.expose
        self._trusted = frozenset(config.trusted_hints)
        self.pages = SessionPages(client.shared.sources, client.shared.start_soon, config.approvals.wait)
        kept_in = deployment.store if deployment is not None and client.is_shared else None
        self.results = LongResults(config.max_result_chars, config.kept_result_bytes, kept_in, client.id)
        self._client = client
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
            before, listing = self._resolved, ClientListing(run.tools, offered, self.expose, self._trusted, tools)
            self._resolved = basis, listing
        if before is None:
            if self.expose in ("bridge", "hybrid") and not any(tool.bridge for tool in offered):
                logger.warning('expose = "%s", and no plugin offers a bridge: every tool is listed', self.expose)
        elif before[1].tools != listing.tools:
            await client.notify_change(ToolsListChanged())
        return listing

    def _listing_of(self, basis: object) -> ClientListing | None:
        return self._resolved[1] if self._resolved is not None and self._resolved[0] == basis else None
