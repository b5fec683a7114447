"""Fields of events that a plugin reads only with a grant: without it they are empty, and the log says why, once."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from hooksdk._firing.calling import call_handler, wrapped
from hooksdk._firing.hook import Grant, Handler
from hooksdk._tasks.background import logger
from hooksdk.errors import MissingGrant

T = TypeVar("T")


class Granted(Generic[T]):
    """A dataclass field that holds `default` for a plugin without this grant. Its values must be immutable."""

    def __init__(self, grant: Grant, default: T) -> None:
        self.grant: Grant = grant
        self._default = default
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> T: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:  # the dataclass asks for the default
            return self._default
        value = instance.__dict__[self._name]
        if isinstance(value, WithheldField):
            value.tell()
            return self._default
        return value

    def __set__(self, instance: object, value: T) -> None:
        # `field(default=Granted(...))` gives the field itself where no value is passed.
        instance.__dict__[self._name] = self._default if value is self else value


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
    event.__dict__.update(handler.kept)
    return await call_handler(handler, event)
