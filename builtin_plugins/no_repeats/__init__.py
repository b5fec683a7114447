"""A call that succeeded is not made again: an equal one is answered with the first one's result.

Small models repeat what has worked, and then there are three meetings or three restarts. Calls of tools that only read
are left out, and so are calls that a tool's own code makes.

Status: stable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hooksdk import Tool, ToolResult, hooks, schema
from hooksdk.config import Notice
from hooksdk.hooks import AgentEnd, AgentStart, Answer, BeforeToolCall, TransformToolResult
from hooksdk.patterns import ToolPattern, check_patterns, near_misses

__all__ = ["NoRepeats"]

Key = tuple[str, str]
"""A tool's id, and its arguments as canonical JSON."""

MOST_KEPT = 500
"""How many calls are remembered, the newest."""
DONE = "You did this already: '{name}' was called with these arguments before and succeeded, so it was not done again. {go_on}"
UNDER_WAY = (
    "'{name}' is being called with these arguments already, so it was not done a second time. Its result comes with the other "
    "call. {go_on}"
)
GO_ON = "Go on with what is still to do; if nothing is, say so."
RESULT = "Its result was:"


@dataclass
class _Memory:
    """The calls of a session, or of one of its runs.

    Attributes:
        under_way: Calls that were judged and have not ended, by id.
    """

    done: dict[Key, ToolResult] = field(default_factory=dict[Key, ToolResult])
    under_way: dict[str, Key] = field(default_factory=dict[str, Key])

    def keep(self, key: Key, result: ToolResult) -> None:
        self.done[key] = result
        while len(self.done) > MOST_KEPT:
            del self.done[next(iter(self.done))]


class NoRepeats:
    """Answer a repeated call instead of making it."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            leave_out: Patterns of tools that may repeat a call, such as one that runs tests.
            scope: `run`: calls of the same run count; `session`: those of all runs since the session was opened.
            forget_on_change: Whether all earlier calls are forgotten after another call that may have changed something
                has succeeded.
        """

        model_config = ConfigDict(extra="forbid")
        leave_out: Annotated[list[str], AfterValidator(check_patterns)] = Field(
            default_factory=list[str], alias="except"
        )
        scope: Literal["run", "session"] = "run"
        forget_on_change: bool = False

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None) -> Iterator[str]:
        """What `hooksdk doctor` says: tools that a pattern of `except` nearly matches."""
        patterns = map(ToolPattern, config.leave_out)
        yield from (Notice(f"except: {line}") for line in near_misses(patterns, tools or (), exact=True))

    def __init__(self, config: Config) -> None:
        self._config = config
        self._left_out = [ToolPattern(pattern) for pattern in config.leave_out]
        self._memory = _Memory()
        self._run_id = ""
        self._paused = False

    @hooks.agent_start
    async def begin(self, event: AgentStart) -> None:
        """Begin a run, in which every call may be made again, unless it continues a paused run."""
        if self._config.scope == "run" and event.run_id != self._run_id and not self._paused:
            self._memory.done.clear()
        self._run_id = event.run_id

    # Last: a policy's own answer, such as that of a trial run, comes first.
    @hooks.before_tool_call.last
    async def answer_repeated(self, event: BeforeToolCall) -> Answer | None:
        """Answer the result of an earlier equal call. Nothing is awaited here, so that one of several equal calls is
        the first."""
        if event.call.origin == "tool" or self._may_repeat(event.tool):
            return None
        key = event.tool.id, schema.canonical(event.arguments)
        if (result := self._memory.done.get(key)) is not None:
            return Answer(_with_note(DONE.format(name=event.tool.name, go_on=GO_ON), result))
        if event.again and self._memory.under_way.get(event.call.id) == key:  # this very call is judged again
            return None
        if key in self._memory.under_way.values():
            return Answer(ToolResult(UNDER_WAY.format(name=event.tool.name, go_on=GO_ON), labels=()))
        self._memory.under_way[event.call.id] = key
        return None

    # First, to remember the tool's own result: a redactor changes the answer as it changes the result.
    @hooks.transform_tool_result.first
    async def remember(self, event: TransformToolResult) -> None:
        """Remember the result of a call. A call that was refused after it was judged comes here, too."""
        key = self._memory.under_way.pop(event.call.id, None)
        if key is None or event.result.is_error:
            return
        if self._config.forget_on_change:
            self._memory.done.clear()
        self._memory.keep(key, event.result)

    @hooks.agent_end
    async def end(self, event: AgentEnd) -> None:
        """Forget calls that were judged and never made, but for those that wait for an approval."""
        self._paused = event.reason == "paused"
        if not self._paused:
            self._memory.under_way.clear()

    def _may_repeat(self, tool: Tool) -> bool:
        return (
            tool.bridge
            or tool.annotations.read_only is True
            or any(pattern.matches(tool) for pattern in self._left_out)
        )


def _with_note(note: str, result: ToolResult) -> ToolResult:
    """The first result after a note, with its other content and its structured form."""
    text = f"{note} {RESULT}\n{result.text}" if result.text else note
    others: list[dict[str, Any]] = [block for block in result.blocks if block.get("type") != "text"]
    blocks = [{"type": "text", "text": text}, *others] if others else ()
    return ToolResult(text, blocks=blocks, structured=result.structured, labels=result.labels)
