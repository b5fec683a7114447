"""Versions of a project's configuration as the guard keeps them: one of now, and the one that a person let count."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hooksdk.approvals import digest_of
from hooksdk.config import (
    PLUGINS_FILE,
    Config,
    Merged,
    NamedFile,
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
        """As the files and the environment say it now. Raises `ConfigError`."""
        said = read_sources(folder, os.environ, None)
        config, merged = read_config(folder=folder, sources=said, tables=_TABLES)
        # Other files of the user's own are data that programs renew, such as a token, or that plugins write.
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
        """What a person let count the last time. What nobody has seen yet counts as it is now; None where that is all
        of it."""
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
        """True where the other one says nothing that this one does not."""
        halves = (self.user, other.user), (self.project, other.project)
        return all(
            {**mine, "files": {}} == {**theirs, "files": {}} and mine["files"].items() >= theirs["files"].items()
            for mine, theirs in halves
        )

    def says_as(self, other: Version) -> bool:
        """True where it has the other's settings, and files: of more files the content is trusted with their folder."""
        halves = (self.user, other.user), (self.project, other.project)
        return all(mine["settings"] == theirs["settings"] for mine, theirs in halves) and (
            self.files.items() >= other.files.items()
        )

    def with_rules_of(self, now: Version) -> Iterator[Version]:
        """This one with what another one adds to the rules of plugins, which counts whatever else waits there: the
        denies and asks of all of them, and where one of these does not tighten, less."""
        folded = _rules_in(self.user) | _rules_in(self.project) | _rules_in(now.user) | _rules_in(now.project)
        for names in (folded, *([name] for name in folded if len(folded) > 1)):
            for actions in (("deny", "ask"), ("deny",)):
                halves = (self.user, now.user), (self.project, now.project)
                yield Version(self.folder, *(_with_rules(old, new, names, actions) for old, new in halves))

    @property
    def files(self) -> Mapping[str, str]:
        """Of the files whose content counts, `sha256:...` by path."""
        return {**self.user["files"], **self.project["files"]}

    def read(self) -> tuple[Config, Merged]:
        """The configuration that it is. What is in the files now is to be what it was then, or else whoever reads one
        raises `ConfigError`, and so does this for a variable that is no setting."""
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
    """Make a folder in that of the guard's state, which a judge takes only where nobody else may use it."""
    for one in (folder.parent, folder):
        one.mkdir(parents=True, exist_ok=True, mode=0o700)


def rules_folder() -> Path:
    return state_folder() / "guard" / "rules"


def places(folder: Path) -> tuple[Path, Path]:
    """Where it is kept what the user let count, for all projects, and for this one."""
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
    """Settings as they are after a way through a file."""
    return json.loads(json.dumps(settings, default=str))


def _source(half: Json) -> Source:
    return Source(half["where"], half["settings"])
