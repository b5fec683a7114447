"""Changing configuration files without touching anything else in them: the project's, and the trust in the user's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hooksdk.cli._configuration import read_config
from hooksdk.config import TRUST_TABLE, Remark, Trust, fold, user_file
from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores.files import replace_file


@dataclass(frozen=True)
class Edit:
    """What came of an edit of the project's file."""

    path: Path
    remarks: Sequence[Remark]
    """What else is in the file and counts only where its folder is trusted; so it was not trusted with the edit."""


def edit_project(project: Path, plugin_id: str, *, enabled: bool, grants: Sequence[str]) -> Edit:
    """Switch a plugin in the project's file, as `switch_plugin`, and let it count."""
    return _let_count(project, lambda: switch_plugin(project, plugin_id, enabled=enabled, grants=grants))


def add_to_project(project: Path, text: str) -> Edit:
    """Write further tables to the end of `hooksdk.toml`, and let them count. Raises `ConfigError`, with the file untouched, when
    the result would not be a valid configuration."""
    path = project / "hooksdk.toml"

    def add() -> Path:
        before = path.read_bytes() if path.exists() else None
        _write(path, added(before.decode("utf-8") if before else "", text))
        _check(project, path, before)
        return path

    return _let_count(project, add)


def added(before: str, text: str) -> str:
    """A file's text with more at its end."""
    return f"{before.rstrip()}\n\n{text}" if before.strip() else text


def _let_count(project: Path, change: Callable[[], Path]) -> Edit:
    """Change the project's file, and let it count: whoever types it means it. A folder that had nothing to distrust, or was
    trusted, is trusted with the change."""
    _, before = read_config(folder=project)
    clear = before.trust.trusted or not before.to_look_at()
    path = change()
    _, after = read_config(folder=project)
    if clear and (before.trust.trusted or after.to_look_at()):
        record_trust(after.trust)
    return Edit(path, () if clear or after.trust.trusted else after.to_look_at())


def switch_plugin(project: Path, plugin_id: str, *, enabled: bool, grants: Sequence[str]) -> Path:
    """Write `[plugins.ID]` with `enabled` and more grants, and answer the file's path; one that is switched off loses
    its grants. Comments and everything else stay. Raises `ConfigError`, with the file untouched, when the result would
    not be a valid configuration."""
    path, inside = _file(project)
    read_config(folder=project)
    document = _parse(path)
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
    _check(project, path, before)
    return path


def _check(project: Path, path: Path, before: bytes | None) -> None:
    """Put the file back where what stands in it now is no valid configuration."""
    try:
        read_config(folder=project)
    except ConfigError:
        _write(path, before.decode("utf-8")) if before is not None else path.unlink()
        raise


def _file(project: Path) -> tuple[Path, tuple[str, ...]]:
    """`hooksdk.toml`, or pyproject.toml where the project keeps its settings in there already."""
    own, pyproject = project / "hooksdk.toml", project / "pyproject.toml"
    if not own.exists() and pyproject.exists() and "[tool.hooksdk" in pyproject.read_text(encoding="utf-8"):
        return pyproject, ("tool", "hooksdk")
    return own, ()


def record_trust(trust: Trust) -> Path:
    """Remember in the user's file that a folder or a file is trusted at its content, and answer that file's path."""
    path = user_file(os.environ)
    document: Any = _parse(path)
    document.setdefault(TRUST_TABLE, tomlkit.table())[str(trust.folder)] = trust.digest
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, tomlkit.dumps(document), mode=0o600)
    return path


def forget_trust(folder: Path) -> Path | None:
    """Take a folder and the files in it out of the user's file, and answer that file's path; None where none of them was
    in there."""
    path = user_file(os.environ)
    document: Any = _parse(path)
    known = [Path(name) for name in document.get(TRUST_TABLE, {})]
    inside = [one for one in known if one.is_relative_to(folder) and (one.parent == folder or one.is_file())]
    places = [str(one) for one in known if one == folder or one in inside]  # a folder below has a trust of its own
    if not places:
        return None
    for name in places:
        del document[TRUST_TABLE][name]
    _write(path, tomlkit.dumps(document), mode=0o600)
    return path


def _parse(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
    except (OSError, UnicodeDecodeError, TOMLKitError) as error:
        raise ConfigError(str(path), (f"cannot be read: {error}",)) from None


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Whole or not at all; `mode` is for a new file. A symbolic link stays one."""
    target = path.resolve()
    try:
        replace_file(target, text.encode(), mode=target.stat().st_mode & 0o777 if target.exists() else mode)
    except StoreError as error:
        raise ConfigError(str(path), (error.problem,)) from None
