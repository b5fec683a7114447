"""Finding plugins: in the host's code, in a project's plugins file, and by the entry points of installed packages."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from hooksdk._firing.marks import is_own, members
from hooksdk._plugins.handlers import classes_in, is_marked, tell_of_unregistered
from hooksdk._plugins.installed import foresee_refusal, installed_plugins, refuse, switch_off
from hooksdk._plugins.plugin import Plugin, plugin_id_of
from hooksdk._plugins.registry import Registry
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.config import Config, fold
from hooksdk.errors import ConfigError, HookSDKError, PluginRefused, did_you_mean

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

    given = [Plugin(id=plugin_id_of(holder), origin="code", holder=holder) for holder in holders]
    given += _from_file(config, folder or Path.cwd())
    registry.modules.update(plugin.holder.__name__ for plugin in given if isinstance(plugin.holder, types.ModuleType))
    for plugin in given:
        add(plugin)
    installed = installed_plugins(config)
    for plugin in installed:
        twin = registry.get(plugin.id)
        if twin is not None and twin.origin not in {"installed", "built-in"}:
            plugin.status, plugin.reason = "off", "given in code, which goes before the installed one"
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


def _is_beside_its_built_in(plugin: Plugin, installed: Sequence[Plugin]) -> bool:
    """True for a stranger with the id of a built-in that is there: that one is what the configuration means."""
    twins = (one for one in installed if fold(one.id) == fold(plugin.id))
    return plugin.origin == "installed" and any(one.origin == "built-in" for one in twins)


def _say_what_is_not_loaded(installed: Sequence[Plugin]) -> None:
    """One line for whoever has installed a plugin and waits for it."""
    strangers = ", ".join(plugin.id for plugin in installed if plugin.status == "not enabled")
    if strangers:
        logger.warning(
            "installed plugins that nobody has enabled are not loaded: %s. Switch one on with: hooksdk plugins enable ID. "
            "The configuration's deny silences this line", strangers,
        )  # fmt: skip
    for plugin in installed:
        if plugin.status == "refused":
            logger.warning("%s", plugin.reason)


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


def survey(config: Config, folder: Path) -> list[Plugin]:
    """Every plugin that a host with this configuration would know beside those of its code, in its order. Nothing of them
    is imported, so a plugin counts as loaded when its manifest and the configuration speak against nothing."""
    plugins: list[Plugin] = []
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
        plugins.append(plugin)
    return plugins


def plugins_file(config: Config, folder: Path) -> Path | None:
    """The project's plugins file, or None without one. Raises `PluginRefused` when it is not there."""
    if config.plugins_file is False:
        return None
    path = folder / (PLUGINS_FILE if config.plugins_file is True else config.plugins_file)
    if not path.is_file():
        raise PluginRefused(
            path.name, f"the plugins file {path} does not exist", "Write it, or set plugins_file = false"
        )
    return path


def _from_file(config: Config, folder: Path) -> list[Plugin]:
    path = plugins_file(config, folder)
    if path is None:
        return []
    # Under a name of its own, so that a file called like an importable module does not take that one's place.
    name = path.stem if config.plugins_file is True else f"{Path(PLUGINS_FILE).stem}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Its neighbours can be imported. It stays there for imports inside functions, and comes last, so that no file of the
    # project takes the place of a module that others import.
    if (beside := str(path.parent.resolve())) not in sys.path:
        sys.path.append(beside)
    logger.debug("running the plugins file %s", path, extra={"loading": PLUGINS_FILE})
    try:
        spec.loader.exec_module(module)
    except HookSDKError:
        del sys.modules[name]
        raise
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:
        del sys.modules[name]
        raise PluginRefused(path.stem, f"running {path} raised {describe(error)}") from error
    return [Plugin(id=plugin_id_of(holder), origin=str(path), holder=holder) for holder in holders_of(module, path)]


def holders_of(module: types.ModuleType, path: Path) -> list[Any]:
    """What a plugins file gives: the members of its `plugins`, in that order, or else itself and its classes with
    handlers. Raises `PluginRefused` where that is nothing."""
    own = [member for _, member in members(module) if is_marked(member) and is_own(module, member)]
    named = vars(module).get("plugins")
    if named is None:
        holders = [*([module] if own else []), *classes_in(module)]
    elif isinstance(named, (list, tuple)):
        holders = list(cast("Sequence[Any]", named))
        if own and module not in holders:
            logger.warning(
                "%s: its own handlers and tools are not called, since its plugins = [...] does not list them", path
            )
        tell_of_unregistered(module.__name__, module, holders)
    else:
        problem = f"plugins is {type(named).__name__} in {path}, not a list"
        raise PluginRefused(path.stem, problem, "Write plugins = [MyPlugin], or call the variable otherwise")
    if not holders:
        advice = "Decorate functions or methods in it with @hooks.… or @tool, or list plugins = [...]; or set plugins_file = false"
        raise PluginRefused(path.stem, f"{path} yields no plugin", advice)
    return holders
