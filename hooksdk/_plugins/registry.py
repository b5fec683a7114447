"""Plugins, registered with pluggy once per host: checked, ordered, and turned into plans for sessions."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import pluggy

from hooksdk._firing.hook import PROJECT, Handler, options_of, other_parameters
from hooksdk._firing.marks import is_own
from hooksdk._firing.signature import locate
from hooksdk._firing.twins import EFFECTIVE_KINDS, WithheldField, granted_fields, in_shadow, withheld_from
from hooksdk._plugins.handlers import check_bare, check_empty, check_lost
from hooksdk._plugins.plugin import Plugin, configure, constructor_parameters, missing_grants
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.config import Config, fold
from hooksdk.errors import DuplicatePlugin, HookUseError, MissingGrant, PluginRefused, UnknownHook, did_you_mean
from hooksdk.hooks import HOOKS
from hooksdk.tools import Tool, marked_tools


class _Manager(pluggy.PluginManager):
    """pluggy's manager, which registers only handlers that a module defines itself, and none that it imports."""

    def __init__(self, others: set[str]) -> None:
        super().__init__(PROJECT)
        self._others = others

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is None or not isinstance(plugin, types.ModuleType):
            return options
        return options if is_own(plugin, getattr(plugin, name), self._others) else None


@final
class Registry:
    """The loaded plugins of one host, and the plan of handlers that each session binds.

    Attributes:
        modules: The names of modules that are plugins. A handler that another module imports from one of them belongs
            to that one.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.modules: set[str] = set()
        self._manager = _Manager(self.modules)
        marker = pluggy.HookspecMarker(PROJECT)
        specs = {name: staticmethod(marker(_plain_spec(name))) for name in HOOKS}
        self._manager.add_hookspecs(type("hooksdk hooks", (), specs))
        self.plugins: list[Plugin] = []
        # Those that were added, by folded id.
        self._by_id: dict[str, Plugin] = {}
        self._plan: dict[str, list[Handler]] | None = None

    def add(self, plugin: Plugin) -> None:
        """Check and register a plugin. Nothing of a refused plugin stays registered."""
        if (twin := self.get(plugin.id)) is not None:
            raise DuplicatePlugin(plugin.id, _where(twin), _where(plugin))
        holder = plugin.holder
        if not isinstance(holder, (type, types.ModuleType)):
            raise _no_plugin(plugin)
        section = self._config.plugin(plugin.id)
        plugin.asks_for = constructor_parameters(plugin)
        handled = {name: self._check_handler(plugin, name, opts) for name, opts in self._marked(holder)}
        plugin.hooks = [name for name in HOOKS if name in handled.values()]
        for name, hook in handled.items():
            if patterns := options_of(inspect.getattr_static(holder, name)).tools:
                plugin.tool_patterns.setdefault(hook, []).extend(patterns)
        tools = self._marked_tools(plugin, None)
        plugin.tools = [tool.name for tool in tools]
        for name in (tool.name for tool in tools if not tool.description.strip()):
            advice = "the model sees its name and parameters only. Give its function a docstring"
            logger.warning("plugin '%s': its tool %s has no description: %s", plugin.id, name, advice)
        plugin.grants = tuple(section.grants) if section else ()
        plugin.config = configure(plugin, self._config)
        plugin.unneeded = _unneeded(plugin, handled)
        needed = {hook for name, hook in handled.items() if name not in plugin.unneeded}
        plugin.hooks = [name for name in plugin.hooks if name in needed]
        check_lost(plugin.id, holder, self.modules)
        expected = ["self", "event"] if plugin.is_class else ["event"]
        check_bare(plugin.id, holder, expected, {*handled, *plugin.tools})
        if not plugin.hooks and not plugin.tools:
            check_empty(plugin.id, holder)
        _check_contracts(plugin)
        self._check_grants(plugin)
        self._register(plugin)
        self.plugins.append(plugin)
        self._by_id[fold(plugin.id)] = plugin
        self._plan = None

    def note(self, plugin: Plugin) -> None:
        """Keep a plugin that is not loaded in the list, with its reason."""
        self.plugins.append(plugin)

    def get(self, plugin_id: str) -> Plugin | None:
        """The loaded plugin of this id, or None."""
        plugin = self._by_id.get(fold(plugin_id))
        return plugin if plugin is not None and plugin.loaded else None

    @property
    def loaded(self) -> list[Plugin]:
        """The plugins whose handlers are called, in order of registration."""
        return [plugin for plugin in self.plugins if plugin.loaded]

    def tools_of(self, plugin: Plugin, instance: object) -> list[Tool]:
        """The tools that `@tool` marks in a module or an instance; without an instance those of a blank one. Empty for
        a plugin without the grant to offer tools."""
        if not plugin.may("offer"):
            return []
        return self._marked_tools(plugin, instance)

    def _marked_tools(self, plugin: Plugin, instance: object) -> list[Tool]:
        if plugin.is_class and instance is None:
            try:
                instance = object.__new__(plugin.holder)
            except TypeError as error:
                raise PluginRefused(plugin.id, f"no instance of it can be made: {error}") from None
        return marked_tools(plugin.holder if instance is None else instance, plugin.id, others=self.modules)

    def plans(self, instances: Mapping[str, object]) -> dict[str, tuple[Handler, ...]]:
        """The handlers of every hook in firing order, bound to these instances (by plugin id)."""
        return {
            hook: tuple(_bind(handler, instances.get(handler.plugin)) for handler in handlers)
            for hook, handlers in self.plan.items()
        }

    @property
    def contracts(self) -> dict[str, frozenset[str]]:
        """By plugin, the tools that its manifest lists, if it lists any: the plugin may offer no others."""
        return {
            plugin.id: frozenset(names)
            for plugin in self.loaded
            if plugin.manifest and (names := plugin.manifest.contracts.tools) is not None
        }

    @property
    def plan(self) -> Mapping[str, Sequence[Handler]]:
        """The handlers of every hook in firing order, bound to no instance."""
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def _register(self, plugin: Plugin) -> None:
        try:
            self._manager.register(plugin.holder, plugin.id)
        except pluggy.PluginValidationError as error:  # a rule of pluggy's that is not among our own checks
            raise PluginRefused(plugin.id, " ".join(str(error).split())) from None
        except ValueError as error:
            raise DuplicatePlugin(plugin.id, "registered already", f"{_where(plugin)} ({error})") from None

    def _marked(self, holder: Any) -> Iterable[tuple[str, Any]]:
        """The names of a plugin's decorated handlers, with the options of their decorators."""
        for name in dir(holder):
            opts = self._manager.parse_hookimpl_opts(holder, name)
            if opts is not None:
                yield name, opts

    def _check_handler(self, plugin: Plugin, name: str, opts: Any) -> str:
        """The hook that a function handles. The checks of our decorators are made here for plain pluggy markers."""
        hook: str = opts["specname"] or name
        function = inspect.getattr_static(plugin.holder, name)
        where = locate(function)
        if hook not in HOOKS:
            raise UnknownHook(hook, plugin.id, where, did_you_mean(hook, HOOKS))

        def refuse(problem: str, advice: str) -> HookUseError:
            return HookUseError(hook, f"plugin '{plugin.id}', {where}", problem, advice)

        if opts["wrapper"] or opts["hookwrapper"]:
            advice = "Use two handlers, such as before_tool_call and after_tool_call"
            raise refuse("wrapper handlers are not called: each hook decides by its answers", advice)
        if not inspect.isfunction(function):
            kind = type(function).__name__
            raise refuse(f"a {kind} cannot be a handler", "Write a plain function or method")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise refuse("a generator cannot be a handler", "Return the answer instead of yielding it")
        expected = ["self", "event"] if plugin.is_class else ["event"]
        if parameters := other_parameters(function, expected):
            raise refuse(f"its parameters are {parameters}", f"Write def {name}({', '.join(expected)})")
        return hook

    def _check_grants(self, plugin: Plugin) -> None:
        missing = missing_grants(plugin, plugin.hooks, plugin.tools, self._config)
        if not missing:
            return
        plugin.reason = (
            f"left out: {', '.join(user for users in missing.values() for user in users)}. {plugin.missing_grant}"
        )
        plugin.hooks = [name for name in plugin.hooks if HOOKS[name].grant not in missing]
        plugin.tools = [] if "offer" in missing else plugin.tools

    def missing_conversation(self) -> dict[str, MissingGrant]:
        """The plugins whose tools may not read or trim results, with the reason."""
        users = ("tool results through its tools",)
        blind = (plugin.id for plugin in self.loaded if not plugin.may("conversation"))
        return {plugin_id: MissingGrant(plugin_id, {"conversation": users}) for plugin_id in blind}

    def _make_plan(self) -> dict[str, list[Handler]]:
        position = {id(plugin.holder): index for index, plugin in enumerate(self.loaded)}
        by_holder = {id(plugin.holder): plugin for plugin in self.loaded}
        plan: dict[str, list[Handler]] = {}
        for name, hook in HOOKS.items():
            impls = [impl for impl in getattr(self._manager.hook, name).get_hookimpls() if id(impl.plugin) in by_holder]
            # pluggy's own order is the reverse, and alphabetical within a class: sort, do not reverse.
            impls.sort(
                key=lambda impl: (
                    _group(impl),
                    position[id(impl.plugin)],
                    inspect.unwrap(impl.function).__code__.co_firstlineno,
                )
            )
            handlers = [
                self._handler(by_holder[id(impl.plugin)], hook, impl.function)
                for impl in impls
                if name in by_holder[id(impl.plugin)].hooks
                and impl.function.__name__ not in by_holder[id(impl.plugin)].unneeded
            ]
            if handlers:
                plan[name] = handlers
        return plan

    def _handler(self, plugin: Plugin, hook: Any, function: Any) -> Handler:
        ungranted = {
            kind: MissingGrant(plugin.id, {grant: (f"{kind.__name__} in {hook.name}",)})
            for kind, grant in hook.answer_grants.items()
            if not plugin.may(grant)
        }
        kept = {
            name: WithheldField(MissingGrant(plugin.id, {grant: (f"{hook.event.__name__}.{name}",)}))
            for name, grant in granted_fields(hook.event).items()
            if not plugin.may(grant)
        }
        timeout, section = self._config.timeout(plugin.id, hook.name), self._config.plugin(plugin.id)
        handler = Handler(hook, function, function, plugin.id, timeout=timeout, ungranted=ungranted, kept=kept)
        handler.shadow = section is not None and section.mode == "shadow" and hook.kind in EFFECTIVE_KINDS
        return handler


