"""One call of a framework's tool: the tool as hooksdk's `Tool`, its run by the framework, and the question to a
person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, final

from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.desk.console import MAX_CHARS, MAX_EVIDENCE, clip_visibly, visible
from hooksdk.errors import ApprovalPending
from hooksdk.run import JudgedCall, Run
from hooksdk.tools import Tool

# Seconds that a framework's tool may take: the framework's own limit counts.
NO_LIMIT = 7 * 24 * 3600.0
NO_ANSWER = Approval(False, "the answer was neither an approval nor a refusal", unanswered="not_an_answer")

# The short text of each trimmed result, by call id and the number of the result among those with this id.
Texts = Mapping[tuple[str, int], str]
# The framework's function for a tool's name, its arguments and the call's id.
RunTool = Callable[[str, dict[str, Any], str], Awaitable[object]]
Pauses = type[BaseException] | tuple[type[BaseException], ...]


@final
class Native:
    """How the framework runs the tool of one call that the model made, and what the tool answered.

    Attributes:
        value: The tool's answer as the framework has it.
        result: The same as hooksdk has it.
        pause: The exception by which the tool pauses the framework.
    """

    def __init__(self, run: RunTool, read: Callable[[object], ToolResult], pauses: Pauses) -> None:
        """`read` turns the framework's value into a result; `pauses` are the exceptions by which a tool pauses."""
        self._run, self._read, self._pauses = run, read, pauses
        self.value: object = None
        self.result: ToolResult | None = None
        self.pause: BaseException | None = None
        self._call_id = ""
        # By call id: the outer hosts' judgements of the same call, each of which still has to run it.
        self._judged: dict[str, list[JudgedCall]] = {}
        self._around: Sequence[Run] = ()

    def put_around(self, call_id: str, judged: Sequence[JudgedCall], around: Sequence[Run]) -> None:
        """Run the model's call inside these judgements of outer hosts. Calls that its tool makes are judged by the
        hosts' runs."""
        self._call_id, self._judged[call_id], self._around = call_id, [*judged], around

    async def execute(self, name: str, arguments: dict[str, Any], call: ToolCall) -> ToolResult:
        """Run the framework's tool. Raises `ApprovalPending` where the tool pauses the framework."""
        if self._around and call.id not in self._judged:
            made = [await run.judge(ToolCall(call.id, name, arguments)) for run in self._around]
            for one in [one for one in made if one.pending is not None]:
                await one.refuse("nobody can be asked about a call that a tool makes")
            self._judged[call.id] = made
        if outer := self._judged.get(call.id):
            return await outer.pop(0).execute(native=self)
        try:
            value = await self._run(name, arguments, call.id)
        except self._pauses as pause:
            self.pause = pause
            raise ApprovalPending from None
        result = self._read(value)
        is_models_own = call.id == (self._call_id or call.id) and not call.parent_id
        if is_models_own:
            self.value, self.result = value, result
        return result


def parameters_of(tool: Tool) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments, of which frameworks want one also where the tool has no parameters."""
    return dict(tool.parameters or {"type": "object", "properties": {}})


def description_of(request: ApprovalRequest) -> str:
    """The text of a question below its title: the reason, and a line for each value of uncertain origin, without the
    control characters by which a foreign text could steer a terminal."""
    strange = [one for one in request.evidence if not one.cleared][:MAX_EVIDENCE]
    lines = [visible(clip_visibly(str(request.mask(str(one))), MAX_CHARS)) for one in strange]
    return "\n".join(filter(None, (request.description, *lines)))


def question_of(request: ApprovalRequest) -> str:
    """The title and the text of a question."""
    return "\n".join(filter(None, (request.title, description_of(request))))


def short_texts(call_ids: Iterable[str | None], texts: Texts) -> list[str | None]:
    """The short text for each message of a framework's list, or None. `call_ids` are the calls that the messages
    answer."""
    times = Counter[str]()
    found: list[str | None] = []
    for call_id in call_ids:
        found.append(None if call_id is None else texts.get((call_id, times[call_id])))
        times[call_id or ""] += 1
    return found
