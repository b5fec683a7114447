"""The rules by which the guard judges: those that a person let count. A change of the files counts at once where it
surely tightens, and else waits for `hooksdk trust`: an agent can change the files, too."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import final

import anyio.to_thread

from hooksdk.config import Config, FileWatch, NamedFile, config_files, project_folder, resolve, trust_advice
from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.guard._loosened import loosened, loosenings
from hooksdk.guard._versions import Version, places, plugins_file, read_half, rules_folder

logger = logging.getLogger("hooksdk")


@final
class RulesInForce:
    """The rules of one project. `check` is called with newer ones before they count, and raises for what cannot be
    used. Raises `ConfigError` for files that are broken before anything has counted.

    Attributes:
        waits: What the files say that does not count, and what lets it count, in one line; empty where nothing waits.
    """

    def __init__(self, folder: Path, check: Callable[[Config], object]) -> None:
        self._folder, self._check = folder, check
        self._files = FileWatch([*config_files(folder, os.environ), *places(folder)])
        # What is on the disk, at the last look.
        self._kept = Version.let_count(folder)
        self._version = self._kept or Version.of_now(folder)
        try:
            self.config: Config = self._version.read()[0]
        except ConfigError as error:
            raise self.explained(error) from None
        self.waits = ""
        self._is_seen, self._is_kept, self._modules = self._kept is None, False, 0

    async def catch_up(self) -> bool:
        """True when the rules are others than before. Without a change it costs one question to the file system for
        each file."""
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
        """Have the rules that the host judges by outlive this process, with the files that its plugins have
        imported."""
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
        """Why the rules cannot be used, with what to do where they are not those of the files, which may be right by
        now."""
        if self._kept is None or "hooksdk trust" in str(error):
            return error
        advice = f"These are the rules that count, whatever the files say now. {trust_advice(self._folder)}"
        return ConfigError(error.where, (f"{'; '.join(error.problems)}. {advice}",))

    def _look(self) -> None:
        """Take up what a person let count, and what tightens it."""
        is_there = all(place.exists() for place in places(self._folder))
        if self._kept is None and not is_there:  # no host could be made of it yet
            self._count(Version.of_now(self._folder))
            return
        kept = Version.let_count(self._folder) if is_there else None
        if kept is None:  # what this process knows is written again
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
    """What the files of a project say that does not count for the guard yet; empty where nothing waits."""
    try:
        kept = Version.let_count(resolve(folder))
        return loosened(kept, Version.of_now(kept.folder)) if kept else ""
    except ConfigError as error:
        return str(error)


def to_let_count(folder: Path) -> tuple[Sequence[str], Callable[[], None]]:
    """All of what waits, and what lets it count. Both raise `ConfigError`, the second where the files are others by
    then: a person has not read those."""
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
    """Let the configuration of a folder count for the guard as it is now, where the guard is in use."""
    if rules_folder().exists():
        Version.of_now(resolve(folder)).keep()


def known_projects() -> list[Path]:
    """The projects whose rules were kept, and that are there."""
    folders = [
        Path(half["folder"]) for place in rules_folder().glob("*.json") if "folder" in (half := read_half(place) or {})
    ]
    return sorted(folder for folder in folders if folder.is_dir())


def project_of(start: Path) -> tuple[Path, str]:
    """The project that judges sessions which begin in a folder, and what waits there, as in `RulesInForce`. It is the
    nearest one whose files are there, or that was one before."""
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
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "").resolve()
        is_installed = "site-packages" in path.parts or any(path.is_relative_to(one) for one in installed)
        if path.suffix == ".py" and path.is_relative_to(folder) and not is_installed:
            yield path
