"""Plugins, registered with pluggy once per host: checked, ordered, and turned into plans for sessions."""

from __future__ import annotations

import inspect
import types
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import pluggy
import pydantic
from pydantic import BaseModel

from hooksdk._config.words import printable_entry, trust_advice
from hooksdk._firing.hook import PROJECT, Handler, options_of, other_parameters
from hooksdk._firing.signature import locate
from hooksdk._tasks.background import logger
from hooksdk.config import Config, PluginConfig, fold
from hooksdk.errors import (
    ConfigError,
    DuplicatePlugin,
    HookUseError,
    MissingGrant,
    PluginRefused,
    UnknownHook,
    did_you_mean,
    problem_text,
    unknown_key,
)  # fmt: skip
from hooksdk.hooks import HOOKS
from hooksdk.manifest import Manifest
from hooksdk.patterns import ToolPattern
from hooksdk.tools import Tool, marked_tools

CONSTRUCTOR = {"config", "state", "shared", "storage"}
"""What a plugin class may ask for."""


@dataclass(kw_only=True)
class Plugin:
    """One plugin that a host knows, loaded or not."""

    id: str
    origin: str
    """`code`, `installed`, `built-in` or the path of a plugins file."""
    holder: Any = None
    """The module or class."""
    manifest: Manifest | None = None
    version: str = ""
    status: str = "loaded"
    """`loaded`, `off`, `denied`, `not allowed` or `refused`."""
    reason: str = ""
    config: Any = None
    """The plugin's own configuration, checked: an instance of its `Config`, or a mapping."""
    hooks: list[str] = field(default_factory=list[str])
    tools: list[str] = field(default_factory=list[str])
    missing_grant: MissingGrant | None = None
    """Why its conversation hooks are left out, when they are."""
    asks_for: tuple[str, ...] = ()
    """What its constructor takes."""

    @property
    def is_class(self) -> bool:
        """True for a class: each session has an instance of its own."""
        return isinstance(self.holder, type)

    @property
    def loaded(self) -> bool:
        """True when its handlers are called."""
        return self.status == "loaded"


class _Manager(pluggy.PluginManager):
    """pluggy's manager, which takes a module's handlers only where they are defined."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        options = super().parse_hookimpl_opts(plugin, name)
        if options is not None and isinstance(plugin, types.ModuleType):
            function = getattr(plugin, name)
            if getattr(function, "__module__", None) != plugin.__name__:
                return None
        return options


def plugin_id_of(holder: Any) -> str:
    """A plugin's id: its `plugin_id`, or the module's or class's name in snake_case."""
    plugin_id = getattr(holder, "plugin_id", None)
    if isinstance(plugin_id, str) and plugin_id:
        return plugin_id
    name = str(getattr(holder, "__name__", type(holder).__name__)).rpartition(".")[2]
    if isinstance(holder, types.ModuleType):
        return name
    return "".join(f"_{char.lower()}" if char.isupper() and index else char.lower() for index, char in enumerate(name))


