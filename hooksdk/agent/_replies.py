"""Checking a model, counting the tokens of its reply, and reading calls that it wrote as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from hooksdk.agent._text_calls import calls_written_in
from hooksdk.calls import ToolCall
from hooksdk.catalog import Catalog
from hooksdk.errors import refuse
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.usage import usage_of


def check_model(model: object) -> None:
    """Raise `WrongArgument` for an object that is no model."""
    wanted = "a model, or its name such as 'openai:gpt-5'"
    if isinstance(model, type):
        refuse("run_agent(..., model)", model, wanted, f"Give an instance: {model.__name__}(...)")
    missing = [name for name in ("name", "format", "context_window", "reply") if not hasattr(model, name)]
    if missing:
        advice = (
            "OpenAIModel(...), OpenAIResponsesModel(...) and AnthropicModel(...) in hooksdk.models make one over an SDK"
        )
        refuse("run_agent(..., model)", model, f"{wanted}; it has no {', '.join(missing)}", advice)


def with_written_calls(
    messages: list[Message], shown: Sequence[Message], offered: Catalog, message_format: MessageFormat
) -> list[Message]:
    """The reply; where it consists of calls of offered tools written as text, a reply with these calls. A call that
    stands in a result of the `shown` messages may be quoted, and is not read."""

    def name_of(written: str) -> str | None:
        tool = offered.meant(written)
        return tool.name if tool is not None else None

    results = (found.text for message in shown for found in message_format.results(message))
    text = "\n".join(filter(None, map(message_format.text, messages)))
    lead_in, written = calls_written_in(text, name_of, results)
    calls = [ToolCall(f"from_text_{uuid4().hex[:16]}", name, arguments) for name, arguments in written]
    return message_format.reply_messages(lead_in, calls) if calls else messages


def tokens_of(usage: Mapping[str, Any] | None) -> int | None:
    """All tokens of one model call, under the names of any provider; None if it counts nothing."""
    used = usage_of(usage)
    total = (usage or {}).get("total_tokens")
    return total if isinstance(total, int) else used.prompt + used.output if used else None
