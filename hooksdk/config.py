"""Configuration: one model, read from the user's file, the project's file, the environment and code, later ones over
earlier ones."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from hooksdk._firing.hook import Grant
from hooksdk.errors import ConfigError, did_you_mean, problem_text, unknown_key
from hooksdk.hooks import HOOKS

__all__ = ["Config", "PluginConfig", "fold", "load_config"]

Seconds = Annotated[float, Field(gt=0)]
FILE_NAME = "hooksdk.toml"
OTHER_VARIABLES = {"HOOKSDK_HOME", "HOOKSDK_DISABLE_AUTOLOAD"}
"""Variables that are read elsewhere."""


def fold(plugin_id: str) -> str:
    """Plugin ids count as equal whether they are written with `-` or `_`, in upper or lower case."""
    return plugin_id.replace("-", "_").casefold()


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _known_hooks(value: dict[str, float]) -> dict[str, float]:
    for name in value:
        if name not in HOOKS:
            raise ValueError(f"'{name}' is not a hook.{did_you_mean(name, HOOKS)}")
    return value


Timeouts = Annotated[dict[str, Seconds], pydantic.AfterValidator(_known_hooks)]


class PluginConfig(_Strict):
    """`[plugins.ID]`. A section that is there switches its plugin on, unless it says `enabled = false`."""

    enabled: bool = True
    grants: list[Grant] = Field(default_factory=list[Grant])
    """What an installed plugin may do: the words of `hooksdk.hooks.GRANTS`."""
    mode: Literal["enforce", "shadow"] = "enforce"
    """`shadow`: its policies are called, and their answers have no effect but are recorded."""
    timeouts: Timeouts = Field(default_factory=dict)
    """Seconds by hook; beats what the plugin's author wrote."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The plugin's own configuration."""


class Config(_Strict):
    """A host's whole configuration.

    ```python
    from hooksdk import Config, Host

    config = Config(allow=["tool_policy"], plugins={"tool_policy": {"config": {"default": "ask"}}})
    host = Host(config=config)
    assert [plugin.id for plugin in host.plugins if plugin.loaded] == ["tool_policy"]
    ```
    """

    store: str | None = None
    """`memory`, `jsonl`, or `jsonl:FOLDER`. Unset, a host keeps nothing on disk; the commands use `jsonl`."""
    plugins_file: bool | str = False
    """Load a project-local `hooksdk_plugins.py` (true), or the file of this path. Off by default: it runs code."""
    allow: list[str] | None = None
    """Only these installed plugins are loaded; None: the built-in ones that are on by default, and those with a section of
    their own."""
    deny: list[str] = Field(default_factory=list[str])
    """These plugins are never loaded; beats everything else."""
    on_missing_grant: Literal["refuse", "disable"] = "refuse"
    """What happens when an installed plugin lacks a grant: the host does not start, or what needs it is left out."""
    drain: Literal["agent_end", "next_model_call"] = "agent_end"
    """When queued trims are applied."""
    timeouts: Timeouts = Field(default_factory=dict)
    """Seconds by hook, for all plugins."""
    plugins: dict[str, PluginConfig] = Field(default_factory=dict)

    def plugin(self, plugin_id: str) -> PluginConfig | None:
        """The section of one plugin, or None."""
        return next((section for name, section in self.plugins.items() if fold(name) == fold(plugin_id)), None)

    def timeout(self, plugin_id: str, hook: str) -> float | None:
        """The operator's time limit for one plugin's handlers of one hook, or None."""
        section = self.plugin(plugin_id)
        return (section.timeouts.get(hook) if section else None) or self.timeouts.get(hook)


def load_config(
    overrides: Mapping[str, Any] | None = None,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """The configuration for a project folder (default: the current one). Raises `ConfigError` naming file and entry."""
    env = os.environ if environment is None else environment
    merged: dict[str, Any] = {}
    for where, data in _sources(folder or Path.cwd(), env, overrides):
        _validate(data, where)
        _merge(merged, data)
    return _validate(merged, "configuration")


def _sources(
    folder: Path, env: Mapping[str, str], overrides: Mapping[str, Any] | None
) -> list[tuple[str, Mapping[str, Any]]]:
    home = Path(env.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hooksdk" / "config.toml"
    project, pyproject = folder / FILE_NAME, folder / "pyproject.toml"
    sources: list[tuple[str, Mapping[str, Any]]] = []
    if home.is_file():
        sources.append((str(home), _read_toml(home)))
    if project.is_file():
        sources.append((str(project), _read_toml(project)))
    elif pyproject.is_file():
        tools = _read_toml(pyproject).get("tool")
        table = cast("dict[str, Any]", tools).get("hooksdk") if isinstance(tools, dict) else None
        if table is not None:
            sources.append((f"{pyproject} [tool.hooksdk]", table))
    sources.append(("environment", _from_environment(env)))
    if overrides:
        sources.append(("Host(config=...)", overrides))
    return sources


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), (f"cannot be read: {error.strerror}",)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), (f"is not TOML: {error}",)) from None


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    simple = {"store", "on_missing_grant", "drain", "plugins_file"}
    settings: dict[str, Any] = {}
    for variable, value in env.items():
        if not variable.startswith("HOOKSDK_") or variable in OTHER_VARIABLES:
            continue
        name = variable.removeprefix("HOOKSDK_").lower()
        if name in {"allow", "deny"}:
            settings[name] = [part.strip() for part in value.split(",") if part.strip()]
        elif name in simple:
            words = {"true": True, "1": True, "false": False, "0": False, "": False}
            settings[name] = words.get(value.lower(), value) if name == "plugins_file" else value
        else:
            known = [f"HOOKSDK_{field.upper()}" for field in sorted(simple | {"allow", "deny"})] + sorted(
                OTHER_VARIABLES
            )
            raise ConfigError("environment", (unknown_key(variable, known),))
    return settings


def _validate(data: Mapping[str, Any], where: str) -> Config:
    if not isinstance(data, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(where, (f"must be a table of settings, got {data!r:.60}",))
    try:
        return Config.model_validate(dict(data))
    except pydantic.ValidationError as error:
        problems = (
            _unknown_setting([str(part) for part in one["loc"]])
            if one["type"] == "extra_forbidden"
            else problem_text(one, quote_value=True)
            for one in error.errors()
        )
        raise ConfigError(where, tuple(problems)) from None


def _unknown_setting(path: list[str]) -> str:
    name = ".".join(path)
    if len(path) < 3:
        return unknown_key(name, Config.model_fields)
    hint = did_you_mean(path[-1], PluginConfig.model_fields)
    return f"'{name}' is not a setting." + (hint or f" The plugin's own settings go under [plugins.{path[1]}.config].")


def _merge(into: dict[str, Any], data: Mapping[str, Any], parent: str = "") -> None:
    for name, value in data.items():
        # A plugin's section counts as the same whether its id is written with - or _.
        same = (known for known in into if fold(known) == fold(name))
        key = next(same, name) if parent == "plugins" else name
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], cast("Mapping[str, Any]", value), "" if parent else key)
        else:
            into[key] = _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType]