@final
class Registry:
    """The loaded plugins of one host, and the plan of handlers that each session binds."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._manager = _Manager(PROJECT)
        marker = pluggy.HookspecMarker(PROJECT)
        specs = {name: staticmethod(marker(_plain_spec(name))) for name in HOOKS}
        self._manager.add_hookspecs(type("hooksdk hooks", (), specs))
        self.plugins: list[Plugin] = []
        self._plan: dict[str, list[Handler]] | None = None

    def add(self, plugin: Plugin) -> None:
        """Register a plugin with everything it needs checked; nothing stays half-registered when it is refused."""
        twin = next((one for one in self.plugins if one.loaded and fold(one.id) == fold(plugin.id)), None)
        if twin is not None:
            raise DuplicatePlugin(plugin.id, _where(twin), _where(plugin))
        holder = plugin.holder
        if not isinstance(holder, (type, types.ModuleType)):
            raise _no_plugin(plugin)
        section = self._config.plugin(plugin.id)
        plugin.asks_for = _constructor(plugin)
        plugin.config = _configure(plugin, self._config)
        hooks = {self._check_handler(plugin, name, opts) for name, opts in self._marked(holder)}
        plugin.hooks = [name for name in HOOKS if name in hooks]
        plugin.tools = [tool.name for tool in self.tools_of(plugin, None)]
        _warn_of_undecorated(plugin, {name for name, _ in self._marked(holder)})
        _check_contracts(plugin)
        self._check_grants(plugin, section)
        self._register(plugin)
        self.plugins.append(plugin)
        self._plan = None

    def note(self, plugin: Plugin) -> None:
        """Keep a plugin that is not loaded in the list, with its reason."""
        self.plugins.append(plugin)

    def get(self, plugin_id: str) -> Plugin | None:
        """The loaded plugin of this id, or None."""
        return next((one for one in self.plugins if one.loaded and fold(one.id) == fold(plugin_id)), None)

    @property
    def loaded(self) -> list[Plugin]:
        """The plugins whose handlers are called, in order of registration."""
        return [plugin for plugin in self.plugins if plugin.loaded]

    def tools_of(self, plugin: Plugin, instance: object) -> list[Tool]:
        """The tools that `@tool` marks: of a module or an instance; of a class's blank instance when there is none yet."""
        if plugin.is_class and instance is None:
            try:
                instance = object.__new__(plugin.holder)
            except TypeError as error:
                raise PluginRefused(plugin.id, f"no instance of it can be made: {error}") from None
        return marked_tools(plugin.holder if instance is None else instance, plugin.id)

    def plans(self, instances: Mapping[str, object]) -> dict[str, tuple[Handler, ...]]:
        """The handlers of every hook in firing order, bound to these instances (by plugin id)."""
        if self._plan is None:
            self._plan = self._make_plan()
        return {
            hook: tuple(
                handler.bound_to(instances[handler.plugin]) if handler.plugin in instances else handler
                for handler in handlers
            )
            for hook, handlers in self._plan.items()
        }

    def patterns(self) -> list[tuple[Plugin, str, ToolPattern]]:
        """Every tool pattern that limits a handler: plugin, handler, pattern."""
        by_id = {plugin.id: plugin for plugin in self.loaded}
        all_handlers = (handler for handlers in (self._plan or self._make_plan()).values() for handler in handlers)
        return [(by_id[one.plugin], one.who, pattern) for one in all_handlers for pattern in one.tools or ()]

    def _register(self, plugin: Plugin) -> None:
        try:
            self._manager.register(plugin.holder, plugin.id)
        except pluggy.PluginValidationError as error:  # a rule of pluggy's that is not among our own checks
            raise PluginRefused(plugin.id, " ".join(str(error).split())) from None
        except ValueError as error:
            raise DuplicatePlugin(plugin.id, "registered already", f"{_where(plugin)} ({error})") from None

    def _marked(self, holder: Any) -> Iterable[tuple[str, Any]]:
        """The names under which a plugin has marked handlers, with what their markers say."""
        for name in dir(holder):
            opts = self._manager.parse_hookimpl_opts(holder, name)
            if opts is not None:
                yield name, opts

    def _check_handler(self, plugin: Plugin, name: str, opts: Any) -> str:
        """The hook that a marked function handles. Plain pluggy impls have not met the decorator's checks."""
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

    def _check_grants(self, plugin: Plugin, section: PluginConfig | None) -> None:
        if plugin.origin != "installed" or (section and "conversation" in section.grants):
            return
        conversation_hooks = tuple(name for name in plugin.hooks if HOOKS[name].grant == "conversation")
        requested = "conversation" in plugin.manifest.permissions if plugin.manifest else False
        if not conversation_hooks and not requested:
            return
        missing = MissingGrant(plugin.id, "conversation", conversation_hooks or ("tool results through its tools",))
        if self._config.on_missing_grant == "refuse":
            raise missing
        plugin.missing_grant = missing
        plugin.reason = f"left out: {', '.join(conversation_hooks or ('trims',))}. {missing}"
        plugin.hooks = [name for name in plugin.hooks if name not in conversation_hooks]

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
            handlers = [self._handler(by_holder[id(impl.plugin)], hook, impl.function) for impl in impls
                        if name in by_holder[id(impl.plugin)].hooks]  # fmt: skip
            if handlers:
                plan[name] = handlers
        return plan

    def _handler(self, plugin: Plugin, hook: Any, function: Any) -> Handler:
        return Handler(hook, function, function, plugin.id, timeout=self._config.timeout(plugin.id, hook.name))


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


