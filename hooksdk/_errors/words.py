"""The words that errors share: did-you-mean, and what pydantic found wrong."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


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
