"""A framework's own tool as a `Tool`: hooksdk judges the call, and the framework runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, final

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import ToolContext
from hooksdk.errors import ApprovalPending
from hooksdk.run import JudgedCall, Run
from hooksdk.tools import Tool

# Seconds that a framework's tool may take here: its own limit counts.
NO_LIMIT = 7 * 24 * 3600.0


@final
class Native:
    """What an executor of a framework's tool gets beside its arguments, and what came of the call that the model made.

    Attributes:
        value: The framework's own value.
        result: The same, as hooksdk has it.
        pause: What the tool raised to pause the framework.
    """

    def __init__(
        self, run: Callable[[str, dict[str, Any], str], Awaitable[object]], read: Callable[[object], ToolResult],
        pauses: type[BaseException] | tuple[type[BaseException], ...],
    ) -> None:  # fmt: skip
        self._run, self._read, self._pauses = run, read, pauses
        self.value: object = None
        self.result: ToolResult | None = None
        self.pause: BaseException | None = None
        self._call_id = ""
        # By call id: the calls of hosts around the one that runs the tool, which run it in turn.
        self._judged: dict[str, list[JudgedCall]] = {}
        self._around: Sequence[Run] = ()

    def put_around(self, call_id: str, judged: Sequence[JudgedCall], around: Sequence[Run]) -> None:
        """Run the model's own call within these, and each that its tool makes within one of each of these runs."""
        self._call_id, self._judged[call_id], self._around = call_id, [*judged], around

    async def execute(self, name: str, arguments: dict[str, Any], call: ToolCall) -> ToolResult:
        """Run the framework's tool."""
        if self._around and call.id not in self._judged:
            made = [await run.judge(ToolCall(call.id, name, arguments)) for run in self._around]
            for one in [one for one in made if one.pending is not None]:
                await one.refuse("nobody can be asked about a call that a tool makes")
            self._judged[call.id] = made
        if rest := self._judged.get(call.id):
            return await rest.pop(0).execute(native=self)
        try:
            value = await self._run(name, arguments, call.id)
        except self._pauses as pause:
            self.pause = pause
            raise ApprovalPending from None
        result = self._read(value)
        if (
            call.id == (self._call_id or call.id) and not call.parent_id
        ):  # the model's own call, and none that a tool makes
            self.value, self.result = value, result
        return result


def native_tool(name: str, description: str, parameters: Mapping[str, Any], source: Any, owner: str) -> Tool:
    """A framework's tool. Whoever watches the framework reads its arguments, so it gets no secrets."""

    async def execute(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.native.execute(name, arguments, context.call)

    return Tool(
        name=name, description=description, parameters=parameters, source=source, owner=owner, execute=execute,
        timeout=NO_LIMIT, core=False, keeps_secrets=False,
    )  # fmt: skip
