"""Progressive disclosure: a searchable catalog instead of every schema, once the schemas would fill the context window.

The model is offered the core tools and three bridge tools. `tool_search` answers with call signatures, so that one search
is normally enough; `tool_call` is turned into the real call before any policy sees it.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from builtin_plugins.tool_search._bridge_call import read_bridge_call, refuse_unless_deferred
from builtin_plugins.tool_search._indexes import Indexes
from builtin_plugins.tool_search._listing import available, listing, listing_budget, owners_told
from builtin_plugins.tool_search._signatures import clip, signature, summary
from builtin_plugins.tool_search.rankers import Ranked, load_ranker
from hooksdk import Catalog, Tool, ToolCall, ToolContext, ToolError, ToolResult, hooks, schema
from hooksdk.hooks import AssembleTools, Offer, UnwrapToolCall
from hooksdk.patterns import ToolPattern

__all__ = ["ToolSearch"]

logger = logging.getLogger("hooksdk.tool_search")

UNKNOWN_WINDOW_TOKENS = 20_000
"""The threshold where the host does not know the model's context window."""
MAX_QUERIES = 10
MAX_DESCRIBED = 10
MAX_SCHEMA = 8_000
"""Characters of one schema in `tool_describe`; of a larger one its outline is shown, and parts can be asked for."""

_WORDS = {
    "true": "on",
    "yes": "on",
    "1": "on",
    "on": "on",
    "false": "off",
    "no": "off",
    "0": "off",
    "off": "off",
    "auto": "auto",
}


def _tri_state(value: object) -> object:
    return _WORDS.get(str(value).strip().lower(), value)


