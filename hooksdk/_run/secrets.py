"""`{{secret:NAME}}` placeholders: found after a call was judged, filled in a private copy, taken out of what comes back."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from hooksdk.calls import ToolResult

_PLACEHOLDER = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.\-]+)\s*\}\}")


def placeholders(value: object) -> list[str]:
    """The names of all secrets that a JSON value asks for, each once, in order."""
    names: dict[str, None] = {}

    def note(text: str) -> str:
        names.update(dict.fromkeys(_PLACEHOLDER.findall(text)))
        return text

    _map_strings(value, note)
    return list(names)


def fill(value: Any, secrets: Mapping[str, str]) -> Any:
    """A copy of the value with the placeholders filled."""
    return _map_strings(value, lambda text: _PLACEHOLDER.sub(lambda match: secrets[match[1]], text))


def mask(value: Any, secrets: Mapping[str, str]) -> Any:
    """A copy of the value with the secrets' values turned back into their placeholders, however they are written:
    plain, in JSON, in a URL, in base64 or as a number."""
    placeholder_of = _spellings(secrets)
    if not placeholder_of:
        return value
    pattern = re.compile("|".join(re.escape(text) for text in sorted(placeholder_of, key=len, reverse=True)))

    def clean(text: str) -> str:
        return pattern.sub(lambda match: placeholder_of[match[0]], text)

    def clean_number(number: float) -> object:
        text = str(number)
        masked = clean(text)
        return number if masked == text else masked

    return _map_strings(value, clean, clean_number)


def mask_result(result: ToolResult, secrets: Mapping[str, str]) -> ToolResult:
    """The same for a result: text, blocks and structured form."""
    blocks = () if result.plain else mask(result.blocks, secrets)
    return ToolResult(
        mask(result.text, secrets), is_error=result.is_error, blocks=blocks, structured=mask(result.structured, secrets)
    )


def _spellings(secrets: Mapping[str, str]) -> dict[str, str]:
    placeholder_of: dict[str, str] = {}
    for name, value in secrets.items():
        if value:
            raw = value.encode("utf-8", "surrogatepass")
            forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(raw, safe="")}
            forms |= {quote(raw), quote_plus(raw), repr(value)[1:-1], " ".join(value.split())}
            forms |= (
                {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()} if len(value) >= 6 else set()
            )
            placeholder_of.update(dict.fromkeys(forms - {""}, f"{{{{secret:{name}}}}}"))
    return placeholder_of


def _map_strings(
    value: Any, change: Callable[[str], str], change_number: Callable[[float], object] | None = None
) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _map_strings(item, change, change_number) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_map_strings(item, change, change_number) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if change_number and isinstance(value, (int, float)) and not isinstance(value, bool):
        return change_number(value)
    return value
