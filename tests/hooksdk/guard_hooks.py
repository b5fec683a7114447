"""Hooks as Claude Code fires them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Json = dict[str, Any]


def hook(folder: Path, name: str, **fields: Any) -> Json:
    return {"hook_event_name": name, "session_id": "s1", "cwd": str(folder), **fields}


def before(folder: Path, tool: str = "Bash", call_id: str = "t1", session: str = "s1", **arguments: Any) -> Json:
    return {
        **hook(folder, "PreToolUse", tool_name=tool, tool_input=arguments, tool_use_id=call_id),
        "session_id": session,
    }


def after(folder: Path, response: Any, tool: str = "Bash", call_id: str = "t1", **arguments: Any) -> Json:
    fields: Json = {"tool_name": tool, "tool_input": arguments, "tool_use_id": call_id, "tool_response": response}
    return hook(folder, "PostToolUse", **fields)
