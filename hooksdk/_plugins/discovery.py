"""Finding plugins: in the host's code, in a project's plugins file, and by the entry points of installed packages."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hooksdk._config.words import trust_advice
from hooksdk._plugins.registry import Plugin, Registry, plugin_id_of
from hooksdk._tasks.background import logger
from hooksdk.config import Config, fold
from hooksdk.errors import ConfigError, HookSDKError, PluginRefused, did_you_mean
from hooksdk.manifest import find_manifest, read_manifest

ENTRY_POINTS = "hooksdk.plugins"
"""The entry point group of installed plugins."""
OWN_DISTRIBUTION = "hooksdk"
PLUGINS_FILE = "hooksdk_plugins.py"


def find_plugins(
    registry: Registry,
    holders: Iterable[Any],
    config: Config,
    *,
    folder: Path | None = None,
    on_refusal: Callable[[Plugin, HookSDKError], None] | None = None,
) -> None:
    """Fill the registry: code first, then the plugins file, then installed ones by name.

    A plugin that cannot be loaded raises, or is handed to `on_refusal` if there is one (for listings).
    """

    def add(plugin: Plugin) -> None:
        if _is_off(plugin, config, folder):
            return registry.note(plugin)
        try:
            return registry.add(plugin)
        except HookSDKError as error:
            if on_refusal is None:
                raise
            plugin.status, plugin.reason = "refused", str(error)
            registry.note(plugin)
            return on_refusal(plugin, error)

    for holder in holders:
        add(Plugin(id=plugin_id_of(holder), origin="code", holder=holder))
    for plugin in _from_file(config, folder or Path.cwd()):
        add(plugin)
    for entry in sorted(_installed(), key=lambda entry: entry.name):
        plugin = Plugin(id=entry.name, origin=_origin(entry), version=entry.dist.version if entry.dist else "")
        twin = registry.get(entry.name)
        if twin is not None and twin.origin not in {"installed", "built-in"}:
            plugin.status, plugin.reason = "off", "given in code, which goes before the installed one"
            registry.note(plugin)
            continue
        try:
            _decide(plugin, config)
            if plugin.loaded:
                _read_manifest(plugin, entry)
                _check_default(plugin, config)
            if plugin.loaded:
                plugin.holder = _load(plugin, entry)
        except HookSDKError as error:
            if on_refusal is None:
                raise
            plugin.status, plugin.reason = "refused", str(error)
            on_refusal(plugin, error)
        if plugin.loaded:
            add(plugin)
        else:
            registry.note(plugin)
    if on_refusal is None:
        _check_names(config, [plugin.id for plugin in registry.plugins])


def _check_names(config: Config, known: Sequence[str]) -> None:
    """A plugin configured under a misspelt name, perhaps a policy, would otherwise be missing without a message."""
    for name in config.plugins:
        if not any(fold(name) == fold(one) for one in known):
            hint = did_you_mean(name, known)
            if hint:
                raise ConfigError("configuration", (f"'plugins.{name}': no such plugin is installed or given.{hint}",))
            logger.warning("configuration: [plugins.%s] is for a plugin that is neither installed nor given", name)
    for name in (*config.deny, *(config.allow or ())):
        if not any(fold(name) == fold(one) for one in known):
            logger.warning(
                "configuration: '%s' in deny or allow is no known plugin.%s", name, did_you_mean(name, known)
            )


def _installed() -> Iterable[EntryPoint]:
    if os.environ.get("HOOKSDK_DISABLE_AUTOLOAD", "") not in {"", "0"}:
        return [entry for entry in entry_points(group=ENTRY_POINTS) if _origin(entry) == "built-in"]
    return entry_points(group=ENTRY_POINTS)


def _origin(entry: EntryPoint) -> str:
    return "built-in" if entry.dist and fold(entry.dist.name) == OWN_DISTRIBUTION else "installed"


def _read_manifest(plugin: Plugin, entry: EntryPoint) -> None:
    path = find_manifest(entry.module)
    if path is None:
        advice = f"Its package needs a hooksdk.plugin.json beside {entry.module}"
        raise PluginRefused(plugin.id, "an installed plugin needs a manifest, and it has none", advice)
    plugin.manifest = read_manifest(path)
    if fold(plugin.manifest.id) != fold(plugin.id):
        problem = f"its manifest says id '{plugin.manifest.id}', its entry point '{plugin.id}'"
        raise PluginRefused(plugin.id, problem, "Make them equal")


def _is_off(plugin: Plugin, config: Config, folder: Path | None = None) -> bool:
    """True, with status and reason set, for what the operator denied or switched off, wherever it comes from."""
    section = config.plugin(plugin.id)
    if plugin.origin == "code" and config.switched_off_by_project(plugin.id):
        advice = trust_advice(folder or Path.cwd())
        logger.warning(
            "plugin '%s' stays on: the project's file switches it off, but code gives it. %s", plugin.id, advice
        )
    elif any(fold(plugin.id) == fold(name) for name in config.deny):
        plugin.status, plugin.reason = "denied", "denied by the configuration"
    elif section is not None and not section.enabled:
        plugin.status, plugin.reason = "off", "switched off by the configuration"
    return not plugin.loaded


def _decide(plugin: Plugin, config: Config) -> None:
    """`deny` beats `enabled = false` beats `allow` beats the default."""
    section = config.plugin(plugin.id)
    if _is_off(plugin, config):
        return
    if plugin.origin == "installed" and config.named_by_project_alone(plugin.id):
        plugin.status, plugin.reason = "off", "nobody but the project names it, and you have not trusted its folder"
        logger.warning("plugin '%s' is off: %s. Look at it and type: hooksdk trust", plugin.id, plugin.reason)
        return
    allowed = config.allow is None or any(fold(plugin.id) == fold(name) for name in config.allow)
    if not allowed and (plugin.origin == "installed" or section is None):
        plugin.status, plugin.reason = "not allowed", "not in the configuration's allow list"


def _check_default(plugin: Plugin, config: Config) -> None:
    named = config.plugin(plugin.id) is not None or any(fold(plugin.id) == fold(name) for name in config.allow or ())
    if plugin.manifest and plugin.manifest.enabled_by_default is False and not named:
        plugin.status, plugin.reason = "off", f"off unless configured: hooksdk plugins enable {plugin.id}"


def _load(plugin: Plugin, entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except HookSDKError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginRefused(plugin.id, f"importing {entry.value} raised {type(error).__name__}: {error}") from error


def _from_file(config: Config, folder: Path) -> list[Plugin]:
    if config.plugins_file is False:
        return []
    path = folder / (PLUGINS_FILE if config.plugins_file is True else config.plugins_file)
    if not path.is_file():
        raise PluginRefused(
            path.name, f"the plugins file {path} does not exist", "Write it, or set plugins_file = false"
        )
    # Under a name of its own, so that a file called like an importable module does not take that one's place.
    name = path.stem if config.plugins_file is True else f"{Path(PLUGINS_FILE).stem}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except HookSDKError:
        del sys.modules[name]
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise PluginRefused(path.stem, f"running {path} raised {type(error).__name__}: {error}") from error
    plugins = [Plugin(id=plugin_id_of(module), origin=str(path), holder=module)]
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__ == name and _is_plugin(value):
            plugins.append(Plugin(id=plugin_id_of(value), origin=str(path), holder=value))
    return plugins


def _is_plugin(holder: type) -> bool:
    marks = ("hooksdk_impl", "__hooksdk_tool__")
    return any(
        hasattr(value, mark)
        for value in vars(holder).values()
        if isinstance(value, types.FunctionType)
        for mark in marks
    )
