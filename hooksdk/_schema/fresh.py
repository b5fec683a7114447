"""Fields of dataclasses that hand out a fresh copy at each access, refuse every change, or are made when first read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar, cast, final

from hooksdk.errors import ReadOnlyArguments
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

    def __get__(self, instance: object | None, owner: type) -> T:
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


_OPERATORS = ("__delitem__", "__iadd__", "__imul__", "__ior__", "__setitem__")
_OF_LISTS = ("append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort")
# The methods by which dicts and lists change.
_CHANGES = (*_OPERATORS, *_OF_LISTS, "popitem", "setdefault", "update")


def _refusing(change: str) -> Callable[..., NoReturn]:
    def refuse(*_arguments: Any, **_options: Any) -> NoReturn:
        raise ReadOnlyArguments(change.strip("_"))

    refuse.__name__ = change
    return refuse


class _Frozen:
    """What copies and pickles of both kinds become: plain values that may be changed."""

    def __deepcopy__(self, _memo: object) -> Any:
        return clone(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return clone, (cast("Any", self).copy(),)


@final
class FrozenDict(_Frozen, dict[str, Any]):
    """A JSON object that refuses every change. `dict(it)` is free at its own level, `copy.deepcopy(it)` at every
    one."""

    __slots__ = ()


@final
class FrozenList(_Frozen, list[Any]):
    """A JSON array that refuses every change."""

    __slots__ = ()


for _kind, _plain in ((FrozenDict, dict), (FrozenList, list)):
    for _name in _CHANGES:
        if hasattr(_plain, _name):
            setattr(_kind, _name, _refusing(_name))


def freeze(value: Any) -> Any:
    """A copy of a JSON value that nobody can change: its objects and arrays are frozen ones."""
    kind = cast("type[object]", type(value))
    if kind is dict:
        return FrozenDict({key: each if type(each) in _ATOMS else freeze(each) for key, each in value.items()})
    if kind is list:
        return FrozenList([each if type(each) in _ATOMS else freeze(each) for each in value])
    if kind is tuple:
        return tuple(map(freeze, value))
    plain = clone(value)
    return freeze(plain) if isinstance(plain, (dict, list, tuple)) else plain


_ATOMS = frozenset((str, int, float, bool, type(None)))


class Frozen(Fresh[dict[str, Any]]):
    """A `Fresh` field whose copies refuse changes."""

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return super().__get__(instance, owner)
        return freeze(peek(instance, self._name))
