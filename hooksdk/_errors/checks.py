"""Checks of arguments: each raises `WrongArgument`, which says what came and what to give instead."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from hooksdk._errors.base import WrongArgument
from hooksdk._errors.words import what_came

_AWAIT = "Write `await` before the call that makes it"


def refuse(where: str, value: object, expected: str, advice: str = "") -> NoReturn:
    """Raise `WrongArgument`: this came where something else was expected. A coroutine is closed: its own warning, that
    nobody awaited it, would come beside the error."""
    problem = f"expected {expected}, got {what_came(value)}"
    if inspect.iscoroutine(value):
        value.close()
        advice = _AWAIT
    raise WrongArgument(where, problem, advice) from None


def check(where: str, value: object, kinds: type | tuple[type, ...], expected: str, advice: str = "") -> None:
    """The value must be an instance of one of these classes, and True and False are no numbers."""
    if not isinstance(value, kinds) or (
        isinstance(value, bool) and bool not in (kinds if isinstance(kinds, tuple) else (kinds,))
    ):
        refuse(where, value, expected, advice)


def check_text(where: str, value: object, advice: str = "") -> None:
    """Text or None."""
    check(where, value, (str, type(None)), "text", advice)


def check_mapping(where: str, value: object, example: str) -> None:
    """A mapping or None."""
    check(where, value, (Mapping, type(None)), f"a mapping such as {example}")


def check_path(where: str, value: object) -> None:
    """The path of a folder or None."""
    check(where, value, (str, os.PathLike, type(None)), "a path")


def check_number(where: str, value: object, example: str, *, least: float = 0, optional: bool = False) -> None:
    """A number of at least `least`, 0 itself excluded."""
    if value is None and optional:
        return
    check(where, value, (int, float), "a number", f"Write such as {example}")
    if isinstance(value, (int, float)) and (math.isnan(value) or value < least or value == 0):
        refuse(
            where, value, f"a number of at least {least:g}" if least else "a number above 0", f"Write such as {example}"
        )


def check_function(where: str, value: object, shape: str) -> None:
    """A function (or an object that can be called), or None; a class is not what is meant."""
    if value is None:
        return
    if isinstance(value, type):
        refuse(where, value, f"a function {shape}", f"Give an instance: {value.__name__}(...)")
    if not callable(value):
        refuse(where, value, f"a function {shape}")


def check_list(where: str, values: Iterable[Any], what: str, advice: str = "") -> list[Any]:
    """The members of a list of `what`, or of whatever else can be iterated; text and mappings are refused."""
    given: Any = values
    if isinstance(values, (str, bytes, type, Mapping)) or not hasattr(given, "__iter__"):
        refuse(where, given, f"a list of {what}", advice)
    return list(given)


class AsyncOnly:
    """For classes that are used as `async with`: a plain `with` says so."""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            name = type(self).__name__
            raise WrongArgument(
                f"with {name}(...)",
                f"a {name} is opened in async code",
                "Write `async with`, or in plain code take the "
                f"{name} of hooksdk.sync: `from hooksdk.sync import Host`, then `with Host() as host`",
            )

        def __exit__(self, *_error: object) -> None:
            """Never reached: `with` asks for both methods first."""


class PlainOnly:
    """For classes that are used as `with`: an `async with` says so."""

    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            name = type(self).__name__
            raise WrongArgument(
                f"async with {name}(...)",
                f"a {name} of hooksdk.sync is opened in plain code",
                f"Write `with`, or in async code take the {name} of hooksdk: "
                "`from hooksdk import Host`, then `async with Host() as host`",
            )

        async def __aexit__(self, *_error: object) -> None:
            """Never reached: `async with` asks for both methods first."""
