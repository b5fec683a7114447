"""One plugin that a host knows: its id, its settings, its instances."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pydantic
from pydantic import BaseModel

from hooksdk._config.sources import printable_entry, trust_advice
from hooksdk._config.trust import resolve
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.config import Config
from hooksdk.errors import ConfigError, HookSDKError, MissingGrant, PluginRefused, problem_text, unknown_key
from hooksdk.manifest import Manifest, needed_grants
from hooksdk.patterns import ToolPattern

# The parameters that a plugin class may ask for.
CONSTRUCTOR = {"config", "family", "host", "state", "shared", "storage"}


@dataclass(kw_only=True)
class Plugin:
    """One plugin that a host knows, loaded or not.

    Attributes:
        origin: `code`, `installed`, `built-in` or the path of a plugins file.
        holder: The module or class.
        status: `loaded`, `off`, `denied`, `not allowed`, `not enabled` or `refused`.
        config: The plugin's own configuration, checked: an instance of its `Config`, or a mapping.
        unneeded: Names of handlers that are not called, since its settings do not need them.
        tool_patterns: By hook, the patterns of its handlers' `tools=`.
        grants: The grants that the operator gave. Only an installed plugin needs any.
        missing_grant: The error about grants for which hooks or tools are left out.
        distribution: The name of the installed distribution that it comes from.
        refusal: The error for which it is refused, known before its code is imported.
        asks_for: The names of its constructor's parameters.
    """

    id: str
    origin: str
    holder: Any = None
    manifest: Manifest | None = None
    version: str = ""
    status: str = "loaded"
    reason: str = ""
    config: Any = None
    hooks: list[str] = field(default_factory=list[str])
    unneeded: frozenset[str] = frozenset()
    tools: list[str] = field(default_factory=list[str])
    tool_patterns: dict[str, list[ToolPattern]] = field(default_factory=dict[str, list[ToolPattern]])
    grants: Sequence[str] = ()
    missing_grant: MissingGrant | None = None
    distribution: str = ""
    entry: EntryPoint | None = None
    refusal: HookSDKError | None = None
    asks_for: tuple[str, ...] = ()

    @classmethod
    def of(cls, holder: Any, origin: str = "code") -> Plugin:
        """A module or class as a plugin, under its `plugin_id`, or its name in snake_case."""
        plugin_id = getattr(holder, "plugin_id", None)
        if not isinstance(plugin_id, str) or not plugin_id:
            name = str(getattr(holder, "__name__", type(holder).__name__)).rpartition(".")[2]
            parts = (f"_{one.lower()}" if one.isupper() and index else one.lower() for index, one in enumerate(name))
            plugin_id = name if isinstance(holder, types.ModuleType) else "".join(parts)
        return cls(id=plugin_id, origin=origin, holder=holder)

    @property
    def config_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of its `Config`; None without a `Config`, and for a plugin that is not imported. Unknown
        settings are refused by the schema where the code refuses them."""
        model = getattr(self.holder, "Config", None)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return None
        schema = model.model_json_schema()
        by_other_names = any(info.alias for info in model.model_fields.values())
        if model.model_config.get("extra") != "allow" and not by_other_names:
            schema["additionalProperties"] = False
        return schema

    @property
    def is_class(self) -> bool:
        """True for a class: each session has an instance of its own."""
        return isinstance(self.holder, type)

    @property
    def loaded(self) -> bool:
        """True when its handlers are called."""
        return self.status == "loaded"

    def may(self, grant: str) -> bool:
        """True when it has this grant, or needs none."""
        return self.origin != "installed" or grant in self.grants

    def describe(self) -> dict[str, Any]:
        """The plugin as JSON, for listings. Hooks and tools of one that is not imported are those of its manifest's
        contracts; None where these do not say."""
        manifest, is_imported = self.manifest, self.holder is not None
        first_line = (inspect.getdoc(self.holder) or "").partition("\n")[0] if is_imported else ""
        return {
            "id": self.id,
            "status": self.status,
            "reason": self.reason,
            "origin": self.origin,
            "distribution": self.distribution,
            "version": self.version,
            "description": (manifest and manifest.description) or first_line,
            "permissions": manifest.permissions if manifest else [],
            "grants": list(self.grants),
            "hooks": self.hooks if is_imported else manifest and manifest.contracts.hooks,
            "tools": self.tools if is_imported else manifest and manifest.contracts.tools,
        }

    def is_the_operators_own(self, project: Path) -> bool:
        """True for a plugin given in code or by a plugins file outside of the project's folder. A project that is not
        trusted cannot switch it off or configure it. A plugins file inside belongs to the project."""
        if self.origin in {"installed", "built-in"}:
            return False
        return self.origin == "code" or not resolve(Path(self.origin)).is_relative_to(project)


