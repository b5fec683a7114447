"""Laying the sources over each other: the user's file, the project's as far as it may, the environment, code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hooksdk._config.own_settings import OwnSettings, ProjectSettings, lay
from hooksdk._config.rules import PLUGIN_SETTINGS, SETTINGS, Remark, Setting, Situation, settle
from hooksdk._config.sources import Source, Sources, fold, plain
from hooksdk._config.trust import NOT_THERE, PLUGINS_SETTING, NamedFile, Trust, look_up, plugins_path

# Where a setting stands, such as `("plugins", "x", "grants")`.
Place = tuple[str, ...]
# A place has at most so many words; what is below is one value.
TABLES = 4


@dataclass
class Merged:
    """The settings that count, who said each, and what does not count.

    Attributes:
        project: The place of the project's settings.
        widening: Settings that count only where the folder is trusted.
        naming: The plugins that the project alone names; installed ones of strangers are loaded only where the folder
            is trusted.
        left_to_plugins: The project's settings for plugins: each plugin decides on its own when it is loaded.
        overruled: Settings that do not count even where the folder is trusted.
        named: The plugins that the operator configured or allowed, by folded id.
        unconfirmed: Folded ids of the plugins that nobody but the project names, without trust.
        switched_off: Folded ids of the plugins that nobody but the project, without trust, switches off.
        own_settings: By folded id, for plugins that the project has settings for.
        problems: What is odd about the files though it counts, in words for a warning: one plugin under two spellings,
            a user's file that others can write.
        digests: Of the files that count by trust in the folder, by resolved path: their content is to be this one when
            they are read.
    """

    trust: Trust
    project: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    origins: dict[Place, str] = field(default_factory=dict[Place, str])
    widening: list[Remark] = field(default_factory=list[Remark])
    naming: list[Remark] = field(default_factory=list[Remark])
    left_to_plugins: list[Remark] = field(default_factory=list[Remark])
    overruled: list[Remark] = field(default_factory=list[Remark])
    named: Mapping[str, str] = field(default_factory=dict[str, str])
    unconfirmed: set[str] = field(default_factory=set[str])
    switched_off: set[str] = field(default_factory=set[str])
    own_settings: dict[str, OwnSettings] = field(default_factory=dict[str, OwnSettings])
    problems: list[str] = field(default_factory=list[str])
    digests: dict[Path, str] = field(default_factory=dict[Path, str])

    def to_look_at(self) -> list[Remark]:
        """Everything of the project that trust would let count, or that a plugin may let count then."""
        return [*self.widening, *self.naming, *self.left_to_plugins]

    @property
    def why_untrusted(self) -> str:
        """Why the entries of `missing_trust` do not count."""
        changed = self.trust.state == "changed"
        return f"not used, since {'it has changed since you trusted it' if changed else 'you have not trusted this folder'}"

    def named_files(self) -> list[Remark]:
        """The files that the project's settings name, which are trusted at their content."""
        return [
            Remark(one.entry, str(one.path), self._why_named(one))
            for one in self.trust.files
            if one.entry != PLUGINS_SETTING
        ]

    def _why_named(self, file: NamedFile) -> str:
        if file.digest == NOT_THERE:
            return "there is no such file that can be read"
        inside = file.path.is_relative_to(self.trust.folder)
        return f"this file counts as it is now{'' if inside else ', and lies outside of the folder'}"

    def missing_trust(self) -> list[Remark]:
        """What does not count because the folder is not trusted."""
        return [] if self.trust.trusted else self.widening


def merge(sources: Sources, folder: Path) -> Merged:
    """Everything that the sources say, in one."""
    problems = [*sources.problems]
    user, project, environment, code = (_tidy(source, problems) for source in sources)
    trust = look_up(folder, project.data, user.data.get("plugins_file"), sources.trusted)
    trust = replace(trust, recorded=trust.digest) if sources.as_trusted else trust
    named = _named(user.data, environment.data, code.data)
    merged = Merged(trust, project.where, named=named, problems=problems)
    if trust.trusted:
        own_words = {*environment.data, *code.data}
        merged.digests = {one.path: one.digest for one in trust.files if one.entry not in own_words}
    merged.digests |= sources.digests
    _lay(merged, user)
    here = Situation(trust.folder, trust.trusted, named)
    _check_own_plugins_file(merged, here, user)
    _lay_project(merged, here, user, project, code)
    for source in (environment, code):
        _lay(merged, source)
    merged.origins.update({(name,): f"HOOKSDK_{name.upper()}" for name in environment.data if name not in code.data})
    merged.overruled = here.overruled
    later = {*environment.data, *code.data} - {"plugins", "timeouts"}
    merged.widening = [remark for remark in here.widening if remark.entry not in later]
    if not trust.trusted:
        merged.unconfirmed = {fold(name) for name in _named(project.data)} - set(named)
    merged.switched_off = here.switched_off - _off(user.data) - _off(environment.data) - _off(code.data)
    return merged


def _tidy(source: Source, problems: list[str]) -> Source:
    """One spelling for each plugin: a file could otherwise say two things of one."""
    data: dict[str, Any] = plain(source.data)
    if "plugins" in data:
        sections: dict[str, Any] = {}
        spellings: dict[str, str] = {}
        for name, section in data["plugins"].items():
            first = spellings.setdefault(fold(name), name)
            if first != name:
                problems.append(
                    f"{source.where}: {f'plugins.{first}'!r} and {f'plugins.{name}'!r} are one plugin: of a setting that stands "
                    "in both the later one counts. Write one section"
                )
            lay(sections, {first: section})
        data["plugins"] = sections
    return Source(source.where, data)


