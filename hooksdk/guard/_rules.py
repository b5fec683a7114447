"""The rules by which the guard judges: those that a person let count. A change of the files counts at once if it surely
tightens the rules; any other change waits for `hooksdk trust`, since an agent can change the files, too."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import final

import anyio.to_thread

from hooksdk.config import Config, FileWatch, NamedFile, config_files, project_folder, resolve, trust_advice
from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.guard._versions import Version, loosened, loosenings, places, plugins_file, read_half, rules_folder

logger = logging.getLogger("hooksdk")


@final
class RulesInForce:
    """The rules of one project. `check` is called with a newer configuration before it counts, and raises for one that
    cannot be used. Raises `ConfigError` for broken files where no older rules are kept.

    Attributes:
        waits: The change of the files that does not count yet, and what lets it count, in one line; empty where nothing
            waits.
    """

    def __init__(self, folder: Path, check: Callable[[Config], object]) -> None:
        self._folder, self._check = folder, check
        self._files = FileWatch([*config_files(folder, os.environ), *places(folder)])
        # The version on the disk, at the last look.
        self._kept = Version.let_count(folder)
        self._version = self._kept or Version.of_now(folder)
        try:
            self.config: Config = self._version.read()[0]
        except ConfigError as error:
            raise self.explained(error) from None
        self.waits = ""
        self._is_seen, self._is_kept, self._modules = self._kept is None, False, 0

    async def catch_up(self) -> bool:
        """Read changed files; True when the rules have changed. Without a change it costs one `stat` for each file."""
        if not self._files.changed() and self._is_seen:
            return False
        self._is_seen = True
        before = self._version
        try:
            await anyio.to_thread.run_sync(self._look)
        except HookSDKError as error:
            logger.warning("the rules stay as they were: %s", error)
        return self._version != before

    def keep(self) -> None:
        """Store the rules in force, with the digests of the files that plugins have imported: the next judge goes on
        with them."""
        if self._is_kept and len(sys.modules) == self._modules:
            return
        self._modules = len(sys.modules)
        files = self._version.files
        user, project = self._version.user, self._version.project
        for path in plugins_file(self.config, self._folder):
            half = user if str(path) in user["files"] else project
            imported = {str(one): NamedFile("", one).digest for one in _imported_from(path.parent)}
            half["files"] = {**imported, **half["files"]}
        if not self._is_kept or self._version.files != files:
            self._version.keep()
        self._kept, self._is_kept = self._version, True

    def explained(self, error: ConfigError) -> ConfigError:
        """The error with advice, where the broken rules are kept ones: the files may be right by now."""
        if self._kept is None or "hooksdk trust" in str(error):
            return error
        advice = f"These are the rules that count, whatever the files say now. {trust_advice(self._folder)}"
        return ConfigError(error.where, (f"{'; '.join(error.problems)}. {advice}",))

    def _look(self) -> None:
        """Read the rules that a person let count, and changes of the files that tighten them."""
        is_there = all(place.exists() for place in places(self._folder))
        if self._kept is None and not is_there:  # no rules have been used yet
            self._count(Version.of_now(self._folder))
            return
        kept = Version.let_count(self._folder) if is_there else None
        if kept is None:  # somebody removed the file: `keep` writes it again
            self._is_kept = False
        elif kept != self._kept:
            self._count(kept)
            self._kept, self._is_kept = kept, False
        now = Version.of_now(self._folder)
        reason = loosened(self._version, now)
        waits = f"{reason}. That counts after a person's word alone. {trust_advice(self._folder)}" if reason else ""
        if waits and waits != self.waits:
            logger.warning("the rules stay as they were: %s", waits)
        self.waits = waits
        for tighter in [now] if not reason else self._version.with_rules_of(now):
            if not self._version.has(tighter) and not loosened(self._version, tighter):
                self._count(tighter)
                break

    def _count(self, version: Version) -> None:
        config, _ = version.read()
        self._check(config)
        self._version, self.config, self._is_kept = version, config, False


def waiting(folder: Path) -> str:
    """The change of a project's files that does not count for the guard yet; empty where nothing waits."""
    try:
        kept = Version.let_count(resolve(folder))
        return loosened(kept, Version.of_now(kept.folder)) if kept else ""
    except ConfigError as error:
        return str(error)


def to_let_count(folder: Path) -> tuple[Sequence[str], Callable[[], None]]:
    """All changes that wait, and a function that lets them count. Both raise `ConfigError`; the function also where the
    files have changed since, since a person has not read those."""
    shown = Version.of_now(resolve(folder))
    try:
        kept = Version.let_count(shown.folder)
        reasons = [*loosenings(kept, shown)] if kept else []
    except ConfigError as error:
        reasons = [str(error)]

    def let() -> None:
        now = Version.of_now(shown.folder)  # trust in the folder has been recorded meanwhile
        if not now.says_as(shown):
            raise ConfigError(
                str(folder), (f"has changed while you looked at it, and waits still. {trust_advice(folder)}",)
            )
        if rules_folder().exists():
            now.keep()

    return reasons, let


def let_count(folder: Path) -> None:
    """Let the current configuration of a folder count for the guard, where the guard is in use."""
    if rules_folder().exists():
        Version.of_now(resolve(folder)).keep()


def known_projects() -> list[Path]:
    """The existing folders of projects whose rules are kept."""
    folders = [
        Path(half["folder"]) for place in rules_folder().glob("*.json") if "folder" in (half := read_half(place) or {})
    ]
    return sorted(folder for folder in folders if folder.is_dir())


def project_of(start: Path) -> tuple[Path, str]:
    """The project whose rules judge sessions that begin in a folder, and the change that waits there (as
    `RulesInForce.waits`). It is the nearest folder that has settings, or whose settings are kept."""
    folder = resolve(project_folder(start, _had_settings))
    around = next((one for one in folder.parents if _had_settings(one) and one not in _home()), None)
    if places(folder)[1].exists() or around is None:
        return folder, ""
    kept = Version.let_count(around)
    assert kept is not None
    if reason := loosened(kept, Version.of_now(folder)):
        return around, f"{reason}. That counts in new sessions after a person's word alone. {trust_advice(folder)}"
    return folder, ""


def _had_settings(folder: Path) -> bool:
    return bool((read_half(places(folder)[1]) or {}).get("settings"))


def _home() -> tuple[Path, ...]:
    home = Path.home().resolve()
    return home, *home.parents


def _imported_from(folder: Path) -> Iterator[Path]:
    """The files in a folder from which modules were imported. A Python that is installed there is replaced like its
    packages."""
    installed = [one for one in {Path(sys.prefix), Path(sys.base_prefix).resolve()} if one.is_relative_to(folder)]
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for path in map(_resolved, filter(None, files)):
        is_installed = "site-packages" in path.parts or any(path.is_relative_to(one) for one in installed)
        if path.suffix == ".py" and path.is_relative_to(folder) and not is_installed:
            yield path


@cache
def _resolved(file: str) -> Path:
    """A module's file, looked up once in a process: thousands of modules take half a second."""
    return Path(file).resolve()
