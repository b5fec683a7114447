"""Changing configuration files without touching anything else in them: the project's, with rules to begin with, and the
trust in the user's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
import typer
from tomlkit.exceptions import TOMLKitError

from hooksdk.cli._configuration import load_config, read_config
from hooksdk.cli._console import CommandProblem, View
from hooksdk.cli._edits.files import FileEdit, agreed, decoded, read_bytes
from hooksdk.cli._options import EditOptions
from hooksdk.config import TRUST_TABLE, Remark, Trust, fold, trust_advice, user_file
from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores.files import replace_file


@dataclass(frozen=True)
class Edit:
    """The outcome of an edit of the project's file.

    Attributes:
        remarks: Other settings in the file, which count only in a trusted folder: the folder was not trusted with the
            edit.
    """

    path: Path
    remarks: Sequence[Remark]


def edit_project(project: Path, plugin_id: str, *, enabled: bool, grants: Sequence[str]) -> Edit:
    """Write `[plugins.ID]` with `enabled` and more grants, and trust the edit; a plugin that is switched off loses its
    grants. Comments and everything else stay. Raises `ConfigError`, with the file untouched, when the result would not
    be a valid configuration."""
    path, inside = settings_file(project)

    def switched(text: str) -> str:
        document = _parsed(path, text)
        table: Any = document
        for key in (*inside, "plugins"):
            table = table.setdefault(key, tomlkit.table(is_super_table=True))
        name = next((known for known in table if fold(known) == fold(plugin_id)), plugin_id)
        section = table.setdefault(name, tomlkit.table())
        section["enabled"] = enabled
        if not enabled:  # switched on again, the plugin gets the grants of that time
            section.pop("grants", None)
        if all_grants := list(dict.fromkeys([*section.get("grants", []), *grants])):
            section["grants"] = all_grants
        return tomlkit.dumps(document)

    return _edit(project, path, switched)


def add_to_project(project: Path, text: str) -> Edit:
    """Write further tables to the end of `hooksdk.toml`, and trust them. Raises `ConfigError`, with the file untouched,
    when the result would not be a valid configuration."""
    return _edit(project, project / "hooksdk.toml", lambda before: added(before, text))


def added(before: str, text: str) -> str:
    """A file's text with more at its end."""
    return f"{before.rstrip()}\n\n{text}" if before.strip() else text


def _edit(project: Path, path: Path, change: Callable[[str], str]) -> Edit:
    """Change the file, or restore it when the result is no valid configuration. A folder that had nothing to distrust,
    or was trusted, is trusted with the change: the user has typed it."""
    _, before = read_config(folder=project)
    clear = before.trust.trusted or not before.to_look_at()
    content = read_bytes(path)
    text = decoded(path, content)
    _write(path, change(text))
    try:
        _, after = read_config(folder=project)
    except ConfigError:
        _write(path, text) if content is not None else path.unlink()
        raise
    if clear and (before.trust.trusted or after.to_look_at()):
        record_trust(after.trust)
    return Edit(path, () if clear or after.trust.trusted else after.to_look_at())


def settings_file(project: Path) -> tuple[Path, tuple[str, ...]]:
    """The file with the project's settings, and the tables around them: `hooksdk.toml` and none, or pyproject.toml when
    the settings are there already."""
    own, pyproject = project / "hooksdk.toml", project / "pyproject.toml"
    if not own.exists() and pyproject.exists() and "[tool.hooksdk" in pyproject.read_text(encoding="utf-8"):
        return pyproject, ("tool", "hooksdk")
    return own, ()


def record_trust(trust: Trust) -> Path:
    """Remember in the user's file that a folder or a file is trusted at its content, and return that file's path."""
    path, document = _user_document()
    document.setdefault(TRUST_TABLE, tomlkit.table())[str(trust.folder)] = trust.digest
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(path, tomlkit.dumps(document), mode=0o600)
    return path


def forget_trust(folder: Path) -> Path | None:
    """Remove a folder and the files in it from the user's file, and return that file's path; None if it had none of
    them."""
    path, document = _user_document()
    known = [Path(name) for name in document.get(TRUST_TABLE, {})]
    inside = [one for one in known if one.is_relative_to(folder) and (one.parent == folder or one.is_file())]
    places = [str(one) for one in known if one == folder or one in inside]  # a folder below has a trust of its own
    if not places:
        return None
    for name in places:
        del document[TRUST_TABLE][name]
    _write(path, tomlkit.dumps(document), mode=0o600)
    return path


def _user_document() -> tuple[Path, Any]:
    path = user_file(os.environ)
    return path, _parsed(path, decoded(path, read_bytes(path)))


def _parsed(path: Path, text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigError(str(path), (f"cannot be read: {error}",)) from None


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write the whole file or nothing; `mode` is for a new file. A symbolic link stays one."""
    target = path.resolve()
    try:
        replace_file(target, text.encode(), mode=target.stat().st_mode & 0o777 if target.exists() else mode)
    except StoreError as error:
        raise ConfigError(str(path), (error.problem,)) from None


def offer_rules(folder: Path, text: str, *, command: str, advice: str, write: bool, yes: bool, as_json: bool) -> None:
    """Print the rules; with `write` show what they add to the project's `hooksdk.toml`, ask, and write them. `command`
    prints the rules, and `advice` says what to try next. Raises `CommandProblem` when they cannot be written or nobody
    is there to answer, and `typer.Exit` for a no."""
    path = folder / "hooksdk.toml"
    view = View({"policy": text, "written": str(path) if write else None})
    if not write and not as_json:
        print(text, end="")
        return
    if write:
        _check_place(folder, command)
        before = read_bytes(path)
        edit = FileEdit(path, before, added(decoded(path, before), text).encode())
        options, unasked = EditOptions(yes=yes, as_json=as_json), "--yes writes the rules unasked"
        if not agreed([edit], f"Write these rules to {path}?", options, unasked=unasked):
            raise typer.Exit(1)
        remarks = add_to_project(folder, text).remarks
        view.line("written", f"{path}. {advice}", "green")
        if remarks:
            view.line("not trusted", f"{trust_advice(folder)}, so that the rest of the file counts, too", "yellow")
    view.show(as_json=as_json)


def _check_place(folder: Path, command: str) -> None:
    """Raise `CommandProblem` for a project with rules of its own, or with its settings in another file."""
    section = load_config(folder=folder).plugin("tool_policy")
    if section is not None and section.config:
        raise CommandProblem(
            f"{folder} has rules of tool_policy already, and nothing is written beside them. `{command}` prints these; "
            "copy what you like"
        )
    path, tables = settings_file(folder)
    if tables:
        raise CommandProblem(
            f"{path} has the settings of this project. `{command}` prints the rules; copy them there, each table "
            "with tool.hooksdk. before its name"
        )
