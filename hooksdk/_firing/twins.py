"""Twins of handlers: of a policy in shadow mode, whose answers have no effect, and of a plugin that may not read all of
an event. The fields of events that a plugin reads only with a grant are empty for it then, and the log says why,
once."""

from __future__ import annotations

import copy
import functools
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from hooksdk._firing.calling import call_handler
from hooksdk._firing.hook import Grant, Handler, Kind
from hooksdk._schema.fresh import Fresh, peek, put_fresh
from hooksdk._tasks.background import logger
from hooksdk.errors import MissingGrant

T = TypeVar("T")

# Kinds of hooks whose answers have an effect; the handlers of others only watch, in shadow mode too.
EFFECTIVE_KINDS: frozenset[Kind] = frozenset({"decide", "narrow", "transform", "first_answer"})

_without_effect: ContextVar[bool] = ContextVar("hooksdk_without_effect", default=False)


def runs_without_effect() -> bool:
    """True inside a handler in shadow mode: what it does besides answering must have no effect either."""
    return _without_effect.get()


def in_shadow(handler: Handler) -> Handler:
    """A twin of the handler in shadow mode."""
    twin = wrapped(handler, _call_without_effect)
    twin.shadow = True
    return twin


async def _call_without_effect(handler: Handler, event: Any) -> Any:
    token = _without_effect.set(True)
    try:
        return await call_handler(handler, event)
    finally:
        _without_effect.reset(token)


def wrapped(handler: Handler, around: Callable[[Handler, Any], Awaitable[Any]]) -> Handler:
    """A twin of the handler that is called by `around`, with the handler itself and the event. Other handlers pay
    nothing for it."""
    twin = copy.copy(handler)
    twin.call, twin.is_async = functools.partial(around, handler), True
    return twin


class Granted(Fresh[T]):
    """A dataclass field that holds `default` for a plugin without this grant. Its values must be immutable: they are
    handed out uncopied."""

    def __init__(self, grant: Grant, default: T) -> None:
        super().__init__(default)
        self.grant: Grant = grant

    @overload
    def __get__(self, instance: None, owner: type) -> T: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        value = None if instance is None else peek(instance, self._name)
        if isinstance(value, WithheldField):
            value.tell()
            return self._default[0]
        return self._default[0] if instance is None else value  # the dataclass asks for the default


@dataclass
class WithheldField:
    """Stands in an event for what the plugin may not read."""

    problem: MissingGrant
    told: bool = False

    def tell(self) -> None:
        if not self.told:
            self.told = True
            logger.warning("%s; it is empty for the plugin", self.problem, extra={"plugin": self.problem.plugin})


def granted_fields(event: type) -> Mapping[str, Grant]:
    """The fields of an event that need a grant, by name."""
    return {
        name: each.grant for kind in event.__mro__ for name, each in vars(kind).items() if isinstance(each, Granted)
    }


def withheld_from(handler: Handler) -> Handler:
    """A twin of the handler whose events are empty in the fields that the operator has not granted."""
    return wrapped(handler, _call_without_fields)


async def _call_without_fields(handler: Handler, event: Any) -> Any:
    event = copy.copy(event)
    put_fresh(event, **handler.kept)
    return await call_handler(handler, event)
