"""Versions of a project's configuration as the guard keeps them: one of now, and the one that a person let count; and
whether a newer one may loosen what an older one says."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from hooksdk.approvals import digest_of
from hooksdk.config import (
    PLUGINS_FILE,
    Config,
    Merged,
    NamedFile,
    PluginConfig,
    Source,
    Sources,
    fold,
    named_files,
    read_config,
    read_sources,
    resolve,
    state_folder,
    trust_advice,
)
from hooksdk.errors import ConfigError
from hooksdk.guard._settings import guard_problems
from hooksdk.host import Plugin, installed_plugins
from hooksdk.rules import Rules
from hooksdk.stores.files import replace_file
from hooksdk.values import is_object

Json = dict[str, Any]
_USER = "user.json"
_KINDS: Mapping[str, type] = {"where": str, "settings": dict, "files": dict}
_OF_USER: Mapping[str, type] = {"variables": dict, "autoload": str}
# What stands in the two records.
_OF_PROJECT: Mapping[str, type] = {"folder": str, "trusted": bool}
# A variable that leaves out installed plugins, policies among them.
_AUTOLOAD = "HOOKSDK_DISABLE_AUTOLOAD"
# What a comparison of rules may cost, as `hooksdk.rules.proofs` counts it: about a second.
STEPS = 20_000_000
# Settings that the judge does not read, and the sections, which are compared one by one.
_UNREAD = ("gateway", "mcp", "policy", "plugins")


def _gateway_problems(table: object) -> Sequence[str]:
    from hooksdk.gateway import config_problems  # for a configuration with such a table alone

    return config_problems(table)


_TABLES = {"gateway": _gateway_problems, "guard": guard_problems}


@dataclass(frozen=True)
class Version:
    """One version of a project's whole configuration: what the user says, what the project says, and the content of the
    files that they name.

    Attributes:
        folder: Resolved.
    """

    folder: Path
    user: Json
    project: Json

    @classmethod
    def of_now(cls, folder: Path) -> Version:
        """The version of the current files and environment. Raises `ConfigError`."""
        said = read_sources(folder, os.environ, None)
        config, merged = read_config(folder=folder, sources=said, tables=_TABLES)
        # The user's settings may name other files: data that programs renew, such as a token, or that plugins write.
        own = [one.path for one in named_files(said.user.data, folder) if one.path.suffix == ".py"]
        own += plugins_file(config, folder)
        digests = {path: NamedFile("", path).digest for path in own} | merged.digests
        brought = {
            str(path): digests[path] for path in digests if path in merged.digests or path.is_relative_to(folder)
        }
        return cls(
            folder,
            {
                **_as_json(said.user),
                "variables": _plain(said.environment.data),
                "autoload": os.environ.get(_AUTOLOAD, ""),
                "files": {str(path): digest for path, digest in digests.items() if str(path) not in brought},
            },
            {**_as_json(said.project), "folder": str(folder), "trusted": merged.trust.trusted, "files": brought},
        )

    @classmethod
    def let_count(cls, folder: Path) -> Version | None:
        """The version that a person let count last. A half of it that nobody has seen yet counts as it is now; None
        where neither half was seen."""
        user, project = (read_half(place) for place in places(folder))
        if user and project:
            return cls(folder, user, project)
        now = cls.of_now(folder) if user or project else None
        return now and cls(folder, user or now.user, project or now.project)

    def keep(self) -> None:
        """Let it count from now on."""
        for place, half in zip(places(self.folder), (self.user, self.project), strict=True):
            make_private(place.parent)
            replace_file(place, json.dumps(half).encode())

    def has(self, other: Version) -> bool:
        """True where the other version says nothing beyond this one."""
        halves = (self.user, other.user), (self.project, other.project)
        return all(
            {**mine, "files": {}} == {**theirs, "files": {}} and mine["files"].items() >= theirs["files"].items()
            for mine, theirs in halves
        )

    def says_as(self, other: Version) -> bool:
        """True where both have the same settings, and this one has all files of the other."""
        halves = (self.user, other.user), (self.project, other.project)
        return all(mine["settings"] == theirs["settings"] for mine, theirs in halves) and (
            self.files.items() >= other.files.items()
        )

    def with_rules_of(self, now: Version) -> Iterator[Version]:
        """This version with rules that another one adds to plugins, the most first: all added denies and asks, the
        denies alone, and the same for each plugin. Added rules may count though other changes wait."""
        folded = _rules_in(self.user) | _rules_in(self.project) | _rules_in(now.user) | _rules_in(now.project)
        for names in (folded, *([name] for name in folded if len(folded) > 1)):
            for actions in (("deny", "ask"), ("deny",)):
                halves = (self.user, now.user), (self.project, now.project)
                yield Version(self.folder, *(_with_rules(old, new, names, actions) for old, new in halves))

    @property
    def files(self) -> Mapping[str, str]:
        """The digests of the files whose content counts, by path."""
        return {**self.user["files"], **self.project["files"]}

    def read(self) -> tuple[Config, Merged]:
        """The configuration of this version. Reading a file whose content has changed since raises `ConfigError`; so
        does this method where the variable that switches plugins off has changed."""
        if self.user["autoload"] != os.environ.get(_AUTOLOAD, ""):
            raise ConfigError("environment", (f"{_AUTOLOAD} is another than before. {trust_advice(self.folder)}",))
        sources = Sources(
            user=_source(self.user),
            project=_source(self.project),
            environment=Source("environment", self.user["variables"]),
            code=Source("code", {}),
            as_trusted=self.project["trusted"],
            digests={Path(path): digest for path, digest in self.files.items()},
        )
        return read_config(folder=self.folder, sources=sources, tables=_TABLES)


def make_private(folder: Path) -> None:
    """Make a folder in the guard's state folder, which a judge uses only if no other user may."""
    for one in (folder.parent, folder):
        one.mkdir(parents=True, exist_ok=True, mode=0o700)


