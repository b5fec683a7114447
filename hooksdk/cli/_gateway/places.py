"""The MCP clients on a machine: where each keeps its servers, by its own documentation, and how it writes an entry. The
gateway's own file of servers, and the records of its installations in clients' files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hooksdk.cli._console import CommandProblem
from hooksdk.cli._edits.client_text import ClientText, Hunk
from hooksdk.cli._edits.files import Change, Record, decoded, digest_of, read_bytes, read_fields, record_place
from hooksdk.cli._options import Scope
from hooksdk.config import is_inside, project_folder, resolve, user_file, xdg_folder
from hooksdk.errors import HookSDKError, did_you_mean
from hooksdk.gateway.status import gateway_folder
from hooksdk.mcp.settings import BARE_FOLDERS, ENTRY_KEYS, plain_entry, project_of, projects_of
from hooksdk.values import as_object, is_list, is_mapping

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
_BARE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


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


@dataclass(kw_only=True)
class Installation(Record):
    """The record of the gateway in one client's file.

    Attributes:
        name: The gateway's name in the client's file.
        taken: The servers that the gateway replaces, by their names in the client's file.
        gateway: The gateway's own file of servers.
        servers: The names of the replaced servers in the gateway's file.
        added: The entries that were added to the gateway's file.
    """

    client: str
    scope: str
    name: str
    keys: list[str]
    taken: list[str]
    hunk: list[Any]
    gateway: Change
    servers: dict[str, str]
    added: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def changed_text(self) -> Hunk:
        """The changed part of the client's file."""
        return Hunk(*self.hunk)

    @property
    def place(self) -> Path:
        """The path of the record."""
        return record_place(_records(), self.client, Path(self.target.file), self.keys)

    @property
    def gateway_backup(self) -> Path:
        """The gateway's file as it was before."""
        return self.place.with_suffix(".servers.bak")

    def forget(self, *, backup: bool = True) -> None:
        """Remove the record, and with `backup` the client's backup too."""
        super().forget(backup=backup)
        self.gateway_backup.unlink(missing_ok=True)


def _records() -> Path:
    return gateway_folder() / "installed"


def read_record(client: str, file: Path, keys: Sequence[str] = ()) -> Installation | None:
    """The record about a client's file, if there is one. Raises `CommandProblem` for an unreadable one."""
    path = record_place(_records(), client, file, keys)
    return _read(path) if path.exists() else None


def all_records() -> list[Installation]:
    """Every recorded installation."""
    return [_read(path) for path in sorted(_records().glob("*.json"))]


def _read(path: Path) -> Installation:
    return Installation(**read_fields(path, "target", "gateway"))


def gateway_file(scope: Scope, project: Path) -> Path:
    """The gateway's own file of servers: the user's, the project's, or the user's own for a single folder."""
    if scope == "project":
        return project / "mcp.json"
    own = user_file(os.environ)
    if scope == "user":
        return own.with_name("mcp.json")
    return own.parent / "folders" / f"{project.name}-{digest_of(os.fsencode(project))[:8]}.json"


def check_link(path: Path, project: Path) -> None:
    """Raise `CommandProblem` for a file in the project that is a link to a place outside of it."""
    if is_inside(path, project) and not resolve(path).is_relative_to(resolve(project)):
        raise CommandProblem(f"{path} is a link that leads out of the project; nothing is written through it")


def find_place(client: str, scope: Scope, project: Path, file: Path | None = None) -> ClientFile:
    """The file of servers that a client writes itself, or another one of the same kind. Raises `CommandProblem` for an
    unknown client, and for one without a file of this scope."""
    if client not in CLIENTS:
        known = did_you_mean(client, CLIENTS) or f" Clients: {', '.join(CLIENTS)}"
        raise CommandProblem(f"'{client}' is no client that is known here.{known}")
    places = [one for one in client_places(project) if one.client == client]
    if scope == "local":
        return _folder_place(client, project, places)
    found = next((one for one in places if one.own == (scope == "user")), None)
    if found is None:
        raise CommandProblem(f"{CLIENTS[client]} has no file of servers in a project; leave --project out")
    if file is not None:
        kind = found.path.suffix
        if file.suffix != kind:
            raise CommandProblem(f"{CLIENTS[client]} keeps its servers in a {kind} file, and {file} is none")
        return replace(found, path=file.expanduser().absolute())
    if not found.own:
        check_link(found.path, project)
    return found


def _folder_place(client: str, project: Path, places: list[ClientFile]) -> ClientFile:
    """Claude Code's servers of a single folder, which are in the user's file, so that no repository brings them."""
    if client != "claude-code":
        raise CommandProblem(f"{CLIENTS[client]} has no servers of a single folder; leave --local out")
    own = next(one for one in places if one.own)
    settings = ClientText(own.path, own.keys).read(decoded(own.path, read_bytes(own.path)))
    projects = projects_of(settings)
    name = project_of(projects, project) or project_of(as_object(settings.get("projects")), project)
    if name is None:
        others = f" It has some for: {', '.join(projects)}" if projects else ""
        raise CommandProblem(f"{own.path} has no servers for {project} alone.{others}")
    return replace(own, keys=("projects", name, "mcpServers"))


def is_gateway(agent: str, server: str, folder: Path) -> bool:
    """True when every server that an agent may mean by this name in this folder is the gateway, as installed. The guard
    leaves calls of the gateway's tools to the gateway. False when the agent's files cannot be read."""
    places = [one for one in client_places(project_folder(folder)) if one.client == agent and one.path.is_file()]
    try:
        facts = [place.path.stat() for place in places]
        return _is_gateway(server, tuple(places), tuple((each.st_mtime_ns, each.st_size) for each in facts))
    except (OSError, ValueError, HookSDKError):
        return False


@lru_cache(maxsize=64)  # the files of Claude Code's users have megabytes
def _is_gateway(server: str, places: tuple[ClientFile, ...], _as_they_are: tuple[tuple[int, int], ...]) -> bool:
    known = [_is_installed(place, text, server) for each in places for place, text in _places_of(each, server)]
    return bool(known) and all(known)


def _places_of(place: ClientFile, server: str) -> Iterator[tuple[ClientFile, str]]:
    """The places in a file where a server has this name, each with the text of the file."""
    text = place.path.read_text("utf-8")
    settings = ClientText(place.path, place.keys)
    if server in settings.servers(text):
        yield place, text
    if place.client == "claude-code" and place.own:
        for name, servers in projects_of(settings.read(text)).items():
            if server in servers:
                yield replace(place, keys=("projects", name, "mcpServers")), text


def _is_installed(place: ClientFile, text: str, server: str) -> bool:
    record = read_record(place.client, place.path, place.keys)
    return record is not None and record.name == server and record.changed_text.new in text
