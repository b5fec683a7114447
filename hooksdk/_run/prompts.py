"""What the user asked: the run's input, and the session's last user message."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from hooksdk._run.state import RunState
from hooksdk.formats import MessageFormat

MOST_MESSAGES = 500
"""How far back the last user message is looked for: further back it no longer tells what is wanted."""


def prompt_text(prompt: object, message_format: MessageFormat) -> str:
    """The words of a run's input: text, a message's, or those of content parts; of several messages the last user's."""
    if isinstance(prompt, str):
        return prompt
    try:
        if isinstance(prompt, Mapping):
            return message_format.text(cast("dict[str, Any]", prompt))
        if isinstance(prompt, list):
            parts = cast("list[Any]", prompt)
            messages: list[Any] = [one for one in parts if isinstance(one, dict) and "role" in one]
            if messages:
                return next((text for one in reversed(messages) if (text := _asked(one, message_format))), "")
            return message_format.text({"role": "user", "content": parts, "parts": parts})
    except Exception:  # an input of the host's own shape
        return ""
    return ""


def prompts_of(state: RunState) -> tuple[str, ...]:
    """What the user asked, the newest first, each once."""
    message_format = state.parts.format
    newest = islice(state.parts.transcript.newest(), MOST_MESSAGES)
    said = (text for message in newest if (text := _asked(message, message_format)))
    last = next((text for text in said if not state.reading.is_reason(text)), "")
    texts = (prompt_text(state.input, message_format), last)
    return tuple(dict.fromkeys(state.secrets.text(text) for text in texts if text.strip()))


def _asked(message: Any, message_format: MessageFormat) -> str:
    """The words of a user's message; results of tools, which some providers also keep under that role, are none."""
    if message.get("role") != "user" or message_format.results(message):
        return ""
    return message_format.text(message)
