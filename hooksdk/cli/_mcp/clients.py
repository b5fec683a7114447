"""The MCP clients on a machine: where each keeps its servers, by its own documentation, and how it writes an entry."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooksdk.config import xdg_folder
from hooksdk.mcp.settings import BARE_FOLDERS, ENTRY_KEYS, plain_entry
from hooksdk.values import is_list, is_mapping

# The clients' short names, as the commands take them, and what their makers call them.
CLIENTS = {
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "cursor": "Cursor",
    "vscode": "VS Code",
    "codex": "Codex",
    "windsurf": "Windsurf",
    "gemini": "Gemini CLI",
    "qwen": "Qwen Code",
    "zed": "Zed",
    "cline": "Cline",
}


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file in which a client keeps servers.

    Attributes:
        client: The client's short name, such as `claude-desktop`.
        own: False for a project's file: its repository may have brought it.
        keys: Under which keys the servers are.
    """

    client: str
    path: Path
    own: bool = True
    keys: tuple[str, ...] = ("mcpServers",)


def client_files(project: Path, *, home: Path | None = None, env: Mapping[str, str] | None = None) -> list[ClientFile]:
    """The clients' files that exist: the project's first, then the user's, in a fixed order."""
    places = client_places(project, home=home, env=env)
    own = [one for one in places if one.own and one.path.is_file()]
    known = {one.path.resolve() for one in own}  # the project may be the home itself
    return [one for one in places if not one.own and one.path.is_file() and one.path.resolve() not in known] + own


def client_places(project: Path, *, home: Path | None = None, env: Mapping[str, str] | None = None) -> list[ClientFile]:
    """The clients' files in the same order, existing or not (of VS Code's profiles only existing ones). A client writes
    to its first file."""
    home, env = home or Path.home(), os.environ if env is None else env
    return [*_of_project(project), *_of_user(home, env)]


def _of_project(project: Path) -> Iterator[ClientFile]:
    yield ClientFile("claude-code", project / ".mcp.json", own=False)
    yield ClientFile("cursor", project / ".cursor" / "mcp.json", own=False)
    yield ClientFile("vscode", project / ".vscode" / "mcp.json", own=False, keys=("servers",))
    yield ClientFile("zed", project / ".zed" / "settings.json", own=False, keys=("context_servers",))
    yield ClientFile("gemini", project / ".gemini" / "settings.json", own=False)
    yield ClientFile("qwen", project / ".qwen" / "settings.json", own=False)
    yield ClientFile("codex", project / ".codex" / "config.toml", own=False, keys=("mcp_servers",))


def _of_user(home: Path, env: Mapping[str, str]) -> Iterator[ClientFile]:
    settings = _settings_folder(home, env)
    code = settings / "Code" / "User"
    yield ClientFile("claude-desktop", settings / "Claude" / "claude_desktop_config.json")
    yield ClientFile("claude-code", home / ".claude.json")
    yield ClientFile("cursor", home / ".cursor" / "mcp.json")
    yield ClientFile("vscode", code / "mcp.json", keys=("servers",))
    yield ClientFile("vscode", code / "settings.json", keys=("mcp", "servers"))
    for path in sorted(code.glob("profiles/*/mcp.json")):
        yield ClientFile("vscode", path, keys=("servers",))
    yield ClientFile("cline", code / "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")
    yield ClientFile("windsurf", home / ".codeium" / "windsurf" / "mcp_config.json")
    zed = settings / "Zed" if sys.platform == "win32" else home / ".config" / "zed"
    yield ClientFile("zed", zed / "settings.json", keys=("context_servers",))
    yield ClientFile("gemini", home / ".gemini" / "settings.json")
    yield ClientFile("qwen", home / ".qwen" / "settings.json")
    codex = Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml"
    yield ClientFile("codex", codex, keys=("mcp_servers",))


def _settings_folder(home: Path, env: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(env.get("APPDATA") or home / "AppData" / "Roaming")
    return xdg_folder("XDG_CONFIG_HOME", str(home / ".config"), env)


_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def essence(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The meaning of an entry: clients write the same one with and without `"type": "stdio"` and an empty `env`."""
    plain = plain_entry(entry).items()
    return {key: value for key, value in plain if value not in ({}, [], "") and key not in {"type", "transport"}}


def own_entry(file: Path, whole: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a client's entry, in our keys, that hooksdk knows, with variables as hooksdk writes them. `file` is
    where the client keeps it."""
    plain = {key: value for key, value in whole.items() if key in ENTRY_KEYS}
    return _with_braces(plain) if file.parent.name in BARE_FOLDERS else plain


def _with_braces(value: Any) -> Any:
    """JSON with `${NAME}` for each `$NAME` in its texts."""
    if isinstance(value, str):
        return _BARE.sub(r"${\1}", value)
    if is_mapping(value):
        return {key: _with_braces(inner) for key, inner in value.items()}
    return [_with_braces(inner) for inner in value] if is_list(value) else value
