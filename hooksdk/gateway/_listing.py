"""What `tools/list` answers: the tools themselves, or the bridge in words that cost the same whatever stands behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import mcp_types as types

from hooksdk._catalog.names import full_names, readings
from hooksdk._config.gateway import Expose
from hooksdk.calls import ToolCall
from hooksdk.catalog import Catalog
from hooksdk.gateway._long_results import RECALL, is_recall
from hooksdk.schema import estimate_tokens
from hooksdk.tools import Annotations, Tool
from hooksdk.values import as_object, clip

SEARCH, DESCRIBE, CALL = "tool_search", "tool_describe", "tool_call"
READ_ONLY = "_readonly"
"""What the name of the bridge's second way of calling ends with."""
MOST_BRIDGES = 3
"""A call of the bridge in a call of the bridge, so many deep, is seen through when it is counted; it runs nothing."""
OWNERS_CHARS = 160
"""Characters that the names of the servers may take in the listing."""

_TEXT: dict[str, Any] = {"type": "string"}
_SCHEMAS: dict[str, dict[str, Any]] = {
    SEARCH: {"queries": {"type": "array", "items": _TEXT}, "limit": {"type": "integer"}},
    DESCRIBE: {"names": {"type": "array", "items": _TEXT}},
    CALL: {"name": _TEXT, "arguments": {"type": "object"}},
}
_REQUIRED = {SEARCH: ["queries"], DESCRIBE: ["names"], CALL: ["name", "arguments"]}
_HINTS = {
    SEARCH: Annotations(read_only=True),
    DESCRIBE: Annotations(read_only=True),
    CALL: Annotations(read_only=False, destructive=True),
}


def _sentence(usual: str, call: str, owners: str) -> str:
    if usual == SEARCH:
        whose = f", of: {owners}" if owners else ""
        return (
            f"Find tools that are not listed here{whose}. One query for each thing to do, in a few keywords. Hits "
            f"come with their signatures, for {call}; those that only read, for {call}{READ_ONLY}."
        )
    if usual == DESCRIBE:
        return "Show the JSON Schema of tools, when a signature is not enough."
    return "Call a tool that was found, by its exact name."


@final
@dataclass(frozen=True)
class HintTrust:
    """Which tools count as read-only: a server's own word does where the operator trusts it."""

    servers: frozenset[str]
    """`*`: all of them."""

    def why_not(self, tool: Tool) -> str | None:
        """Why the tool may not be called where only reading is allowed; None when it may."""
        if tool.bridge:
            reads = tool.own_name in (SEARCH, DESCRIBE)
            return None if reads else f"'{tool.name}' was not run: it may do more than read. Call it directly."
        if tool.annotations.read_only is not True:
            return f"'{tool.name}' was not run: it is not known to read only. Call it through {CALL}."
        if tool.source == "mcp" and not self.servers & {"*", tool.owner}:
            told = f"that it only reads is the word of '{tool.owner}', which nobody has vouched for here"
            return f"'{tool.name}' was not run: {told}. Call it through {CALL}."
        return None