def constructor_parameters(plugin: Plugin) -> tuple[str, ...]:
    """The names of its constructor's parameters. Raises `PluginRefused` for one that the host does not provide."""
    if not plugin.is_class:
        return ()
    parameters = list(inspect.signature(plugin.holder).parameters.values())
    for parameter in parameters:
        if (
            parameter.name not in CONSTRUCTOR
            and parameter.default is parameter.empty
            and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
        ):
            advice = f"A plugin class may take {', '.join(sorted(CONSTRUCTOR))}; give anything else a default"
            raise PluginRefused(plugin.id, f"its constructor wants '{parameter.name}'", advice)
    return tuple(parameter.name for parameter in parameters if parameter.name in CONSTRUCTOR)


def missing_grants(
    plugin: Plugin, hooks: Sequence[str], tools: Sequence[str], config: Config
) -> Mapping[str, Sequence[str]]:
    """The grants that a plugin with these hooks and tools lacks, each with what needs it. The error about them becomes
    its `missing_grant`, and is raised where the configuration refuses such plugins."""
    needs = needed_grants(hooks, tools, plugin.manifest.permissions if plugin.manifest else ())
    missing = {grant: users for grant, users in needs.items() if not plugin.may(grant)}
    if missing:
        plugin.missing_grant = MissingGrant(plugin.id, missing)
        if config.on_missing_grant == "refuse":
            raise plugin.missing_grant
    return missing


def configure(plugin: Plugin, config: Config) -> Any:
    """The plugin's settings, checked against its manifest and its `Config`. Raises `ConfigError` with every wrong
    entry."""
    where = f"[plugins.{plugin.id}.config]"
    values = _values(plugin, config)
    if plugin.manifest:
        values = plugin.manifest.check_config(values, where)
    model = getattr(plugin.holder, "Config", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        if problems := _misspelt(plugin, values):
            raise ConfigError(where, tuple(problems.values()))
        try:
            return model.model_validate(values)
        except pydantic.ValidationError as error:
            raise ConfigError(where, tuple(map(problem_text, error.errors()))) from None
    if plugin.is_class and isinstance(model, type):
        raise PluginRefused(plugin.id, "its Config is not a pydantic model", "Write class Config(pydantic.BaseModel)")
    if values and "config" not in plugin.asks_for and not plugin.manifest:
        raise ConfigError(where, (f"plugin '{plugin.id}' takes no configuration",))
    return values


def _misspelt(plugin: Plugin, names: Iterable[str]) -> dict[str, str]:
    """The settings that its `Config` does not have, each with the advice to give."""
    model = getattr(plugin.holder, "Config", None)
    if not (isinstance(model, type) and issubclass(model, BaseModel)) or model.model_config.get("extra") == "allow":
        return {}
    known = {info.alias or name for name, info in model.model_fields.items()} | set(model.model_fields)
    return {name: unknown_key(name, sorted(known)) for name in names if name not in known}


def _values(plugin: Plugin, config: Config) -> dict[str, Any]:
    """The plugin's settings from all sources. Its `Config.with_project` decides what a project's file may add."""
    section, sources = config.plugin(plugin.id), config.own_settings(plugin.id)
    if sources is None:
        return dict(section.config) if section else {}
    if plugin.is_the_operators_own(sources.project.folder):
        sources = replace(sources, project=replace(sources.project, configured=True))
    with_project = getattr(getattr(plugin.holder, "Config", None), "with_project", None)
    if with_project is None:
        values, missing = sources.usual()
    else:
        try:
            values, missing = sources.as_merged_by(with_project)
        except HookSDKError:
            raise
        except Exception as error:
            raise PluginRefused(plugin.id, f"its with_project raised {type(error).__name__}: {error}") from error
    # Misspelt settings would not count in a trusted folder either.
    misspelt = _misspelt(plugin, [name for name in missing if name in sources.project.values])
    for problem in misspelt.values():
        logger.warning("[plugins.%s.config] of the project: %s", plugin.id, printable_entry(problem))
    missing = [name for name in missing if name not in misspelt]
    if missing:
        advice = "" if sources.project.trusted else f". {trust_advice(sources.project.folder)}"
        names = ", ".join(map(printable_entry, missing))
        logger.warning("[plugins.%s.config] of the project: not used: %s%s", plugin.id, names, advice)
    return values


def instantiate(plugin: Plugin, available: Mapping[str, Any]) -> object:
    """A session's own instance of a plugin class. Raises `PluginRefused` when its constructor does."""
    try:
        return plugin.holder(**{name: available[name] for name in plugin.asks_for})
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin that means to end the process, or to look like it, is refused
        raise PluginRefused(plugin.id, f"its constructor raised {describe(error)}") from error
