"""Message formats, by name."""

from __future__ import annotations

from hooksdk.errors import ConfigError, did_you_mean, refuse
from hooksdk.formats._base import (
    FoundResult,
    GivenMessage,
    GivenTool,
    GivenTools,
    HasArguments,
    HasDeferral,
    HasLooseEnds,
    HasRules,
    Message,
    MessageFormat,
    ProviderJson,
)
from hooksdk.values import SdkObject

__all__ = [
    "FORMATS",
    "FoundResult",
    "GivenMessage",
    "GivenTool",
    "GivenTools",
    "HasArguments",
    "HasDeferral",
    "HasLooseEnds",
    "HasRules",
    "Message",
    "MessageFormat",
    "ProviderJson",
    "SdkObject",
    "get_format",
]

FORMATS = ("openai-chat", "anthropic", "openai-responses", "gemini")
"""The names of the formats that come with hooksdk."""

_METHODS = ("calls", "check", "is_reply", "results", "tools")
"""By what an object is taken for a format."""


def get_format(name: str | MessageFormat) -> MessageFormat:
    """The format of this name, or the format object itself. Raises `ConfigError` for an unknown name, and `WrongArgument` for
    what is neither."""
    if not isinstance(name, str):
        if isinstance(name, type) or not all(callable(getattr(name, method, None)) for method in _METHODS):
            refuse("format", name, f"the name of a message format ({', '.join(FORMATS)}) or an object that is one")
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
