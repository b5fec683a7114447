"""The entry points of installed plugins, known by metadata alone: nothing of a plugin, nor of its parent packages, is
imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import NamedTuple

from hooksdk._config.sources import fold
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.manifest import ENTRY_POINTS, folders_of

# The built-in plugins of this very hooksdk, each in a folder of its id.
BUILT_INS = Path(__file__).resolve().parents[2] / "builtin_plugins"


class Installed(NamedTuple):
    """One plugin that an installed distribution names."""

    entry: EntryPoint
    is_built_in: bool
    distribution: str
    version: str


def installed_entries() -> Sequence[Installed]:
    """All installed plugins. The distributions are read again where `sys.path` or one of its folders has changed, as by
    an installation."""
    return read_entries(tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns  # noqa: PTH116 - each host asks, and a Path takes longer than the answer
    except OSError:
        return 0


@lru_cache(maxsize=8)
def read_entries(_path: tuple[tuple[str, int], ...]) -> Sequence[Installed]:
    """The plugins on a path of this state. Of two copies of a distribution the first on the path counts, as it does for
    imports; but a copy that only calls itself hooksdk hides no built-in."""
    found: dict[tuple[str, str], Installed] = {}
    names: set[str] = set()
    for distribution in distributions():
        try:
            entries = _entries_of(distribution)
        except Exception as error:  # somebody else's broken file
            logger.warning("the entry points of %s cannot be read: %s", _identity(distribution)[0], describe(error))
            continue
        if entries:
            identity = _identity(distribution)
            is_first = fold(identity[0]) not in names
            names.add(fold(identity[0]))
            plugins = [Installed(entry, _is_built_in(entry), *identity) for entry in entries]
            for one in plugins:
                if one.is_built_in or is_first:
                    found.setdefault((one.entry.name, one.entry.value), one)
    return [*found.values()]


def _entries_of(distribution: Distribution) -> list[EntryPoint]:
    """Its entry points of our group. There may be hundreds of distributions, so the text of most is not parsed."""
    if ENTRY_POINTS not in (distribution.read_text("entry_points.txt") or ""):
        return []
    return [entry for entry in distribution.entry_points if entry.group == ENTRY_POINTS]


def _identity(distribution: Distribution) -> tuple[str, str]:
    """Its name and its version, as far as they can be read. Both are in one file, which is long where it holds a
    README."""
    try:
        metadata = distribution.metadata
        name, version = (str(metadata[word]) if word in metadata else "" for word in ("Name", "Version"))
        return name or "?", version
    except Exception:
        return "?", ""


def module_of(entry: EntryPoint) -> str:
    """The module that an entry point names; empty for one that is no entry point."""
    try:
        return entry.module
    except (AssertionError, AttributeError, ValueError):  # by Python version, and by the backport
        return ""


def _is_built_in(entry: EntryPoint) -> bool:
    """By where the module lies, whatever its distribution calls itself."""
    module = module_of(entry)
    if module.partition(".")[0] != BUILT_INS.name:
        return False
    return [Path(folder).resolve() for folder in folders_of(module)] == [BUILT_INS / fold(entry.name)]
