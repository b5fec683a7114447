"""Fields of dataclasses that hand out a fresh copy at each access, or a value that is made when it is first read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from hooksdk.values import clone

T = TypeVar("T")


class Fresh(Generic[T]):
    """A dataclass field that hands out a copy of its value at each access, so that no reader can change what another
    one sees. The value itself is stored uncopied: whoever makes the instance must not change it afterwards.

    `Fresh()` is a required field, `Fresh(None)` one with a default; `field(default=Fresh(None), ...)` works as well.
    """

    def __init__(self, *default: T) -> None:
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
            if not self._default:
                raise AttributeError(self._name)
            return self._default[0]
        return clone(instance.__dict__[self._name].value)

    def __set__(self, instance: object, value: T) -> None:
        # `field(default=Fresh(None))` gives the field itself where no value is passed.
        instance.__dict__[self._name] = _Stored(self._default[0] if value is self else value)


class Made(Generic[T]):
    """A dataclass field whose value may be given as a function without parameters, which makes it when it is first read. For
    values that most readers never ask for. `Made(make)` has what `make` answers as its default."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> T:
        if instance is None:  # the dataclass asks for the default
            raise AttributeError(self._name)
        value: Any = instance.__dict__[self._name]
        if callable(value):
            value = instance.__dict__[self._name] = value()
        return value

    def __set__(self, instance: object, value: T | Callable[[], T]) -> None:
        # `field(default=Made(...))` gives the field itself where no value is passed.
        instance.__dict__[self._name] = self._make if value is self else value


def put_fresh(instance: object, **values: Any) -> None:
    """Set `Fresh` fields of a new instance, uncopied."""
    for name, value in values.items():
        instance.__dict__[name] = _Stored(value)


def peek(instance: object, name: str) -> Any:
    """The stored value of a `Fresh` field itself, without a copy. For hooksdk's own code only: never change what it
    answers, and hand it to nobody who might."""
    return instance.__dict__[name].value


@dataclass(slots=True)
class _Stored:
    """Keeps `vars(instance)` from being a way to the value itself."""

    value: Any
