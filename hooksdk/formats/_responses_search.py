"""The items of the Responses API that declare tools, and those of a search that the client executes: stored by the names of the
tools, written for each request with their definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hooksdk.formats._base import Message, ProviderJson
from hooksdk.formats.kit import clean_text, parameters_for, to_json
from hooksdk.tools import Tool
from hooksdk.values import as_list, as_object

SEARCH_NAME = "tool_search"
"""The name that a call of the search goes by here: it has none of its own."""
DECLARING = ("tool_search_output", "additional_tools")
"""Items that declare tools."""
_NO_NAMESPACE = re.compile(r"[^A-Za-z0-9_-]")
"""What no name of a namespace may hold."""


def written_for(messages: Sequence[Message], deferred: Mapping[str, Tool]) -> list[Message]:
    """The items of a request that declares these tools (`HasDeferral.with_deferred`). A call of one of ours goes without its
    namespace where no item before it declares that any more; a host may have namespaces of its own."""
    whole: list[Message] = []
    ours, namespaces = set(deferred), set[object]()
    for stored in messages:
        item = _with_definitions(stored, deferred) if deferred else _without_search(stored)
        if stored.get("type") in DECLARING:
            ours.update(() if _foreign(stored) else names_in(stored))
            namespaces.update(tool["name"] for tool in _declared_in(item) if tool.get("type") == "namespace")
            if item["type"] == "additional_tools" and not item.get("tools"):
                continue
        is_in_none = "namespace" in item and item["namespace"] not in namespaces and item.get("name") in ours
        whole.append({key: item[key] for key in item if key != "namespace"} if is_in_none else item)
    return whole


def function_of(tool: Tool) -> dict[str, Any]:
    """The definition, not `strict`: that is the API's own default, and it refuses schemas with optional parameters."""
    about = {"name": clean_text(tool.name), "description": clean_text(tool.description)}
    return {"type": "function", **about, "parameters": parameters_for(tool), "strict": False}


def is_client(item: Message) -> bool:
    return item.get("execution") == "client"


def search_tool(tool: Tool) -> ProviderJson:
    """A search by the client needs a description, though the SDK's types do not say so."""
    about = {"description": clean_text(tool.description), "parameters": parameters_for(tool)}
    return {"type": "tool_search", "execution": "client", **about}


def by_name(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"type": "function", "name": clean_text(name)} for name in names]


def _declared_in(item: Message) -> list[dict[str, Any]]:
    return [tool for tool in map(as_object, as_list(item.get("tools"))) if isinstance(tool.get("name"), str)]


def _functions_in(item: Message) -> list[dict[str, Any]]:
    """The functions that an item declares, those in namespaces among them."""
    inner = ((tool, _declared_in(tool)) for tool in _declared_in(item))
    return [each for tool, tools in inner for each in (tools if tool.get("type") == "namespace" else [tool])]


def names_in(item: Message) -> list[str]:
    return [str(tool["name"]) for tool in _functions_in(item)]


def names_text(names: Sequence[str]) -> str:
    return f"Found: {', '.join(names)}." if names else "No tool was found."


def _foreign(item: Message) -> bool:
    """True where definitions stand in the item that are not ours to write."""
    return any("parameters" in tool for tool in _functions_in(item))


def _without_search(item: Message) -> Message:
    """The item for a request without the provider's own search: as that of any other tool."""
    names, item_type = names_in(item), item.get("type")
    if item_type == "additional_tools":
        return item if _foreign(item) else {**item, "tools": []}
    if item_type not in ("tool_search_call", "tool_search_output") or not is_client(item):
        return item
    call_id = {"call_id": item.get("call_id") or SEARCH_NAME}
    if item_type == "tool_search_output":
        return {"type": "function_call_output", **call_id, "output": names_text(names)}
    arguments = to_json(item.get("arguments") or {})
    return {"type": "function_call", **call_id, "name": SEARCH_NAME, "arguments": arguments}


def _with_definitions(item: Message, deferred: Mapping[str, Tool]) -> Message:
    """The item with the definitions of those of its tools that there are, by whose they are."""
    if (
        item.get("type") not in DECLARING
        or _foreign(item)
        or (item["type"] != "additional_tools" and not is_client(item))
    ):
        return item
    late = {} if item["type"] == "additional_tools" else {"defer_loading": True}  # what is added is there from then on
    owners: dict[str, list[Tool]] = {}
    for tool in (deferred[name] for name in names_in(item) if name in deferred):
        owners.setdefault(_NO_NAMESPACE.sub("_", tool.owner)[:64] or "tools", []).append(tool)
    written = [
        {
            "type": "namespace", "name": owner, "description": f"Tools of {owner}",
            "tools": [{**function_of(tool), **late} for tool in tools],
        }
        for owner, tools in owners.items()
    ]  # fmt: skip
    return {**item, "tools": written}
