"""Whether the operator trusts a folder at what it holds now: its configuration and the plugins file that it would run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hooksdk.errors import ConfigError

PLUGINS_FILE = "hooksdk_plugins.py"
"""What `plugins_file = true` loads from a project's folder."""


@dataclass(frozen=True)
class Trust:
    """What the operator said of a folder, or of a file that names MCP servers."""

    folder: Path
    """Resolved: two ways to one folder are one. Of a file, the file."""
    digest: str
    """Of what it holds now."""
    state: Literal["trusted", "changed", "unknown"]

    @property
    def trusted(self) -> bool:
        """True at exactly this content."""
        return self.state == "trusted"


def look_up(folder: Path, project: Mapping[str, Any], own_plugins_file: object, known: Mapping[str, str]) -> Trust:
    """The trust in a folder with this project configuration; `own_plugins_file` is the user's setting, `known` their
    digests by folder."""
    resolved = resolve(folder)
    setting: Any = project.get("plugins_file") or own_plugins_file or True
    return _compare(resolved, _digest(project, resolved, plugins_path(resolved, setting)), known)


def look_up_file(path: Path, known: Mapping[str, str]) -> Trust:
    """The trust in a file whose servers would be started, at its content. It does not go into its folder's digest: who
    adds a server to it would else lose the folder's policies until they are looked at again."""
    resolved = resolve(path)
    try:
        with resolved.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(str(resolved), (f"cannot be read: {error.strerror}",)) from None
    return _compare(resolved, f"sha256:{digest}", known)


def is_inside(path: Path, folder: Path) -> bool:
    """True for a file that a folder brings along: one that lies in it, and a link in it, wherever that leads."""
    named = Path(os.path.abspath(path))  # noqa: PTH100 - links are not followed, unlike by resolve()
    places = (folder.absolute(), resolve(folder))
    return resolve(path).is_relative_to(places[1]) or any(named.is_relative_to(place) for place in places)


def _compare(place: Path, digest: str, known: Mapping[str, str]) -> Trust:
    recorded = known.get(str(place))
    state = "unknown" if recorded is None else "trusted" if recorded == digest else "changed"
    return Trust(place, digest, state)


def resolve(folder: Path) -> Path:
    """The folder's one absolute path, symbolic links followed."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a null character
        raise ConfigError(str(folder), (f"cannot be resolved: {error}",)) from None


def plugins_path(folder: Path, setting: bool | str) -> Path:
    """The plugins file that a setting means, symbolic links followed."""
    return resolve(folder / (PLUGINS_FILE if setting is True else str(setting)))


def _digest(project: Mapping[str, Any], folder: Path, plugins_file: Path) -> str:
    """Of the settings, however they are laid out and commented, and of the code's bytes."""
    settings = json.dumps(project, sort_keys=True, default=repr)
    hashed = hashlib.sha256(settings.encode("utf-8", "surrogatepass"))
    try:
        own = plugins_file.is_relative_to(folder) and plugins_file.is_file()
        code = plugins_file.read_bytes() if own else None
    except OSError as error:
        raise ConfigError(str(plugins_file), (f"cannot be read: {error.strerror}",)) from None
    hashed.update(b"\0no code" if code is None else b"\0" + hashlib.sha256(code).digest())
    return f"sha256:{hashed.hexdigest()}"
