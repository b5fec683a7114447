"""The settings in which MCP clients keep their servers: a file read, the servers found in it, each entry in our words.

Where a client's documentation has keys that mean the same as ours under another name, they are renamed here.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hooksdk.config import is_too_deep
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.values import plain_json

__all__ = [
    "BARE_FOLDERS",
    "ENTRY_KEYS",
    "MOST_SECONDS",
    "Shape",
    "find_servers",
    "load_file",
    "plain_entry",
    "project_of",
    "projects_of",
    "read_text",
]

Entries = Mapping[str, Any]

_CONTAINERS = (
    ("mcpServers",),  # Claude Desktop and Code, Cursor, Windsurf, Gemini CLI, Cline
    ("servers",),  # VS Code's mcp.json
    ("mcp", "servers"),  # VS Code's settings.json
    ("mcp.servers",),
    ("context_servers",),  # Zed's settings.json
    ("mcp_servers",),  # Codex's config.toml
)
ENTRY_KEYS = {
    "command": "text, its arguments in 'args'",
    "args": 'a list of texts such as ["--verbose"]',
    "env": 'an object such as {"NAME": "value"}',
    "cwd": "text",
    "url": "text",
    "headers": 'an object such as {"NAME": "value"}',
    "oauth": 'an object such as {"clientId": "..."}',
    "type": "'stdio', 'http' or 'streamable-http'",
    "transport": "'stdio', 'http' or 'streamable-http'",
    "disabled": "true or false",
    "timeout": "a number of seconds above 0, such as 60",
    "start_timeout": "a number of seconds above 0, such as 30",
    "idle": "a number of seconds above 0, such as 600",
    "scope": "'session', 'token' or 'gateway'",
}
"""The keys of an entry, and the value that each one has."""
BARE_FOLDERS = (".gemini", ".qwen")
"""In the settings of these folders `$NAME` is a variable, too."""
MOST_SECONDS = 3600
"""The longest `timeout` in seconds; a longer one is taken for milliseconds, which most clients write."""
CURSOR_PORT = 8787
"""The port of this machine to which Cursor's browser comes back."""
# Every usable entry has one of these keys.
_PLACE_KEYS = {"command", "url", "httpUrl", "serverUrl"}
_EXPECTED = 'expected an object such as {"mcpServers": {"git": {"command": "mcp-server-git"}}}'


@dataclass(frozen=True)
class Shape:
    """The servers in a client's file.

    Attributes:
        inputs: VS Code's questions to the user.
    """

    entries: Entries
    inputs: Sequence[Any] = ()
    notices: list[str] = field(default_factory=list[str])


