"""The files with MCP servers that commands use without `--mcp`, and whether the operator trusts them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hooksdk.cli._configuration import read_config
from hooksdk.config import Config, Remark, Trust, is_inside, look_up_file, resolve, trust_advice, trusted_digests
from hooksdk.errors import ConfigError
from hooksdk.values import as_list, is_object

DEFAULT_NAMES = ("mcp.json", ".mcp.json")


def servers_files(project: Path, config: Config) -> tuple[dict[Path, str], list[Trust]]:
    """The files whose servers may be started, each with the digest of the trusted content (empty: any); and the
    project's files that are not trusted yet, since a project may be a cloned repository. Raises `ConfigError` for a
    file that the configuration names and that does not exist."""
    trusted = trusted_digests(os.environ)
    files: dict[Path, str] = {}
    unknown: list[Trust] = []
    for path in _places(project, config.mcp):
        if not path.is_file():
            raise ConfigError("configuration", (f"'mcp': there is no file {path}",))
        if not is_inside(path, project) and not config.set_by_project("mcp"):
            files[path] = ""
        elif (trust := look_up_file(path, trusted)).trusted:
            files[path] = trust.digest
        else:
            unknown.append(trust)
    return files, unknown


def project_files(project: Path) -> tuple[list[Trust], list[Remark]]:
    """The trust in every file whose servers would be started if the project were trusted: the files in the project, and
    those that its settings name. And a remark on each file that does not exist."""
    config, merged = read_config(folder=project)
    named: list[Any] = [remark.value for remark in merged.widening if remark.entry == "mcp"]
    setting: Any = named[0] if named else config.mcp
    places = _places(project, [setting] if isinstance(setting, str) else setting)
    trusted = trusted_digests(os.environ)
    files = [path for path in places if named or is_inside(path, project)]
    missing = [Remark("mcp", str(resolve(path)), "there is no such file") for path in files if not path.is_file()]
    return [look_up_file(path, trusted) for path in files if path.is_file()], missing


def servers_remark(trust: Trust) -> Remark:
    """The servers that a file would start. Raises `ConfigError` for a file that has changed since."""
    from hooksdk.mcp.settings import find_servers, load_file, plain_entry

    path = trust.folder
    shape = find_servers(load_file(path, digest=trust.digest), str(path), folder=path.parent, from_file=True)
    lines = {str(name): _command(plain_entry(entry)) for name, entry in shape.entries.items() if is_object(entry)}
    return Remark(path.name, lines, "the commands start these MCP servers in your name")


def not_trusted(trust: Trust, project: Path, option: str = "--mcp") -> str:
    """The reason why a file is left out, and the command to type."""
    changed = "has changed since you trusted it" if trust.state == "changed" else "is not trusted yet"
    cure = f"{trust_advice(resolve(project))} (or give it with {option})"
    return f"{trust.folder} {changed}, so its servers are not started. {cure}"


def _places(project: Path, setting: Sequence[str] | None) -> list[Path]:
    """The files that a setting means, whether they are there or not."""
    if setting is None:
        return [path for name in DEFAULT_NAMES if (path := project / name).is_file()]
    return [project / Path(name).expanduser() for name in setting]


def _command(entry: Mapping[str, Any]) -> str:
    words = [entry.get("command") or entry.get("url") or "nothing", *as_list(entry.get("args"))]
    more = {key: entry[key] for key in ("cwd", "env", "headers") if entry.get(key)}
    return " ".join([*(str(word) for word in words), *(f"{key}={value}" for key, value in more.items())])
