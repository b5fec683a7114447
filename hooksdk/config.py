"""Configuration: one model, read from the user's file, the project's file, the environment and code.

Later ones are laid over earlier ones; what a project's file widens counts only in a folder that the operator trusts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, final

import pydantic
from pydantic import Field, PrivateAttr

from hooksdk._config.merge import Merged, merge
from hooksdk._config.own_settings import OwnSettings, ProjectSettings
from hooksdk._config.rules import Remark
from hooksdk._config.sections import PluginConfig, Sections, SessionsTable, Strict, Timeouts, retention_of
from hooksdk._config.sources import (
    PROJECT_FILES,
    TRUST_TABLE,
    FileWatch,
    Source,
    Sources,
    config_files,
    fold,
    is_too_deep,
    printable_entry,
    project_folder,
    project_settings,
    read_project,
    read_sources,
    split_store,
    state_folder,
    trust_advice,
    trusted_digests,
    user_file,
    without_password,
    xdg_folder,
)
from hooksdk._config.trust import (
    PLUGINS_FILE,
    NamedFile,
    Trust,
    check_digest,
    content_digest,
    is_inside,
    look_up_file,
    named_files,
    resolve,
)
from hooksdk._tasks.background import logger
from hooksdk.errors import ConfigError, HookSDKError, did_you_mean, problem_text, unknown_key

__all__ = [
    "PLUGINS_FILE",
    "PROJECT_FILES",
    "TRUST_TABLE",
    "Config",
    "ConfigWatch",
    "FileWatch",
    "Merged",
    "NamedFile",
    "Notice",
    "PluginConfig",
    "ProjectSettings",
    "Remark",
    "Source",
    "Sources",
    "Tables",
    "Trust",
    "config_files",
    "fold",
    "is_inside",
    "is_too_deep",
    "load_config",
    "look_up_file",
    "named_files",
    "project_folder",
    "project_settings",
    "read_config",
    "read_project",
    "read_sources",
    "resolve",
    "retention_of",
    "split_store",
    "state_folder",
    "trust_advice",
    "trusted_digests",
    "user_file",
    "without_password",
    "xdg_folder",
]

Tables = Mapping[str, Callable[[object], Sequence[str]]]
"""What is wrong with a table of the configuration, by the table's name."""
_QUOTED = (("store",), ("prices",), ("sessions",))  # what is wrong is quoted already, a store without its password


class Notice(str):
    """A line of a plugin's `diagnose(...)` that is no problem: `hooksdk doctor` shows it as a notice."""

    __slots__ = ()


def _known_store(value: str) -> str:
    split_store(value)
    return value


