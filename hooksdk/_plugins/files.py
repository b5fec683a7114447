"""Plugins in local files and modules: a project's plugins file, and those that a person names on the command line.

Their folder is put at the end of `sys.path` and stays there, for imports inside functions: they can import the files
beside them, and no file of a project replaces a module that others import. All of them are compiled from source.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.machinery import SOURCE_SUFFIXES
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from hooksdk._config.entry_points import installed_entries
from hooksdk._config.trust import PLUGINS_FILE
from hooksdk._firing.marks import is_own, members
from hooksdk._plugins.handlers import classes_in, is_marked, tell_of_unregistered
from hooksdk._plugins.plugin import Plugin
from hooksdk._plugins.source import SourceLoader, from_source
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.config import Config
from hooksdk.errors import HookSDKError, PluginRefused, did_you_mean

INIT = "__init__.py"


def plugins_file(config: Config, folder: Path) -> Path | None:
    """The project's plugins file; None if the configuration names none. Raises `PluginRefused` if it is missing."""
    if config.plugins_file is False:
        return None
    path = folder / (PLUGINS_FILE if config.plugins_file is True else config.plugins_file)
    if not path.is_file():
        raise PluginRefused(
            path.name, f"the plugins file {path} does not exist", "Write it, or set plugins_file = false"
        )
    return path


def from_plugins_file(config: Config, folder: Path) -> list[Plugin]:
    """The plugins of the project's plugins file, which is executed."""
    path = plugins_file(config, folder)
    if path is None:
        return []
    name = path.stem if config.plugins_file is True else _private_name(path)
    _make_importable(path.parent)
    logger.debug("running the plugins file %s", path, extra={"loading": PLUGINS_FILE})
    module = _run(path, name, path.stem)
    holders = _holders_of(module, path, "set plugins_file = false")
    return [Plugin.of(holder, str(path)) for holder in holders]


def plugins_at(*places: str | Path, folder: Path | None = None) -> list[Any]:
    """The modules and classes with these names, for `Host(plugins=...)`: each as `FILE`, `FILE:CLASS`, `MODULE` or
    `MODULE:CLASS`, relative to `folder`, by default the current one. A name without a class stands for all plugins in
    it, as in a plugins file; `MODULE:` is the module itself. A class that is named twice comes once.

    Raises `PluginRefused` for a name that leads nowhere, cannot be imported or has no plugin, and whatever a decorator
    raises.
    """
    holders: list[Any] = []
    for name in map(str, places):
        logger.debug("loading %s", name, extra={"loading": name})
        holders += [
            one for one in _plugins_at(name, folder or Path.cwd()) if not any(one is other for other in holders)
        ]
    return holders


def _plugins_at(name: str, folder: Path) -> list[Any]:
    if not name.strip():
        raise PluginRefused(name, "no file and no module is named", "Name one, such as guard.py")
    module_name, class_name = _split(name)
    path = folder / Path(module_name).expanduser()
    as_file = names_file(module_name) or path.exists()
    module = import_file(path, name) if as_file else _import_module(module_name, name, folder)
    where = Path(module.__file__ or module_name)
    if not class_name:
        return [module] if name.endswith(":") else _holders_of(module, where, "name another file")
    try:
        return [attrgetter(class_name)(module)]
    except AttributeError:
        classes = [one.__name__ for one in classes_in(module)]
        hint = did_you_mean(class_name, classes)
        if not hint:
            hint = f" It has {', '.join(classes)}." if classes else f" Name the module alone: {module_name}"
        raise PluginRefused(name, f"there is no '{class_name}' in {where}.{hint}") from None


def names_file(place: str) -> bool:
    """True for the path of a Python file or of a package: it ends with `.py`, or has a path separator."""
    return place.endswith(".py") or "/" in place or os.sep in place


def _split(name: str) -> tuple[str, str]:
    place, _, class_name = name.rpartition(":")
    if place and (not class_name or all(part.isidentifier() for part in class_name.split("."))):
        return place, class_name
    return name, ""