def load_file(path: Path, *, digest: str = "") -> dict[str, Any]:
    """The settings in a file: JSON, with comments and trailing commas as VS Code and Zed allow them, or TOML as Codex
    has it. `digest` is `sha256:` and the digest that its content must have; empty: any. Raises `ConfigError`."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), (f"cannot be read: {getattr(error, 'strerror', None) or error}",)) from None
    if digest and digest != f"sha256:{hashlib.sha256(content).hexdigest()}":
        raise ConfigError(str(path), ("has changed since its trust was looked up. Look at it, then type it again",))
    return read_text(path, text)


def read_text(path: Path, text: str) -> dict[str, Any]:
    """The settings in a file's text, which is JSON or, by the name of the `path`, TOML. Raises `ConfigError`."""
    if path.suffix == ".toml":
        try:
            return _shallow(path, tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(str(path), (f"is not TOML: {error}",)) from None
        except RecursionError:
            raise _too_deep(path) from None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, value in pairs:
            if name in values:
                raise ConfigError(str(path), (f"'{name}' stands twice in one object; keep one of them",))
            values[name] = value
        return values

    try:
        value = json.loads(plain_json(text), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}", (f"is not JSON: {error.msg}",)) from None
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(str(path), (f"cannot be read: {error}",)) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:1:1", ('expected an object such as {"mcpServers": {...}}',))
    return _shallow(path, cast("dict[str, Any]", value))


def _shallow(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    """The same value. Raises `ConfigError` for one that is nested so deeply that its readers would raise
    RecursionError."""
    if is_too_deep(value):
        raise _too_deep(path)
    return value


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(str(path), ("is nested too deeply; expected a file with mcpServers",))


def find_servers(data: Entries, where: str, *, folder: Path, from_file: bool) -> Shape:
    """The servers in a client's settings. Raises `ConfigError` for settings that have no place for servers.

    `folder` is the project: Claude Code's own file has servers for each.
    """
    for path in _CONTAINERS:
        holder, inner = _descend(data, path)
        if inner is not None and not _is_entry(inner):
            shape = Shape(inner, _list(holder.get("inputs")))
            return _with_project(shape, data, folder) if path == ("mcpServers",) else shape
    if projects_of(data):
        return _with_project(Shape({}), data, folder)
    if any(_is_entry(value) for value in data.values()):
        return Shape(data)
    for name, value in data.items():
        if isinstance(value, Mapping) and (hint := did_you_mean(name, ("mcpServers", "context_servers"))):
            raise ConfigError(where, (f"'{name}' is no key for MCP servers.{hint}",))
    if from_file and data:
        raise ConfigError(where, (f"holds no MCP servers: {_EXPECTED}",))
    return Shape(data)


def plain_entry(entry: Entries) -> dict[str, Any]:
    """An entry with our keys; one that is null counts as left out."""
    values = {str(key): value for key, value in entry.items() if value is not None}
    command = values.get("command")
    if isinstance(command, Mapping) and "path" in command:  # Zed's older files
        inner = dict(cast("Entries", command))
        values |= {"command": inner.pop("path"), **{key: value for key, value in inner.items() if value is not None}}
    for theirs, ours in (
        ("httpUrl", "url"),  # Gemini CLI
        ("serverUrl", "url"),  # Windsurf
        ("http_headers", "headers"),  # Codex
        ("tool_timeout_sec", "timeout"),
        ("startup_timeout_sec", "start_timeout"),
    ):
        if theirs in values and ours not in values:
            value = values.pop(theirs)
            # These are seconds for certain, but a `timeout` above the limit would be taken for milliseconds.
            too_long = theirs.endswith("_sec") and isinstance(value, (int, float)) and value > MOST_SECONDS
            values[ours] = MOST_SECONDS if too_long else value
    if isinstance(values.get("enabled"), bool):  # Codex, Zed
        values.setdefault("disabled", not values.pop("enabled"))
    if isinstance(variables := values.get("env_vars"), list) and isinstance(values.get("env", {}), Mapping):  # Codex
        del values["env_vars"]
        passed = {name: f"${{{name}:-}}" for name in cast("list[Any]", variables) if isinstance(name, str)}
        values["env"] = {**passed, **cast("Entries", values.get("env", {}))}
    _sign_in(values)
    headers = _codex_headers(values)
    if headers and isinstance(values.get("headers", {}), Mapping):
        values["headers"] = {**cast("Entries", values.get("headers", {})), **headers}
    return values


def _sign_in(values: dict[str, Any]) -> None:
    """Put the settings of the sign-in under `oauth`, as Claude Code and VS Code have them."""
    if isinstance(auth := values.get("auth"), Mapping) and "oauth" not in values:  # Cursor
        known = {"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret"}
        renamed = {known.get(key, key): value for key, value in cast("Entries", auth).items()}
        # A client that was registered for Cursor may come back to this port alone.
        values["oauth"] = {"callbackPort": CURSOR_PORT, **renamed} if "clientId" in renamed else renamed
        del values["auth"]
    if isinstance(oauth := values.get("oauth"), Mapping):
        settings = {key: value for key, value in cast("Entries", oauth).items() if value is not None}
        if "client_id" in settings:  # Codex
            settings.setdefault("clientId", settings.pop("client_id"))
        if isinstance(enabled := settings.get("enabled"), bool):  # Gemini CLI
            del settings["enabled"]
            settings = settings if enabled else {}
        values["oauth"] = settings
    if "url" in values and isinstance(scopes := values.get("scopes"), list):  # Codex
        del values["scopes"]
        values["oauth"] = {"scopes": scopes, **cast("Entries", values.get("oauth") or {})}


def _codex_headers(values: dict[str, Any]) -> dict[str, str]:
    """Codex names environment variables where others write `${NAME}`."""
    headers: dict[str, str] = {}
    if isinstance(variable := values.get("bearer_token_env_var"), str):
        del values["bearer_token_env_var"]
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    if isinstance(variables := values.get("env_http_headers"), Mapping):
        del values["env_http_headers"]
        headers |= {str(name): f"${{{variable}}}" for name, variable in cast("Entries", variables).items()}
    return headers


def _descend(data: Any, path: Sequence[str]) -> tuple[Entries, Entries | None]:
    """The object that holds the last key of the path, and the object under it; None where there is none."""
    holder = data
    for key in path[:-1]:
        holder = cast("Entries", holder).get(key) if isinstance(holder, Mapping) else None
    inner: Any = cast("Entries", holder).get(path[-1]) if isinstance(holder, Mapping) else None
    if isinstance(inner, Mapping):
        return cast("Entries", holder), cast("Entries", inner)
    return data, None


def _is_entry(value: object) -> bool:
    """True for an entry, whose `command` or `url` is no server of that name."""
    if not isinstance(value, Mapping):
        return False
    entry = cast("Entries", value)
    return any(key in entry and not _is_entry(entry[key]) for key in _PLACE_KEYS)


def project_of(projects: Entries, folder: Path) -> str | None:
    """The name of the project that a folder is in; None where it is in none."""
    names = {Path(name): name for name in projects}
    return next((names[one] for one in (folder, *folder.parents) if one in names), None)


def projects_of(data: Entries) -> Entries:
    """Claude Code's projects with servers of their own: folder to servers."""
    projects: Any = data.get("projects")
    if not isinstance(projects, Mapping):
        return {}
    all_servers = {name: _descend(one, ["mcpServers"])[1] for name, one in cast("Entries", projects).items()}
    return {name: servers for name, servers in all_servers.items() if servers}


def _with_project(shape: Shape, data: Entries, folder: Path) -> Shape:
    """The servers of all projects and those of the folder's own project, which win."""
    projects = projects_of(data)
    here = project_of(projects, folder)
    others = [name for name in projects if name != here]
    if not others:
        return Shape({**shape.entries, **projects.get(here or "", {})}, shape.inputs)
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    notice = f"the servers of other projects are left out: {', '.join(others[:3])}{more}"
    return Shape({**shape.entries, **projects.get(here or "", {})}, shape.inputs, [notice])


def _list(value: object) -> Sequence[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else ()
