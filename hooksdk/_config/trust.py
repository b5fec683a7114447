"""Whether the operator trusts a folder at what it holds now: its configuration, the plugins file that it would run, and
the files that its settings name. Without these files in the digest a trusted folder could change though none of its
settings did."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from hooksdk._config.entry_points import BUILT_INS, installed_entries, module_of
from hooksdk._config.sources import fold, trust_advice
from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.manifest import Contracts, file_names, find_manifest, read_manifest

# What `plugins_file = true` loads from a project's folder.
PLUGINS_FILE = "hooksdk_plugins.py"
PLUGINS_SETTING = "plugins_file"
Place = tuple[str, ...]
# A store is written to; the others have rules of their own: `trust.py`, and the commands for `mcp`.
_OTHERS = {"store", "plugins_file", "mcp"}
# `package.module:name`.
_CODE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d][\w.]*")
INIT = "__init__.py"
SHA = "sha256:"
NOT_THERE = ""


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


@dataclass(frozen=True)
class NamedFile:
    """A file that a setting names.

    Attributes:
        entry: Where the setting stands, such as `plugins.tool_search.config.vocabulary`.
        path: Resolved.
    """

    entry: str
    path: Path

    @cached_property
    def digest(self) -> str:
        """`sha256:` and the digest of its content at the first look; `NOT_THERE` of what is not there or cannot be
        read."""
        try:
            return content_digest(self.path.read_bytes()) if self.path.is_file() else NOT_THERE
        except OSError:
            return NOT_THERE


def content_digest(content: bytes) -> str:
    """How the content of a file is known again."""
    return f"{SHA}{hashlib.sha256(content).hexdigest()}"


def check_digest(path: Path, digest: str, trusted: str, folder: Path) -> None:
    """Raises `ConfigError` where a file's content is not the one that was trusted with the folder."""
    if digest != trusted:
        raise ConfigError(str(path), (f"has changed since you trusted it. {trust_advice(folder)}",))


def named_files(project: Mapping[str, Any], folder: Path) -> tuple[NamedFile, ...]:
    """The files that the settings of a folder name, in the order of the entries. Which settings of a plugin do, its
    manifest says (`contracts.files` and `contracts.code`); where it does not, each text that leads to a file counts as
    its name."""
    files: list[NamedFile] = []
    for name, value in project.items():
        if name == "plugins":
            for plugin, section in value.items():
                settings = section.get("config", {})
                contracts = _contracts(plugin) if any(_texts(settings)) else None
                files += _named(("plugins", plugin, "config"), settings, folder, contracts)
        elif name not in _OTHERS:
            files += _named((name,), value, folder, None)
    return tuple(sorted(files, key=lambda one: one.entry))


def _named(above: Place, settings: object, folder: Path, contracts: Contracts | None) -> Iterator[NamedFile]:
    for place, text in _texts(settings):
        entry = ".".join((*above, *place))
        if contracts is None:
            paths = [*_modules(text, folder), *(path for path in _paths(text, folder) if path.is_file())]
        else:
            paths = _modules(text, folder) if _fits(place, contracts.code) else []
            paths += _paths(text, folder) if _fits(place, contracts.files) else []
        yield from (NamedFile(entry, path) for path in paths)


def _texts(value: object, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every text in a setting, with its place below it."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield from _texts(inner, (*place, str(name)))
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[object]", value)):
            yield from _texts(inner, (*place, str(number)))
    elif isinstance(value, str):
        yield place, value


def _fits(place: Place, patterns: Sequence[str] | None) -> bool:
    return any(
        len(place) == len(words) and all(word in ("*", part) for part, word in zip(place, words, strict=True))
        for words in (pattern.split(".") for pattern in patterns or ())
    )


def _paths(text: str, folder: Path) -> list[Path]:
    """The file that a text means, whether it is there or not."""
    try:
        return [(folder / Path(text).expanduser()).resolve()]
    except (OSError, RuntimeError, ValueError):  # links in a circle, a home that nobody has, a null character
        return []


def _modules(text: str, folder: Path) -> list[Path]:
    """The module of `package.module:name` and the packages around it, where it lies in the folder or in its `src`."""
    if (code := _CODE.fullmatch(text)) is None:
        return []
    parts = code[1].split(".")
    for root in (folder, folder / "src"):
        place = root.joinpath(*parts)
        for module in (place / INIT, place.with_name(f"{place.name}.py")):
            if module.is_file():
                around = [root.joinpath(*parts[:depth], INIT) for depth in range(1, len(parts))]
                return [one.resolve() for one in (*around, module) if one.is_file()]
    return []


def _contracts(plugin_id: str) -> Contracts | None:
    """What a plugin's manifest says; None where it does not tell of files, or is not there."""
    built_in = BUILT_INS / fold(plugin_id)
    path = next((one for name in file_names(fold(plugin_id)) if (one := built_in / name).is_file()), None)
    if path is None:
        entries = (one.entry for one in installed_entries() if fold(one.entry.name) == fold(plugin_id))
        module = next(map(module_of, entries), "")
        path = find_manifest(module, plugin_id) if module else None
    try:
        contracts = None if path is None else read_manifest(path, plugin_id).contracts
    except HookSDKError:  # told when the plugin is loaded
        return None
    return contracts if contracts and (contracts.files is not None or contracts.code is not None) else None
