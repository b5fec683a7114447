"""The rules by which the guard judges: those that a person let count. A change of the files counts at once where it surely
tightens, and else waits for `hooksdk trust`: an agent can change the files, too."""

from __future__ import annotations

import copy
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast, final

import anyio.to_thread

from hooksdk.approvals import digest_of
from hooksdk.config import (
    PLUGINS_FILE,
    Config,
    FileWatch,
    Merged,
    NamedFile,
    PluginConfig,
    Source,
    Sources,
    config_files,
    fold,
    named_files,
    project_folder,
    read_config,
    read_sources,
    resolve,
    state_folder,
    trust_advice,
)
from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.gateway import config_problems
from hooksdk.guard._settings import guard_problems
from hooksdk.host import Plugin, installed_plugins, look_at
from hooksdk.rules import Rules
from hooksdk.stores.files import replace_file
from hooksdk.values import is_object

logger = logging.getLogger("hooksdk")

Json = dict[str, Any]
STEPS = 20_000_000
"""What a comparison of rules may cost, as `hooksdk.rules.proofs` counts it: about a second."""
_TABLES = {"gateway": config_problems, "guard": guard_problems}
_UNREAD = ("gateway", "mcp", "policy", "plugins")
"""Settings that the judge does not read, and the sections, which are compared one by one."""
_AUTOLOAD = "HOOKSDK_DISABLE_AUTOLOAD"
"""A variable that leaves out installed plugins, policies among them."""


@dataclass(frozen=True)
class Version:
    """One version of a project's whole configuration: what the user says, what the project says, and the content of the files
    that they name."""

    folder: Path
    """Resolved."""
    user: Json
    project: Json

    @classmethod
    def of_now(cls, folder: Path) -> Version:
        """As the files and the environment say it now. Raises `ConfigError`."""
        said = read_sources(folder, os.environ, None)
        config, merged = read_config(folder=folder, sources=said, tables=_TABLES)
        # Other files of the user's own are data that programs renew, such as a token, or that plugins write.
        own = [one.path for one in named_files(said.user.data, folder) if one.path.suffix == ".py"]
        own += _plugins_file(config, folder)
        digests = {path: NamedFile("", path).digest for path in own} | merged.digests
        brought = {
            str(path): digests[path] for path in digests if path in merged.digests or path.is_relative_to(folder)
        }
        return cls(
            folder,
            {
                **_as_json(said.user), "variables": _plain(said.environment.data), "autoload": os.environ.get(_AUTOLOAD, ""),
                "files": {str(path): digest for path, digest in digests.items() if str(path) not in brought},
            },
            {**_as_json(said.project), "folder": str(folder), "trusted": merged.trust.trusted, "files": brought},
        )  # fmt: skip

    @classmethod
    def let_count(cls, folder: Path) -> Version | None:
        """What a person let count the last time. What nobody has seen yet counts as it is now; None where that is all of it."""
        user, project = (_read(place) for place in _places(folder))
        if user and project:
            return cls(folder, user, project)
        now = cls.of_now(folder) if user or project else None
        return now and cls(folder, user or now.user, project or now.project)

    def keep(self) -> None:
        """Let it count from now on."""
        for place, half in zip(_places(self.folder), (self.user, self.project), strict=True):
            make_private(place.parent)
            replace_file(place, json.dumps(half).encode())

    def has(self, other: Version) -> bool:
        """True where the other one says nothing that this one does not."""
        halves = (self.user, other.user), (self.project, other.project)
        return all(
            {**mine, "files": {}} == {**theirs, "files": {}} and mine["files"].items() >= theirs["files"].items()
            for mine, theirs in halves
        )

    def with_rules_of(self, now: Version) -> Version:
        """This one with the denies and asks that another one adds to the rules of plugins: they count whatever else waits there."""
        return Version(self.folder, _with_rules(self.user, now.user), _with_rules(self.project, now.project))

    @property
    def files(self) -> Mapping[str, str]:
        """Of the files whose content counts, `sha256:...` by path."""
        return {**self.user["files"], **self.project["files"]}

    def read(self) -> tuple[Config, Merged]:
        """The configuration that it is. What is in the files now is to be what it was then, or else whoever reads one raises
        `ConfigError`, and so does this for a variable that is no setting."""
        if self.user["autoload"] != os.environ.get(_AUTOLOAD, ""):
            raise ConfigError("environment", (f"{_AUTOLOAD} is another than before. {trust_advice(self.folder)}",))
        sources = Sources(
            user=_source(self.user), project=_source(self.project), environment=Source("environment", self.user["variables"]),
            code=Source("code", {}), as_trusted=self.project["trusted"],
            digests={Path(path): digest for path, digest in self.files.items()},
        )  # fmt: skip
        return read_config(folder=self.folder, sources=sources, tables=_TABLES)