def _unneeded(plugin: Plugin, handled: Mapping[str, str]) -> frozenset[str]:
    """The handlers that a plugin class does not need with its settings, by its `handlers_for`: they are not called."""
    handlers_for = getattr(plugin.holder, "handlers_for", None) if plugin.is_class else None
    if handlers_for is None:
        return frozenset()
    try:
        needed = {str(name) for name in handlers_for(plugin.config)}
    except Exception as error:
        raise PluginRefused(plugin.id, f"its handlers_for raised {describe(error)}") from error
    if unknown := sorted(needed.difference(handled)):
        hint = did_you_mean(unknown[0], handled).strip()
        raise PluginRefused(plugin.id, f"its handlers_for names '{unknown[0]}', which is no handler of it", hint)
    return frozenset(handled).difference(needed)


def _bind(handler: Handler, instance: object) -> Handler:
    bound = handler if instance is None else handler.bound_to(instance)
    bound = withheld_from(bound) if handler.kept else bound
    return in_shadow(bound) if handler.shadow else bound


def _group(impl: Any) -> int:
    return -1 if impl.tryfirst else 1 if impl.trylast else options_of(impl.function).order


def _plain_spec(name: str) -> Any:
    """A spec function of its own for each manager: pluggy marks the function object."""
    spec = HOOKS[name].spec
    return types.FunctionType(spec.__code__, spec.__globals__, name)


