"""Which files with MCP servers the commands use where no `--mcp` is given, and whether the operator trusts them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hooksdk._config.rules import Remark
from hooksdk._config.sources import read_project, read_sources
from hooksdk._config.trust import Trust, look_up_file, resolve
from hooksdk._config.words import trust_advice
from hooksdk.config import Config, read_config
from hooksdk.errors import ConfigError

DEFAULT_NAMES = ("mcp.json", ".mcp.json")


def servers_files(project: Path, config: Config) -> tuple[list[Path], list[Trust]]:
    """The files whose servers the operator lets be started, and those inside the project that are not trusted yet: a
    cloned repository may bring them. Raises `ConfigError` for a file that the configuration names and that is not there."""
    trusted = read_sources(project, os.environ, None).trusted
    files: list[Path] = []
    unknown: list[Trust] = []
    for path in _places(project, config.mcp):
        if not path.is_file():
            raise ConfigError("configuration", (f"'mcp': there is no file {path}",))
        if not resolve(path).is_relative_to(resolve(project)) or (trust := look_up_file(path, trusted)).trusted:
            files.append(path)
        else:
            unknown.append(trust)
    return files, unknown


def project_files(project: Path) -> list[Trust]:
    """The trust in every file inside the project whose servers would be started if the project were trusted."""
    config, _ = read_config(folder=project)
    setting: Any = read_project(project).data.get("mcp", config.mcp)
    places = _places(project, [setting] if isinstance(setting, str) else setting)
    trusted = read_sources(project, os.environ, None).trusted
    inside = [path for path in places if resolve(path).is_relative_to(resolve(project)) and path.is_file()]
    return [look_up_file(path, trusted) for path in inside]


def servers_remark(path: Path) -> Remark:
    """What a file would start."""
    from hooksdk.mcp._config import load_file
    from hooksdk.mcp._shapes import find_servers, plain_entry

    shape = find_servers(load_file(path), str(path), folder=path.parent, from_file=True)
    lines = {str(name): _command(plain_entry(entry)) for name, entry in shape.entries.items() if _is_object(entry)}
    return Remark(path.name, lines, "the commands start these MCP servers in your name")


def not_trusted(trust: Trust, project: Path) -> str:
    """Why a file is left out, and what to type."""
    changed = "has changed since you trusted it" if trust.state == "changed" else "is not trusted yet"
    return f"{trust.folder} {changed}, so its servers are not started. {trust_advice(resolve(project))} (or give it with --mcp)"


def _places(project: Path, setting: Sequence[str] | None) -> list[Path]:
    """The files that a setting means, whether they are there or not."""
    if setting is None:
        return [path for name in DEFAULT_NAMES if (path := project / name).is_file()]
    return [project / Path(name).expanduser() for name in setting]


def _command(entry: Mapping[str, Any]) -> str:
    args: Any = entry.get("args", [])
    words = [
        entry.get("command") or entry.get("url") or "nothing",
        *(cast("list[Any]", args) if isinstance(args, list) else []),
    ]
    return " ".join(str(word) for word in words)


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)
