"""Spans and metrics for OpenTelemetry, by its conventions for generative AI.

Spans and metrics come from the trace, in the background, with the times at which things happened. Two spans are made
while they happen, so that they are current for the code inside: that of a run, and that of a tool while it runs.

Status: trial.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, PositiveInt

from hooksdk import hooks
from hooksdk.config import ProjectSettings
from hooksdk.trimming import guess_format

try:
    from builtin_plugins.telemetry._instruments import Instruments
    from builtin_plugins.telemetry._session import SessionSpans
except ModuleNotFoundError as missing:
    raise ImportError("telemetry needs opentelemetry-api: pip install 'hooksdk[otel]'") from missing

__all__ = ["Telemetry"]


class Telemetry:
    """Tell OpenTelemetry what runs do."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            content: Messages, arguments and results as attributes of the spans. Secrets that hooksdk filled in are
                masked.
            max_characters: The longest text of one message, arguments or result.
        """

        model_config = ConfigDict(extra="forbid")
        content: bool = False
        max_characters: PositiveInt = 8_000

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """A project's settings may leave content out; without the user's trust they cannot send it anywhere."""
            values = dict(project.values)
            if not project.trusted and (values.get("content") is not False or "content" in own):
                values.pop("content", None)
            return {**values, **own}, [name for name in project.values if name not in values and name not in own]

    @classmethod
    @asynccontextmanager
    async def shared(cls, _config: Config) -> AsyncGenerator[Instruments, None]:
        """One tracer and one meter for all sessions."""
        yield Instruments()

    def __init__(self, config: Config, shared: Instruments) -> None:
        self._content = config.content
        self._spans = SessionSpans(shared, config.max_characters if config.content else 0)

    @hooks.around_run.first
    def around_run(self, event: hooks.AroundRun) -> hooks.Around:
        """Make the run's span current for all that the host does in it."""
        return hooks.Around(self._spans.run(event.info))

    @hooks.around_tool_call.first
    def around_tool(self, event: hooks.AroundToolCall) -> hooks.Around:
        """Make the call's span current for the tool."""
        return hooks.Around(self._spans.tool(event))

    @hooks.trace
    async def take(self, event: hooks.Trace) -> None:
        """Take all other spans, and the ends of all, from the trace."""
        self._spans.take(event)

    # Texts, if the configuration asks for them

    @hooks.before_model_call.last
    def note_request(self, event: hooks.BeforeModelCall) -> None:
        """Note the messages as the other plugins left them."""
        if self._content:
            self._spans.note_request(event.run_id, event.messages)

    @hooks.after_model_call
    async def note_reply(self, event: hooks.AfterModelCall) -> None:
        """Note the reply as it was recorded."""
        if self._content:
            message, told = event.message, event.usage is not None or event.stop_reason is not None
            # The usage comes with the last message of a reply; in most formats a reply is one message.
            last = told or guess_format([dict(message)]) != "openai-responses"
            self._spans.note_reply(event.run_id, message, event.stop_reason, last=last)

    @hooks.transform_tool_result.last
    def note_result(self, event: hooks.TransformToolResult) -> None:
        """Note the result as the other plugins left it."""
        if self._content:
            self._spans.note_result(event)

    @hooks.agent_end.last
    def note_error(self, event: hooks.AgentEnd) -> None:
        """Note the error's type, not its text."""
        if event.reason == "error":
            self._spans.note_error(event.run_id, (event.error or "").partition(":")[0])
