"""The bridge tools as the model is shown them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from builtin_plugins.tool_search._answers.listing import listing, owners_line
from builtin_plugins.tool_search._names import Names
from hooksdk import Tool

Executor = Callable[..., Any]

_TEXT = {"type": "string"}
_SEVERAL = {"type": ["array", "string"], "items": _TEXT}


def fill(description: str, tools: Sequence[Tool], listing_budget: int = 0) -> str:
    """A description for these deferred tools: `{count}` and `{owners}` filled in, and the listing below it."""
    text = description.replace("{count}", str(len(tools))).replace("{owners}", owners_line(tools))
    names = listing(tools, listing_budget) if listing_budget else ""
    return f"{text}\n\n{names}" if names else text


def bridge_tools(
    descriptions: Mapping[str, str],
    *,
    default_limit: int,
    search: Executor,
    describe: Executor,
    names: Names,
) -> list[Tool]:
    """`tool_search`, `tool_describe` and `tool_call` under these names, with these descriptions. `tool_call` has no executor: it is turned
    into the call that it stands for."""
    parameters: dict[str, dict[str, Any]] = {
        "tool_search": {
            "type": "object",
            "properties": {
                "queries": {**_SEVERAL, "description": "What you want to do, one capability for each query."},
                "limit": {"type": ["integer", "string"], "description": f"Hits a query, {default_limit} unless given."},
            },
        },
        "tool_describe": {
            "type": "object",
            "properties": {
                "names": {**_SEVERAL, "description": "Exact tool names."},
                "part": {**_TEXT, "description": "Only this part of a large schema, such as properties.filter."},
            },
        },
        "tool_call": {
            "type": "object",
            "properties": {
                "name": {**_TEXT, "description": "The exact tool name."},
                "arguments": {"type": "object", "description": "Its arguments, as in its signature."},
            },
            "required": ["name", "arguments"],
        },
    }
    executors: dict[str, Executor | None] = {"tool_search": search, "tool_describe": describe, "tool_call": None}
    return [
        Tool(
            name=name,
            description=descriptions[name],
            parameters=parameters[name],
            owner="tool_search",
            execute=execute,
            disposable=execute is not None,
        ).copy(name=names.of(name))
        for name, execute in executors.items()
    ]
