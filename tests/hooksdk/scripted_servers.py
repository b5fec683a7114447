"""Shared by the tests of lazy servers and of reloading: servers that do what a file says, and a diary of what they were asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_servers import SERVERS


class Scripted:
    """One such server, in a folder of its own."""

    def __init__(self, folder: Path, *tools: str | dict[str, Any], **script: Any) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.write(*tools, **script)

    def write(self, *tools: str | dict[str, Any], **script: Any) -> None:
        """What it does from its next start or listing on."""
        listed = [{"name": tool} if isinstance(tool, str) else tool for tool in tools]
        content = json.dumps({"tools": listed, **script})
        (self.folder / "script.json").write_text(content, encoding="utf-8")

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in `mcpServers`."""
        return {"command": sys.executable, "args": ["-S", str(SERVERS / "scripted.py"), str(self.folder)]}

    @property
    def asked(self) -> list[str]:
        """The starts and requests so far, without process ids."""
        return [line.split()[0] for line in self._log()]

    @property
    def pids(self) -> list[int]:
        """The processes so far."""
        return [int(line.split()[1]) for line in self._log() if line.startswith("start ")]

    def go(self) -> None:
        """Let the calls of `wait` end."""
        (self.folder / "go").touch()

    def _log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


Make = Callable[..., Scripted]
"""Makes a server of a name, with its tools and its script."""
