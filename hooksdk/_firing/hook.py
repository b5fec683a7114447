"""A hook: the spec function that is itself the decorator, the checks on its use, and handlers bound to an instance."""

from __future__ import annotations

import copy
import inspect
import math
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import (
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    cast,
    final,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import anyio
import pluggy

from hooksdk._firing.marks import note_marked
from hooksdk._firing.signature import locate
from hooksdk._tasks.limits import is_async
from hooksdk.errors import HookSDKError, HookUseError, did_you_mean
from hooksdk.patterns import PatternError, ToolPattern

# How a hook is fired: `docs/explanation/dispatch.md`.
Kind = Literal["notify", "observe", "decide", "narrow", "transform", "first_answer", "around", "trace"]

Grant = Literal["conversation", "rewrite", "answer", "secrets", "offer", "search"]
# What an operator may grant an installed plugin, and what it can do then. Judging calls, taking tools away and
# observing without text need none.
GRANTS: Mapping[Grant, str] = {
    "conversation": "reads message text and tool results, and may change or shorten them",
    "rewrite": "changes the arguments of tool calls",
    "answer": "gives results of its own instead of running the tool",
    "secrets": "gives the values for secrets that calls ask for",
    "offer": "puts tools of its own into the model's list, and decides which tools are shown",
    "search": "offers tools to find and run others, which the default of a policy does not stop",
}

PROJECT: Final = "hooksdk"
# Worker threads that one threaded handler may hold at a time.
THREADS: Final = 4
_MARK = "__hooksdk_handler__"
_mark_impl = pluggy.HookimplMarker(PROJECT)

_event_names: set[str] = set()

E = TypeVar("E")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """What a decorator said about one handler."""

    order: Literal[-1, 0, 1] = 0
    timeout: float | None = None
    tools: tuple[ToolPattern, ...] | None = None
    required: bool = False
    thread: bool = False
    wait: bool = False


@final
class Hook(Generic[E, R]):
    """One lifecycle hook. Decorate a function `(event)` or a method `(self, event)` with it: bare, `.first`, `.last`,
    or called with options.

    ```python
    from hooksdk import hooks

    @hooks.before_tool_call(timeout=3, tools="delete_*")
    def no_deletes(event: hooks.BeforeToolCall) -> hooks.Block:
        return hooks.Block("nothing is deleted here")
    ```

    - `timeout`: seconds that the handler may take.
    - `tools`: a tool pattern or several; the handler is called for these tools only. They are meant by their words, in
      any case and any joining; one that gives the values of secrets is called for the tools as they are written.
    - `required`: what the handler was to change is withheld when it fails (a redactor).
    - `thread`: run a plain `def` in a worker thread.
    - `wait`: the run waits for a handler that observes.
    """

    def __init__(
        self,
        spec: Callable[[E], R],
        *,
        kind: Kind,
        timeout: float,
        options: frozenset[str],
        grant: Grant | None,
        answer_grants: Mapping[type, Grant],
    ) -> None:
        hints = get_type_hints(spec)
        answers = hints.get("return", type(None))
        alternatives = get_args(answers) if get_origin(answers) in {Union, types.UnionType} else (answers,)
        self.name: Final[str] = spec.__name__
        self.event: Final[type[E]] = hints["event"]
        _event_names.add(self.event.__name__)
        self.answers: Final[tuple[type, ...]] = tuple(kind for kind in alternatives if kind is not type(None))
        self.kind: Final[Kind] = kind
        self.timeout: Final[float] = timeout
        self.allowed_options: Final[frozenset[str]] = options | {"timeout", "thread"}
        self.grant: Final[Grant | None] = grant
        self.answer_grants: Final[Mapping[type, Grant]] = answer_grants
        self.spec: Final[Callable[[E], R]] = spec
        self._options = HandlerOptions()
        self.__doc__ = spec.__doc__

    @property
    def exact(self) -> bool:
        """True where `tools` counts as it is written: in doubt a policy is called, and the value of a secret stays."""
        return self.grant == "secrets"

    @property
    def first(self) -> Hook[E, R]:
        """This hook, for a handler that goes before the others."""
        return self._with(order=-1)

    @property
    def last(self) -> Hook[E, R]:
        """This hook, for a handler that goes after the others."""
        return self._with(order=1)

    @overload
    def __call__(self, function: Callable[[Any, E], Awaitable[R]], /) -> Callable[[Any, E], Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[[Any, E], R], /) -> Callable[[Any, E], R]: ...
    @overload
    def __call__(self, function: Callable[[E], Awaitable[R]], /) -> Callable[[E], Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[[E], R], /) -> Callable[[E], R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        timeout: float = ...,
        tools: str | Iterable[str] = ...,
        required: bool = ...,
        thread: bool = ...,
        wait: bool = ...,
    ) -> Hook[E, R]: ...
    def __call__(self, function: Any = None, /, **options: Any) -> Any:
        if function is None:
            return self._configured(options)
        _check_function(self, function, self._options)
        setattr(function, _MARK, self._options)
        note_marked(function)
        return _mark_impl(
            function, specname=self.name, tryfirst=self._options.order == -1, trylast=self._options.order == 1
        )

    def _with(self, **changes: Any) -> Hook[E, R]:
        other: Hook[E, R] = copy.copy(self)
        other._options = replace(self._options, **changes)
        return other

    def _configured(self, options: dict[str, Any]) -> Hook[E, R]:
        def refuse(problem: str, advice: str) -> HookUseError:
            return HookUseError(self.name, f"its options ({_caller()})", problem, advice)

        for option in options:
            if option not in self.allowed_options:
                known = ", ".join(sorted(self.allowed_options))
                near = did_you_mean(option, self.allowed_options)
                raise refuse(f"it has no option '{option}'", f"It takes {known}.{near}")
        changes = dict(options)
        if "timeout" in changes and not _is_positive(changes["timeout"]):
            problem = f"timeout={changes['timeout']!r} is not a number of seconds above 0"
            raise refuse(problem, "Write such as timeout=3")
        for option in ("required", "thread", "wait"):
            if not isinstance(changes.get(option, True), bool):
                raise refuse(f"{option}={changes[option]!r} is not True or False", f"Write {option}=True")
        if "tools" in changes:
            tools = changes["tools"]
            try:
                patterns = (tools,) if isinstance(tools, str) else tuple(tools)
                changes["tools"] = tuple(ToolPattern(pattern) for pattern in patterns)
            except (PatternError, TypeError) as error:
                raise refuse(f"tools: {error}", "Correct the pattern") from None
            if not changes["tools"]:
                raise refuse("tools is empty, so the handler would never be called", "Leave tools out for all tools")
        return self._with(**changes)

    def __repr__(self) -> str:
        return f"<hook {self.name}>"


def define(
    *,
    kind: Kind,
    timeout: float = 5.0,
    options: Iterable[str] = (),
    grant: Grant | None = None,
    answer_grants: Mapping[type, Grant] | None = None,
) -> Callable[[Callable[[E], R]], Hook[E, R]]:
    """Turn a spec function into the hook of its name: the event and answer types are its annotations. An installed
    plugin needs `grant` to handle it at all, and one of `answer_grants` to give that answer."""

    def make(spec: Callable[[E], R]) -> Hook[E, R]:
        return Hook(
            spec, kind=kind, timeout=timeout, options=frozenset(options), grant=grant, answer_grants=answer_grants or {}
        )

    return make


def options_of(function: object) -> HandlerOptions:
    """What the decorator said; the defaults for a plain pluggy impl."""
    return cast("HandlerOptions", getattr(function, _MARK, HandlerOptions()))


def _caller() -> str:
    """`file:line` of the code that uses the decorator."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 and not math.isnan(value)


def _check_function(hook: Hook[Any, Any], function: Any, options: HandlerOptions) -> None:
    def refuse(problem: str, advice: str) -> None:
        raise HookUseError(hook.name, locate(function), problem, advice)

    if not inspect.isfunction(function):
        problem = "it decorates something that is not a function"
        by_tool = "tools" in hook.allowed_options and isinstance(function, str)
        option = f"tools={function!r}" if by_tool else "timeout=3"
        advice = f"Decorate a `def` or `async def` directly, and name the options: ({option})"
        raise HookUseError(hook.name, f"{function!r:.80} ({_caller()})", problem, advice)
    if hasattr(function, _MARK):
        refuse("the function already handles another hook", "Write one function for each hook")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        refuse("a generator cannot be a handler", "Return the answer instead of yielding it")
    if options.thread and is_async(function):
        refuse("thread=True is for a plain `def`", "Leave it out, or write `def`")
    parent = function.__qualname__.rpartition(".")[0]
    is_method = bool(parent) and not parent.endswith("<locals>")
    expected = ["self", "event"] if is_method else ["event"]
    if others := other_parameters(function, expected):
        refuse(f"its parameters are {others}", f"Write def {function.__name__}({', '.join(expected)})")
    _check_event(hook, function, refuse)


def other_parameters(function: Any, expected: list[str]) -> str | None:
    """The function's parameters as they are written, where they are not these plain ones; else None."""
    parameters = list(inspect.signature(function).parameters.values())
    plain = all(one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD} for one in parameters)
    if plain and [one.name for one in parameters] == expected:
        return None
    return str(inspect.signature(function)).partition(" ->")[0]


