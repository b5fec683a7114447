"""Which tool a model means by a name that is not quite one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import cast

from hooksdk.tools import Tool

_PREFIXES = ("functions.", "tools.")
"""What models write before a name, because their provider's own prompt does."""
_MOST_READ = 300


def readings(name: str) -> list[str]:
    """The name as it is written, without a signature's parameters, and without what a provider puts before it."""
    texts = [name, name[:_MOST_READ].partition("(")[0].strip()]
    texts += [text.removeprefix(prefix) for text in texts for prefix in _PREFIXES]
    return [text for text in dict.fromkeys(texts) if text]


def full_names(tool: Tool) -> set[str]:
    """The tool's names with its owner in front, as models write them."""
    names = {tool.own_name, tool.name}
    owners = {tool.owner, f"{tool.source}__{tool.owner}"} if tool.owner else {tool.source}
    return {f"{owner}{separator}{name}" for owner in owners for separator in (".", "__") for name in names}


def only_fitting(tools: Iterable[Tool], keys: Collection[str]) -> Tool | None:
    """The one tool whose required parameters are all among these keys; None where that is not certain."""
    fitting = [tool for tool in tools if _keys(tool, "required") <= {*keys}]
    if len(fitting) != 1 or not _keys(fitting[0], "required") or not {*keys} <= _keys(fitting[0], "properties"):
        return None
    return fitting[0]


def _keys(tool: Tool, part: str) -> set[str]:
    names: object = (tool.parameters or {}).get(part)
    return (
        {name for name in cast("Iterable[object]", names) if isinstance(name, str)}
        if isinstance(names, list | dict)
        else set()
    )
