"""Finding plugins: in the host's code, in a project's plugins file, and by the entry points of installed packages."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from hooksdk._plugins.handlers import tell_of_unregistered
from hooksdk._plugins.installed import installed_plugins, refuse, switch_off
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
    if config.plugins_file is not False:
        from hooksdk._plugins.files import from_plugins_file

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
    """True for an installed plugin that has the id of an existing built-in one: the configuration means the
    built-in."""
    twins = (one for one in installed if fold(one.id) == fold(plugin.id))
    return plugin.origin == "installed" and any(one.origin == "built-in" for one in twins)


def _say_what_is_not_loaded(installed: Sequence[Plugin]) -> None:
    """Log which installed plugins are not loaded, since a person may expect one of them to work."""
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
    """Raise or log for configured names of no known plugin: a policy under a misspelt name would be missing."""
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
