"""The `mcpServers` mapping, read and checked, before anything is started."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hooksdk.errors import ConfigError, did_you_mean

__all__ = ["ServerSpec", "read_file", "read_servers"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KEYS = ("command", "args", "env", "cwd", "url", "headers", "type", "transport", "disabled", "timeout")
_STDIO = {"stdio"}
_HTTP = {"http", "streamable-http", "streamable_http", "streamablehttp"}
_EXAMPLE = '{"command": "mcp-server-git"} or {"url": "http://127.0.0.1:8000/mcp"}'

Locate = Callable[[str, str], str]
"""`(server, key)` to the place of that key, such as ` (line 4, column 7)`; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """One server's entry, checked and with its variables filled. Its `repr` shows no value that may be secret."""

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    disabled: bool = False
    timeout: float | None = None
    """Seconds that one call may take, where the entry says so."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values that no message may hold, longest first."""

    def redact(self, text: str) -> str:
        """`text` without the values of `env`, of `headers` and of filled variables."""
        text = text.replace(self.url, self.place) if self.url else text
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text

    @property
    def place(self) -> str:
        """Where the server is, without what a URL may carry in secret."""
        return re.sub(r"//[^/@]*@", "//", self.url.partition("?")[0]) if self.url else self.command


def read_servers(
    servers: Mapping[str, Any], where: str = "mcpServers", locate: Locate = lambda _server, _key: ""
) -> tuple[list[ServerSpec], list[str]]:
    """The servers of the mapping, and one notice for each key that is ignored. Raises `ConfigError`.

    The mapping may stand under `mcpServers`, or under `servers` as VS Code has it.
    """
    for key in ("mcpServers", "servers"):
        inner = servers.get(key)
        if isinstance(inner, Mapping) and not {"command", "url"} & cast("Mapping[str, Any]", inner).keys():
            servers = cast("Mapping[str, Any]", inner)
            break
    problems: list[str] = []
    notices: list[str] = []
    specs: list[ServerSpec] = []
    for name, entry in servers.items():
        reader = _Entry(str(name), entry, problems, notices, locate)
        if spec := reader.read():
            specs.append(spec)
    if problems:
        raise ConfigError(where, tuple(problems))
    return specs, [f"{where}: {notice}" for notice in notices]