@final
class RulesInForce:
    """The rules of one project. `check` is called with newer ones before they count, and raises for what cannot be used. Raises
    `ConfigError` for files that are broken before anything has counted."""

    def __init__(self, folder: Path, check: Callable[[Config], object]) -> None:
        self._folder, self._check = folder, check
        self._files = FileWatch([*config_files(folder, os.environ), *_places(folder)])
        self._kept = Version.let_count(folder)
        """What is on the disk, at the last look."""
        self._version = self._kept or Version.of_now(folder)
        self.config: Config = self._version.read()[0]
        self.waits = ""
        """What the files say that does not count, and what lets it count, in one line; empty where nothing waits."""
        self._is_seen, self._is_kept = self._kept is None, False

    async def catch_up(self) -> bool:
        """True when the rules are others than before. Without a change it costs one question to the file system for each file."""
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
        """Have the rules that the host judges by outlive this process, with the files that its plugins have imported."""
        if self._is_kept:
            return
        user, project = self._version.user, self._version.project
        for path in _plugins_file(self.config, self._folder):
            half = user if str(path) in user["files"] else project
            imported = {str(one): NamedFile("", one).digest for one in _imported_from(path.parent)}
            half["files"] = {**imported, **half["files"]}
        self._version.keep()
        self._kept, self._is_kept = self._version, True

    def _look(self) -> None:
        """Take up what a person let count, and what tightens it."""
        kept = Version.let_count(self._folder)
        if kept is None:  # no host could be made of it yet
            self._count(Version.of_now(self._folder))
            return
        if kept != self._kept:
            self._count(kept)
            self._kept, self._is_kept = kept, False
        now = Version.of_now(self._folder)
        reason = loosened(self._version, now)
        waits = f"{reason}. That counts after a person's word alone. {trust_advice(self._folder)}" if reason else ""
        if waits and waits != self.waits:
            logger.warning("the rules stay as they were: %s", waits)
        self.waits = waits
        tighter = self._version.with_rules_of(now) if reason else now
        if not self._version.has(tighter) and not loosened(self._version, tighter):
            self._count(tighter)

    def _count(self, version: Version) -> None:
        config, _ = version.read()
        self._check(config)
        self._version, self.config, self._is_kept = version, config, False


def make_private(folder: Path) -> None:
    """Make a folder in that of the guard's state, which a judge takes only where nobody else may use it."""
    for one in (folder.parent, folder):
        one.mkdir(parents=True, exist_ok=True, mode=0o700)


def waiting(folder: Path) -> str:
    """What the files of a project say that does not count for the guard yet; empty where nothing waits."""
    try:
        kept = Version.let_count(resolve(folder))
        return loosened(kept, Version.of_now(kept.folder)) if kept else ""
    except ConfigError as error:
        return str(error)


def let_count(folder: Path) -> None:
    """Let the configuration of a folder count for the guard as it is now, where the guard is in use."""
    if _rules_folder().exists():
        Version.of_now(resolve(folder)).keep()


def known_projects() -> list[Path]:
    """The projects whose rules were kept, and that are there."""
    folders = [
        Path(half["folder"]) for place in _rules_folder().glob("*.json") if "folder" in (half := _read(place) or {})
    ]
    return sorted(folder for folder in folders if folder.is_dir())


def project_of(start: Path) -> tuple[Path, str]:
    """The project that judges sessions which begin in a folder, and what waits there, as in `RulesInForce`. It is the nearest one
    whose files are there, or that was one before."""
    folder = resolve(project_folder(start, _had_settings))
    around = next((one for one in folder.parents if _had_settings(one) and one not in _home()), None)
    if _places(folder)[1].exists() or around is None:
        return folder, ""
    kept = Version.let_count(around)
    assert kept is not None
    if reason := loosened(kept, Version.of_now(folder)):
        return around, f"{reason}. That counts in new sessions after a person's word alone. {trust_advice(folder)}"
    return folder, ""


def loosened(before: Version, after: Version) -> str:
    """What of the newer version may loosen the older one, in words; empty where surely nothing does. Raises `ConfigError`."""
    for path, digest in before.files.items():
        if NamedFile("", Path(path)).digest != digest:
            return f"{path} has changed"
    if before.has(after):
        return ""
    halves = (before.user, after.user), (before.project, after.project)
    where = " and ".join(one["where"] for old, one in halves if old != one)
    if path := next((path for path in after.files if path not in before.files), ""):
        return f"{where}: {path} would count"
    try:
        (old, old_merged), (new, new_merged) = before.read(), after.read()
    except ConfigError as error:
        return str(error).rstrip(".")
    for name in Config.model_fields:
        if name not in _UNREAD and getattr(old, name) != getattr(new, name):
            return f"{where}: '{name}' is another"
    for folded in sorted({fold(name) for config in (old, new) for name in config.plugins}):
        is_same = _said(folded, old, old_merged) == _said(folded, new, new_merged)
        if not is_same and (reason := _plugin_loosened(folded, old, new)):
            return f"{where}: {reason}"
    return ""


def _said(folded: str, config: Config, merged: Merged) -> object:
    """All by which a plugin is loaded and set up."""
    section, own = config.plugin(folded), merged.own_settings.get(folded)
    switches = folded in merged.unconfirmed, folded in merged.switched_off
    return section and section.model_dump(), own and replace(own, digests={}), switches


