"""Versions of a project's configuration as the guard keeps them: one of now, and the one that a person let count."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
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
from hooksdk.gateway import config_problems
from hooksdk.guard._settings import guard_problems
from hooksdk.stores.files import replace_file
from hooksdk.values import is_object

Json = dict[str, Any]
_TABLES = {"gateway": config_problems, "guard": guard_problems}
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
        own += plugins_file(config, folder)
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


def make_private(folder: Path) -> None:
    """Make a folder in that of the guard's state, which a judge takes only where nobody else may use it."""
    for one in (folder.parent, folder):
        one.mkdir(parents=True, exist_ok=True, mode=0o700)


def rules_folder() -> Path:
    return state_folder() / "guard" / "rules"


def places(folder: Path) -> tuple[Path, Path]:
    """Where it is kept what the user let count, for all projects, and for this one."""
    return rules_folder() / "user.json", rules_folder() / f"{digest_of(str(folder))[:32]}.json"


def read_half(place: Path) -> Json | None:
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


def plugins_file(config: Config, folder: Path) -> list[Path]:
    setting = config.plugins_file
    return [] if setting is False else [resolve(folder / (PLUGINS_FILE if setting is True else setting))]


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
