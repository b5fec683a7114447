"""Installed plugins, known by metadata and manifests alone: nothing of a plugin, nor of its parent packages, is
imported."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence

from hooksdk._config.entry_points import BUILT_INS, installed_entries, module_of
from hooksdk._config.sources import trust_advice
from hooksdk._plugins.plugin import Plugin
from hooksdk._tasks.background import logger
from hooksdk.config import Config, fold
from hooksdk.errors import DuplicatePlugin, HookSDKError, PluginRefused
from hooksdk.manifest import FILE_NAMES, SUFFIX, find_manifest, missing_part, read_manifest


def installed_plugins(config: Config, *, every_manifest: bool = False) -> list[Plugin]:
    """The installed plugins, sorted by id, with status and reason. Manifests are read of those that are to be loaded,
    with `every_manifest` of all. The error of one that cannot be loaded is its `refusal`."""
    plugins: list[Plugin] = []
    only_built_ins = os.environ.get("HOOKSDK_DISABLE_AUTOLOAD", "") not in {"", "0"}
    for entry, is_built_in, distribution, version in installed_entries():
        if only_built_ins and not is_built_in:
            continue
        origin = "built-in" if is_built_in else "installed"
        plugin = Plugin(id=entry.name, origin=origin, distribution=distribution, version=version, entry=entry)
        section = config.plugin(plugin.id)
        plugin.grants = tuple(section.grants) if section else ()
        decide(plugin, config)
        plugins.append(plugin)
    plugins.sort(key=lambda plugin: (plugin.id, plugin.distribution))
    _refuse_twins(plugins)
    ids = {fold(plugin.id) for plugin in plugins}
    for plugin in plugins:
        if plugin.loaded or every_manifest:
            try:
                _read_manifest(plugin, ids)
            except HookSDKError as error:
                refuse(plugin, error)
        if plugin.loaded:
            _check_default(plugin, config)
    return plugins


def refuse(plugin: Plugin, error: HookSDKError) -> None:
    """Mark a plugin as refused, with the error. One that would not be loaded anyway keeps its status."""
    plugin.refusal = error
    if plugin.loaded:
        plugin.status, plugin.reason = "refused", str(error)
    else:
        plugin.reason = f"{plugin.reason}; {error}" if plugin.reason else str(error)


def switch_off(plugin: Plugin, config: Config) -> bool:
    """True, with status and reason set, for a plugin that the configuration denies or switches off."""
    section = config.plugin(plugin.id)
    project = config.switched_off_by_project(plugin.id)
    if project is not None and plugin.is_the_operators_own(project):
        giver = "code" if plugin.origin == "code" else plugin.origin
        logger.warning(
            "plugin '%s' stays on: the project's file switches it off, but %s gives it. %s",
            plugin.id,
            giver,
            trust_advice(project),
        )
    elif any(fold(plugin.id) == fold(name) for name in config.deny):
        plugin.status, plugin.reason = "denied", "denied by the configuration"
    elif section is not None and not section.enabled:
        plugin.status, plugin.reason = "off", "switched off by the configuration"
    return not plugin.loaded


def decide(plugin: Plugin, config: Config) -> None:
    """Set the status. `deny` beats `enabled = false` beats `allow` beats the default: a built-in plugin is on, another
    one is off unless it is named."""
    if switch_off(plugin, config):
        return
    section, stranger = config.plugin(plugin.id), plugin.origin == "installed"
    if stranger and config.named_by_project_alone(plugin.id):
        plugin.status, plugin.reason = "off", "nobody but the project names it, and you have not trusted its folder"
        logger.warning("plugin '%s' is off: %s. Look at it and type: hooksdk trust", plugin.id, plugin.reason)
        return
    allowed = any(fold(plugin.id) == fold(name) for name in config.allow or ())
    if config.allow is not None and not allowed and (stranger or section is None):
        plugin.status, plugin.reason = "not allowed", "not in the configuration's allow list"
    elif stranger and not allowed and section is None:
        plugin.status, plugin.reason = "not enabled", f"switch it on with: hooksdk plugins enable {plugin.id}"


def _check_default(plugin: Plugin, config: Config) -> None:
    named = config.plugin(plugin.id) is not None or any(fold(plugin.id) == fold(name) for name in config.allow or ())
    if plugin.manifest and plugin.manifest.enabled_by_default is False and not named:
        plugin.status, plugin.reason = "off", f"off unless configured: hooksdk plugins enable {plugin.id}"


def _refuse_twins(plugins: Sequence[Plugin]) -> None:
    by_id: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        by_id.setdefault(fold(plugin.id), []).append(plugin)
    for plugin_id, same_id in by_id.items():
        twins = same_id
        if (BUILT_INS / plugin_id).is_dir():
            twins = [plugin for plugin in same_id if plugin.origin == "built-in"]
            for plugin in same_id:
                if plugin.origin == "installed":
                    problem = f"this is a built-in plugin's id, and distribution '{plugin.distribution}' cannot have it"
                    error = PluginRefused(plugin.id, problem, "Uninstall it, or let its author rename the plugin")
                    plugin.status, plugin.reason, plugin.refusal = "refused", str(error), error
        if len(twins) > 1:
            first, second, *_ = (f"{plugin.entry.value} of {plugin.distribution}" for plugin in twins if plugin.entry)
            for plugin in twins:
                refuse(plugin, DuplicatePlugin(plugin.id, first, second))


def _read_manifest(plugin: Plugin, ids: Container[str]) -> None:
    """Read its manifest; `ids` are those of all installed plugins, folded."""
    assert plugin.entry is not None
    module = module_of(plugin.entry)
    path = find_manifest(module, plugin.id) if module else None
    manifest = read_manifest(path, plugin.id) if path else None
    if manifest is not None and fold(manifest.id) == fold(plugin.id):
        plugin.manifest = manifest
        return
    if missing := missing_part(module) if module else "":
        raise PluginRefused(plugin.id, f"its entry point names '{module}', and there is no module {missing}")
    if manifest is None:
        advice = f"Its package needs a {FILE_NAMES[0]} beside {module or plugin.entry.value}"
        raise PluginRefused(plugin.id, "an installed plugin needs a manifest, and it has none", advice)
    advice = "Make them equal"
    if fold(manifest.id) in ids:
        own = f"{plugin.id}{SUFFIX}"
        advice = f"That is another plugin's: this one needs a {own} beside it (hooksdk plugins manifest --write)"
    raise PluginRefused(plugin.id, f"its manifest says id '{manifest.id}', its entry point '{plugin.id}'", advice)
