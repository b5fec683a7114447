"""The plugins that a host with some configuration would know, for whoever shows or checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hooksdk._plugins.discovery import OUTRANKED, find_plugins, load
from hooksdk._plugins.files import plugins_file
from hooksdk._plugins.handlers import judging_line
from hooksdk._plugins.installed import installed_plugins, refuse, switch_off
from hooksdk._plugins.plugin import Plugin, missing_grants
from hooksdk._plugins.registry import Registry
from hooksdk.config import Config, fold
from hooksdk.errors import HookSDKError, PluginRefused


def load_plugins(
    holders: Iterable[Any], config: Config, *, folder: Path, on_refusal: Callable[[Plugin, HookSDKError], None]
) -> tuple[Sequence[Plugin], str]:
    """Load the plugins of a host with this configuration; returns them, and the line on which of them judge tool calls.
    One that cannot be loaded is handed to `on_refusal`; `PluginRefused` is raised for a plugins file without
    plugins."""
    registry = Registry(config)
    find_plugins(registry, holders, config, folder=folder, on_refusal=on_refusal)
    return registry.plugins, judging_line(registry.plan.get("before_tool_call", ()))


def survey(config: Config, folder: Path, holders: Iterable[Any] = ()) -> list[Plugin]:
    """The plugins that a host with this configuration would know, in its order. `holders` are further plugins, imported
    already. The others are not imported: one of them counts as loaded if its manifest and the configuration allow
    it."""
    plugins = [Plugin.of(holder) for holder in holders]
    for plugin in plugins:
        if not switch_off(plugin, config):
            look_at(plugin, config)
    try:
        path = plugins_file(config, folder)
    except PluginRefused as error:
        plugins.append(Plugin(id=error.plugin, origin=error.plugin, status="refused", reason=str(error)))
    else:
        if path is not None:
            plugin = Plugin(id=path.stem, origin=str(path))
            switch_off(plugin, config)
            plugin.reason = plugin.reason or "what is in it is known once it runs"
            plugins.append(plugin)
    for plugin in installed_plugins(config, every_manifest=True):
        _foresee_refusal(plugin, config)
        twin = next((one for one in plugins if one.origin == "code" and fold(one.id) == fold(plugin.id)), None)
        if twin is not None and twin.loaded:
            plugin.status, plugin.reason = "off", OUTRANKED
        plugins.append(plugin)
    return plugins


def look_at(plugin: Plugin, config: Config) -> Plugin:
    """Fill in a plugin's hooks, tools and checked settings, as a host with this plugin alone would. An installed plugin
    is imported for it. The error of a plugin that cannot be loaded becomes its `refusal`."""
    try:
        if plugin.holder is None:
            plugin.holder = load(plugin)
        Registry(config).add(plugin)
    except HookSDKError as error:
        refuse(plugin, error)
    return plugin


def _foresee_refusal(plugin: Plugin, config: Config) -> None:
    """Refuse a plugin whose configuration or grants do not fit its manifest, as the host would."""
    if not plugin.loaded or plugin.manifest is None:
        return
    manifest, section = plugin.manifest, config.plugin(plugin.id)
    try:
        manifest.check_config(section.config if section else {}, f"[plugins.{plugin.id}.config]")
        if missing_grants(plugin, manifest.contracts.hooks or (), manifest.contracts.tools or (), config):
            plugin.reason = f"in part: {plugin.missing_grant}"
    except HookSDKError as error:
        refuse(plugin, error)