class ToolSearch:
    """Offer a searchable catalog instead of every schema."""

    class Config(BaseModel):
        """Settings. Numbers out of range are clamped, with a notice in the log."""

        model_config = ConfigDict(extra="forbid")
        enabled: Annotated[Literal["auto", "on", "off"], BeforeValidator(_tri_state)] = "auto"
        """`auto`: from the threshold on; `on`: whenever a tool can be deferred; `off`: never."""
        threshold_pct: float = Field(default=10.0)
        """Percent of the context window that the deferrable tools must reach, 0 to 100."""
        search_default_limit: int = 5
        max_search_limit: int = 20
        """Hits for one query, 1 to 50."""
        pinned: list[str] = Field(default_factory=list[str])
        """Patterns of tools that are always shown."""
        ranker: str = "bm25"
        """`bm25`, `rank-bm25` (needs that extra), or a ranker of your own as `package.module:factory`."""
        listing: bool | int = False
        """Whether the bridge lists the deferred tools: at 4,000 tokens or as many as given, at most a tenth of the window."""

        @field_validator("threshold_pct")
        @classmethod
        def _clamp_percent(cls, value: float) -> float:
            return _clamp("threshold_pct", value, 0.0, 100.0)

        @field_validator("max_search_limit", "search_default_limit")
        @classmethod
        def _clamp_limit(cls, value: int, info: ValidationInfo) -> int:
            return int(_clamp(info.field_name or "", value, 1, 50))

        @field_validator("listing")
        @classmethod
        def _clamp_listing(cls, value: bool | int) -> bool | int:
            return value if isinstance(value, bool) else int(_clamp("listing", value, 0, 100_000))

        @field_validator("ranker")
        @classmethod
        def _check_ranker(cls, value: str) -> str:
            load_ranker(value)
            return value

        @field_validator("pinned")
        @classmethod
        def _check_pinned(cls, value: list[str]) -> list[str]:
            for pattern in value:
                ToolPattern(pattern)
            return value

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[Indexes, None]:
        """The indexes are shared by all sessions: equal catalogs are indexed once."""
        yield Indexes(load_ranker(config.ranker))

    def __init__(self, config: Config, shared: Indexes) -> None:
        self._config = config
        self._indexes = shared
        self._pinned = [ToolPattern(pattern) for pattern in config.pinned]
        self._deferred: frozenset[str] = frozenset()

    @hooks.assemble_tools.last
    def offer_bridge(self, event: AssembleTools) -> Offer | None:
        """Defer the deferrable tools when they are worth it."""
        tools = [tool for tool in event.deferrable if not any(pattern.matches(tool) for pattern in self._pinned)]
        if not self._is_worth_it(tools, event.context_window):
            self._deferred = frozenset()
            return None
        self._deferred = frozenset(tool.name for tool in tools)
        return Offer(tools=self._bridge(tools, event.context_window), defer=sorted(self._deferred))

    @hooks.unwrap_tool_call
    def unwrap(self, event: UnwrapToolCall) -> ToolCall | None:
        """Turn `tool_call` into the call that it stands for."""
        if event.call.name != "tool_call" or event.tool is None:
            return None
        name, arguments = read_bridge_call(event.call)
        return ToolCall(event.call.id, refuse_unless_deferred(name, event.catalog, self._deferred), arguments)

    def _is_worth_it(self, tools: Sequence[Tool], context_window: int | None) -> bool:
        if self._config.enabled == "off" or not tools:
            return False
        if self._config.enabled == "on":
            return True
        share = self._config.threshold_pct / 100
        threshold = int(context_window * share) if context_window and context_window > 0 else UNKNOWN_WINDOW_TOKENS
        return sum(tool.tokens for tool in tools) >= threshold

    def _bridge(self, tools: Sequence[Tool], context_window: int | None) -> list[Tool]:
        budget = listing_budget(self._config.listing, context_window)
        listed = listing(tools, budget) if budget else ""
        text = {"type": "string"}
        several = {"type": ["array", "string"], "items": text}
        search = Tool(
            name="tool_search",
            description=(
                f"Find tools. {len(tools)} more tools can be used that are not shown here, from {owners_told(tools)}. "
                "Give one or several queries, one capability each, in a few keywords. Each hit comes with its call "
                "signature: use it through tool_call."
                + (f"\n\n{listed}" if listed else "")
            ),
            parameters={
                "type": "object",
                "properties": {
                    "queries": {**several, "description": "What you want to do, one capability for each query."},
                    "limit": {"type": ["integer", "string"], "description": f"Hits a query, {self._config.search_default_limit} unless given."},
                },
            },
            owner="tool_search", execute=self._search, disposable=True,
        )  # fmt: skip
        describe = Tool(
            name="tool_describe",
            description="Show the full JSON Schema of tools, when a call signature is not enough.",
            parameters={
                "type": "object",
                "properties": {
                    "names": {**several, "description": "Exact tool names."},
                    "part": {**text, "description": "Only this part of a large schema, such as properties.filter."},
                },
            },
            owner="tool_search", execute=self._describe, disposable=True,
        )  # fmt: skip
        call = Tool(
            name="tool_call",
            description="Call a tool that tool_search found. Tools that are shown to you are called directly instead.",
            parameters={
                "type": "object",
                "properties": {
                    "name": {**text, "description": "The exact tool name."},
                    "arguments": {"type": "object", "description": "Its arguments, as in its signature."},
                },
                "required": ["name", "arguments"],
            },
            owner="tool_search",
        )  # fmt: skip
        return [search, describe, call]

    def _search(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        arguments = _unwrapped(arguments)
        queries = _texts(arguments.get("queries", arguments.get("query")))
        if not queries:
            return ToolResult.error('tool_search needs queries, such as {"queries": ["create a github issue"]}')
        asked = _number(arguments.get("limit"), self._config.search_default_limit)
        limit = max(1, min(asked, self._config.max_search_limit))
        catalog = context.catalog
        shown = [tool for tool in catalog if tool.name not in self._deferred]
        hidden = [tool for tool in catalog if tool.name in self._deferred]
        ranker = self._indexes.of([*catalog])
        known = {tool.name for tool in catalog}
        context.count("searches", len(queries[:MAX_QUERIES]))
        groups = [
            self._group(
                query, [one for one in ranker.search(query, limit + len(shown)) if one.id in known], catalog, limit
            )
            for query in queries[:MAX_QUERIES]
        ]
        context.count("hits", sum(len(group["hits"]) for group in groups))
        answer: dict[str, Any] = {"total_available": len(hidden), "results": groups}
        if len(queries) > MAX_QUERIES:
            answer["note"] = f"Only the first {MAX_QUERIES} queries were searched."
        if any("weak" in group or not (group["hits"] or "already_offered" in group) for group in groups):
            answer["available_from"] = available(hidden)
            answer["hint"] = "Try other words, or one capability at a time. What is not found may not exist."
        return ToolResult(_compact(answer))

    def _group(self, query: str, ranked: Sequence[Ranked], catalog: Catalog, limit: int) -> dict[str, Any]:
        hits = [found for found in ranked if found.id in self._deferred][:limit]
        group: dict[str, Any] = {"query": query[:200], "hits": [_hit(catalog, found) for found in hits]}
        if ranked and ranked[0].id not in self._deferred and not ranked[0].weak:
            group["already_offered"] = f"{ranked[0].id} is offered to you directly: call it without tool_call"
        if hits and all(found.weak for found in hits):
            group["weak"] = "None of these fits well; the capability may not exist here."
        return group

    def _describe(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        arguments = _unwrapped(arguments)
        names = _texts(arguments.get("names", arguments.get("name")))
        if not names:
            return ToolResult.error('tool_describe needs names, such as {"names": ["create_issue"]}')
        context.count("describes", len(names[:MAX_DESCRIBED]))
        described: dict[str, Any] = {}
        problems: dict[str, str] = {}
        for name in names[:MAX_DESCRIBED]:
            tool = context.catalog.get(name)
            if tool is None or tool.name not in self._deferred:
                try:
                    refuse_unless_deferred(name, context.catalog, self._deferred)
                except ToolError as error:
                    problems[name] = str(error).removeprefix("Nothing was called: ")
            else:
                described[tool.name] = _described(tool, arguments.get("part"))
        answer: dict[str, Any] = {"tools": described}
        if problems:
            answer["problems"] = problems
        if len(names) > MAX_DESCRIBED:
            answer["note"] = f"Only the first {MAX_DESCRIBED} names were looked up."
        return ToolResult(_compact(answer), is_error=not described)


def _hit(catalog: Catalog, found: Ranked) -> dict[str, Any]:
    tool = catalog.get(found.id)
    assert tool is not None
    hit = {"call": signature(tool.name, tool.parameters), "name": tool.name, "description": summary(tool.description)}
    hit |= {"from": clip(tool.owner, 60)}
    return {**hit, "weak": True} if found.weak else hit


def _described(tool: Tool, part: object) -> dict[str, Any]:
    parameters: object = tool.parameters or {"type": "object", "properties": {}}
    if isinstance(part, str) and part:
        for key in part.split("."):
            parameters = cast("Mapping[str, Any]", parameters).get(key) if isinstance(parameters, Mapping) else None
        if parameters is None:
            return {"problem": f"its schema has no part '{part}'", "call": signature(tool.name, tool.parameters)}
    shown: dict[str, Any] = {"description": tool.description[:MAX_SCHEMA]}
    if len(_compact(parameters)) <= MAX_SCHEMA:
        return {**shown, "parameters": parameters}
    outline = _outline(cast("Mapping[str, Any]", parameters))
    return {**shown, "parameters": outline, "note": "Shortened: ask for one part, such as part='properties.NAME'."}


def _outline(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Names and types of the first levels of a schema that is too large to show, within the same size."""
    keys: list[str] = []
    left = MAX_SCHEMA // 3
    for key in parameters:
        left -= len(key) + 3
        if left < 0:
            break
        keys.append(key)
    outline: dict[str, Any] = {"keys": keys}
    if len(keys) < len(parameters):
        outline["more_keys"] = len(parameters) - len(keys)
    if "properties" in parameters:
        outline["outline"] = signature("", parameters, limit=MAX_SCHEMA // 2, most=MAX_SCHEMA // 2)
    return outline


def _unwrapped(arguments: dict[str, Any]) -> dict[str, Any]:
    """Weak models wrap the arguments once more."""
    inner: object = arguments.get("arguments", arguments.get("args")) if len(arguments) == 1 else None
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else arguments


def _texts(value: object) -> list[str]:
    """What a model gave as a list of texts: a list, one text, or JSON text of a list."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                return _texts(schema.parse_arguments(f'{{"list": {text}}}')["list"])
            except ValueError:
                return [text]
        return [text] if text else []
    given = cast("list[object]", value) if isinstance(value, list) else []
    return [one.strip() for one in given if isinstance(one, str) and one.strip()]


def _number(value: object, default: int) -> int:
    try:
        return int(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        return default


def _clamp(name: str, value: float, low: float, high: float) -> float:
    clamped = low if math.isnan(value) else max(low, min(value, high))
    if clamped != value:
        logger.warning("tool_search: %s = %g is out of range, %g is used", name, value, clamped)
    return clamped


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
