"""Items of the Responses API that declare tools, and items of a search that the client executes: stored by the tools'
names, and sent with their definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hooksdk.formats import Message, ProviderJson
from hooksdk.formats.kit import clean_text, definition_of, parameters_for, to_json
from hooksdk.tools import Deferral, Tool
from hooksdk.values import as_list, as_object

# The tool name of a call of the search, which has none of its own.
NAME = "tool_search"
# Items that declare tools.
DECLARING = ("tool_search_output", "additional_tools")
# Characters that no namespace may have. A namespace is more than its owner's name, which may be that of one of the
# provider's own tools, such as `file_search`: https://github.com/microsoft/vscode/issues/313033.
_NO_NAMESPACE = re.compile(r"[^A-Za-z0-9_-]")


def written_for(messages: Sequence[Message], deferred: Mapping[str, Tool], deferral: Deferral | None) -> list[Message]:
    """The items of a request that declares these tools (`HasDeferral.with_deferred`).

    A call gets the namespace that an item of the request declares for its tool, even if it was made without one, such
    as through the bridge, and has none otherwise. A host that does not say what its requests take may have namespaces
    and searches of its own: then this is done for hooksdk's tools only, and items with definitions stay, with their
    searches.
    """
    declaring = [item for item in messages if item.get("type") in DECLARING]
    foreign = [item for item in declaring if deferral is None and _has_definitions(item)]
    searches = {item["call_id"] for item in foreign if item.get("call_id")}
    ours = {*deferred}
    whole: list[Message] = []
    for item in messages:
        if item in foreign or item.get("call_id") in searches:
            whole.append(item)
            continue
        ours.update(names_in(item) if item.get("type") in DECLARING else ())
        if item.get("type") == "additional_tools":
            added = _with_definitions(item, deferred if deferral == "additions" else {})
            whole += [added] if added["tools"] else []
        else:
            whole.append(_with_definitions(item, deferred) if deferred else _without_search(item))
    declared = (tool for item in whole if item.get("type") in DECLARING for tool in _declared_in(item))
    spaces = [tool for tool in declared if tool.get("type") == "namespace"]
    names = {space["name"] for space in spaces}
    homes = {
        tool["name"]: space["name"] for space in spaces for tool in _declared_in(space) if tool["name"] in deferred
    }

    def in_place(item: Message) -> Message:
        if item.get("type") != "function_call" or item.get("namespace") in names:
            return item
        if item["name"] in homes:
            return {**item, "namespace": homes[item["name"]]}
        is_ours = deferral is not None or item["name"] in ours
        return {key: item[key] for key in item if key != "namespace"} if is_ours and "namespace" in item else item

    return [in_place(item) for item in whole]


def function_of(tool: Tool) -> dict[str, Any]:
    """A tool's definition. It is not `strict`, the API's default, which refuses schemas with optional parameters."""
    return {"type": "function", **definition_of(tool), "strict": False}


def is_client(item: Message) -> bool:
    return item.get("execution") == "client"


def _is_search(item: Message) -> bool:
    """True for a search that the client executes, and for its answer."""
    return item.get("type") in ("tool_search_call", "tool_search_output") and is_client(item)


def search_tool(tool: Tool) -> ProviderJson:
    """The definition of a search by the client, which needs a description, though the SDK's types do not say so."""
    about = {"description": clean_text(tool.description), "parameters": parameters_for(tool)}
    return {"type": "tool_search", "execution": "client", **about}


def by_name(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"type": "function", "name": clean_text(name)} for name in names]


def _declared_in(item: Message) -> list[dict[str, Any]]:
    return [tool for tool in map(as_object, as_list(item.get("tools"))) if isinstance(tool.get("name"), str)]


def _functions_in(item: Message) -> list[dict[str, Any]]:
    """The functions that an item declares, also in namespaces."""
    inner = ((tool, _declared_in(tool)) for tool in _declared_in(item))
    return [each for tool, tools in inner for each in (tools if tool.get("type") == "namespace" else [tool])]


def names_in(item: Message) -> list[str]:
    return [str(tool["name"]) for tool in _functions_in(item)]


def names_text(names: Sequence[str]) -> str:
    return f"Found: {', '.join(names)}." if names else "No tool was found."


def _has_definitions(item: Message) -> bool:
    """True for an item with definitions, as a host has sent or written it."""
    return any("parameters" in tool for tool in _functions_in(item))


def _without_search(item: Message) -> Message:
    """The item in a request without the provider's own search: like a call or a result of any other tool."""
    if not _is_search(item):
        return item
    call_id = {"call_id": item.get("call_id") or NAME}
    if item["type"] == "tool_search_output":
        return {"type": "function_call_output", **call_id, "output": names_text(names_in(item))}
    arguments = to_json(item.get("arguments") or {})
    return {"type": "function_call", **call_id, "name": NAME, "arguments": arguments}


def _with_definitions(item: Message, deferred: Mapping[str, Tool]) -> Message:
    """The item with the definitions of those of its tools that still exist, grouped by owner."""
    if item.get("type") not in DECLARING or (item["type"] != "additional_tools" and not is_client(item)):
        return item
    late = {} if item["type"] == "additional_tools" else {"defer_loading": True}  # added tools are shown at once
    owners: dict[str, list[ProviderJson]] = {}
    for tool in (deferred[name] for name in names_in(item) if name in deferred):
        owner = _NO_NAMESPACE.sub("_", tool.owner)[:58] or "host"
        owners.setdefault(owner, []).append({**function_of(tool), **late})
    written = [
        {"type": "namespace", "name": f"{owner}_tools", "description": f"Tools of {owner}", "tools": functions}
        for owner, functions in owners.items()
    ]
    return {**item, "tools": written}
