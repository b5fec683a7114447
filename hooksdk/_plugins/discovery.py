"""Finding plugins: in the host's code, in a project's plugins file, and by the entry points of installed packages."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast

from hooksdk._firing.marks import is_own, members
from hooksdk._plugins.handlers import classes_in, is_marked, tell_of_unregistered
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
        if _is_off(plugin, config):
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
    holders = [plugin.holder for plugin in registry.plugins]
    for plugin in registry.loaded:
        if isinstance(plugin.holder, types.ModuleType):
            tell_of_unregistered(plugin.id, plugin.holder, holders)
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


def _is_off(plugin: Plugin, config: Config) -> bool:
    """True, with status and reason set, for what the operator denied or switched off, wherever it comes from."""
    section = config.plugin(plugin.id)
    if any(fold(plugin.id) == fold(name) for name in config.deny):
        plugin.status, plugin.reason = "denied", "denied by the configuration"
    elif section is not None and not section.enabled:
        plugin.status, plugin.reason = "off", "switched off by the configuration"
    return not plugin.loaded


def _decide(plugin: Plugin, config: Config) -> None:
    """`deny` beats `enabled = false` beats `allow` beats the default."""
    section = config.plugin(plugin.id)
    if _is_off(plugin, config):
        return
    allowed = config.allow is None or any(fold(plugin.id) == fold(name) for name in config.allow)
    if not allowed and (plugin.origin == "installed" or section is None):
        plugin.status, plugin.reason = "not allowed", "not in the configuration's allow list"


def _check_default(plugin: Plugin, config: Config) -> None:
    named = config.plugin(plugin.id) is not None or any(fold(plugin.id) == fold(name) for name in config.allow or ())
    if plugin.manifest and plugin.manifest.enabled_by_default is False and not named:
        plugin.status, plugin.reason = "off", f"off unless configured: hooksdk plugins enable {plugin.id}"


def _load(plugin: Plugin, entry: EntryPoint) -> Any:
    logger.debug("loading plugin '%s': %s", plugin.id, entry.value, extra={"loading": plugin.id})
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
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise PluginRefused(path.stem, f"running {path} raised {type(error).__name__}: {error}") from error
    return [Plugin(id=plugin_id_of(holder), origin=str(path), holder=holder) for holder in _holders_of(module, path)]


def _holders_of(module: types.ModuleType, path: Path) -> list[Any]:
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
