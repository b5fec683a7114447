"""Finding plugins: in the host's code, in a project's plugins file, and by the entry points of installed packages."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hooksdk._plugins.files import from_plugins_file, plugins_file
from hooksdk._plugins.handlers import judging_line, tell_of_unregistered
from hooksdk._plugins.installed import foresee_refusal, installed_plugins, refuse, switch_off
from hooksdk._plugins.plugin import Plugin
from hooksdk._plugins.registry import Registry
from hooksdk._plugins.source import expect
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.config import Config, fold, resolve
from hooksdk.errors import ConfigError, HookSDKError, PluginRefused, did_you_mean

OUTRANKED = "given in code, which goes before the installed one"


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
        if switch_off(plugin, config):
            return registry.note(plugin)
        try:
            return registry.add(plugin)
        except HookSDKError as error:
            if on_refusal is None:
                raise
            plugin.status, plugin.reason = "refused", str(error)
            registry.note(plugin)
            return on_refusal(plugin, error)

    config.check_files()
    expect(resolve(folder or Path.cwd()), config.digests)
    given = [Plugin.of(holder) for holder in holders]
    given += from_plugins_file(config, folder or Path.cwd())
    registry.modules.update(plugin.holder.__name__ for plugin in given if isinstance(plugin.holder, types.ModuleType))
    for plugin in given:
        add(plugin)
    installed = installed_plugins(config)
    for plugin in installed:
        twin = registry.get(plugin.id)
        if twin is not None and twin.origin not in {"installed", "built-in"}:
            plugin.status, plugin.reason = "off", OUTRANKED
            registry.note(plugin)
            continue
        try:
            if (
                plugin.status == "refused"
                and plugin.refusal is not None
                and not _is_beside_its_built_in(plugin, installed)
            ):
                raise plugin.refusal
            if plugin.loaded:
                _tell_slips(plugin)
                plugin.holder = load(plugin)
        except HookSDKError as error:
            if on_refusal is None:
                raise
            refuse(plugin, error)
            on_refusal(plugin, error)
        if plugin.loaded:
            add(plugin)
        else:
            registry.note(plugin)
    holders = [plugin.holder for plugin in registry.plugins]
    for plugin in registry.loaded:
        if isinstance(plugin.holder, types.ModuleType):
            tell_of_unregistered(plugin.id, plugin.holder, holders)
    if on_refusal is None:
        _say_what_is_not_loaded(installed)
        _check_names(config, [plugin.id for plugin in registry.plugins])


def _tell_slips(plugin: Plugin) -> None:
    for slip in plugin.manifest.slips if plugin.manifest else ():
        logger.warning("plugin '%s': its manifest: %s", plugin.id, slip)


def _is_beside_its_built_in(plugin: Plugin, installed: Sequence[Plugin]) -> bool:
    """True for an installed plugin with the id of a built-in one that is there: the configuration means the
    built-in."""
    twins = (one for one in installed if fold(one.id) == fold(plugin.id))
    return plugin.origin == "installed" and any(one.origin == "built-in" for one in twins)


def _say_what_is_not_loaded(installed: Sequence[Plugin]) -> None:
    """Log one line for installed plugins that are not loaded, for a person who waits for one."""
    strangers = ", ".join(plugin.id for plugin in installed if plugin.status == "not enabled")
    if strangers:
        logger.warning(
            "installed plugins that nobody has enabled are not loaded: %s. Switch one on with: hooksdk plugins enable ID. "
            "The configuration's deny silences this line",
            strangers,
        )
    for plugin in installed:
        if plugin.status == "refused":
            logger.warning("%s", plugin.reason)


def _check_names(config: Config, known: Sequence[str]) -> None:
    """A plugin configured under a misspelt name, perhaps a policy, would otherwise be missing without a message."""
    folded = set(map(fold, known))
    for name in config.plugins:
        if fold(name) not in folded:
            hint = did_you_mean(name, known)
            if hint:
                raise ConfigError("configuration", (f"'plugins.{name}': no such plugin is installed or given.{hint}",))
            if config.plugins[name].is_required:
                problem = f"'plugins.{name}' has enabled = true, and no such plugin is installed or given"
                cure = "Install its package here, or write enabled = false; without the line a warning tells of it"
                raise ConfigError("configuration", (f"{problem}. {cure}",))
            logger.warning("configuration: [plugins.%s] is for a plugin that is neither installed nor given", name)
    for name in (*config.deny, *(config.allow or ())):
        if fold(name) not in folded:
            logger.warning(
                "configuration: '%s' in deny or allow is no known plugin.%s", name, did_you_mean(name, known)
            )


def load_plugins(
    holders: Iterable[Any], config: Config, *, folder: Path, on_refusal: Callable[[Plugin, HookSDKError], None]
) -> tuple[Sequence[Plugin], str]:
    """Every plugin of a host with this configuration, loaded as the host would, and the line on who judges tool calls.
    One that cannot be loaded is handed to `on_refusal`; `PluginRefused` is raised for a plugins file that gives
    nothing."""
    registry = Registry(config)
    find_plugins(registry, holders, config, folder=folder, on_refusal=on_refusal)
    return registry.plugins, judging_line(registry.plan.get("before_tool_call", ()))


def load(plugin: Plugin) -> Any:
    """Import an installed plugin. Raises `PluginRefused` for whatever its code raises; Ctrl-C stays Ctrl-C."""
    assert plugin.entry is not None
    logger.debug("loading plugin '%s': %s", plugin.id, plugin.entry.value, extra={"loading": plugin.id})
    try:
        return plugin.entry.load()
    except (HookSDKError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a plugin that means to end the process, or to look like it, is refused
        raise PluginRefused(plugin.id, f"importing {plugin.entry.value} raised {describe(error)}") from error


def survey(config: Config, folder: Path, holders: Iterable[Any] = ()) -> list[Plugin]:
    """Every plugin that a host with this configuration would know, in its order: `holders` are those that somebody
    names beside it, imported already. Nothing of the others is imported, so one of them counts as loaded when its
    manifest and the configuration speak against nothing."""
    plugins = [_look_at(holder, config) for holder in holders]
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
        foresee_refusal(plugin, config)
        twin = next((one for one in plugins if one.origin == "code" and fold(one.id) == fold(plugin.id)), None)
        if twin is not None and twin.loaded:
            plugin.status, plugin.reason = "off", OUTRANKED
        plugins.append(plugin)
    return plugins


def _look_at(holder: Any, config: Config) -> Plugin:
    """A plugin that is imported already, as a host would take it."""
    plugin = Plugin.of(holder)
    return plugin if switch_off(plugin, config) else look_at(plugin, config)


def look_at(plugin: Plugin, config: Config) -> Plugin:
    """Fill in what a plugin's code says of it, alone with this configuration: its hooks, its tools, its checked
    settings. An installed one is imported for it. What speaks against loading it is its `refusal`, and is not
    raised."""
    try:
        if plugin.holder is None:
            plugin.holder = load(plugin)
        Registry(config).add(plugin)
    except HookSDKError as error:
        refuse(plugin, error)
    return plugin
