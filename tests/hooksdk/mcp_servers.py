"""Shared by the tests of MCP servers: entries for the servers in tests/servers, and how to use their tools."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio

from hooksdk.calls import ToolResult
from hooksdk.tools import Tool

if TYPE_CHECKING:
    from hooksdk.mcp import McpServers

SERVERS = Path(__file__).parents[1] / "servers"


class Progress:
    """A tool's context that keeps what it is told."""

    effect_id = "effect-1"
    fence = 1
    fences: Mapping[str, int] = {"session-1": 1}

    def __init__(self) -> None:
        self.told: list[tuple[str, float | None]] = []

    async def progress(self, text: str, share: float | None = None) -> None:
        self.told.append((text, share))


def script(name: str, *arguments: str, **entry: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(SERVERS / f"{name}.py"), *arguments], **entry}


def find(servers: McpServers, name: str, owner: str = "") -> Tool:
    return next(tool for tool in servers.tools() if tool.name == name and owner in {"", tool.owner})


async def use(servers: McpServers, name: str, context: Any = None, /, **arguments: Any) -> ToolResult:
    execute = find(servers, name).execute
    assert execute is not None
    return cast("ToolResult", await execute(arguments, context))


def alive(pid: int) -> bool:
    """False for one that has ended, whether its parent knows it yet or not. A killed one has its locks and listens until the
    last of its threads is gone."""
    try:
        os.kill(pid, 0)
        if not Path("/proc/self/stat").exists():
            return True
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "XZ" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):  # it may go between one look and the next
        return False


async def until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.02)
