"""The files that a project's settings name. Without them in the digest a trusted folder could change though none of its
settings did."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from hooksdk._config.entry_points import BUILT_INS, installed_entries, module_of
from hooksdk._config.sources import fold, trust_advice
from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.manifest import Contracts, file_names, find_manifest, read_manifest

Place = tuple[str, ...]
# A store is written to; the others have rules of their own: `trust.py`, and the commands for `mcp`.
_OTHERS = {"store", "plugins_file", "mcp"}
# `package.module:name`.
_CODE = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d][\w.]*")
INIT = "__init__.py"
SHA = "sha256:"
NOT_THERE = ""


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