def rules_folder() -> Path:
    return state_folder() / "guard" / "rules"


def places(folder: Path) -> tuple[Path, Path]:
    """The files with the kept versions: the user's half for all projects, and the half of this project."""
    return rules_folder() / _USER, rules_folder() / f"{digest_of(str(folder))[:32]}.json"


def read_half(place: Path) -> Json | None:
    try:
        half: Any = json.loads(place.read_text("utf-8"))
        kinds = {**_KINDS, **(_OF_USER if place.name == _USER else _OF_PROJECT)}
        if wrong := [name for name, kind in kinds.items() if not isinstance(half.get(name), kind)]:
            raise ValueError(f"it lacks {', '.join(wrong)}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(
            str(place), (f"cannot be read: {error}. A person writes it anew with `hooksdk trust`",)
        ) from None
    return half


def plugins_file(config: Config, folder: Path) -> list[Path]:
    setting = config.plugins_file
    return [] if setting is False else [resolve(folder / (PLUGINS_FILE if setting is True else setting))]


def _with_rules(half: Json, now: Json, names: Collection[str], actions: Sequence[str]) -> Json:
    half = copy.deepcopy(half)
    for folded, rules in _rules_in(now).items():
        have = _rules_in(half).get(folded, [])
        if added := [one for one in rules if folded in names and one.get("action") in actions and one not in have]:
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
    """Settings as JSON reads them back."""
    return json.loads(json.dumps(settings, default=str))


def _source(half: Json) -> Source:
    return Source(half["where"], half["settings"])


def loosened(before: Version, after: Version) -> str:
    """The first of `loosenings`; empty where there is none."""
    return next(loosenings(before, after), "")


