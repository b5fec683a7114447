"""The world of `--servers real`: a repository of git, and 115 tools of five MCP servers from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from hooksdk import Host
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._demo.tools import commits
from hooksdk.cli._mcp.servers import ServerWatch
from hooksdk.mcp import McpServers

PROGRAMS = {
    "git": ["mcp-server-git"],
    "time": ["mcp-server-time", "--local-timezone=UTC"],
    "fetch": ["mcp-server-fetch"],
    "excel": ["excel-mcp-server", "stdio"],
    "word": ["word_mcp_server"],
}
# Without these the job cannot be done.
NEEDED = ("git", "excel")


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
            missing = status.name not in installed()
            raise CommandProblem(f"{problem}. It comes with pip install 'hooksdk[demo]'" if missing else problem)
    return servers


def entries() -> dict[str, Any]:
    """The servers as `mcpServers` has them, those that are installed beside this Python, wherever the PATH points."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {
        name: {"command": shutil.which(command, path=path) or command, "args": arguments}
        for name, (command, *arguments) in PROGRAMS.items()
    }


def installed() -> dict[str, Any]:
    """The entries whose programs are installed."""
    return {name: entry for name, entry in entries().items() if Path(entry["command"]).is_absolute()}


def make_repository(folder: Path) -> int:
    """Make a git repository in a new folder, and answer how many commits it has. Raises `OSError` without git."""
    history = commits()
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "fast-import", "--quiet", stream=_fast_import(history))
    _git(folder, "reset", "--quiet", "--hard", "main")
    return len(history)


def _fast_import(history: list[dict[str, Any]]) -> bytes:
    """The commits as `git fast-import` reads them; each adds its message to the file CHANGES."""
    stream, changes = b"", b""
    for one in history:
        message = f"{one['message']}\n".encode()
        changes += message
        stamp = f"{one['author']} <{one['mail']}> {datetime.fromisoformat(one['date']).timestamp():.0f} +0000"
        stream += f"commit refs/heads/main\nauthor {stamp}\ncommitter {stamp}\ndata {len(message)}\n".encode()
        stream += message + f"M 100644 inline CHANGES\ndata {len(changes)}\n".encode() + changes + b"\n"
    return stream


def _git(folder: Path, *arguments: str, stream: bytes | None = None) -> None:
    # Called from a git hook, git's own variables would point it at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *arguments]
    process = subprocess.run(command, input=stream, capture_output=True, check=False, env=environment)  # noqa: S603 - fixed arguments
    if process.returncode:
        raise OSError(f"git {arguments[0]} failed: {process.stderr.decode(errors='replace').strip()}")
