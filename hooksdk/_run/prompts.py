"""What the user asked: the run's input, and the session's last user message."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from hooksdk._run.state import RunState
from hooksdk._transcript.encoding import is_reason
from hooksdk.formats import Message, MessageFormat

# How far back the last user message is looked for: further back it no longer tells what is wanted.
MOST_MESSAGES = 500


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


def prompt_texts(prompt: object, message_format: MessageFormat) -> list[str]:
    """All that the user says in a run's input; where that is a whole history, each of the user's messages."""
    parts = cast("list[Any]", prompt) if isinstance(prompt, list) else []
    messages: list[Any] = [one for one in parts if isinstance(one, dict) and "role" in one]
    said = [_asked(one, message_format) for one in messages]
    return said or [prompt_text(cast("object", prompt), message_format)]


def is_of_user(message: Message, message_format: MessageFormat) -> bool:
    """True for a message that stands where a user's would."""
    if message_format.check(message) is not None or message.get("role", "user") != "user":
        return False
    return not message_format.is_reply(message) and not message_format.results(message)


def prompts_of(state: RunState) -> tuple[str, ...]:
    """What the user asked, the newest first, each once."""
    message_format = state.parts.format
    newest = islice(state.parts.transcript.newest(), MOST_MESSAGES)
    said = (text for message in newest if (text := _asked(message, message_format)))
    reasons = state.parts.reading.reasons
    last = next((text for text in said if not is_reason(text, reasons)), "")
    texts = (prompt_text(state.input, message_format), last)
    return tuple(dict.fromkeys(state.secrets.text(text) for text in texts if text.strip()))


def _asked(message: Any, message_format: MessageFormat) -> str:
    """The words of a user's message; results of tools, which some providers also keep under that role, are none."""
    if message.get("role") != "user" or message_format.results(message):
        return ""
    return message_format.text(message)