def loosenings(before: Version, after: Version) -> Iterator[str]:
    """What of the newer version may loosen the older one, in words; nothing where surely nothing does. Raises
    `ConfigError`."""
    for path, digest in before.files.items():
        if NamedFile("", Path(path)).digest != digest:
            yield f"{path} has changed"
    if before.has(after):
        return
    halves = (before.user, after.user), (before.project, after.project)
    where = " and ".join(one["where"] for old, one in halves if old != one)
    for path in after.files:
        if path not in before.files:
            yield f"{where}: {path} would count"
    try:
        (old, old_merged), (new, new_merged) = before.read(), after.read()
    except ConfigError as error:
        yield str(error).rstrip(".")
        return
    for name in Config.model_fields:
        if name not in _UNREAD and getattr(old, name) != getattr(new, name):
            yield f"{where}: '{name}' is another"
    for folded in sorted({fold(name) for config in (old, new) for name in config.plugins}):
        is_same = _said(folded, old, old_merged) == _said(folded, new, new_merged)
        if not is_same:
            yield from (f"{where}: {reason}" for reason in _plugin_loosened(folded, old, new))


def _said(folded: str, config: Config, merged: Merged) -> object:
    """All settings by which a plugin is loaded and configured."""
    section, own = config.plugin(folded), merged.own_settings.get(folded)
    switches = folded in merged.unconfirmed, folded in merged.switched_off
    return section and section.model_dump(), own and replace(own, project=replace(own.project, digests={})), switches


@dataclass(frozen=True)
class _Judging:
    """How a plugin judges calls.

    Attributes:
        written: The rules as they stand in the settings.
        rest: All other settings.
    """

    rules: Rules
    written: Sequence[object] = ()
    rest: Sequence[object] = ([], {}, {})


def _plugin_loosened(folded: str, old: Config, new: Config) -> Iterator[str]:
    before, after = (_judging(folded, config) for config in (old, new))
    if before is None or after is None or before.rest != after.rest:
        yield f"the settings of plugin '{folded}' are others"
        return
    missing = [*after.written]
    for rule in before.written:
        if rule not in missing:
            break
        missing.remove(rule)
    else:
        known = [(one.action, one.facts) for one in before.rules.rules]
        added = [one.action for one in after.rules.rules if (one.action, one.facts) not in known]
        stops = ("deny",) if after.rules.default == "deny" else ("deny", "ask")
        if before.rules.default == after.rules.default and all(action in stops for action in added):
            return
    if any(is_object(rule) and rule.get("limit") for rule in before.written if rule not in after.written):
        yield f"a rule with a limit is another in plugin '{folded}', and would count anew"
        return
    try:
        from hooksdk.rules.proofs import Unknown, changes
    except ModuleNotFoundError:
        yield f"more than an added deny or ask has changed in plugin '{folded}'"
        return
    words = {one.number: one.words for one in before.rules.rules}
    try:
        for change in changes(before.rules, after.rules, budget=STEPS):
            if change.is_loosened:
                rule = words.get(change.old_rule.number, "its default")
                yield f"plugin '{folded}' would say {change.new} where it says {change.old} ({rule})"
    except Unknown:
        yield f"the rules of plugin '{folded}' take too long to compare"


def _judging(folded: str, config: Config) -> _Judging | None:
    """How a built-in plugin judges calls; None for one that does not describe its rules, and for plugins of others."""
    plugin = next(filter(partial(_is_built_in, folded), installed_plugins(config)), None)
    if plugin is None:
        return None
    section = config.plugin(folded) or PluginConfig()
    if not plugin.loaded or section.mode == "shadow":
        return _Judging(Rules(()))
    from hooksdk.host import look_at  # few decisions compare versions

    look_at(plugin, config)
    if plugin.refusal is not None:
        raise plugin.refusal
    describe = getattr(plugin.holder, "describe_rules", None)
    if describe is None:
        return None
    settings = plugin.config.model_dump(mode="json", exclude_unset=True)
    written, _ = settings.pop("rules", []), settings.pop("default", None)  # part of the description
    return _Judging(describe(plugin.config), written, (section.grants, section.timeouts, settings))


def _is_built_in(folded: str, plugin: Plugin) -> bool:
    return plugin.origin == "built-in" and fold(plugin.id) == folded
