"""The bridge tools as the model is shown them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from builtin_plugins.tool_search._listing import listing, owners_told
from hooksdk import Tool

__all__ = ["DESCRIPTIONS", "bridge_tools", "told"]

DESCRIPTIONS: Mapping[str, str] = {
    "tool_search": (
        "Find tools. {count} more tools can be used that are not shown here, from {owners}. Give one or several queries, "
        "one capability each, in a few keywords. Each hit comes with its call signature: use it through tool_call."
    ),
    "tool_describe": "Show the full JSON Schema of tools, when a call signature is not enough.",
    "tool_call": "Call a tool that tool_search found. Tools that are shown to you are called directly instead.",
}
"""What the model reads of each bridge tool unless the configuration says otherwise."""

Executor = Callable[..., Any]

_TEXT = {"type": "string"}
_SEVERAL = {"type": ["array", "string"], "items": _TEXT}


def told(description: str, tools: Sequence[Tool], listing_budget: int = 0) -> str:
    """A description with what it tells of the deferred tools filled in: `{count}`, `{owners}`, and the listing below it."""
    text = description.replace("{count}", str(len(tools))).replace("{owners}", owners_told(tools))
    listed = listing(tools, listing_budget) if listing_budget else ""
    return f"{text}\n\n{listed}" if listed else text


def bridge_tools(
    descriptions: Mapping[str, str],
    *,
    default_limit: int,
    search: Executor,
    describe: Executor,
) -> list[Tool]:
    """`tool_search`, `tool_describe` and `tool_call`, with these descriptions. `tool_call` has no executor: it is turned
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
        )
        for name, execute in executors.items()
    ]
