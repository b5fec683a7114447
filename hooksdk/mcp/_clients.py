"""Where the MCP clients on a machine keep their servers, by their own documentation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client that is there."""

    client: str
    """The client's short name, such as `claude-desktop`."""
    path: Path
    own: bool = True
    """False for a project's file: its repository may have brought it."""


def client_files(project: Path, *, home: Path | None = None, env: Mapping[str, str] | None = None) -> list[ClientFile]:
    """The clients' files that exist: the project's first, then the user's, in a fixed order."""
    home, env = home or Path.home(), os.environ if env is None else env
    own = [one for one in _of_user(home, env) if one.path.is_file()]
    places = {one.path.resolve() for one in own}  # the project may be the home itself
    return [one for one in _of_project(project) if one.path.is_file() and one.path.resolve() not in places] + own


def _of_project(project: Path) -> Iterator[ClientFile]:
    yield ClientFile("claude-code", project / ".mcp.json", own=False)
    yield ClientFile("cursor", project / ".cursor" / "mcp.json", own=False)
    yield ClientFile("vscode", project / ".vscode" / "mcp.json", own=False)
    yield ClientFile("zed", project / ".zed" / "settings.json", own=False)
    yield ClientFile("gemini", project / ".gemini" / "settings.json", own=False)


def _of_user(home: Path, env: Mapping[str, str]) -> Iterator[ClientFile]:
    settings = _settings_folder(home, env)
    code = settings / "Code" / "User"
    yield ClientFile("claude-desktop", settings / "Claude" / "claude_desktop_config.json")
    yield ClientFile("claude-code", home / ".claude.json")
    yield ClientFile("cursor", home / ".cursor" / "mcp.json")
    yield ClientFile("vscode", code / "mcp.json")
    yield ClientFile("vscode", code / "settings.json")
    yield ClientFile(
        "cline", code / "globalStorage" / "saoudrizwan.claude-dev" / "settings" / "cline_mcp_settings.json"
    )
    yield ClientFile("windsurf", home / ".codeium" / "windsurf" / "mcp_config.json")
    zed = settings / "Zed" if sys.platform == "win32" else home / ".config" / "zed"
    yield ClientFile("zed", zed / "settings.json")
    yield ClientFile("gemini", home / ".gemini" / "settings.json")
    yield ClientFile("codex", Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml")


def _settings_folder(home: Path, env: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(env.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config")