def import_file(path: Path, who: str) -> types.ModuleType:
    """Import a file under the name by which the files beside it import it, as part of its package if it is in one."""
    if path.is_dir() and (path / INIT).is_file():
        path /= INIT
    if not path.is_file():
        if path.is_dir():
            raise PluginRefused(who, f"{path} is a folder", "Name a file in it, such as plugin.py")
        files = [one.name for one in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise PluginRefused(who, f"there is no file {path}.{did_you_mean(path.name, files)}")
    path = path.resolve()
    folder = path.parent
    parts = [folder.name if path.name == INIT else path.stem]
    folder = folder.parent if path.name == INIT else folder
    while (folder / INIT).is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    _make_importable(folder)
    name = ".".join(parts)
    if len(parts) == 1 and path.name != INIT and not _leads_to(name, path):
        return _run(path, _private_name(path), who)  # an earlier module on the path has its name
    with _refusing(who, f"running {path}", folder):
        module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        problem = f"'{name}' is imported from {module.__file__ or 'elsewhere'}, not from {path}"
        raise PluginRefused(who, problem, "Uninstall that copy, or install this one with: pip install -e .")
    return module


def _import_module(name: str, who: str, folder: Path) -> types.ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise PluginRefused(who, "it is neither a file nor a module", "Name one, such as guard.py or my_package.guard")
    _make_importable(folder)
    with _refusing(who, f"importing {name}", folder):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name and not name.startswith(f"{error.name}."):
                raise
    if any(name == one.entry.name for one in installed_entries()):
        advice = f"An installed plugin is switched on with: hooksdk plugins enable {name}"
        raise PluginRefused(who, f"there is no module '{name}'", advice)
    here = [path.stem for path in folder.glob("*.py")]
    hint = did_you_mean(name, here) or f" It was looked for in {folder} and where Python looks."
    raise PluginRefused(who, f"there is no module '{name}'.{hint}")


def _make_importable(folder: Path) -> None:
    if (name := str(folder.resolve())) not in sys.path:
        sys.path.append(name)
    from_source(folder)


def _leads_to(name: str, path: Path) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path


def _private_name(path: Path) -> str:
    """A module name under which the file does not replace an importable module of the same name."""
    return f"{Path(PLUGINS_FILE).stem}.{path.stem}"


def _run(path: Path, name: str, who: str) -> types.ModuleType:
    if path.suffix not in SOURCE_SUFFIXES:
        raise PluginRefused(who, f"{path} is no Python file", "Name a file that ends in .py")
    loader = SourceLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__package__ = ""  # it is in no package, whatever its private name says
    sys.modules[name] = module
    try:
        with _refusing(who, f"running {path}", path.parent):
            loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _refusing(who: str, what: str, folder: Path) -> Generator[None]:
    """Turn whatever other people's code raises into `PluginRefused`, with the line in that code. Ctrl-C passes."""
    try:
        yield
    except (HookSDKError, KeyboardInterrupt):
        raise
    except BaseException as error:
        advice = "Install what it imports beside hooksdk" if isinstance(error, ModuleNotFoundError) else ""
        raise PluginRefused(who, f"{what} raised {describe(error)}{_line_in(folder, error)}", advice) from error


def _line_in(folder: Path, error: BaseException) -> str:
    """` (guard.py:3)`: the innermost line of the traceback in this folder's files."""
    place, traceback = "", error.__traceback__
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder.resolve()):
            place = f" ({file.name}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    return place


def _holders_of(module: types.ModuleType, path: Path, otherwise: str) -> list[Any]:
    """The plugins of a file: the members of its list `plugins`, or else the module itself and its classes with
    handlers. Raises `PluginRefused` for a file without plugins."""
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
        advice = f"Decorate functions or methods in it with @hooks.… or @tool, or list plugins = [...]; or {otherwise}"
        raise PluginRefused(path.stem, f"{path} yields no plugin", advice)
    return holders
