"""Messages, arguments and results as attributes: JSON in the shape of the conventions, clipped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.formats import get_format
from hooksdk.trimming import guess_format


def clipped(text: str, most: int) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= most else f"{text[:most]}... [{len(text):,} characters]"


def as_json(value: object, most: int) -> str:
    """A value as clipped JSON text; text stays what it is."""
    return clipped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), most)


def messages_attribute(messages: Sequence[Mapping[str, Any]], most: int, finish: str | None = None) -> str:
    """Messages of any format, each as a role and its parts."""
    form = get_format(guess_format([dict(message) for message in messages]))
    shown: list[dict[str, Any]] = []
    for given in messages:
        message = dict(given)
        parts: list[dict[str, Any]] = []
        if text := form.text(message):
            parts.append({"type": "text", "content": clipped(text, most)})
        for call in form.calls(message):
            about = {"type": "tool_call", "id": call.id, "name": call.name}
            parts.append({**about, "arguments": _arguments(call.arguments, most)})
        results = form.results(message)
        for result in results:
            parts.append({"type": "tool_call_response", "id": result.call_id, "result": clipped(result.text, most)})
        role = "tool" if results else "assistant" if form.is_reply(message) else str(message.get("role") or "user")
        shown.append({"role": role, "parts": parts, **({"finish_reason": finish} if finish else {})})
    return json.dumps(shown, ensure_ascii=False, default=str)


def _arguments(arguments: object, most: int) -> object:
    """The arguments as an object, if they are one that is not too long."""
    text = as_json(arguments, most)
    try:
        return json.loads(text)
    except ValueError:
        return text
