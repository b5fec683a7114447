"""Python files of a project, compiled from their source: no `.pyc` beside them is read, since nobody has reviewed it
and no digest covers it. None is written either."""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from pathlib import Path
from typing import final

from hooksdk._config.trust import check_digest, content_digest

# Resolved folders: modules in them are compiled from source.
_folders: set[str] = set()
# By project folder, the digests of its files with trusted content.
_digests: dict[Path, Mapping[Path, str]] = {}


@final
class SourceLoader(SourceFileLoader):
    """Compiles the very bytes that it has compared with the trusted digest."""

    def get_code(self, fullname: str) -> types.CodeType:
        """The file's code. Raises `ConfigError` for a file that has changed since it was trusted."""
        path = self.get_filename(fullname)
        content = self.get_data(path)
        resolved = Path(path).resolve()
        for folder, digests in _digests.items():
            if resolved in digests:
                check_digest(resolved, content_digest(content), digests[resolved], folder)
        return self.source_to_code(content, path)


def expect(folder: Path, digests: Mapping[Path, str]) -> None:
    """Run these files from now on with this content only; this replaces the digests of the folder so far. Other modules
    in the folder are compiled from source, too."""
    _digests[folder] = digests
    for path in digests:
        if path.suffix in SOURCE_SUFFIXES:
            from_source(path.parent)
            from_source(folder)


def from_source(folder: Path) -> None:
    """Compile modules and packages in this folder from source, from now on."""
    if _finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder)
    name = str(folder.resolve())
    if name not in _folders:
        _folders.add(name)
        for known in [one for one in sys.path_importer_cache if Path(one).resolve().is_relative_to(name)]:
            del sys.path_importer_cache[known]
    importlib.invalidate_caches()  # a file that was written a moment ago


def _finder(folder: str) -> FileFinder:
    """The path hook that Python calls for each folder in which it looks for modules. Raises `ImportError` for any other
    folder, which Python then reads as usual."""
    place = os.path.realpath(folder)
    entries = {os.path.realpath(one) for one in sys.path} | _folders
    # Installed packages may lie inside of a project's folder: the nearest folder on the path decides.
    nearest = max((one for one in entries if _is_in(place, one)), key=len, default="")
    if nearest not in _folders:
        raise ImportError
    # A source file goes before an extension module of its name; a `.pyc` without its source is not found.
    return FileFinder(folder, (SourceLoader, SOURCE_SUFFIXES), (ExtensionFileLoader, EXTENSION_SUFFIXES))


def _is_in(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip(os.sep)}{os.sep}")