def _check_event(hook: Hook[Any, Any], function: Any, refuse: Callable[[str, str], None]) -> None:
    annotation = function.__annotations__.get("event")
    if annotation is None:
        return
    if isinstance(annotation, str):
        annotation = function.__globals__.get(annotation.strip("'\" "), annotation)
    if isinstance(annotation, str):
        # Under `from __future__ import annotations` the name may exist for the type checker only, and be an alias:
        # refuse the name of another event, and nothing else.
        name = annotation.strip("'\" ").rpartition(".")[2]
        if name not in _event_names or name in {base.__name__ for base in hook.event.__mro__}:
            return
    else:
        if annotation is Any or (isinstance(annotation, type) and issubclass(hook.event, annotation)):
            return
        if not isinstance(annotation, type):
            return
        name = annotation.__name__
    refuse(f"its event is declared as {name}", f"{hook.name} is fired with {hook.event.__name__}")


@final
class Handler:
    """One handler, bound to its plugin's instance, with everything that firing it needs worked out."""

    def __init__(
        self,
        hook: Hook[Any, Any],
        call: Callable[[Any], Any],
        function: Any,
        plugin: str,
        *,
        timeout: float | None = None,
        limiter: anyio.CapacityLimiter | None = None,
        ungranted: Mapping[type, HookSDKError] | None = None,
        kept: Mapping[str, object] | None = None,
    ) -> None:
        options = options_of(function)
        innermost: Any = inspect.unwrap(function)
        code = innermost.__code__
        self.hook = hook.name
        # Answers that the operator has not granted this plugin, with what to say when it gives one.
        self.ungranted = ungranted or {}
        # Fields of the event that the operator has not granted it to read, with what stands in their place.
        self.kept = kept or {}
        self.answers = tuple(kind for kind in hook.answers if kind not in self.ungranted)
        self.decides = hook.kind == "decide"
        self.exact = hook.exact
        self.call = call
        self.function: str = function.__qualname__
        self.plugin = plugin
        self.source = f"{code.co_filename}:{code.co_firstlineno}"
        self.who = f"plugin '{plugin}', {function.__qualname__} ({self.source})"
        self.is_async = is_async(function)
        self.timeout = timeout or options.timeout or hook.timeout
        self.tools = options.tools
        self.required = options.required
        self.shadow = False
        self.waits = options.wait
        # A plain `def` that observes would stall the run's event loop; one that decides is meant to be quick.
        wraps_async = self.is_async or is_async(innermost)
        self.threaded = not wraps_async and (options.thread or hook.kind in {"observe", "trace"})
        # A thread that hangs keeps its place, so that abandoned threads cannot pile up.
        self.limiter = limiter or anyio.CapacityLimiter(THREADS)

    def bound_to(self, instance: object) -> Handler:
        """The same handler as a method of this instance; the threads' limit is shared by all instances."""
        other = copy.copy(self)
        other.call = self.call.__get__(instance)
        return other

    def concerns(self, tool: Any) -> bool:
        """True unless the handler is limited to other tools."""
        return self.tools is None or (tool is not None and any(self.is_meant(pattern, tool) for pattern in self.tools))

    def is_meant(self, pattern: ToolPattern, tool: Any) -> bool:
        """True when this pattern in the handler's `tools` is for the tool."""
        return pattern.matches(tool) if self.exact else pattern.may_mean(tool)

    def __repr__(self) -> str:
        return f"<handler of {self.hook}: {self.who}>"
