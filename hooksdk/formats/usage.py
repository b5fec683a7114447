"""What providers count of a request, and how a session's journal keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hooksdk.values import as_object

__all__ = ["KIND", "Request", "Usage", "model_name", "requests_in", "usage_of"]

KIND = "used"
"""The kind of the journal's entries about usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The tokens of one request, or of several together.

    Attributes:
        fresh: Tokens of the prompt that the cache neither held nor stored.
        read: Tokens of the prompt that the provider's cache held.
        written: Tokens that the cache stored, where the provider counts them: Anthropic does, and OpenAI for models
            whose cache charges for it.
        written_1h: The part of `written` that the cache keeps for an hour, which costs more.
        output: Tokens of the replies, thinking among them.
    """

    fresh: int = 0
    read: int = 0
    written: int = 0
    written_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.fresh + self.read + self.written

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Usage)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a model, and what its provider counted.

    Attributes:
        model: `PROVIDER:NAME` as the run gave it, `NAME` where it gave no provider; empty where it gave neither.
        family: The id of the outermost run that it belongs to: of another run where `run_id` is a sub-agent's.
        messages: How many messages the session had with the reply.
        time: When the reply was stored, in seconds since 1970; None where that is not known.
    """

    model: str
    usage: Usage
    run_id: str = ""
    family: str = field(default="", compare=False)
    messages: int = 0
    time: float | None = field(default=None, compare=False)

    def entry(self) -> dict[str, Any]:
        """The journal's entry of this request. The journal itself adds place and time."""
        tokens = {name: count for name, count in asdict(self.usage).items() if count}
        above = {} if self.family in {"", self.run_id} else {"family": self.family}
        return {"model": self.model, "run": self.run_id, **above, "tokens": tokens}


def model_name(provider: str | None, model: str | None) -> str:
    """`PROVIDER:NAME`, or the name alone.

    ```python
    from hooksdk.costs import model_name

    assert model_name("openai", "gpt-5") == "openai:gpt-5"
    ```
    """
    return f"{provider}:{model}" if provider and model else model or ""


def requests_in(journal: Iterable[Mapping[str, Any]]) -> list[Request]:
    """The requests of a session, from its journal, as `store.read_session(id)` answers it. Empty for a session of
    version 0.2.0 or older, and where the provider counted nothing.

    ```python
    from hooksdk.costs import requests_in

    journal = [{"kind": "used", "model": "openai:gpt-5", "run": "run-1", "tokens": {"fresh": 900, "output": 5}, "m": 2}]
    assert requests_in(journal)[0].usage.prompt == 900
    ```
    """
    return [_request(entry) for entry in journal if entry.get("kind") == KIND]


def _request(entry: Mapping[str, Any]) -> Request:
    counts, run_id, time = as_object(entry.get("tokens")), str(entry.get("run", "")), entry.get("time")
    return Request(
        model=str(entry.get("model", "")),
        usage=Usage(**{one.name: int(counts.get(one.name, 0)) for one in fields(Usage)}),
        run_id=run_id,
        family=str(entry.get("family") or run_id),
        messages=int(entry.get("m", 0)),
        time=float(time) if isinstance(time, (int, float)) else None,
    )


def usage_of(counts: Mapping[str, Any] | None) -> Usage | None:
    """The `usage` of a provider's answer, or the sum of several; None if it counts no tokens. Anthropic's
    `input_tokens` leave out what its cache held or stored; OpenAI's and Gemini's counts of the prompt have it.

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
    prompt = prompt or 0
    read, written = _count(counts, "cache_read_input_tokens"), _count(counts, "cache_creation_input_tokens") or 0
    if read is not None or written:
        read, fresh = read or 0, prompt
    else:
        details = as_object(counts.get("prompt_tokens_details")) or as_object(counts.get("input_tokens_details"))
        read = _count(details, "cached_tokens") or _count(counts, "cachedContentTokenCount") or 0
        written = _count(details, "cache_write_tokens") or 0
        fresh = max(prompt - read - written, 0)
    hour = _count(as_object(counts.get("cache_creation")), "ephemeral_1h_input_tokens") or 0
    output = (output or 0) + (_count(counts, "thoughtsTokenCount") or 0)
    return Usage(fresh=fresh, read=read, written=written, written_1h=min(hour, written), output=output)


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    numbers = (counts.get(name) for name in names)
    return next((int(number) for number in numbers if isinstance(number, (int, float))), None)