def read_file(path: str | os.PathLike[str]) -> tuple[list[ServerSpec], list[str]]:
    """The servers of a JSON file. Raises `ConfigError`, which names the line and column."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), (f"cannot be read: {getattr(error, 'strerror', None) or error}",)) from None

    def locate(server: str, key: str) -> str:
        at = _find(text, server, 0)
        at = at if not key or at < 0 else max(at, _find(text, key, at))
        return f" (line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)})" if at >= 0 else ""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in found]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(str(path), (f"'{name}' stands twice in one object; keep one of them",))
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}:{error.colno}", (f"is not JSON: {error.msg}",)) from None
    except RecursionError:
        raise ConfigError(str(path), ("is nested too deeply; expected a file with mcpServers",)) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}:1:1", ('expected an object such as {"mcpServers": {...}}',))
    return read_servers(cast("dict[str, Any]", value), str(path), locate)


def _find(text: str, key: str, start: int) -> int:
    match = re.compile(re.escape(json.dumps(key)) + r"\s*:").search(text, start)
    return match.start() if match else -1


class _Entry:
    """Reads one entry; what is wrong goes to `problems`, and no value of it is quoted there."""

    def __init__(self, name: str, entry: object, problems: list[str], notices: list[str], locate: Locate) -> None:
        self.name = name
        self.entry = entry
        self.problems = problems
        self.notices = notices
        self.locate = locate
        self.secrets: set[str] = set()
        self.filled = True

    def read(self) -> ServerSpec | None:
        before = len(self.problems)
        if not self.name.strip():
            self._wrong("", "has no name; the key is the server's name")
        if not isinstance(self.entry, Mapping):
            self._wrong("", f"expected an object such as {_EXAMPLE}, got {_kind(self.entry)}")
            return None
        entry = self.entry = cast("Mapping[str, Any]", self.entry)
        self._notice_unknown(entry)
        disabled = self._flag(entry, "disabled")
        self.filled = not disabled
        url, command = self._text(entry, "url"), self._text(entry, "command")
        self._check_kind(entry, url, command)
        if url and not url.startswith(("http://", "https://", "${")):
            self._wrong("url", "expected a URL that begins with http:// or https://")
        spec = ServerSpec(
            name=self.name,
            command=command,
            args=self._texts(entry, "args"),
            env=self._mapping(entry, "env"),
            cwd=self._text(entry, "cwd") or None,
            url=url,
            headers=self._mapping(entry, "headers"),
            disabled=disabled,
            timeout=self._seconds(entry, "timeout"),
            secrets=tuple(sorted((value for value in self.secrets if len(value) >= 4), key=len, reverse=True)),
        )
        return spec if len(self.problems) == before else None

    def _wrong(self, key: str, problem: str) -> None:
        what = f"server '{self.name}', '{key}'" if key else f"server '{self.name}'"
        self.problems.append(f"{what}{self.locate(self.name, key)}: {problem}")

    def _notice_unknown(self, entry: Mapping[str, Any]) -> None:
        for key in entry:
            if key not in _KEYS:
                place = self.locate(self.name, str(key))
                hint = did_you_mean(str(key), _KEYS)
                self.notices.append(f"server '{self.name}': the key '{key}'{place} is unknown and ignored.{hint}")

    def _check_kind(self, entry: Mapping[str, Any], url: str, command: str) -> None:
        key = "type" if "type" in entry else "transport"
        kind = self._text(entry, key).lower()
        if url and command:
            self._wrong("url", "has a command too; keep 'command' for a local program or 'url' for a server on the web")
        elif kind == "sse":
            self._wrong(
                key, "the old SSE transport is not supported; use the server's streamable HTTP URL, type 'http'"
            )
        elif kind and kind not in _STDIO | _HTTP:
            hint = did_you_mean(kind, ("stdio", "http", "streamable-http"))
            self._wrong(key, f"expected 'stdio', 'http' or 'streamable-http'.{hint}")
        elif kind in _HTTP and not url:
            self._wrong("url", "is missing, and a server of this type needs one")
        elif kind in _STDIO and not command:
            self._wrong("command", "is missing, and a server of this type needs one")
        elif not url and not command and not {"url", "command"} & entry.keys():
            near = [str(other) for other in entry if did_you_mean(str(other), ("command", "url"))]
            hint = f" Did you mean 'command' or 'url' by '{near[0]}'?" if near else ""
            self._wrong("", f"needs a 'command' or a 'url', such as {_EXAMPLE}.{hint}")

    def _text(self, entry: Mapping[str, Any], key: str) -> str:
        value = entry.get(key)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.strip():
            split = ", its arguments in 'args'" if key == "command" else ""
            self._wrong(key, f"expected text{split}, got {_kind(value)}")
            return ""
        return self._fill(key, value)

    def _texts(self, entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
        value = entry.get(key)
        if value is None:
            return ()
        if not isinstance(value, (list, tuple)):
            self._wrong(key, f'expected a list of texts such as ["--verbose"], got {_kind(value)}')
            return ()
        for index, item in enumerate(cast("list[object]", value)):
            if not isinstance(item, str):
                self._wrong(key, f"expected texts; number {index + 1} is {_kind(item)}. Write it in quotes")
        return tuple(self._fill(key, item) for item in cast("list[object]", value) if isinstance(item, str))

    def _mapping(self, entry: Mapping[str, Any], key: str) -> dict[str, str]:
        value = entry.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._wrong(key, f'expected an object such as {{"NAME": "value"}}, got {_kind(value)}')
            return {}
        found: dict[str, str] = {}
        for name, item in cast("Mapping[str, object]", value).items():
            if not isinstance(item, str):
                self._wrong(key, f"'{name}' should be text and is {_kind(item)}. Write it in quotes")
                continue
            filled = found[str(name)] = self._fill(key, item)
            self.secrets |= {filled, filled.rpartition(" ")[2]}
        return found

    def _flag(self, entry: Mapping[str, Any], key: str) -> bool:
        value = entry.get(key, False)
        if not isinstance(value, bool):
            self._wrong(key, f"expected true or false, got {_kind(value)}")
        return value is True

    def _seconds(self, entry: Mapping[str, Any], key: str) -> float | None:
        value = entry.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            self._wrong(key, "expected a number of seconds above 0, such as 60")
            return None
        if value >= 3600:
            place = self.locate(self.name, key)
            text = f"server '{self.name}': 'timeout'{place} counts seconds; {value:g} means {value / 3600:.1f} hours"
            self.notices.append(text)
        return float(value)

    def _fill(self, key: str, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            value = os.environ.get(name)
            if value:
                self.secrets.add(value)
                return value
            if default is not None or value is not None:
                return default or ""
            if self.filled:
                advice = f"Set it, or write a default as ${{{name}:-value}}"
                self._wrong(key, f"the environment variable {name} is not set. {advice}")
            return match[0]

        return _VARIABLE.sub(replace, text)


def _kind(value: object) -> str:
    """What a value is, in JSON's words, without the value."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text" if value.strip() else "empty text"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    return (
        "an object"
        if isinstance(value, Mapping)
        else "a list"
        if isinstance(value, (list, tuple))
        else type(value).__name__
    )
