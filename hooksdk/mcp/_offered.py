"""Whether a tool that is called is still the one that was looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types

from hooksdk import schema
from hooksdk.errors import did_you_mean
from hooksdk.mcp._status import CallFailed
from hooksdk.tools import Annotations


def check_offered(server: str, tool: types.Tool, offered: Sequence[types.Tool], arguments: Mapping[str, Any]) -> None:
    """Compare a tool with what its server offers now. Raises `CallFailed` when it is gone, when the arguments do not fit it
    any more, and when it does something else to its surroundings than what was judged."""
    now = next((one for one in offered if one.name == tool.name), None)
    if now is tool:
        return
    if now is None:
        raise CallFailed(_gone(server, tool.name, [one.name for one in offered]))
    if hints(now) != hints(tool):
        raise CallFailed(_changed(server, tool.name, "its server says otherwise now what it does to its surroundings"))
    if now.input_schema != tool.input_schema and (problems := schema.check(now.input_schema, arguments)):
        difference = "; ".join(f"{problem.path}: {problem.message}" for problem in problems[:3])
        raise CallFailed(_changed(server, tool.name, f"the arguments do not fit it any more ({difference})"))


def hints(tool: types.Tool) -> Annotations:
    """What the server says that the tool does to its surroundings."""
    return Annotations.from_mcp(tool.annotations.model_dump(by_alias=True)) if tool.annotations else Annotations()


def _gone(server: str, name: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    now = f"It now has: {', '.join(names[:10])}{more}." if names else "It now has none."
    return f"The MCP server '{server}' no longer has a tool '{name}'.{did_you_mean(name, names)} {now}"


def _changed(server: str, name: str, difference: str) -> str:
    return (
        f"'{name}' of the MCP server '{server}' has changed since it was listed and was not called: {difference}. "
        "Look the tool up again before you call it."
    )
