"""Reading what models write into `tool_call`: repaired where the meaning is certain, refused in words that help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from builtin_plugins.tool_search._sentences import OWN_TOOLS
from builtin_plugins.tool_search._signatures import clip
from hooksdk import Catalog, ToolCall, ToolError, schema
from hooksdk.tools import Tool

EXAMPLE = '{"name": "TOOL", "arguments": {...}}'
NAME_KEYS = ("name", "tool", "tool_name", "toolName", "toolId", "tool_id", "function", "id")
ARGUMENT_KEYS = ("arguments", "args", "input", "parameters", "params", "kwargs", "tool_input", "action_input")
CALLS_KEYS = ("calls", "tool_calls")
WRAPPERS = ("tool_call", "function", *ARGUMENT_KEYS)
"""Keys under which a model writes the whole call once more."""
PROVIDER_TYPES = ("function", "function_call", "tool_call", "tool_use")
"""The `type` of a call in the providers' own forms, which models copy."""
PROVIDER_KEYS = ("type", "id", "call_id", "index")
"""What is in those forms beside name and arguments."""
LONGEST_NAME = 200
"""Characters of a name that a refusal repeats."""
NOTHING_CALLED = "Nothing was called: "
"""How each refusal begins."""


def read_bridge_call(call: ToolCall, catalog: Catalog) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of the tool that a bridge call stands for. Raises `ToolError`.

    JSON text, `""`, null, `args` for `arguments`, flattened and dotted arguments, a batch of one and a call that is
    written once more inside are understood. Two different tools in one call are not.
    """
    return _read(_call_in(_object(call.arguments, "tool_call", EXAMPLE), catalog), catalog)


def refusal(reason: str) -> ToolError:
    """The refusal of a bridge call for this reason."""
    return ToolError(f"{NOTHING_CALLED}{reason}")


def reason_of(error: ToolError) -> str:
    """Why a bridge call was refused."""
    return str(error).removeprefix(NOTHING_CALLED)


def _read(fields: dict[str, Any], catalog: Catalog) -> tuple[str, dict[str, Any]]:
    names = _names(fields)
    # Of several keys that can name the tool, the one that does; the others may be its parameters.
    name_key = next((key for key, name in names.items() if _is_known(name, catalog)), next(iter(names), None))
    if name_key is None:
        raise refusal(f"tool_call needs the tool's name. Write {EXAMPLE}")
    name = names[name_key]
    tool = catalog.get(name)
    own = _properties(tool)
    rest = {key: value for key, value in fields.items() if key != name_key}
    for key, other in names.items():
        if key != name_key and key not in own and _is_known(other, catalog):
            _same_or_refuse(name, other, catalog)
            del rest[key]
    if _is_providers(fields):
        for key in PROVIDER_KEYS:
            if key not in own:
                rest.pop(key, None)
    for key in CALLS_KEYS:
        if key not in own and rest.get(key):
            raise refusal(f"tool_call takes one call, not '{key}' beside a name. Write {EXAMPLE}")
        if key not in own:
            rest.pop(key, None)
    arguments: dict[str, Any] = {}
    for key in ARGUMENT_KEYS:
        if key in rest and (key == "arguments" or key not in own):
            example = f'{{"name": "{clip(name, LONGEST_NAME)}", "arguments": {{...}}}}, with an object as its arguments'
            inner = _object(rest.pop(key), name, example)
            arguments = {**(_once_more(inner, name, own, catalog) if tool else inner), **arguments}
    for key, value in rest.items():
        head, _, tail = key.partition(".")
        # What stands beside `arguments` belongs to the tool, unless the model gave the same key in both places.
        arguments.setdefault(tail if head in ARGUMENT_KEYS and tail else key, value)
    return name, arguments


def _names(fields: Mapping[str, Any]) -> dict[str, str]:
    return {key: value.strip() for key in NAME_KEYS if isinstance(value := fields.get(key), str) and value.strip()}


def _is_known(name: str, catalog: Catalog) -> bool:
    return name in OWN_TOOLS or catalog.get(name) is not None or bool(catalog.sharing(name))


def _properties(tool: Tool | None) -> set[str]:
    properties: object = (tool.parameters or {}).get("properties") if tool else None
    return set(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else set()


def _same_or_refuse(name: str, other: str, catalog: Catalog) -> None:
    if name != other and catalog.get(name) is not catalog.get(other):
        raise refusal(f"this names two tools, '{name}' and '{other}'. Make one tool_call for each. Write {EXAMPLE}")


def _once_more(fields: dict[str, Any], name: str, own: set[str], catalog: Catalog) -> dict[str, Any]:
    """Arguments in which the model wrote the whole call again: those within."""
    names_a_tool = any(key not in own and _is_known(other, catalog) for key, other in _names(fields).items())
    if not names_a_tool or not any(key in fields and key not in own for key in ARGUMENT_KEYS):
        return fields
    inner, arguments = _read(fields, catalog)
    _same_or_refuse(name, inner, catalog)
    return arguments


def _call_in(fields: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    """The call itself: where none is named, the one that stands inside as `{"calls": [{...}]}`, or wrapped once more."""
    if _is_providers(fields) and not any(_is_known(name, catalog) for name in _names(fields).values()):
        fields = {key: value for key, value in fields.items() if key != "id"}  # which is the call's
    if _names(fields):
        return fields
    for key in CALLS_KEYS:
        if key in fields:
            return _call_in(_only_entry(fields[key], key), catalog)
    for key in WRAPPERS:
        inner = fields.get(key)
        if isinstance(inner, Mapping) and any(_is_known(one, catalog) for one in _names(cast("Any", inner)).values()):
            return dict(cast("Mapping[str, Any]", inner))
    return fields


def _is_providers(fields: Mapping[str, Any]) -> bool:
    return fields.get("type") in PROVIDER_TYPES


def _only_entry(calls: object, key: str) -> dict[str, Any]:
    if isinstance(calls, str):
        try:
            calls = schema.parse_arguments(f'{{"calls": {calls}}}')["calls"]
        except schema.BadArguments:
            raise refusal(f"'{key}' is no valid JSON, and tool_call takes one call anyway. Write {EXAMPLE}") from None
    entries = cast("list[object]", calls) if isinstance(calls, list) else [calls]
    if len(entries) == 1 and isinstance(entries[0], Mapping):
        return dict(cast("Mapping[str, Any]", entries[0]))
    first = (
        clip(schema.canonical(cast("Any", entries[0])), 300) if entries and isinstance(entries[0], Mapping) else EXAMPLE
    )
    raise refusal(f"tool_call takes one call; make several tool_call calls. Begin with {first}")


def _object(value: object, name: str, example: str) -> dict[str, Any]:
    try:
        return schema.parse_arguments(None if isinstance(value, str) and value.strip() == "null" else value)
    except schema.BadArguments as error:
        raise refusal(
            f"the arguments of '{clip(name, LONGEST_NAME)}' cannot be read. {error} Write {example}"
        ) from None


def refuse_unless_deferred(name: str, catalog: Catalog, deferred: frozenset[str]) -> str:
    """The granted name that is meant. Raises `ToolError` for a bridge, a tool that is offered directly, one that is
    withheld and an unknown one: four cases with four next steps."""
    tool = catalog.get(name)
    bridge = name.rpartition(".")[2].casefold() if tool is None else ""  # also `functions.tool_call`
    if bridge == "tool_call":
        raise refusal(f"tool_call cannot call itself. Write {EXAMPLE} with the tool's own name.")
    if bridge in OWN_TOOLS:
        raise refusal(f"call {bridge} itself, not through tool_call.")
    if tool is not None and tool.name in deferred:
        return tool.name
    if tool is not None:
        raise refusal(f"'{tool.name}' is offered to you directly. Call {tool.name} itself, not through tool_call.")
    if sharing := catalog.sharing(name):
        raise refusal(f"several tools are called '{name}'. Use one of {', '.join(sharing)}.")
    if name in catalog.withheld:
        raise refusal(f"'{name}' is withheld from this run ({catalog.withheld[name]}). Do not retry.")
    near = catalog.suggest(name)
    advice = f" Did you mean {' or '.join(near)}?" if near else ""
    if direct := [one for one in near if one not in deferred]:
        itself = "itself" if len(direct) == 1 else "themselves"
        advice += f" Call {' and '.join(direct)} {itself}, not through tool_call."
    if name in catalog.removed_names:
        advice += " Use tool_search for another tool that can do it, or go on without it."
        raise refusal(f"there is no tool called '{name}' any more. Do not retry.{advice}")
    advice = advice or " Use tool_search to find the exact name."
    raise refusal(f"there is no tool called '{clip(name, LONGEST_NAME)}'.{advice}")
