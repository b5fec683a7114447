"""What a request used, whichever provider counted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hooksdk.values import as_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one request, or of several together."""

    fresh: int = 0
    """Tokens of the prompt that no cache held and none took."""
    read: int = 0
    """Those that the provider's cache held."""
    written: int = 0
    """Those that it took, where the provider counts them: Anthropic does, and OpenAI for models whose cache charges for it."""
    written_1h: int = 0
    """Of `written`, those that it keeps for an hour, which costs more."""
    output: int = 0
    """Tokens of the replies, thinking among them."""

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.fresh + self.read + self.written

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            fresh=self.fresh + other.fresh,
            read=self.read + other.read,
            written=self.written + other.written,
            written_1h=self.written_1h + other.written_1h,
            output=self.output + other.output,
        )


def usage_of(counts: Mapping[str, Any] | None) -> Usage | None:
    """The `usage` of a provider's answer, or the sums of several; None where it counts no tokens. Anthropic's `input_tokens`
    leave out what its cache held or took; OpenAI's and Gemini's counts hold it.

    ```python
    from hooksdk.costs import usage_of

    usage = usage_of({"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 5})
    assert usage and (usage.prompt, usage.read) == (1_000, 900)
    ```
    """
    counts = counts or {}
    prompt = _count(counts, "prompt_tokens", "promptTokenCount", "input_tokens")
    output = _count(counts, "completion_tokens", "output_tokens", "candidatesTokenCount")
    if prompt is None and output is None:
        return None
    read, written = _count(counts, "cache_read_input_tokens"), _count(counts, "cache_creation_input_tokens") or 0
    apart = read is not None or bool(written)
    if read is None:
        details = as_object(counts.get("prompt_tokens_details")) or as_object(counts.get("input_tokens_details"))
        read = _count(details, "cached_tokens") or _count(counts, "cachedContentTokenCount") or 0
        written = written or _count(details, "cache_write_tokens") or 0
    hour = _count(as_object(counts.get("cache_creation")), "ephemeral_1h_input_tokens") or 0
    return Usage(
        fresh=(prompt or 0) if apart else max((prompt or 0) - read - written, 0),
        read=read,
        written=written,
        written_1h=min(hour, written),
        output=(output or 0) + (_count(counts, "thoughtsTokenCount") or 0),
    )


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    numbers = (counts.get(name) for name in names)
    return next((int(number) for number in numbers if isinstance(number, (int, float))), None)