def _check_prices(table: dict[str, Any]) -> dict[str, Any]:
    if table:
        from hooksdk.costs import check_prices

        check_prices(table)
    return table


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class Config(Strict):
    """A host's whole configuration.

    ```python
    from hooksdk import Config, Host

    config = Config(allow=["tool_policy"], plugins={"tool_policy": {"config": {"default": "ask"}}})
    host = Host(config=config)
    assert [plugin.id for plugin in host.plugins if plugin.loaded] == ["tool_policy"]
    ```

    Attributes:
        store: `memory`, `jsonl`, or `jsonl:FOLDER`. Unset, a host keeps nothing on disk; the commands use `jsonl`.
        plugins_file: Load the project's `hooksdk_plugins.py` (true), or this file. Off by default: it runs code.
        mcp: The files with MCP servers that the commands use where no `--mcp` is given, from the project's folder on;
            one path or several. None: its `mcp.json` and `.mcp.json`. A `Host` in code starts none by itself.
        allow: Only these installed plugins are loaded; None: the built-in ones that are on by default, and those with a
            section of their own.
        deny: These plugins are never loaded; beats everything else.
        on_missing_grant: An installed plugin lacks a grant: the host does not start, or what needs it is left out.
        record_first: Run no tool, one that only reads neither, before a plugin that handles `record_decision` has
            written down that it may run.
        drain: When queued trims are applied.
        timeouts: Seconds by hook, for all plugins.
        gateway: What clients of `hooksdk gateway` are shown, and who may do what:
            `hooksdk.gateway.GatewayConfig.of(config)` reads it.
        guard: How long the guard keeps sessions: `hooksdk.guard.GuardConfig.of(config)`. Only the user's own counts.
        policy: Properties that `hooksdk policy prove` and `hooksdk doctor` prove.
        sessions: How long sessions are kept, and where their keys are: `retention_of(config.sessions)` reads it.
        prices: Dollars for a million tokens of a model, by `PROVIDER:NAME`: `hooksdk.costs.PriceList(config.prices)`
            reads it.
    """

    store: Annotated[str, pydantic.AfterValidator(_known_store)] | None = None
    plugins_file: bool | str = False
    mcp: Annotated[list[str], pydantic.BeforeValidator(_as_list)] | None = None
    allow: list[str] | None = None
    deny: list[str] = Field(default_factory=list[str])
    on_missing_grant: Literal["refuse", "disable"] = "refuse"
    record_first: pydantic.StrictBool = False
    drain: Literal["agent_end", "next_model_call"] = "agent_end"
    timeouts: Timeouts = Field(default_factory=dict)
    gateway: dict[str, Any] = Field(default_factory=dict[str, Any])
    guard: dict[str, Any] = Field(default_factory=dict[str, Any])
    policy: dict[str, Any] = Field(default_factory=dict[str, Any])
    sessions: SessionsTable = Field(default_factory=dict[str, Any])
    prices: Annotated[dict[str, Any], pydantic.AfterValidator(_check_prices)] = Field(default_factory=dict[str, Any])
    plugins: Annotated[dict[str, PluginConfig], pydantic.AfterValidator(Sections)] = Field(default_factory=dict)
    # What a project's file had to do with it, where that counts later on.
    _merged: Merged | None = PrivateAttr(default=None)

    def plugin(self, plugin_id: str) -> PluginConfig | None:
        """The section of one plugin, or None."""
        sections = self.plugins if isinstance(self.plugins, Sections) else Sections(self.plugins)
        return sections.find(plugin_id)

    def timeout(self, plugin_id: str, hook: str) -> float | None:
        """The operator's time limit for one plugin's handlers of one hook, or None."""
        section = self.plugin(plugin_id)
        return (section.timeouts.get(hook) if section else None) or self.timeouts.get(hook)

    def own_settings(self, plugin_id: str) -> OwnSettings | None:
        """Where the plugin's own settings come from, when a project's file has some that are still in force."""
        settings = self._merged.own_settings.get(fold(plugin_id)) if self._merged else None
        section = self.plugin(plugin_id)
        # Whoever copied the configuration with other settings for the plugin meant those.
        return settings if settings and section and section.config == settings.usual()[0] else None

    def switched_off_by_project(self, plugin_id: str) -> Path | None:
        """The project's folder, resolved, when nobody but its file denies the plugin or switches it off, and it is not
        trusted; else None."""
        merged = self._merged
        return merged.trust.folder if merged is not None and fold(plugin_id) in merged.switched_off else None

    @property
    def digests(self) -> Mapping[Path, str]:
        """Of the files that a project's settings name and that count since you trust its folder: `sha256:...` by
        resolved path. Nothing else is to be read from them."""
        return self._merged.digests if self._merged is not None else {}

    def read_file(self, path: Path) -> bytes:
        """What is in a file that a setting names. Raises `OSError`, and `ConfigError` for one that has changed since
        you trusted the folder whose settings name it."""
        content = path.read_bytes()
        if self._merged is not None and (digest := self.digests.get(resolve(path))) is not None:
            check_digest(path, content_digest(content), digest, self._merged.trust.folder)
        return content

    def check_files(self) -> None:
        """Raises `ConfigError` where one of these files is not what it was when the configuration was read."""
        for path, digest in self.digests.items():
            assert self._merged is not None
            check_digest(path, NamedFile("", path).digest, digest, self._merged.trust.folder)

    def set_by_project(self, name: str) -> bool:
        """True when the project's file says what counts of this setting, such as `mcp`."""
        return self._merged is not None and self._merged.origins.get((name,)) == self._merged.project

    def named_by_project_alone(self, plugin_id: str) -> bool:
        """True when nobody but the file of a project that is not trusted names the plugin."""
        return self._merged is not None and fold(plugin_id) in self._merged.unconfirmed


def load_config(
    overrides: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    tables: Tables | None = None,
) -> Config:
    """The configuration for a project folder (default: `project_folder` of the current one). Raises `ConfigError`
    naming file and entry.

    What would need the operator's trust and does not have it is left out, with one warning in the log.
    """
    config, merged = read_config(overrides, folder=folder, environment=environment, tables=tables)
    _tell(merged)
    return config


def _tell(merged: Merged) -> None:
    for problem in merged.problems:
        logger.warning("%s", problem)
    if missing := merged.missing_trust():
        entries = ", ".join(dict.fromkeys(printable_entry(remark.entry) for remark in missing))
        logger.warning(
            "%s: %s: %s. %s", merged.project, merged.why_untrusted, entries, trust_advice(merged.trust.folder)
        )


