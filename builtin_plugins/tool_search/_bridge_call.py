"""Reading what models write into `tool_call`: repaired where the meaning is certain, refused in words that help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from hooksdk import Catalog, ToolCall, ToolError, schema
from hooksdk.tools import BRIDGE_NAMES

__all__ = ["EXAMPLE", "read_bridge_call", "refuse_unless_deferred"]

EXAMPLE = '{"name": "TOOL", "arguments": {...}}'
NAME_KEYS = ("name", "tool", "tool_name", "toolName", "id", "toolId")
ARGUMENT_KEYS = ("arguments", "args", "input", "parameters", "params")


def read_bridge_call(call: ToolCall) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of the tool that a bridge call stands for. Raises `ToolError`.

    JSON text, `""`, null, `args` for `arguments`, flattened and dotted arguments are understood.
    """
    written = _object(call.arguments, "tool_call")
    written = _only_entry(written)
    name_key = next((key for key in NAME_KEYS if isinstance(written.get(key), str) and written[key].strip()), None)
    if name_key is None:
        raise ToolError(f"Nothing was called: tool_call needs the tool's name. Write {EXAMPLE}")
    name = str(written.pop(name_key)).strip()
    arguments_key = next((key for key in ARGUMENT_KEYS if key in written), None)
    arguments = _object(written.pop(arguments_key), name) if arguments_key else {}
    for key, value in written.items():
        head, _, rest = key.partition(".")
        # What stands beside `arguments` belongs to the tool, unless the model gave the same key in both places.
        arguments.setdefault(rest if head in ARGUMENT_KEYS and rest else key, value)
    return name, arguments


def refuse_unless_deferred(name: str, catalog: Catalog, deferred: frozenset[str]) -> str:
    """The granted name that is meant. Raises `ToolError` for a bridge, a tool that is offered directly, one that is
    withheld and an unknown one: four cases with four next steps."""
    if name == "tool_call":
        raise ToolError(f"Nothing was called: tool_call cannot call itself. Write {EXAMPLE} with the tool's own name.")
    if name in BRIDGE_NAMES:
        raise ToolError(f"Nothing was called: call {name} itself, not through tool_call.")
    tool = catalog.get(name)
    if tool is not None and tool.name in deferred:
        return tool.name
    if tool is not None:
        raise ToolError(
            f"Nothing was called: '{tool.name}' is offered to you directly. Call {tool.name} itself, not through tool_call."
        )
    if sharing := catalog.sharing(name):
        raise ToolError(f"Nothing was called: several tools are called '{name}'. Use one of {', '.join(sharing)}.")
    if name in catalog.withheld:
        raise ToolError(
            f"Nothing was called: '{name}' is withheld from this run ({catalog.withheld[name]}). Do not retry."
        )
    near = catalog.suggest(name)
    told = f" Did you mean {' or '.join(near)}?" if near else " Use tool_search to find the exact name."
    raise ToolError(f"Nothing was called: there is no tool called '{name}'.{told}")


def _only_entry(written: dict[str, Any]) -> dict[str, Any]:
    """Some models write a batch, `{"calls": [{...}]}`: one entry is that call, several are refused."""
    calls: object = written.get("calls", written.get("tool_calls"))
    if isinstance(calls, str):
        calls = _list(calls)
    if not isinstance(calls, list) or any(key in written for key in NAME_KEYS):
        return written
    entries = cast("list[object]", calls)
    if len(entries) == 1 and isinstance(entries[0], Mapping):
        return dict(cast("Mapping[str, Any]", entries[0]))
    first = schema.canonical(entries[0]) if entries else EXAMPLE
    raise ToolError(
        f"Nothing was called: tool_call takes one call; make several tool_call calls. Begin with {first[:300]}"
    )


def _list(text: str) -> object:
    try:
        return schema.parse_arguments(f'{{"calls": {text}}}')["calls"]
    except ValueError:
        return None


def _object(value: object, name: str) -> dict[str, Any]:
    try:
        return schema.parse_arguments(None if isinstance(value, str) and value.strip() == "null" else value)
    except schema.BadArguments as error:
        raise ToolError(f"Nothing was called: the arguments of '{name}' cannot be read. {error}") from None
