"""A plugin's own settings out of several sources: only the plugin knows which of a project's settings widen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from hooksdk._config.sources import plain
from hooksdk._config.trust import check_digest, content_digest, resolve


@dataclass(frozen=True, kw_only=True)
class ProjectSettings:
    """What a project's file says in `[plugins.ID.config]`, for a plugin's `Config.with_project`.

    A cloned repository brings this file along: without `trusted` nothing of it may weaken what the operator has said.

    Attributes:
        values: As they stand in the file, not checked.
        trusted: True when the operator trusts the folder at what it holds now.
        folder: The project's folder, resolved: paths in the settings are outside of it or inside.
        configured: True when the operator uses the plugin: named in the user's file, the environment or code, or given
            by code. What the operator left at its default is their word as well.
        digests: Of the files that the settings name, where the folder is trusted: `sha256:...` by resolved path.
    """

    values: Mapping[str, Any]
    trusted: bool
    folder: Path
    configured: bool = False
    digests: Mapping[Path, str] = field(default_factory=dict[Path, str])

    def path(self, name: str) -> Path:
        """The file that one of the settings names."""
        return resolve(self.folder / Path(name).expanduser())

    def read(self, name: str) -> bytes:
        """What is in the file that one of the settings names. Raises `OSError`, and `ConfigError` for a file that has
        changed since it was trusted with its folder."""
        path = self.path(name)
        content = path.read_bytes()
        if (digest := self.digests.get(path)) is not None:
            check_digest(path, content_digest(content), digest, self.folder)
        return content


@dataclass(frozen=True, kw_only=True)
class OwnSettings:
    """`[plugins.ID.config]` of each source, kept apart until the plugin is loaded."""

    user: Mapping[str, Any]
    project: ProjectSettings
    code: Mapping[str, Any]

    def usual(self) -> tuple[dict[str, Any], list[str]]:
        """The settings of a plugin that says nothing about it, and which of the project's are left out: what the
        operator sets holds, and a plugin that they configured or gave takes more from a trusted folder only."""
        values = self.project.values
        closed = self.project.configured and not self.project.trusted
        missing = [name for name in values if closed and name not in self.user]
        return self._under_code({**({} if closed else values), **self.user}), missing

    def as_merged_by(self, with_project: Any) -> tuple[dict[str, Any], list[str]]:
        """The settings that the plugin's own method makes of them, and what it leaves out, in its words."""
        project = replace(self.project, values=plain(self.project.values))
        # Code's settings are the operator's as well: the plugin weighs the project's against both.
        values, missing = with_project(self._under_code(plain(self.user)), project)
        return self._under_code(dict(values)), list(missing)

    def _under_code(self, values: dict[str, Any]) -> dict[str, Any]:
        lay(values, self.code)
        return values


def lay(into: dict[str, Any], data: Mapping[str, Any]) -> None:
    """Lay settings over others, key by key; a list is replaced as a whole."""
    for name, value in data.items():
        known: Any = into.get(name)
        if isinstance(value, Mapping) and isinstance(known, dict):
            copied = dict(cast("dict[str, Any]", known))
            lay(copied, cast("Mapping[str, Any]", value))
            into[name] = copied
        else:
            into[name] = plain(value)