def _spellings(sections: Mapping[str, Any]) -> dict[str, str]:
    """How each plugin is spelt there, by its folded id."""
    return {fold(name): name for name in sections}


def _named(*sources: Mapping[str, Any]) -> dict[str, str]:
    """The plugins that have a section, unless it switches them off, or a place in `allow`."""
    names = [
        name
        for data in sources
        for name in (
            *(data.get("allow") or ()),
            *(one for one, section in _sections(data) if section.get("enabled", True)),
        )
    ]
    return {fold(name): name for name in names}


def _off(data: Mapping[str, Any]) -> set[str]:
    off = [name for name, section in _sections(data) if not section.get("enabled", True)]
    return {fold(name) for name in (*(data.get("deny") or ()), *off)}


def _sections(data: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    return data.get("plugins", {}).items()


def _lay(merged: Merged, source: Source) -> None:
    def put(into: dict[str, Any], data: Mapping[str, Any], above: Place) -> None:
        spellings = _spellings(into) if above == ("plugins",) else {}
        for name, value in data.items():
            key = spellings.get(fold(name), name) if spellings else name
            place = (*above, key)
            if isinstance(value, Mapping) and len(place) < TABLES:
                if key not in into:
                    into[key] = {}
                    merged.origins[place] = source.where
                put(into[key], value, place)  # pyright: ignore[reportUnknownArgumentType]
            else:
                lay(into, {key: value})
                merged.origins[place] = source.where

    put(merged.data, source.data, ())


def _check_own_plugins_file(merged: Merged, here: Situation, user: Source) -> None:
    """The user's `plugins_file = true` is about folders that they had not seen when they wrote it: without trust a
    folder's own code does not run for that."""
    own = merged.data.get("plugins_file", False)
    if own is False or (isinstance(own, str) and Path(own).is_absolute()):
        return
    path = plugins_path(here.folder, own)
    if not here.trusted:
        del merged.data["plugins_file"], merged.origins["plugins_file",]
    if path.is_relative_to(here.folder) and path.is_file():
        here.widening.append(Remark("plugins_file", own, f"runs {path} in your process, as {user.where} says"))


def _lay_project(merged: Merged, here: Situation, user: Source, project: Source, code: Source) -> None:
    for name, value in project.data.items():
        if name != "plugins":
            setting = Setting(name, value, merged.data.get(name), here)
            _put(merged, merged.data, (name,), settle(SETTINGS, name, setting), project.where)
    user_allows = user.data.get("allow")
    for name in project.data.get("allow") or ():
        if fold(name) not in here.named:
            merged.naming.append(Remark("allow", [name], "switches the plugin on, if it is installed"))
    sections: dict[str, Any] = merged.data.setdefault("plugins", {})
    spellings = _spellings(sections)
    for name, section in _sections(project.data):
        folded = fold(name)
        if user_allows is not None and folded not in here.named:
            asking = Setting(f"plugins.{name}", section, None, here, folded)
            if not asking.may_widen("the user's allow list does not have it"):
                continue
        if folded not in here.named and section.get("enabled", True):
            merged.naming.append(Remark(f"plugins.{name}.enabled", True, "switches the plugin on, if it is installed"))
        key = spellings.get(folded, name)
        own: Mapping[str, Any] = sections.get(key, {})
        has_section = key in sections
        into = sections.setdefault(key, {})
        merged.origins.setdefault(("plugins", key), project.where)
        for entry, value in section.items():
            if entry == "config":
                values = ProjectSettings(
                    values=value,
                    trusted=here.trusted,
                    folder=here.folder,
                    configured=has_section or folded in here.named,
                    digests=merged.digests,
                )
                user_settings = dict(own.get("config", {}))
                settings = OwnSettings(user=user_settings, project=values, code=_code_settings(code, folded))
                _leave_to_plugin(merged, key, settings, project.where)
            else:
                setting = Setting(f"plugins.{key}.{entry}", value, own.get(entry), here, folded)
                outcome = settle(PLUGIN_SETTINGS, entry, setting)
                _put(merged, into, ("plugins", key, entry), outcome, project.where)
    if not sections:
        del merged.data["plugins"]


def _code_settings(code: Source, folded: str) -> dict[str, Any]:
    settings: list[dict[str, Any]] = [
        one.get("config", {}) for name, one in _sections(code.data) if fold(name) == folded
    ]
    return settings[0] if settings else {}


def _leave_to_plugin(merged: Merged, key: str, settings: OwnSettings, where: str) -> None:
    merged.own_settings[fold(key)] = settings
    _, missing = settings.usual()
    into = merged.data["plugins"][key].setdefault("config", {})
    for name, value in settings.project.values.items():
        place = ("plugins", key, "config", name)
        merged.left_to_plugins.append(
            Remark(".".join(place), value, "tightening counts now, loosening once trusted: the plugin decides")
        )
        if name not in settings.user and name not in missing:
            into[name] = value
            merged.origins[place] = where
    if not into:
        del merged.data["plugins"][key]["config"]


def _put(merged: Merged, into: dict[str, Any], place: Place, outcome: Any, where: str) -> None:
    """Set a value that counts after the project's file; its origin is the project unless nothing has changed."""
    name, known = place[-1], into.get(place[-1])
    if outcome is None or outcome == known:
        return
    into[name] = outcome
    if isinstance(outcome, dict):  # seconds by hook
        before: Mapping[str, Any] = known or {}
        changed = [key for key in cast("dict[str, Any]", outcome) if before.get(key) != outcome[key]]
        merged.origins.update({(*place, key): where for key in changed})
        merged.origins.setdefault(place, where)
    else:
        adds = isinstance(known, list) and outcome[: len(cast("list[Any]", known))] == known != []
        merged.origins[place] = f"{merged.origins[place]} + {where}" if adds else where