@final
class ConfigWatch:
    """The configuration of a project folder, read again when one of its files has changed: the user's, `hooksdk.toml`
    or `pyproject.toml`. The arguments are those of `load_config`. Raises `ConfigError` for what is wrong at first.

    `check` is called with a newer configuration before it counts, and raises for one that cannot be used: the plugins'
    own settings, which only they know, are looked at when a host is made.

    ```python
    from pathlib import Path

    from hooksdk import Host
    from hooksdk.config import ConfigWatch

    watch = ConfigWatch(folder=Path(), check=lambda config: Host(config=config))
    host = Host(config=watch.config)
    if watch.catch_up():  # before a session begins, say
        host = Host(config=watch.config)
    ```

    Attributes:
        config: The newest configuration that could be read.
        problem: Why the files as they are now do not count, in one line; empty where they do.
    """

    def __init__(
        self,
        overrides: Mapping[str, Any] | None = None,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        check: Callable[[Config], object] | None = None,
        tables: Tables | None = None,
    ) -> None:
        folder = folder or project_folder(Path.cwd())
        self._check = check
        self._read = partial(read_config, overrides, folder=folder, environment=environment, tables=tables)
        self._files = FileWatch(config_files(folder, os.environ if environment is None else environment))
        config, merged = self._read()
        _tell(merged)
        self.config: Config = config
        self.problem = ""
        self._trusted = merged.trust.trusted

    def catch_up(self) -> bool:
        """True when `config` is another than before. Without a change it costs one question to the file system for each
        file.

        The old configuration stays, with a line in the log and in `problem`, where a file is broken or `check` raises,
        and where the folder was trusted and its files are not the ones any more that the operator trusted.
        """
        if not self._files.changed():
            return False
        try:
            config, merged = self._read()
            if self._trusted and merged.trust.state == "changed" and merged.to_look_at():
                advice = trust_advice(merged.trust.folder)
                return self._keep(f"{merged.project} has changed since you trusted it. {advice}")
            if self._check is not None and config != self.config:
                self._check(config)
        except HookSDKError as error:
            return self._keep(str(error))
        self.problem, self._trusted = "", merged.trust.trusted
        if config == self.config:
            return False
        _tell(merged)
        self.config = config
        return True

    def _keep(self, problem: str) -> bool:
        self.problem = problem
        logger.warning("the configuration stays as it was: %s", problem)
        return False


def read_config(
    overrides: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    tables: Tables | None = None,
    project: Source | None = None,
    sources: Sources | None = None,
) -> tuple[Config, Merged]:
    """The configuration, and how it came to be: who set what, and what does not count. Nothing is logged.

    `tables` has checks for tables that a `Host` does not read, such as `{"gateway": hooksdk.gateway.config_problems}`.
    `project` are settings in the place of the project's file, such as `project_settings(text, where)`: they count as a
    trusted folder's do. `sources` stand in the place of all files and variables.
    """
    folder = folder or project_folder(Path.cwd())
    sources = sources or read_sources(folder, os.environ if environment is None else environment, overrides, project)
    for source in sources:
        _validate(source.data, source.where, tables)
    merged = merge(sources, folder)
    config = _validate(merged.data, "configuration", tables)
    # Only where it counts later on: the same settings, written in code, are an equal configuration.
    by_project = ("mcp",) in merged.origins and merged.origins["mcp",] == merged.project
    if merged.own_settings or merged.switched_off or merged.unconfirmed or merged.digests or by_project:
        config._merged = merged  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return config, merged


def _validate(data: Mapping[str, Any], where: str, tables: Tables | None) -> Config:
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(where, (f"must be a table of settings, got {data!r:.60}",))
    problems: list[str] = []
    config = None
    try:
        config = Config.model_validate(dict(data))
    except pydantic.ValidationError as error:
        problems = [
            _unknown_setting([str(part) for part in one["loc"]], is_table=isinstance(one["input"], Mapping))
            if one["type"] == "extra_forbidden"
            else problem_text(one, quote_value=one["loc"] not in _QUOTED)
            + _where_plugins_are_told([str(part) for part in one["loc"]])
            for one in error.errors()
            if one["loc"][0] not in (tables or {})
        ]
    problems += [problem for name, check in (tables or {}).items() if name in data for problem in check(data[name])]
    if config is None or problems:
        raise ConfigError(where, tuple(problems))
    return config


def _where_plugins_are_told(path: Sequence[str]) -> str:
    """What is most often meant by a wrong value in a plugin's section."""
    match path:
        case ["plugins", plugin]:
            return f". Write a table: [plugins.{plugin}] with enabled = true"
        case ["plugins", plugin, "enabled" | "mode" as name]:
            return f". The plugin's own settings, such as its own '{name}', go under [plugins.{plugin}.config]"
        case _:
            return ""


def _unknown_setting(path: list[str], *, is_table: bool) -> str:
    name = ".".join(path)
    # A plugin's name may be near to a setting's: tool_policy to policy. A slip of a letter or two is nearer.
    if is_table and len(path) == 1 and not get_close_matches(name, Config.model_fields, cutoff=0.8):
        return f"'{name}' is not a setting. Of a plugin, write [plugins.{name}]; its own settings go under [plugins.{name}.config]."
    if len(path) < 3:
        return unknown_key(name, Config.model_fields)
    hint = did_you_mean(path[-1], PluginConfig.model_fields)
    return f"'{name}' is not a setting." + (hint or f" The plugin's own settings go under [plugins.{path[1]}.config].")