@dataclass(frozen=True)
class _Judging:
    """What a plugin says of calls."""

    rules: Rules
    written: Sequence[object] = ()
    """The rules as they stand in the settings."""
    rest: Sequence[object] = ([], {}, {})
    """All other settings."""


def _plugin_loosened(folded: str, old: Config, new: Config) -> str:
    before, after = (_judging(folded, config) for config in (old, new))
    if before is None or after is None or before.rest != after.rest:
        return f"the settings of plugin '{folded}' are others"
    missing = [*after.written]
    for rule in before.written:
        if rule not in missing:
            break
        missing.remove(rule)
    else:
        added = [one.action for one in after.rules.rules if not any(_alike(one, other) for other in before.rules.rules)]
        stops = ("deny",) if after.rules.default == "deny" else ("deny", "ask")
        if before.rules.default == after.rules.default and all(action in stops for action in added):
            return ""
    try:
        from hooksdk.rules.proofs import Unknown, changes
    except ModuleNotFoundError:
        return f"more than an added deny or ask has changed in plugin '{folded}'"
    try:
        change = next((one for one in changes(before.rules, after.rules, budget=STEPS) if one.is_loosened), None)
    except Unknown:
        return f"the rules of plugin '{folded}' take too long to compare"
    if change is None:
        return ""
    rule = next((one.words for one in before.rules.rules if one.number == change.old_rule.number), "its default")
    return f"plugin '{folded}' would say {change.new} where it says {change.old} ({rule})"


def _alike(one: Any, other: Any) -> bool:
    return (one.action, one.facts) == (other.action, other.facts)


def _judging(folded: str, config: Config) -> _Judging | None:
    """What a built-in plugin says of calls; None for one that does not tell, and for those of others."""
    plugin = next(filter(partial(_is_built_in, folded), installed_plugins(config)), None)
    if plugin is None:
        return None
    section = config.plugin(folded) or PluginConfig()
    if not plugin.loaded or section.mode == "shadow":
        return _Judging(Rules(()))
    look_at(plugin, config)
    if plugin.refusal is not None:
        raise plugin.refusal
    describe = getattr(plugin.holder, "describe_rules", None)
    if describe is None:
        return None
    settings = plugin.config.model_dump(mode="json", exclude_unset=True)
    written, _ = settings.pop("rules", []), settings.pop("default", None)  # what the description says
    return _Judging(describe(plugin.config), written, (section.grants, section.timeouts, settings))


def _is_built_in(folded: str, plugin: Plugin) -> bool:
    return plugin.origin == "built-in" and fold(plugin.id) == folded


def _rules_folder() -> Path:
    return state_folder() / "guard" / "rules"


def _places(folder: Path) -> tuple[Path, Path]:
    """Where it is kept what the user let count, for all projects, and for this one."""
    return _rules_folder() / "user.json", _rules_folder() / f"{digest_of(str(folder))[:32]}.json"


def _read(place: Path) -> Json | None:
    try:
        half: Any = json.loads(place.read_text("utf-8"))
        missing = {"where", "settings", "files"} - set(half)
        if missing:
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            str(place), (f"cannot be read: {error}. A person writes it anew with `hooksdk trust`",)
        ) from None
    return half


def _had_settings(folder: Path) -> bool:
    return bool((_read(_places(folder)[1]) or {}).get("settings"))


def _home() -> tuple[Path, ...]:
    home = Path.home().resolve()
    return home, *home.parents


def _plugins_file(config: Config, folder: Path) -> list[Path]:
    setting = config.plugins_file
    return [] if setting is False else [resolve(folder / (PLUGINS_FILE if setting is True else setting))]


def _imported_from(folder: Path) -> Iterator[Path]:
    """The files in a folder from which modules were imported."""
    for module in list(sys.modules.values()):
        path = Path(getattr(module, "__file__", None) or "").resolve()
        if path.suffix == ".py" and path.is_relative_to(folder) and "site-packages" not in path.parts:
            yield path


def _with_rules(half: Json, now: Json) -> Json:
    half = copy.deepcopy(half)
    for folded, rules in _rules_in(now).items():
        have = _rules_in(half).get(folded, [])
        if added := [one for one in rules if one.get("action") in ("deny", "ask") and one not in have]:
            plugins: Json = half["settings"].setdefault("plugins", {})
            name = next((one for one in plugins if fold(one) == folded), folded)
            plugins.setdefault(name, {}).setdefault("config", {})["rules"] = [*have, *added]
    return half


def _rules_in(half: Json) -> dict[str, list[Json]]:
    """By folded id of their plugin."""
    sections: Json = half["settings"].get("plugins", {})
    rules: Json = {fold(name): section.get("config", {}).get("rules") for name, section in sections.items()}
    return {
        name: [dict(one) for one in cast("list[object]", some) if is_object(one)]
        for name, some in rules.items()
        if isinstance(some, list)
    }


def _as_json(source: Source) -> Json:
    return {"where": source.where, "settings": _plain(source.data)}


def _plain(settings: object) -> Any:
    """Settings as they are after a way through a file."""
    return json.loads(json.dumps(settings, default=str))


def _source(half: Json) -> Source:
    return Source(half["where"], half["settings"])
