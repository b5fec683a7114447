"""What the errors of hooksdk share: their words, the class that all of them have in common, and the checks of arguments."""

from __future__ import annotations

import copyreg
import difflib
import inspect
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_AWAIT = "Write `await` before the call that makes it"


def sentence(text: str) -> str:
    """The text with something at its end."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def what_came(value: object) -> str:
    """A value that was not expected, in a few words: `None`, `the class Host`, `5 (int)`, `a dict`, `an openai ChatCompletion`."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.iscoroutine(value):
        return "a coroutine that nobody awaited"
    if inspect.isroutine(value):
        return f"the function {getattr(value, '__name__', '?')}"
    if inspect.ismodule(value):
        return f"the module {value.__name__}"
    kind = type(value)
    if isinstance(value, (str, int, float)):
        return f"{value!r:.60} ({kind.__name__})"
    package = "" if kind.__module__ == "builtins" else kind.__module__.partition(".")[0]
    name = " ".join(word for word in (package, kind.__name__) if word)
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def nearest(word: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The up to `limit` known words that `word` was most likely meant to be, best first."""
    folded = {name.casefold().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(word.casefold().replace("-", "_"), folded, n=limit, cutoff=0.6)
    return [folded[match] for match in matches]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, with its leading blank, or nothing where no known word is near."""
    matches = nearest(word, known)
    return f" Did you mean {' or '.join(repr(match) for match in matches)}?" if matches else ""


def unknown_key(name: str, known: Iterable[str], what: str = "a setting") -> str:
    """The sentence that refuses a word which is not among the known ones, with the nearest of them or else all."""
    words = list(known)
    hint = did_you_mean(name, words) or f" Known: {', '.join(words)}."
    return f"'{name}' is not {what}.{hint}"


def table_problems(
    error: ValidationError, table: str, settings_at: Callable[[Sequence[str]], Iterable[str]]
) -> list[str]:
    """What is wrong with a table of the configuration, a sentence each. `settings_at` names what may stand where a path leads."""
    problems = error.errors()
    for problem in problems:
        problem["loc"] = (table, *problem["loc"])
    paths = [[str(part) for part in problem["loc"]] for problem in problems]
    return [
        unknown_key(".".join(path), settings_at(path))
        if problem["type"] == "extra_forbidden"
        else problem_text(problem, quote_value=True)
        for problem, path in zip(problems, paths, strict=True)
    ]


def problem_text(problem: ErrorDetails, *, quote_value: bool = False) -> str:
    """One entry of a pydantic `ValidationError.errors()` as `'path': message`, with the nearest choice for a wrong one.
    With `quote_value` the value that came is in it, clipped."""
    message = problem["msg"].removeprefix("Value error, ")
    if quote_value:
        message += f" (got {problem['input']!r:.60})"
    if problem["type"] == "literal_error":
        hint = did_you_mean(str(problem["input"]), re.findall(r"'([^']*)'", problem["msg"]))
        message += f".{hint}" if hint else ""
    path = ".".join(str(part) for part in problem["loc"])
    return f"'{path}': {message}" if path else message


class HookSDKError(Exception):
    """The base of every error that hooksdk raises.

    ```python
    from hooksdk import HookSDKError, Host

    try:
        Host(config={"alow": []})
    except HookSDKError as error:
        assert "Did you mean 'allow'?" in str(error)
    ```
    """

    # The text of an error that needs nothing but its fields, by their names.
    _text = ""

    def __str__(self) -> str:
        return self._text.format_map(vars(self)) if self._text else super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        return cast("Any", copyreg).__newobj__, (type(self), *self.args), dict(self.__dict__)


class HostError(HookSDKError):
    """Something that the person who runs the host can fix."""


@dataclass(eq=False)
class WrongArgument(HostError, TypeError, ValueError):
    """A call of the library, such as `Host(store=...)`, was given what it does not take."""

    where: str
    problem: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f" {sentence(self.advice)}" if self.advice else ""
        return f"{self.where}: {sentence(self.problem)}{advice}"


# Checks of arguments: each raises `WrongArgument`, which says what came and what to give instead.


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
