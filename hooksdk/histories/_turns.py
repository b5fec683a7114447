"""What a conversation is made of on its way from one shape into another: turns with blocks as Anthropic has them, and what was
lost on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hooksdk.calls import ToolCall
from hooksdk.formats.kit import clean_text
from hooksdk.values import JsonObject, as_object, compact

THINKING = ("thinking", "redacted_thinking")
UNSIGNED = "skip_thought_signature_validator"
"""Google's own word for the signature of a call that another model made: Gemini 3 refuses a call without one in a turn that
goes on. https://ai.google.dev/gemini-api/docs/thought-signatures"""


@dataclass
class Use:
    """A call, and its result once it is there."""

    call: ToolCall
    block: JsonObject
    answer: JsonObject | None = None


@dataclass
class Turn:
    """What the operator, a user or the model says at a time."""

    role: str
    blocks: list[JsonObject]
    uses: list[Use] = field(default_factory=list[Use])


class Losses:
    """What was left out, and what a person should know besides."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._notes: list[str] = []

    @property
    def notes(self) -> list[str]:
        """All of it, in words."""
        return [*self._notes, *(f"left out: {what} ({count})" for what, count in self._counts.items())]

    def lose(self, what: str, count: int = 1) -> None:
        """Count something that has no place in the messages."""
        if count:
            self._counts[what] += count

    def note(self, text: str) -> None:
        """Say something, once."""
        if text not in self._notes:
            self._notes.append(text)


def text_block(text: str) -> JsonObject:
    """Text as a block."""
    return {"type": "text", "text": clean_text(text)}


def call_block(call_id: object, name: object, arguments: object) -> JsonObject:
    """A call as a block; arguments may be JSON text."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {} if arguments is None else arguments}


def media_block(media_type: str, data: str = "", url: str = "", title: str = "") -> JsonObject:
    """An image or a file as a block, by its base64 data or its address. What the target does not take is named as it is
    written."""
    if url.startswith("data:") and ";base64," in url:
        head, _, data = url.removeprefix("data:").partition(";base64,")
        return media_block(head, data, title=title)
    source = {"type": "base64", "data": data} if data else {"type": "url", "url": url}
    kind = "image" if media_type.startswith("image/") else "document"
    return {"type": kind, "source": {**source, "media_type": media_type}, **({"title": title} if title else {})}


def media_words(block: JsonObject) -> str:
    """An image or a file in words, for who cannot be shown it."""
    source = as_object(block.get("source"))
    data, url = str(source.get("data") or ""), str(source.get("url") or "")
    kind = "image" if block.get("type") == "image" else ""
    words = " ".join(word for word in (kind, str(source.get("media_type") or "file"), url) if word)
    return f"[{words}, {len(data):,} characters]" if data else f"[{words}]"


def json_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else compact(value)
