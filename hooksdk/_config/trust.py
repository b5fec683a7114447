"""Whether the operator trusts a folder at what it holds now: its configuration, the plugins file that it would run, and
the files that its settings name."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from hooksdk._config.named import NOT_THERE, SHA, NamedFile, content_digest, named_files
from hooksdk.errors import ConfigError

# What `plugins_file = true` loads from a project's folder.
PLUGINS_FILE = "hooksdk_plugins.py"
PLUGINS_SETTING = "plugins_file"


@dataclass(frozen=True)
class Trust:
    """What the operator said of a folder, or of a file that names MCP servers.

    Attributes:
        folder: Resolved: two ways to one folder are one. Of a file, the file.
        recorded: The digest of the content that the operator trusts; None: of none.
        measure: Answers the digest of what it holds now.
        files: The files that its settings name, and that are in its digest.
    """

    folder: Path
    recorded: str | None
    measure: Callable[[], str] = field(repr=False, compare=False)
    files: tuple[NamedFile, ...] = ()

    @cached_property
    def digest(self) -> str:
        """The digest at the first look. Where nothing is trusted nothing is read: files that a stranger's settings name
        may be large, or another user's."""
        return self.measure()

    @property
    def state(self) -> Literal["trusted", "changed", "unknown"]:
        """Whether this content is the trusted one."""
        return "unknown" if self.recorded is None else "trusted" if self.recorded == self.digest else "changed"

    @property
    def trusted(self) -> bool:
        """True at exactly this content."""
        return self.state == "trusted"


def look_up(folder: Path, project: Mapping[str, Any], own_plugins_file: object, known: Mapping[str, str]) -> Trust:
    """The trust in a folder with this project configuration; `own_plugins_file` is the user's setting, `known` their
    digests by folder."""
    resolved = resolve(folder)
    setting: Any = project.get("plugins_file") or own_plugins_file or True
    path = plugins_path(resolved, setting)
    code = (NamedFile(PLUGINS_SETTING, path),) if path.is_relative_to(resolved) else ()
    files = named_files(project, resolved)
    return Trust(resolved, known.get(str(resolved)), lambda: _digest(project, code, files), (*code, *files))


def look_up_file(path: Path, known: Mapping[str, str]) -> Trust:
    """The trust in a file whose servers would be started, at its content. It does not go into its folder's digest: who
    adds a server to it would else lose the folder's policies until they are looked at again."""
    resolved = resolve(path)
    try:
        digest = content_digest(resolved.read_bytes())
    except OSError as error:
        raise ConfigError(str(resolved), (f"cannot be read: {error.strerror}",)) from None
    return Trust(resolved, known.get(str(resolved)), lambda: digest)


def is_inside(path: Path, folder: Path) -> bool:
    """True for a file that a folder brings along: one that lies in it, and a link in it, wherever that leads."""
    named = Path(os.path.abspath(path))  # noqa: PTH100 - links are not followed, unlike by resolve()
    places = (folder.absolute(), resolve(folder))
    return resolve(path).is_relative_to(places[1]) or any(named.is_relative_to(place) for place in places)


def resolve(folder: Path) -> Path:
    """The folder's one absolute path, symbolic links followed."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a null character
        raise ConfigError(str(folder), (f"cannot be resolved: {error}",)) from None


def plugins_path(folder: Path, setting: bool | str) -> Path:
    """The plugins file that a setting means, symbolic links followed."""
    return resolve(folder / (PLUGINS_FILE if setting is True else str(setting)))


def _digest(project: Mapping[str, Any], code: Sequence[NamedFile], files: Sequence[NamedFile]) -> str:
    """The digest of the settings, independent of layout and comments, and of the bytes of the plugins file and of each
    file that the settings name. Without such files it is equal to the one that 0.2.0 has recorded."""
    settings = json.dumps(project, sort_keys=True, default=repr)
    hashed = hashlib.sha256(settings.encode("utf-8", "surrogatepass"))
    digests = [one.digest for one in code if one.digest != NOT_THERE]
    hashed.update(b"\0" + bytes.fromhex(digests[0].removeprefix(SHA)) if digests else b"\0no code")
    for file in files:
        hashed.update(f"\0{file.entry}\0{file.digest}".encode("utf-8", "surrogatepass"))
    return f"{SHA}{hashed.hexdigest()}"
