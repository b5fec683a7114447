"""The tools of a recorded session: from a file, from whoever has them, or as the record shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hooksdk.catalog import build_catalog
from hooksdk.errors import ConfigError
from hooksdk.patterns import SOURCES
from hooksdk.testing._exchanges import BRIDGE, Asked, Exchange, real_call
from hooksdk.tools import Annotations, Tool
from hooksdk.values import as_object, is_list, is_object, kind_of

GivenCatalog = Iterable[Tool | Callable[..., Any]] | str | Path
"""Tools, functions that become tools of the host, or a JSON file of definitions."""


@dataclass(frozen=True)
class ReplayCatalog:
    """What the calls of a replay are judged with."""

    tools: Sequence[Tool]
    notes: Sequence[str]


def read_catalog(given: GivenCatalog) -> list[Tool]:
    """The tools that were given. Raises `ConfigError` with every wrong entry of a file."""
    if isinstance(given, (str, Path)):
        return _from_file(Path(given))
    return [one if isinstance(one, Tool) else Tool.from_function(one, source="host", owner="test") for one in given]


def complete_catalog(given: Sequence[Tool], runs: Iterable[Exchange], plugin_tools: Iterable[str]) -> ReplayCatalog:
    """The given tools, and one for each other name that was called."""
    known = {name for tool in build_catalog(given) for name in (tool.name, tool.id)} | set(plugin_tools)
    seen: dict[str, dict[str, list[object]]] = {}
    for run in runs:
        for step in run.steps:
            for call, _ in step.calls if isinstance(step, Asked) else ():
                name, arguments = real_call(call)
                if name and name != BRIDGE and name not in known:
                    values = seen.setdefault(name, {})
                    for key, value in arguments.items():
                        values.setdefault(key, []).append(value)
    inferred = [_inferred(name, values) for name, values in seen.items()]
    known_by_calls = (
        f"tools known by their calls alone: {len(inferred)}; any arguments fit them, and they are taken as the host's own "
        "(mcp__SERVER__NAME: as that server's)"
    )
    notes = [known_by_calls] if inferred else []
    return ReplayCatalog([*given, *inferred], notes)


def _inferred(name: str, values: Mapping[str, Sequence[object]]) -> Tool:
    properties: dict[str, Any] = {
        key: {"type": "array"} if all(isinstance(one, list) for one in found) else {} for key, found in values.items()
    }
    prefix, _, rest = name.partition("__")
    owner = rest.partition("__")[0] if prefix == "mcp" else ""  # as Claude Code writes the tools of servers
    return Tool(
        name=name, source="mcp" if owner else "host", owner=owner,
        parameters={"type": "object", "properties": properties, "additionalProperties": {}},
    )  # fmt: skip


def _from_file(path: Path) -> list[Tool]:
    try:
        document: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(str(path), (f"it cannot be read: {error.strerror}",)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), (f"it is no JSON: {error}",)) from None
    entries = as_object(document).get("tools", document)
    if not is_list(entries):
        problem = f"expected a list of tool definitions, or an object with 'tools', but this is {kind_of(document)}"
        raise ConfigError(str(path), (problem,))
    tools: list[Tool] = []
    problems: list[str] = []
    for number, entry in enumerate(entries, 1):
        made = _made(entry)
        if isinstance(made, str):
            problems.append(f"tool {number}: {made}")
        else:
            tools.append(made)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    return tools


def _made(entry: object) -> Tool | str:
    """The tool of one definition, a provider's or MCP's too, or what is wrong with it."""
    if not is_object(entry):
        return f"expected an object, but this is {kind_of(entry)}"
    inner = as_object(entry.get("function")) or entry
    source, owner, name = entry.get("source", "host"), entry.get("owner", ""), inner.get("name")
    if isinstance(identity := entry.get("id"), str) and identity.count(":") >= 2:
        source, owner, name = identity.split(":", 2)
    if not isinstance(name, str) or not name:
        return "it has no 'name', and no 'id' such as mcp:github:create_issue"
    if source not in SOURCES:
        return f"its source is {source!r}, which is none of {', '.join(SOURCES)}"
    keys = ("parameters", "input_schema", "inputSchema")
    parameters = next((as_object(inner[key]) for key in keys if inner.get(key)), None)
    hints = as_object(entry.get("annotations"))
    own = {key: value for key, value in hints.items() if key in Annotations.names()}
    annotations = Annotations(**cast("dict[str, bool]", own)) if own else Annotations.from_mcp(hints)
    return Tool(
        name=name, description=str(inner.get("description") or ""), source=source, owner=str(owner),
        parameters=parameters, annotations=annotations,
    )  # fmt: skip
