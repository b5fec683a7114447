"""Entries of servers as the commands compare and rewrite them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from hooksdk.mcp.settings import plain_entry

_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def essence(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What an entry comes to. Clients write the same one with and without what says nothing: `"type": "stdio"`, an empty `env`."""
    plain = plain_entry(entry)
    return {
        key: value for key, value in plain.items() if value not in ({}, [], "") and key not in {"type", "transport"}
    }


def with_braces(value: Any) -> Any:
    """JSON with `${NAME}` for each `$NAME` in its texts."""
    if isinstance(value, str):
        return _BARE.sub(r"${\1}", value)
    if isinstance(value, Mapping):
        return {key: with_braces(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    return [with_braces(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value
