"""Plugins that somebody names in words: a Python file, or `module:Class`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from pathlib import Path
from typing import Any

from hooksdk._plugins.discovery import holders_of
from hooksdk._tasks.limits import describe
from hooksdk.errors import HookSDKError, PluginRefused, did_you_mean


def plugins_at(place: str | Path) -> list[Any]:
    """The plugins of a file (its `plugins` list, or itself and its classes with handlers), or the one of `module:Class`; a
    bare `module:` is the module itself. The file's folder, or the current one, can be imported from. Raises `PluginRefused`.
    """
    text = str(place)
    module_name, colon, attribute = text.partition(":")
    if isinstance(place, Path) or is_file(text) or not colon:
        return _in_file(Path(text))
    return [_in_module(text, module_name, attribute)]


def is_file(place: str) -> bool:
    """True where a text names a Python file, or a package's folder: it ends with `.py`, or has a separator of folders."""
    return place.endswith(".py") or "/" in place or os.sep in place


def _in_file(path: Path) -> list[Any]:
    path = path.expanduser().resolve()
    if path.is_dir():
        path /= "__init__.py"
    if not path.is_file():
        near = did_you_mean(path.name, [one.name for one in path.parent.glob("*.py")])
        raise PluginRefused(str(path), f"there is no such file.{near}", "Name a Python file, or module:Class")
    folder = path.parent
    name = path.stem
    if name == "__init__":
        name, folder = folder.name, folder.parent
    _make_importable(folder)
    # A module of another place keeps its name; the plugin's id is the last part.
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        name = f"hooksdk_plugins.{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginRefused(path.name, f"{path} is no Python file", "Name a file that ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        _put_back(name, known)
        if isinstance(error, (HookSDKError, KeyboardInterrupt)):
            raise
        raise PluginRefused(path.stem, f"running {path} raised {describe(error)}") from error
    return holders_of(module, path)


def _in_module(text: str, module_name: str, attribute: str) -> Any:
    _make_importable(Path.cwd())
    try:
        holder: Any = importlib.import_module(module_name)
    except (HookSDKError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginRefused(text, f"importing {module_name} raised {describe(error)}") from error
    for part in filter(None, attribute.split(".")):
        if not hasattr(holder, part):
            near = did_you_mean(part, [name for name in dir(holder) if not name.startswith("_")])
            raise PluginRefused(text, f"{holder.__name__} has no '{part}'.{near}", "Name it as module:Class")
        holder = getattr(holder, part)
    return holder


def _make_importable(folder: Path) -> None:
    """For its neighbours, and for imports inside functions later on; last, so that no file of it takes the place of a module
    that others import."""
    if (entry := str(folder)) not in sys.path:
        sys.path.append(entry)


def _put_back(name: str, known: types.ModuleType | None) -> None:
    if known is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = known
