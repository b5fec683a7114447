"""The real MCP servers of the demo: 115 tools of five programs from PyPI."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from hooksdk import Host
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._mcp.servers import ServerWatch
from hooksdk.mcp import McpServers

PROGRAMS = {
    "git": ["mcp-server-git"],
    "time": ["mcp-server-time", "--local-timezone=UTC"],
    "fetch": ["mcp-server-fetch"],
    "excel": ["excel-mcp-server", "stdio"],
    "word": ["word_mcp_server"],
}
NEEDED = ("git", "excel")
"""Without these the job cannot be done."""
INSTALL = "pip install 'hooksdk[demo]'"


def check_programs() -> None:
    """Raise `CommandProblem` where the demo could not do its job."""
    if shutil.which("git") is None:
        raise CommandProblem("--servers real needs git on the PATH: install git, then run it again")


async def start_servers(host: Host, console: Console) -> McpServers:
    """Start them all at once, and keep them until the host closes. Raises `CommandProblem` where a needed one fails."""
    watch = ServerWatch(console)
    servers = McpServers(entries(), start_timeout=25.0, on_status=watch)
    await watch.start(host, [servers])
    for status in servers.status.values():
        if status.name in NEEDED and status.state != "up":
            problem = f"the MCP server '{status.name}' did not start: {status.problem or status.state}"
            missing = _program(PROGRAMS[status.name][0]) is None
            raise CommandProblem(f"{problem}. It comes with {INSTALL}" if missing else problem)
    return servers


def entries() -> dict[str, Any]:
    """The servers as `mcpServers` has them, those that are installed beside this Python, wherever the PATH points."""
    return {
        name: {"command": _program(command) or command, "args": arguments}
        for name, (command, *arguments) in PROGRAMS.items()
    }


def installed() -> dict[str, Any]:
    """Those of the entries whose programs are there."""
    return {name: entry for name, entry in entries().items() if Path(entry["command"]).is_absolute()}


def _program(command: str) -> str | None:
    return shutil.which(command, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
