"""Versions of a project's configuration: a file, a revision of git, or the folder now. Nothing of the project is
run."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._policy_rules import Judges, judges_of
from hooksdk.config import PROJECT_FILES, PluginConfig, Source, fold, project_settings, read_project
from hooksdk.errors import ConfigError, HookSDKError, did_you_mean
from hooksdk.host import Plugin, load_plugins


@dataclass(frozen=True)
class Version:
    """One version of a configuration, with the plugins that it loads.

    Attributes:
        plugins: By folded id.
        not_installed: By name, the sections of plugins that are not installed here, such as those of the project's own
            plugins file.
    """

    where: str
    plugins: Mapping[str, Plugin]
    judges: Judges
    not_installed: Mapping[str, PluginConfig]
    plugins_file: bool | str


def read_version(text: str | None, project: Path) -> Version:
    """The version in a file or a revision, or in the folder now where `text` is None. It counts as in a trusted folder,
    over the user's own settings. Raises `ConfigError` for what is wrong in it, and `CommandProblem` where there is no
    such version."""
    return load_version(read_project(project) if text is None else _source(text, project), project)


def load_version(source: Source, project: Path) -> Version:
    """The version that has these settings. Raises `ConfigError`."""
    config, _ = read_config(folder=project, project=source)
    trusting = config.model_copy(update={"plugins_file": False})
    try:
        plugins, _ = load_plugins((), trusting, folder=project, on_refusal=_raise)
        known = [plugin.id for plugin in plugins]
        not_installed = {name: one for name, one in config.plugins.items() if fold(name) not in set(map(fold, known))}
        for name in not_installed:
            if hint := did_you_mean(name, known):
                raise ConfigError("configuration", (f"'plugins.{name}': no such plugin is installed.{hint}",))
    except ConfigError as error:
        raise ConfigError(f"{source.where}: {error.where}", error.problems) from None
    loaded = {fold(plugin.id): plugin for plugin in plugins if plugin.loaded}
    return Version(source.where, loaded, judges_of(plugins, config), not_installed, config.plugins_file)


def _raise(plugin: Plugin, error: HookSDKError) -> None:  # noqa: ARG001 - as `load_plugins` calls it
    raise error


def _source(text: str, project: Path) -> Source:
    path = Path(text)
    if path.is_file():
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(text, (f"cannot be read: {error.strerror}",)) from None
        return _settings(content, text) or Source(text, {})
    revision, colon, name = text.partition(":")
    commit = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit is None or not revision:
        raise CommandProblem(
            f"'{text}' is neither a file nor a revision of git; write such as hooksdk.toml, HEAD~1 or main:hooksdk.toml"
        )
    for each in [name] if colon else [f"./{file}" for file in PROJECT_FILES]:
        content = _git(project, "cat-file", "blob", f"{commit.decode().strip()}:{each}")
        where = f"{revision}:{each.removeprefix('./')}"
        if content is not None and (source := _settings(content, where)) is not None:
            return source
    if colon:
        raise CommandProblem(
            f"{text}: the revision has no such file with settings; a path counts from the top of the repository"
        )
    return Source(f"{revision}:{PROJECT_FILES[0]}", {})  # before the project had any


def _settings(content: bytes, where: str) -> Source | None:
    try:
        return project_settings(content.decode("utf-8"), where)
    except UnicodeDecodeError as error:
        raise ConfigError(where, (f"is not TOML: {error}",)) from None


def _git(project: Path, *words: str) -> bytes | None:
    """What git answers in the folder; None where it says no."""
    try:
        command = ["git", "-C", str(project), *words]  # git's own words alone
        done = subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL)  # noqa: S603 - see above
    except OSError as error:
        raise CommandProblem(
            f"a revision needs git, which cannot be run: {error.strerror}. A file needs none"
        ) from None
    return done.stdout if done.returncode == 0 else None
