"""From a call of the model to the one that it stands for: what models write into `tool_call`, read and repaired where
the meaning is certain, and refused in words that help; a bridge within it, and a name that no tool has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from builtin_plugins.tool_search._answers.scope import LONGEST_NAME, Refusal, Scope, reason_of, refusal
from builtin_plugins.tool_search._bridge.tools import MAX_CALLS
from builtin_plugins.tool_search._sentences import Names, not_offered
from hooksdk import Catalog, Tool, ToolCall, ToolError, schema
from hooksdk.hooks import UnwrapToolCall
from hooksdk.values import clip, compact, is_list, is_mapping

EXAMPLE = '{"name": "TOOL", "arguments": {...}}'
NAME_KEYS = ("name", "tool", "tool_name", "toolName", "toolId", "tool_id", "function", "id")
ARGUMENT_KEYS = ("arguments", "args", "input", "parameters", "params", "kwargs", "tool_input", "action_input")
BATCH = f'{{"calls": [{EXAMPLE}, ...]}}'
CALLS_KEYS = ("calls", "tool_calls")
# Keys under which a model writes the whole call once more.
WRAPPERS = ("tool_call", "function", *ARGUMENT_KEYS)
# The `type` of a call in the providers' own forms, which models copy.
PROVIDER_TYPES = ("function", "function_call", "tool_call", "tool_use")
# What is in those forms beside name and arguments.
PROVIDER_KEYS = ("type", "id", "call_id", "index")


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

    def read_batch(self, written: object) -> list[Any] | None:
        """The calls in a bridge call that stands for several; None for one that stands for a single call, or for
        none."""
        fields = _object(written, self._names.call, EXAMPLE)
        if _names(fields):
            return None
        for wrapper in (fields, *filter(is_mapping, (fields.get(key) for key in WRAPPERS))):
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
        own = set(tool.parameter_names) if tool else set[str]()
        rest = {key: value for key, value in fields.items() if key != name_key}
        for key, other in names.items():
            if key != name_key and key not in own and self._is_known(other):
                self._same_or_refuse(name, other)
                del rest[key]
        if fields.get("type") in PROVIDER_TYPES:
            rest = {key: value for key, value in rest.items() if key in own or key not in PROVIDER_KEYS}
        for key in CALLS_KEYS:
            if key not in own and rest.pop(key, None):
                call = self._names.call
                raise refusal(f"{call} takes one call or '{key}', not '{key}' beside a name. Write {EXAMPLE}")
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
        """The call itself: where none is named, the one that stands inside as `{"calls": [{...}]}`, or wrapped once
        more."""
        if fields.get("type") in PROVIDER_TYPES and not any(map(self._is_known, _names(fields).values())):
            fields = {key: value for key, value in fields.items() if key != "id"}  # which is the call's
        if _names(fields):
            return fields
        for key in CALLS_KEYS:
            if key in fields:
                return self._call_in(self._only_entry(fields[key], key))
        for key in WRAPPERS:
            inner = fields.get(key)
            if is_mapping(inner) and any(map(self._is_known, _names(inner).values())):
                return dict(inner)
        return fields

    def _only_entry(self, calls: object, key: str) -> dict[str, Any]:
        entries = _entries(calls)
        if entries is None:
            raise refusal(f"'{key}' is no valid JSON. Write {BATCH} for several calls, {EXAMPLE} for one")
        if len(entries) == 1 and is_mapping(entries[0]):
            return dict(entries[0])
        raise refusal(f"'{key}' of {self._names.call} is a list of calls, each {EXAMPLE}")


def _entries(calls: object) -> list[Any] | None:
    """The value of `calls` as a list, also from JSON text; None where it cannot be read."""
    if isinstance(calls, str):
        try:
            calls = schema.parse_arguments(f'{{"calls": {calls}}}')["calls"]
        except schema.BadArguments:
            return None
    return calls if is_list(calls) else [calls]


def _names(fields: Mapping[str, Any]) -> dict[str, str]:
    return {key: value.strip() for key in NAME_KEYS if isinstance(value := fields.get(key), str) and value.strip()}


def _object(value: object, name: str, example: str) -> dict[str, Any]:
    try:
        return schema.parse_arguments(None if isinstance(value, str) and value.strip() == "null" else value)
    except schema.BadArguments as error:
        raise refusal(
            f"the arguments of '{clip(name, LONGEST_NAME)}' cannot be read. {error} Write {example}"
        ) from None


# How many times `tool_call` may be written around itself.
MAX_NESTED = 4
# Characters of a call that a refusal writes out.
MAX_ECHO = 2_000

# The answer of a bridge tool to these arguments. Raises `ToolError`.
Answer = Callable[[dict[str, Any], Catalog], dict[str, Any]]


@dataclass(frozen=True)
class Unwrapping:
    """How calls of bridges within `tool_call` are taken.

    Attributes:
        answers: What the bridge tools that may stand in `tool_call` answer, by their usual names.
    """

    nested: Literal["refuse", "answer"]
    answers: Mapping[str, Answer]

    def call(self, event: UnwrapToolCall, scope: Scope) -> ToolCall | None:
        """The call that is meant; None for what is not ours. Raises `Refusal`."""
        if event.tool is None:
            self._refuse_unknown(event, scope)
            return None
        if event.call.name != scope.names.call or self.batch(event.call.arguments, scope) is not None:
            return None
        name, arguments = self.meant(event.call.arguments, scope)
        return ToolCall(event.call.id, name, arguments)

    def batch(self, written: object, scope: Scope) -> list[object] | None:
        """The entries of a call that stands for several; None for any other. Raises `Refusal` where they are too
        many."""
        entries = BridgeCallReader(scope.catalog, scope.names).read_batch(written)
        if entries is not None and len(entries) > MAX_CALLS:
            raise refusal(f"these are {len(entries)} calls, and {MAX_CALLS} are the most at once. Make several batches")
        return entries

    def meant(self, written: object, scope: Scope, level: int = 0) -> tuple[str, dict[str, Any]]:
        """The name and the arguments of the real call. Raises `Refusal`."""
        name, arguments = BridgeCallReader(scope.catalog, scope.names).read(written)
        bridge = scope.names.bridge(name) if scope.catalog.meant(name, arguments) is None else ""
        if not bridge:
            # The name as it was written: the run finds the same tool by it, and traces it.
            tool = scope.granted(name, arguments)
            return (name if scope.catalog.meant(name, arguments) is tool else tool.name), arguments
        if bridge == "tool_call":
            return self._meant_by_itself(arguments, scope, level)
        shown = scope.names.of(bridge)
        if bridge not in self.answers:
            raise refusal(f"{shown} is not offered to you.")
        if shown in scope.catalog.withheld:
            raise refusal(f"'{shown}' is withheld from this run ({scope.catalog.withheld[shown]}). Do not retry.")
        if self.nested == "answer":
            return shown, arguments
        told = f"call {shown} itself, not through {scope.names.call}."
        if scope.ranker is None:
            raise refusal(told)
        try:
            raise refusal(f"{told} This is its answer: {compact(self.answers[bridge](arguments, scope.catalog))}")
        except Refusal:
            raise
        except ToolError as problem:
            raise refusal(f"{told} {problem}") from None

    def _meant_by_itself(self, arguments: dict[str, Any], scope: Scope, level: int) -> tuple[str, dict[str, Any]]:
        """`tool_call` in `tool_call`."""
        itself = f"{scope.names.call} cannot call itself."
        if not arguments or level >= MAX_NESTED:
            raise refusal(f"{itself} Write {EXAMPLE} with the tool's own name.")
        if BridgeCallReader(scope.catalog, scope.names).read_batch(arguments) is not None:
            raise refusal(f"{itself} Write {clip(compact(arguments), MAX_ECHO)}")
        if self.nested == "answer":
            return self.meant(arguments, scope, level + 1)
        try:
            name, inner = self.meant(arguments, scope, level + 1)
        except Refusal as refused:
            reason = reason_of(refused)
            raise refusal(
                reason if reason.startswith(itself) else f"{itself} Besides, {reason}", refused.lead
            ) from None
        tool = scope.granted(name, inner)
        raise refusal(f"{itself} Write {_written_out(tool, inner)}", tool)

    def _refuse_unknown(self, event: UnwrapToolCall, scope: Scope) -> None:
        name, catalog = event.call.name, scope.catalog
        if bridge := scope.names.bridge(name):
            shown = scope.names.of(bridge)
            if scope.deferred and shown != name and (bridge in self.answers or bridge == "tool_call"):
                raise Refusal(f"'{name}' was not run: it is called {shown} here. Call {shown}.")
            raise Refusal(not_offered(name))
        if not scope.deferred or name in catalog.removed_names or scope.names.call in catalog.withheld:
            return  # the run has better words for it
        if shared := scope.shared(name):
            raise Refusal(f"'{name}' was not run: {shared}")
        raise scope.unknown(name, event.arguments)


def _written_out(tool: Tool, arguments: Mapping[str, Any]) -> str:
    call = compact({"name": tool.name, "arguments": arguments})
    return (
        call if len(call) <= MAX_ECHO else f'{{"name": "{tool.name}", "arguments": {{...}}}}, with the same arguments.'
    )
