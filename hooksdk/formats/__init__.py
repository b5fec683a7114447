"""Message formats, by name."""

from __future__ import annotations

from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.formats._base import FoundResult, Message, MessageFormat

__all__ = ["FORMATS", "FoundResult", "Message", "MessageFormat", "get_format"]

FORMATS = ("openai-chat", "anthropic", "openai-responses", "gemini")
"""The names of the formats that come with hooksdk."""


def get_format(name: str | MessageFormat) -> MessageFormat:
    """The format of this name, or the format object itself. Raises `ConfigError` for an unknown name."""
    if not isinstance(name, str):
        return name
    if name == "openai-chat":
        from hooksdk.formats.openai_chat import OpenAIChat

        return OpenAIChat()
    if name == "anthropic":
        from hooksdk.formats.anthropic import Anthropic

        return Anthropic()
    if name == "openai-responses":
        from hooksdk.formats.openai_responses import OpenAIResponses

        return OpenAIResponses()
    if name == "gemini":
        from hooksdk.formats.gemini import Gemini

        return Gemini()
    raise ConfigError("format", (f"'{name}' is not a known message format.{did_you_mean(name, FORMATS)}",))
