"""Changing the project's configuration file without touching anything else in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hooksdk.config import fold, load_config
from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores._files import replace_file


def switch_plugin(project: Path, plugin_id: str, *, enabled: bool, grants: Sequence[str]) -> Path:
    """Write `[plugins.ID]` with `enabled` and more grants, and answer the file's path; one that is switched off loses
    its grants. Comments and everything else stay. Raises `ConfigError`, with the file untouched, when the result would not be a valid configuration."""
    path, inside = _file(project)
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
    except (OSError, TOMLKitError) as error:
        raise ConfigError(str(path), (f"cannot be read: {error}",)) from None
    table: Any = document
    for key in (*inside, "plugins"):
        table = table.setdefault(key, tomlkit.table(is_super_table=True))
    name = next((known for known in table if fold(known) == fold(plugin_id)), plugin_id)
    section = table.setdefault(name, tomlkit.table())
    section["enabled"] = enabled
    if not enabled:  # switched on again, it gets what is granted then
        section.pop("grants", None)
    all_grants = [*section.get("grants", []), *(grant for grant in grants if grant not in section.get("grants", []))]
    if all_grants:
        section["grants"] = all_grants
    before = path.read_bytes() if path.exists() else None
    _write(path, tomlkit.dumps(document))
    try:
        load_config(folder=project, environment={})
    except ConfigError:
        _write(path, before.decode("utf-8")) if before is not None else path.unlink()
        raise
    return path


def _file(project: Path) -> tuple[Path, tuple[str, ...]]:
    """`hooksdk.toml`, or pyproject.toml where the project keeps its settings in there already."""
    own, pyproject = project / "hooksdk.toml", project / "pyproject.toml"
    if not own.exists() and pyproject.exists() and "[tool.hooksdk" in pyproject.read_text(encoding="utf-8"):
        return pyproject, ("tool", "hooksdk")
    return own, ()


def _write(path: Path, text: str) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    try:
        replace_file(path, text.encode(), mode=mode)
    except StoreError as error:
        raise ConfigError(str(path), (error.problem,)) from None
