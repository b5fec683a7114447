"""The bridge tools as the model is shown them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from builtin_plugins.tool_search._answers.listing import listing, owners_line
from builtin_plugins.tool_search._bridge.batch import JUDGING_SECONDS, ROUNDS
from builtin_plugins.tool_search._names import Names
from hooksdk import Annotations, Tool

Executor = Callable[..., Any]

READS = Annotations(read_only=True)
CHANGES = Annotations(read_only=False, destructive=True)
"""What may be called is not known beforehand."""
_TEXT = {"type": "string"}
_CALLS = {"type": "array", "items": {"type": "object"}}
_SEVERAL = {"type": ["array", "string"], "items": _TEXT}


def fill(description: str, tools: Sequence[Tool], listing_budget: int = 0) -> str:
    """A description for these deferred tools: `{count}` and `{owners}` filled in, and the listing below it."""
    text = description.replace("{count}", str(len(tools))).replace("{owners}", owners_line(tools))
    names = listing(tools, listing_budget) if listing_budget else ""
    return f"{text}\n\n{names}" if names else text


def bridge_tools(
    descriptions: Mapping[str, str], default_limit: int, executors: Mapping[str, Executor], names: Names, slowest: float
) -> list[Tool]:
    """`tool_search`, `tool_describe` and `tool_call` under these names, with these descriptions. `tool_call` of one call is
    turned into that call; its executor makes those of a batch, each of which may take `slowest` seconds."""
    parameters: dict[str, dict[str, Any]] = {
        "tool_search": {
            "queries": {**_SEVERAL, "description": "One capability a query."},
            "limit": {"type": ["integer", "string"], "description": f"Hits a query, {default_limit} unless given."},
        },
        "tool_describe": {
            "names": {**_SEVERAL, "description": "Exact tool names."},
            "part": {**_TEXT, "description": "Only this part, such as properties.filter."},
        },
        "tool_call": {
            "name": {**_TEXT, "description": "Exact tool name."},
            "arguments": {"type": "object", "description": "As in its signature."},
            "calls": {**_CALLS, "description": "Or several at once: [{name, arguments}]."},
        },
    }
    offered = {name: properties for name, properties in parameters.items() if name in descriptions}
    return _tools(descriptions, offered, executors, names, slowest)


def native_search(description: str, default_limit: int, search: Executor, names: Names) -> list[Tool]:
    """`tool_search` alone, where the provider shows what it found: what is found is called by its own name."""
    return bridge_tools({"tool_search": description}, default_limit, {"tool_search": search}, names, 0)


def client_tools(owners: str, executors: Mapping[str, Executor], names: Names, slowest: float) -> list[Tool]:
    """The same in words that cost the client of a gateway the same whatever stands behind them; `owners` brings the tools.
    Batches are not told of: their calls cannot wait for a person, and the way for calls that only read takes none."""
    whose = f", of: {owners}" if owners else ""
    descriptions = {
        "tool_search": f"Find tools that are not listed here{whose}. One query for each thing to do, in a few keywords. "
        f"Hits come with their signatures, for {names.call}.",
        "tool_describe": "Show the JSON Schema of tools, when a signature is not enough.",
        "tool_call": "Call a tool that was found, by its exact name.",
    }
    texts = {"type": "array", "items": _TEXT}
    parameters: dict[str, dict[str, Any]] = {
        "tool_search": {"queries": texts, "limit": {"type": "integer"}},
        "tool_describe": {"names": texts},
        "tool_call": {"name": _TEXT, "arguments": {"type": "object"}},
    }
    return _tools(descriptions, parameters, executors, names, slowest)


def _tools(
    descriptions: Mapping[str, str], parameters: Mapping[str, Any], executors: Mapping[str, Executor], names: Names,
    slowest: float,
) -> list[Tool]:  # fmt: skip
    tools: list[Tool] = []
    for name, properties in parameters.items():
        calls = name == "tool_call"
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if calls and "calls" not in properties:
            schema["required"] = ["name", "arguments"]
        tool = Tool(
            name=name, description=descriptions[name], parameters=schema, execute=executors[name],
            annotations=CHANGES if calls else READS, disposable=not calls,
        )  # fmt: skip
        tools.append(tool.copy(name=names.of(name)))
        if calls:
            tools[-1] = tools[-1].copy(timeout=ROUNDS * slowest + JUDGING_SECONDS)
    return tools
