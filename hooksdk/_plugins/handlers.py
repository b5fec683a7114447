"""Handlers and tools that have a decorator and would never be called: a missing policy must not go unnoticed.

A plain mistake is refused: a policy's handler whose name leads to something else, and a plugin without handlers and
tools. What may be intended, such as an observer that was left out, is a warning.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, cast

from hooksdk._firing.hook import Handler, other_parameters
from hooksdk._firing.marks import is_own, marked_in, members, unwrapped
from hooksdk._firing.signature import locate
from hooksdk._tasks.background import logger
from hooksdk.errors import PluginRefused
from hooksdk.hooks import HOOKS

_MARKS = ("hooksdk_impl", "__hooksdk_tool__")


def is_marked(member: object) -> bool:
    """True for a function that is a handler or a tool."""
    return inspect.isfunction(member) and any(hasattr(member, mark) for mark in _MARKS)


def has_handlers(holder: type) -> bool:
    """True for a class that has a handler or a tool, inherited ones among them."""
    return any(is_marked(member) for _, member in members(holder))


def check_lost(plugin_id: str, holder: type | types.ModuleType, others: Container[str]) -> None:
    """Raise `PluginRefused` for the first policy handler that would never be called; log other decorated functions."""
    for function, problem, advice in _lost(holder):
        if _judges(function):
            raise PluginRefused(plugin_id, f"{locate(function)} is marked and would never be called: {problem}", advice)
        logger.warning(
            "plugin '%s': %s is marked and is never called: %s. %s", plugin_id, locate(function), problem, advice
        )
    if isinstance(holder, types.ModuleType):
        for name, member in members(holder):
            if is_marked(member) and not is_own(holder, member, others) and member.__module__ not in others:
                logger.warning(
                    "plugin '%s': '%s' is imported from %s, which is no part of the plugin, so it is not called here. Give "
                    "that module to the host too, or call it in a handler of your own",
                    plugin_id,
                    name,
                    member.__module__,
                )


def _lost(holder: type | types.ModuleType) -> Iterable[tuple[Any, str, str]]:
    """Decorated functions that no name of their module or class leads to, each with the reason and advice."""
    bodies: Sequence[Any] = holder.__mro__ if isinstance(holder, type) else (holder,)
    for body in bodies:
        reachable = [layer for member in vars(body).values() for layer in unwrapped(_plain(member))]
        for function in marked_in(body):
            if not any(function is one for one in reachable):
                yield (function, *_why_lost(function, vars(body).get(function.__name__)))
    if not isinstance(holder, type):
        return
    for base in holder.__mro__[1:]:
        for name, member in vars(base).items():
            if not is_marked(_plain(member)):
                continue
            now = _plain(inspect.getattr_static(holder, name, None))
            if inspect.isfunction(now) and not is_marked(now):  # None instead of a function leaves it out on purpose
                problem = f"{locate(now)} stands in its place and has no decorator"
                yield _plain(member), problem, f"Decorate that one too, or write {name} = None to leave the handler out"


def _why_lost(function: Any, now: Any) -> tuple[str, str]:
    name = function.__name__
    if now is None:
        return f"there is no '{name}' any more", "Keep the name, or remove the decorator"
    if is_marked(_plain(now)):
        return f"'{name}' is used again by {locate(_plain(now))}", "Give each of them a name of its own"
    where = locate(now) if inspect.isfunction(now) else f"a {type(now).__name__}"
    problem = f"'{name}' is {where} now"
    return problem, "A decorator above it must use functools.wraps; or put the hook's decorator above all others"


def _judges(function: Any) -> bool:
    """True for a handler that decides or changes anything. Safety does not depend on one that only observes."""
    options: Mapping[str, Any] | None = getattr(function, "hooksdk_impl", None)
    hook = HOOKS.get(str(options["specname"] or function.__name__)) if options else None
    return hook is not None and hook.kind not in {"notify", "observe", "around", "trace"}


def _plain(member: Any) -> Any:
    return cast("Any", member).__func__ if isinstance(member, (staticmethod, classmethod)) else member


def check_bare(plugin_id: str, holder: Any, expected: list[str], marked: Container[str]) -> None:
    """Log functions with the name and the parameters of a hook and without its decorator."""
    for name in HOOKS:
        function = inspect.getattr_static(holder, name, None)
        bare = inspect.isfunction(function) and name not in marked
        if bare and other_parameters(function, expected) is None:
            logger.warning(
                "plugin '%s': %s has the name of a hook but no decorator, so it is never called. Write @hooks.%s above it",
                plugin_id,
                locate(function),
                name,
            )


def check_empty(plugin_id: str, holder: type | types.ModuleType) -> None:
    """Raise `PluginRefused` for a plugin that has neither handlers nor tools, with the likeliest reason."""
    advice = "Decorate its functions with @hooks.… or @tool"
    if isinstance(holder, types.ModuleType):
        classes = [value.__name__ for value in classes_in(holder)]
        foreign = [name for name, member in members(holder) if is_marked(member)]
        if classes:
            advice = (
                f"Its classes are plugins of their own: give {', '.join(f'{holder.__name__}.{one}' for one in classes)}"
            )
        elif foreign:
            advice = (
                f"It imports '{foreign[0]}' from another package: give {getattr(holder, foreign[0]).__module__} itself"
            )
    elif hasattr(holder, "lifespan") or hasattr(holder, "shared"):
        return  # it provides something to other plugins, such as an open connection
    raise PluginRefused(plugin_id, "it has no handler (@hooks.…) and no tool (@tool), so it would do nothing", advice)


def classes_in(module: types.ModuleType) -> list[type]:
    """The classes with handlers that a module defines or imports from its own package, without imported base classes of
    the others."""
    own = [value for value in vars(module).values() if isinstance(value, type) and is_own(module, value)]
    classes = [value for value in dict.fromkeys(own) if has_handlers(value)]
    return [
        value
        for value in classes
        if value.__module__ == module.__name__ or not any(value in one.__mro__[1:] for one in classes)
    ]


def tell_of_unregistered(plugin_id: str, module: types.ModuleType, registered: Sequence[object]) -> None:
    """Log the classes with handlers in a plugin's module that are no plugins themselves. A base class of a plugin is
    none of them."""
    for holder in classes_in(module):
        if any(isinstance(one, type) and issubclass(one, holder) for one in registered):
            continue
        logger.warning(
            "plugin '%s': the class %s in it has handlers and is no plugin of this host, so they are never called. Give it "
            "to the host beside the module",
            plugin_id,
            holder.__qualname__,
        )


def judging_line(handlers: Sequence[Handler]) -> str:
    """The line that says which plugins judge tool calls, and with how many handlers."""
    if not handlers:
        return "no handler judges tool calls"
    names = list(dict.fromkeys(f"{one.plugin} (shadow)" if one.shadow else one.plugin for one in handlers))
    verb = "handler judges" if len(handlers) == 1 else "handlers judge"
    return f"{len(handlers)} {verb} tool calls: {', '.join(names)}"
