"""Reading what models write into `tool_call`: repaired where the meaning is certain, refused in words that help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast, final

from builtin_plugins.tool_search._answers.scope import LONGEST_NAME, refusal
from builtin_plugins.tool_search._answers.signatures import clip
from builtin_plugins.tool_search._names import Names
from hooksdk import Catalog, schema
from hooksdk.tools import Tool

EXAMPLE = '{"name": "TOOL", "arguments": {...}}'
NAME_KEYS = ("name", "tool", "tool_name", "toolName", "toolId", "tool_id", "function", "id")
ARGUMENT_KEYS = ("arguments", "args", "input", "parameters", "params", "kwargs", "tool_input", "action_input")
BATCH = f'{{"calls": [{EXAMPLE}, ...]}}'
CALLS_KEYS = ("calls", "tool_calls")
WRAPPERS = ("tool_call", "function", *ARGUMENT_KEYS)
"""Keys under which a model writes the whole call once more."""
PROVIDER_TYPES = ("function", "function_call", "tool_call", "tool_use")
"""The `type` of a call in the providers' own forms, which models copy."""
PROVIDER_KEYS = ("type", "id", "call_id", "index")
"""What is in those forms beside name and arguments."""


@final
class BridgeCallReader:
    """Reads bridge calls over one catalog. Raises `Refusal` for what it cannot read."""

    def __init__(self, catalog: Catalog, names: Names) -> None:
        self._catalog = catalog
        self._names = names

    def read(self, written: object) -> tuple[str, dict[str, Any]]:
        """The name and the arguments of the tool that these arguments of a bridge call stand for.

        JSON text, `""`, null, `args` for `arguments`, flattened and dotted arguments, a batch of one and a call that is
        written once more inside are understood. Two different tools in one call are not.
        """
        return self._read(self._call_in(_object(written, self._names.call, EXAMPLE)))

    def read_batch(self, written: object) -> list[object] | None:
        """The calls in a bridge call that stands for several; None for one that stands for a single call, or for none."""
        fields = _object(written, self._names.call, EXAMPLE)
        if _names(fields):
            return None
        inner = (fields[key] for key in WRAPPERS if isinstance(fields.get(key), Mapping))
        for wrapper in (fields, *cast("Iterable[Mapping[str, Any]]", inner)):
            entries = next((_entries(wrapper[key]) for key in CALLS_KEYS if wrapper.get(key)), None)
            if entries is not None and len(entries) > 1 and not _names(wrapper):
                return entries
        return None

    def _read(self, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        names = _names(fields)
        # Of several keys that can name the tool, the one that does; the others may be its parameters.
        name_key = next((key for key, name in names.items() if self._is_known(name)), next(iter(names), None))
        if name_key is None:
            raise refusal(f"{self._names.call} needs the tool's name. Write {EXAMPLE}")
        name = names[name_key]
        tool = self._catalog.meant(name)
        own = _properties(tool)
        rest = {key: value for key, value in fields.items() if key != name_key}
        for key, other in names.items():
            if key != name_key and key not in own and self._is_known(other):
                self._same_or_refuse(name, other)
                del rest[key]
        if _is_providers(fields):
            for key in PROVIDER_KEYS:
                if key not in own:
                    rest.pop(key, None)
        for key in CALLS_KEYS:
            if key not in own and rest.get(key):
                raise refusal(
                    f"{self._names.call} takes one call or '{key}', not '{key}' beside a name. Write {EXAMPLE}"
                )
            if key not in own:
                rest.pop(key, None)
        arguments: dict[str, Any] = {}
        for key in ARGUMENT_KEYS:
            if key in rest and (key == "arguments" or key not in own):
                shown = clip(name, LONGEST_NAME)
                example = f'{{"name": "{shown}", "arguments": {{...}}}}, with an object as its arguments'
                inner = _object(rest.pop(key), name, example)
                arguments = {**(self._once_more(inner, name, own) if tool else inner), **arguments}
        for key, value in rest.items():
            head, _, tail = key.partition(".")
            # What stands beside `arguments` belongs to the tool, unless the model gave the same key in both places.
            arguments.setdefault(tail if head in ARGUMENT_KEYS and tail else key, value)
        return name, arguments

    def _is_known(self, name: str) -> bool:
        return bool(self._catalog.meant(name) or self._catalog.sharing(name) or self._names.bridge(name))

    def _same_or_refuse(self, name: str, other: str) -> None:
        if name != other and self._catalog.meant(name) is not self._catalog.meant(other):
            call = self._names.call
            raise refusal(f"this names two tools, '{name}' and '{other}'. Make one {call} for each. Write {EXAMPLE}")

    def _once_more(self, fields: dict[str, Any], name: str, own: set[str]) -> dict[str, Any]:
        """Arguments in which the model wrote the whole call again: those within."""
        names_a_tool = any(key not in own and self._is_known(other) for key, other in _names(fields).items())
        if not names_a_tool or not any(key in fields and key not in own for key in ARGUMENT_KEYS):
            return fields
        inner, arguments = self._read(fields)
        self._same_or_refuse(name, inner)
        return arguments

    def _call_in(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The call itself: where none is named, the one that stands inside as `{"calls": [{...}]}`, or wrapped once more."""
        if _is_providers(fields) and not any(map(self._is_known, _names(fields).values())):
            fields = {key: value for key, value in fields.items() if key != "id"}  # which is the call's
        if _names(fields):
            return fields
        for key in CALLS_KEYS:
            if key in fields:
                return self._call_in(self._only_entry(fields[key], key))
        for key in WRAPPERS:
            inner = fields.get(key)
            if isinstance(inner, Mapping) and any(map(self._is_known, _names(cast("Any", inner)).values())):
                return dict(cast("Mapping[str, Any]", inner))
        return fields

    def _only_entry(self, calls: object, key: str) -> dict[str, Any]:
        entries, bridge = _entries(calls), self._names.call
        if entries is None:
            raise refusal(f"'{key}' is no valid JSON. Write {BATCH} for several calls, {EXAMPLE} for one")
        if len(entries) == 1 and isinstance(entries[0], Mapping):
            return dict(cast("Mapping[str, Any]", entries[0]))
        raise refusal(f"'{key}' of {bridge} is a list of calls, each {EXAMPLE}")


def _entries(calls: object) -> list[object] | None:
    """What stands under `calls`, also as JSON text; None where it cannot be read."""
    if isinstance(calls, str):
        try:
            calls = schema.parse_arguments(f'{{"calls": {calls}}}')["calls"]
        except schema.BadArguments:
            return None
    return cast("list[object]", calls) if isinstance(calls, list) else [calls]


def _names(fields: Mapping[str, Any]) -> dict[str, str]:
    return {key: value.strip() for key in NAME_KEYS if isinstance(value := fields.get(key), str) and value.strip()}


def _properties(tool: Tool | None) -> set[str]:
    properties: object = (tool.parameters or {}).get("properties") if tool else None
    return set(cast("Mapping[str, Any]", properties)) if isinstance(properties, Mapping) else set()


def _is_providers(fields: Mapping[str, Any]) -> bool:
    return fields.get("type") in PROVIDER_TYPES


def _object(value: object, name: str, example: str) -> dict[str, Any]:
    try:
        return schema.parse_arguments(None if isinstance(value, str) and value.strip() == "null" else value)
    except schema.BadArguments as error:
        raise refusal(
            f"the arguments of '{clip(name, LONGEST_NAME)}' cannot be read. {error} Write {example}"
        ) from None
