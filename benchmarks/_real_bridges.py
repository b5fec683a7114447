"""Three bridges in the manner of Hermes Agent 0.19: search names and descriptions, describe one tool, call one tool.

Written anew from what those tools take and answer, over `rank_bm25`, so that a model can be given them on this stack. Arguments
are checked by the host before a tool gets them, which is kinder than the original.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

from hooksdk import Catalog, Tool, ToolCall, ToolContext, ToolError, hooks, schema
from hooksdk.hooks import AssembleTools, Offer, UnwrapToolCall

__all__ = ["ThreeBridges"]

SEARCH, DESCRIBE, CALL = BRIDGES = ("tool_search", "tool_describe", "tool_call")
HITS, MOST_HITS = 5, 20
SHOWN = 400
"""Characters of a description in a hit."""


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def string(about: str) -> dict[str, str]:
    return {"type": "string", "description": about}


class ThreeBridges:
    """Defers everything that can be, and offers the three."""

    def __init__(self) -> None:
        self._deferred: list[Tool] = []
        self._index: Any = None

    @hooks.assemble_tools.last
    def offer(self, event: AssembleTools) -> Offer:
        self._deferred = list(event.deferrable)
        self._index = import_module("rank_bm25").BM25Okapi([
            words_of(" ".join([tool.name, tool.description, *(tool.parameters or {}).get("properties", {})]))
            for tool in self._deferred
        ])  # fmt: skip
        return Offer(tools=self._bridges(), defer=[tool.name for tool in self._deferred])

    def _bridges(self) -> list[Tool]:
        more = len(self._deferred)
        return [
            Tool(
                name=SEARCH, execute=self._search, parameters=_object(
                    {"query": string("A few keywords"), "limit": {"type": "integer", "description": f"At most {MOST_HITS}"}}, "query"
                ),
                description=(
                    f"Look among {more} further tools that are not listed here. The answer has names and descriptions. Go on "
                    "with tool_describe for the parameters of one, then tool_call. Listed tools need no search."
                ),
            ),
            Tool(
                name=DESCRIBE, execute=self._describe, parameters=_object({"name": string("Name of a tool that was found")}, "name"),
                description="Load the whole schema of one tool that tool_search found, before you call it.",
            ),
            Tool(
                name=CALL, parameters=_object({
                    "name": string("Name of the tool"),
                    "arguments": {"type": "object", "description": "As its schema wants them"},
                }, "name", "arguments"),
                description="Call one tool that tool_search found; it runs as if it were called directly.",
            ),
        ]  # fmt: skip

    def _search(self, arguments: dict[str, Any]) -> str:
        query, limit = str(arguments.get("query") or "").strip(), arguments.get("limit")
        if not query:
            raise ToolError("a query is required")
        count = max(1, min(limit, MOST_HITS)) if isinstance(limit, int) else HITS
        scores = self._index.get_scores(words_of(query))
        best = sorted((at for at, score in enumerate(scores) if score > 0), key=lambda at: -scores[at])[:count]
        hits = (self._deferred[at] for at in best)
        matches = [{"name": one.name, "source": one.owner, "description": one.description[:SHOWN]} for one in hits]
        return json.dumps(
            {"query": query, "total_available": len(self._deferred), "matches": matches}, ensure_ascii=False
        )

    def _describe(self, arguments: dict[str, Any], context: ToolContext) -> str:
        tool = self._deferred_tool(str(arguments.get("name") or ""), context.catalog)
        described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return json.dumps(described, ensure_ascii=False)

    @hooks.unwrap_tool_call
    def unwrap(self, event: UnwrapToolCall) -> ToolCall | None:
        if event.call.name != CALL:
            return None
        try:
            arguments = schema.parse_arguments(event.call.arguments)
            inner = schema.parse_arguments(arguments.get("arguments") or {})
        except schema.BadArguments as error:
            raise ToolError(f"the arguments are no valid JSON object: {error}") from None
        name = str(arguments.get("name") or "")
        if name in BRIDGES:
            raise ToolError(f"{name} cannot be called through {CALL}: it is a bridge itself")
        return ToolCall(event.call.id, self._deferred_tool(name, event.catalog).name, inner)

    def _deferred_tool(self, name: str, catalog: Catalog) -> Tool:
        if not name:
            raise ToolError("a name is required")
        tool = catalog.get(name)
        if tool is None or tool.core:
            raise ToolError(
                f"'{name}' is no tool of the catalog. If it is listed, call it directly; else look for its name with {SEARCH}"
            )
        return tool


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}