def _warn_of_undecorated(plugin: Plugin, marked: Container[str]) -> None:
    """A handler without its decorator is never called, and a policy would be missing without a message."""
    expected = ["self", "event"] if plugin.is_class else ["event"]
    for name in HOOKS:
        function = inspect.getattr_static(plugin.holder, name, None)
        bare = inspect.isfunction(function) and name not in marked and name not in plugin.tools
        if bare and other_parameters(function, expected) is None:
            logger.warning(
                "plugin '%s': %s has the name of a hook but no decorator, so it is never called. Write @hooks.%s above it",
                plugin.id, locate(function), name,
            )  # fmt: skip
    if plugin.is_class and not plugin.hooks and not plugin.tools:
        logger.warning(
            "plugin '%s' does nothing: %s has no handler (@hooks.…) and no tool (@tool)", plugin.id, _where(plugin)
        )


def _constructor(plugin: Plugin) -> tuple[str, ...]:
    if not plugin.is_class:
        return ()
    parameters = list(inspect.signature(plugin.holder).parameters.values())
    for parameter in parameters:
        if parameter.name not in CONSTRUCTOR and parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD,
        }:  # fmt: skip
            advice = f"A plugin class may take {', '.join(sorted(CONSTRUCTOR))}; give anything else a default"
            raise PluginRefused(plugin.id, f"its constructor wants '{parameter.name}'", advice)
    return tuple(parameter.name for parameter in parameters if parameter.name in CONSTRUCTOR)


def _configure(plugin: Plugin, config: Config) -> Any:
    where = f"[plugins.{plugin.id}.config]"
    values = _values(plugin, config)
    if plugin.manifest:
        values = plugin.manifest.check_config(values, where)
    model = getattr(plugin.holder, "Config", None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        known = {info.alias or name for name, info in model.model_fields.items()} | set(model.model_fields)
        unknown = [name for name in values if name not in known]
        if unknown and model.model_config.get("extra") != "allow":
            raise ConfigError(where, tuple(unknown_key(name, sorted(known)) for name in unknown))
        try:
            return model.model_validate(values)
        except pydantic.ValidationError as error:
            raise ConfigError(where, tuple(map(problem_text, error.errors()))) from None
    if plugin.is_class and isinstance(model, type):
        raise PluginRefused(plugin.id, "its Config is not a pydantic model", "Write class Config(pydantic.BaseModel)")
    if values and "config" not in plugin.asks_for and not plugin.manifest:
        raise ConfigError(where, (f"plugin '{plugin.id}' takes no configuration",))
    return values


def _values(plugin: Plugin, config: Config) -> dict[str, Any]:
    """The plugin's settings from all sources. What a project's file may add, its `Config.with_project` knows."""
    section, sources = config.plugin(plugin.id), config.own_settings(plugin.id)
    if sources is None:
        return dict(section.config) if section else {}
    with_project = getattr(getattr(plugin.holder, "Config", None), "with_project", None)
    if with_project is None:
        values, missing = sources.usual()
    else:
        try:
            values, missing = sources.as_merged_by(with_project)
        except Exception as error:
            raise PluginRefused(plugin.id, f"its with_project raised {type(error).__name__}: {error}") from error
    if missing:
        advice = "" if sources.trusted else f". {trust_advice(sources.folder)}"
        names = ", ".join(map(printable_entry, missing))
        logger.warning("[plugins.%s.config] of the project: not used: %s%s", plugin.id, names, advice)
    return values


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


def instantiate(plugin: Plugin, available: Mapping[str, Any]) -> object:
    """A session's own instance of a plugin class. Raises `PluginRefused` when its constructor does."""
    try:
        return plugin.holder(**{name: available[name] for name in plugin.asks_for})
    except (Exception, SystemExit) as error:
        raise PluginRefused(plugin.id, f"its constructor raised {type(error).__name__}: {error}") from error


def describe_plugins(plugins: Iterable[Plugin]) -> Sequence[dict[str, Any]]:
    """The plugins as JSON, for listings."""
    return [
        {
            "id": plugin.id,
            "status": plugin.status,
            "reason": plugin.reason,
            "origin": plugin.origin,
            "version": plugin.version,
            "description": _description(plugin),
            "hooks": plugin.hooks,
            "tools": plugin.tools,
        }
        for plugin in plugins
    ]


def _description(plugin: Plugin) -> str:
    if plugin.manifest and plugin.manifest.description:
        return plugin.manifest.description
    return (inspect.getdoc(plugin.holder) or "").partition("\n")[0] if plugin.holder is not None else ""
