"""Arguments that can be read like any dict, and refuse every change: an event's are a copy, so a change would be lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast, final

from hooksdk._schema.fresh import Fresh, peek
from hooksdk.errors import ReadOnlyArguments
from hooksdk.values import clone

_CHANGES = (
    "__delitem__", "__iadd__", "__imul__", "__ior__", "__setitem__", "append", "clear", "extend", "insert", "pop", "popitem",
    "remove", "reverse", "setdefault", "sort", "update",
)  # fmt: skip
"""The methods by which dicts and lists change."""


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
    """A JSON object that refuses every change. `dict(it)` is free at its own level, `copy.deepcopy(it)` at every one."""

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