def _where(plugin: Plugin) -> str:
    holder = plugin.holder
    name = (
        f"{holder.__module__}.{holder.__qualname__}"
        if isinstance(holder, type)
        else str(getattr(holder, "__name__", holder))
    )
    return f"{name} ({plugin.origin})"


def _no_plugin(plugin: Plugin) -> PluginRefused:
    holder = plugin.holder
    if isinstance(holder, str):
        problem = f"{holder!r:.80} is text, not a module or class"
        advice = "Import it and give the module or class itself; installed plugins are found by themselves"
    elif inspect.isroutine(holder):
        problem = "it is a function, not a module or class"
        advice = "Give the module that it is in, or put it into a class"
    else:
        kind = type(holder).__name__
        problem = f"it is an instance of {kind}, not a module or class"
        advice = f"Give the class itself ({kind}, not {kind}()), so that each session has its own instance"
    return PluginRefused(plugin.id, problem, advice)


def _check_contracts(plugin: Plugin) -> None:
    if plugin.manifest is None:
        return
    for what, registered, contract in (
        ("tool", plugin.tools, plugin.manifest.contracts.tools),
        ("hook", plugin.hooks, plugin.manifest.contracts.hooks),
    ):
        outside = [name for name in registered if contract is not None and name not in contract]
        if outside:
            advice = f"List it under contracts.{what}s, or remove it"
            raise PluginRefused(plugin.id, f"its manifest does not list the {what} '{outside[0]}'", advice)
