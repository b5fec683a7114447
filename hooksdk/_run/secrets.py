"""`{{secret:NAME}}` placeholders: found after a call was judged, and filled in the tool's own copy of the arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hooksdk._masking.mask import map_strings

_PLACEHOLDER = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.\-]+)\s*\}\}")


def placeholders(value: object) -> list[str]:
    """The names of all secrets that a JSON value asks for, each once, in order."""
    names: dict[str, None] = {}

    def note(text: str) -> str:
        names.update(dict.fromkeys(_PLACEHOLDER.findall(text)))
        return text

    map_strings(value, note)
    return list(names)


def fill(value: Any, secrets: Mapping[str, str]) -> Any:
    """A copy of the value with the placeholders filled."""
    return map_strings(value, lambda text: _PLACEHOLDER.sub(lambda match: secrets[match[1]], text))
