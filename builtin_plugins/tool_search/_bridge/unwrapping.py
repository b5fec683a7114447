"""From a call of the model to the one that it stands for: through `tool_call`, through a bridge within it, or by no tool's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from builtin_plugins.tool_search._answers.parts import compact
from builtin_plugins.tool_search._answers.scope import Refusal, Scope, reason_of, refusal
from builtin_plugins.tool_search._answers.signatures import clip
from builtin_plugins.tool_search._bridge.batch import MAX_CALLS
from builtin_plugins.tool_search._bridge.written_call import EXAMPLE, BridgeCallReader
from builtin_plugins.tool_search._sentences import not_offered
from hooksdk import Catalog, Tool, ToolCall, ToolError
from hooksdk.hooks import UnwrapToolCall

MAX_NESTED = 4
"""How many times `tool_call` may be written around itself."""
MAX_ECHO = 2_000
"""Characters of a call that a refusal writes out."""

Answer = Callable[[dict[str, Any], Catalog], dict[str, Any]]
"""What a bridge tool answers to these arguments. Raises `ToolError`."""


@dataclass(frozen=True)
class Unwrapping:
    """How calls of bridges within `tool_call` are taken."""

    nested: Literal["refuse", "answer"]
    answers: Mapping[str, Answer]
    """What the bridge tools that may stand in `tool_call` answer, by their usual names."""

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
        """The entries of a call that stands for several; None for any other. Raises `Refusal` where they are too many."""
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
