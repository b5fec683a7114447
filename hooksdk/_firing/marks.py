"""Which functions the decorators have marked, and which of them are a plugin's own.

A decorator writes each function that it marks into the namespace that is being made: the module's, or the class's. So
it is known later that a function was marked, even where its name leads to something else by then.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any, cast

_MARKED = "__hooksdk_marked__"
_DECORATORS = {"hooksdk._firing.marks", "hooksdk._firing.hook", "hooksdk.tools"}
_INSTALLED = {"site-packages", "dist-packages"}


# The attribute of a function in which `@tool` keeps its options.
TOOL_MARK = "__hooksdk_tool__"


def note_marked(function: object) -> None:
    """Remember a function that a decorator marks now, where that happens in the body of a module or a class. In a
    function it may be meant for anything."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") in _DECORATORS:
        frame = frame.f_back
    if frame is None or frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return
    namespace = frame.f_locals
    spec = namespace.get("__spec__")
    marked: tuple[object, list[Any]] | None = namespace.get(_MARKED)
    if marked is None or marked[0] is not spec:  # a reloaded module keeps its namespace and gets a new spec
        functions: list[Any] = []
        marked = namespace[_MARKED] = (spec, functions)
    marked[1].append(function)


def marked_in(holder: type | types.ModuleType) -> list[Any]:
    """The functions that were marked in the body of this module or class, in order. Nothing is known of a notebook,
    where a cell that is run again would look like a lost function."""
    if isinstance(holder, types.ModuleType) and holder.__name__ == "__main__" and not hasattr(holder, "__file__"):
        return []
    marked: tuple[object, list[Any]] | None = vars(holder).get(_MARKED)
    return [] if marked is None else marked[1]


def unwrapped(function: Any) -> list[Any]:
    """The function, and those that it wraps."""
    layers = [function]
    while (inner := getattr(layers[-1], "__wrapped__", None)) is not None and not any(inner is one for one in layers):
        layers.append(inner)
    return layers


def is_own(module: types.ModuleType, function: Any, others: Container[str] = ()) -> bool:
    """True for a function that a module has as its own: made in its body, or imported from its own package. What was
    imported from elsewhere is another one's handler or tool, and so is that of `others`: the modules that are plugins
    too.
    """
    home = str(getattr(function, "__module__", None))
    if home == module.__name__ or any(layer is one for layer in unwrapped(function) for one in marked_in(module)):
        return True
    if "<locals>" in str(
        getattr(function, "__qualname__", "")
    ):  # made inside a function, for the caller of that function
        return True
    if home in others:
        return False
    package = module.__package__ or ""
    if package:
        return home == package or home.startswith(f"{package}.")
    return _lies_beside(module, home)


def _lies_beside(module: types.ModuleType, other: str) -> bool:
    """True for a module or package in the folder of a module that is in no package: together they are one plugin,
    unless the folder is where everything is installed."""
    top = sys.modules.get(other.partition(".")[0])
    file, other_file = getattr(module, "__file__", None), getattr(top, "__file__", None)
    if not file or not other_file:
        return False
    folder, place = Path(file).resolve().parent, Path(other_file).resolve()
    beside = place.parent.parent if place.name == "__init__.py" else place.parent
    return beside == folder and not _INSTALLED & {folder.name}


def members(holder: Any) -> Iterable[tuple[str, Any]]:
    """The names of a module, or of a class with its bases, with what they lead to; no property is run."""
    for name in dir(holder):
        member = inspect.getattr_static(holder, name, None)
        yield name, cast("Any", member).__func__ if isinstance(member, (staticmethod, classmethod)) else member