@final
class Listing:
    """The tools of one session as its client is told of them."""

    def __init__(
        self, catalog: Catalog, offered: Sequence[Tool], expose: Expose, trust: HintTrust, given: Sequence[Tool] = ()
    ) -> None:
        """`given` are all tools that there are, the withheld among them."""
        bridges = {tool.own_name: tool for tool in offered if tool.bridge}
        self._call = bridges.get(CALL)
        self._trust = trust
        self._catalog = catalog
        granted = {tool.id for tool in catalog}
        withheld = [tool for tool in given if tool.id not in granted]
        self._withheld = {*catalog.withheld, *(name for tool in withheld for name in (tool.id, *full_names(tool)))}
        if expose == "direct" or not bridges:
            shown = list(catalog)
        else:
            shown = [tool for tool in offered if not tool.bridge]
            if expose == "hybrid":
                known = {tool.name for tool in shown}
                shown += [tool for tool in catalog if tool.name not in known and trust.why_not(tool) is None]
        names = {tool.name for tool in shown}
        self._recall = next((tool.name for tool in catalog if is_recall(tool)), None)
        hidden = [tool for tool in catalog if tool.name not in {*names, self._recall}]
        # One that is asked for is there before there is anything to find: what comes later is found then.
        bridged = bool(hidden) or (expose == "bridge" and bool(bridges))
        if not bridged:
            shown = [*shown, *(tool for tool in catalog if tool.name == self._recall and tool.name not in names)]
        # Where the bridge is listed its names are its own; a tool that is called alike goes by its owner's name, too.
        reading = None if self._call is None else self._call.name + READ_ONLY
        self._reading = reading if bridged or reading is None or catalog.get(reading) is None else None
        self._bridged = self._call is not None and self._recall not in {tool.name for tool in shown}
        self.tools: tuple[types.Tool, ...] = (
            *(_bridges(list(bridges.values()), _owners(hidden, catalog.missing)) if bridged else ()),
            *(
                _as_mcp(tool, name=f"{tool.owner}__{tool.own_name}" if tool.name == self._reading else "")
                for tool in shown
            ),
        )
        self.tokens_direct = catalog.tokens
        """What the schemas of all tools cost, in estimated tokens."""
        self.tokens = sum(
            estimate_tokens({"name": one.name, "description": one.description, "parameters": one.input_schema})
            for one in self.tools
        )
        """What those of the listing do."""

    def is_withheld(self, name: str, arguments: dict[str, Any]) -> bool:
        """True for a call of a tool that the client may not use, by whichever of its names, and through the bridge."""
        called: object = name
        given: object = arguments
        for _ in range(MOST_BRIDGES):
            if self._call is None or called not in (self._call.name, self._reading):
                break
            written = as_object(given)
            called, given = written.get("name"), written.get("arguments")
        if not isinstance(called, str) or self._catalog.meant(called) is not None:
            return False
        return not self._withheld.isdisjoint(readings(called))

    def recall(self, arguments: str) -> str | None:
        """How `recall-tool-result` is called with these arguments; None where it may not be."""
        if self._recall is None:
            return None
        if self._bridged and self._call is not None:
            return f'{self._reading or self._call.name} {{"name": "{self._recall}", "arguments": {arguments}}}'
        return f"{self._recall} {arguments}"

    def call(self, call_id: str, name: str, arguments: dict[str, Any]) -> tuple[ToolCall, HintTrust | None]:
        """The call that a client makes, and what holds for it besides the policies."""
        if self._call is not None and name == self._reading:
            return ToolCall(call_id, self._call.name, arguments), self._trust
        if name == RECALL and self._recall is not None:  # whatever it is listed as beside a plugin's
            name = self._recall
        return ToolCall(call_id, name, arguments), None


def _bridges(bridges: Sequence[Tool], owners: str) -> list[types.Tool]:
    call = next((tool.name for tool in bridges if tool.own_name == CALL), CALL)
    listed: list[types.Tool] = []
    for tool in bridges:
        usual = tool.own_name
        if usual not in _SCHEMAS:  # one of another mode, such as a script's
            listed.append(_as_mcp(tool, Annotations(read_only=False, destructive=True)))
            continue
        sentence, schema = _sentence(usual, call, owners), _object(_SCHEMAS[usual], _REQUIRED[usual])
        if usual == CALL:
            reading = f"{sentence} Runs only those that are known to read."
            hints = _hints(Annotations(read_only=True))
            listed.append(
                types.Tool(name=call + READ_ONLY, description=reading, input_schema=schema, annotations=hints)
            )
        listed.append(
            types.Tool(name=tool.name, description=sentence, input_schema=schema, annotations=_hints(_HINTS[usual]))
        )
    return listed


def _owners(tools: Sequence[Tool], missing: Iterable[str]) -> str:
    names = sorted({clip(name, 40) for name in [*(tool.owner or tool.source for tool in tools), *missing]})
    kept: list[str] = []
    for name in names:
        if sum(map(len, kept)) + 2 * len(kept) + len(name) > OWNERS_CHARS:
            return f"{', '.join(kept)} and {len(names) - len(kept)} more"
        kept.append(name)
    return ", ".join(kept)


def _as_mcp(tool: Tool, annotations: Annotations | None = None, name: str = "") -> types.Tool:
    """A tool with its true schema and annotations. Its output schema stays out: a plugin may change what comes back, and
    clients refuse a result that does not fit."""
    parameters = tool.parameters
    if parameters is None:
        parameters = _object({}, [])
    return types.Tool(
        name=name or tool.name, title=tool.label or None, description=tool.description or None,
        input_schema={"type": "object", **parameters}, annotations=_hints(annotations or tool.annotations),
    )  # fmt: skip


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _hints(said: Annotations) -> types.ToolAnnotations | None:
    if said == Annotations():
        return None
    return types.ToolAnnotations(
        read_only_hint=said.read_only, destructive_hint=said.destructive, idempotent_hint=said.idempotent,
        open_world_hint=said.open_world,
    )  # fmt: skip
