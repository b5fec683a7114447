r"""Regular expressions of ECMA 262 in linear time: they run on the Rust engine that comes with pydantic.

That engine has no look-around and no back-references. Conditions at the beginning, as in `^(?=.*\d)(?!-)...`, are
patterns of their own; any other pattern with such parts runs on Python's engine, on texts so short that it cannot run
away.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Self

from pydantic_core import SchemaError, SchemaValidator, core_schema

from hooksdk._schema.work import work

MAX_LENGTH = 5_000
# Of all patterns of a schema: `^.{0,4000}$` has 24,000, and to compile that takes 20 ms.
MAX_STATES = 30_000
_TOKEN = re.compile(
    r"\\(?:u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<\w+>|[1-9]\d*|.)"
    r"|\[\^?(?:\\.|[^\]\\])*\]?|\{\d+(?:,\d*)?\}\??|[*+?]\??"
    r"|\(\?(?:<?[=!]|P?<\w+>|[a-zA-Z-]*[:)])|.",
    re.DOTALL,
)
_CLASSES = {r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[A-Za-z0-9_]", r"\W": "[^A-Za-z0-9_]"}
_BLANKS = {r"\s": r"[\s\ufeff]", r"\S": r"[^\s\ufeff]"}
_PLACES = {r"\b": r"(?-u:\b)", r"\B": r"(?-u:\B)", r"\Z": r"\z"}
_SETS = {"[]": r"[^\s\S]", "[^]": "(?s:.)"}
_SIGNS = {r"\0": r"\x00", r"\<": "<", r"\>": ">", "{": r"\{", "}": r"\}"}
# What Rust writes otherwise. `\d`, `\w` and `\b` are ASCII in ECMA 262, and `\Z` is what Python's servers write.
_RUST = _CLASSES | _BLANKS | _PLACES | _SETS | _SIGNS
_PYTHON = {"$": r"\Z", r"\z": r"\Z", "[]": r"[^\s\S]", "[^]": "(?s:.)"}
_CLOSE, _OR = ")", "|"


class Pattern(str):
    """The text of a pattern, ready to search with. Raises `ValueError` for what is no pattern, or one that is too
    large."""

    __slots__ = ("_parts", "states")
    states: int

    def __new__(cls, text: str) -> Self:
        self = super().__new__(cls, text)
        if len(text) > MAX_LENGTH:
            raise ValueError(f"it is longer than {MAX_LENGTH:,} characters")
        tokens = _TOKEN.findall(text)
        self.states = _states(tokens)
        self._parts = [(expected, _compile(part)) for expected, part in _conditions(tokens)]
        return self

    def fits(self, text: str) -> bool:
        """Whether the pattern is found in a text. Raises `TooMuchWork`."""
        work.spend(1 + self.states * len(text) // 250)
        if not text.isascii():  # Rust raises for half of a surrogate pair, and no text may escape a policy so
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return all(matches(text) is expected for expected, matches in self._parts)


def _opens(token: str) -> bool:
    return token[0] == "(" and token[-1] != _CLOSE


def _repeats(token: str) -> bool:
    return token[0] in "*+?" or (token[0] == "{" and len(token) > 1)


def _states(tokens: list[str]) -> int:
    """About how many states the compiled pattern has: what time and memory grow with."""
    groups = [[0, 0]]  # of each open group: its states, and those of its last part
    for token in tokens:
        if _opens(token):
            groups.append([0, 0])
            continue
        if _repeats(token):
            times = max([1, *map(int, re.findall(r"\d+", token))])
            states = groups[-1][1] * (times - 1)
            groups[-1][1] *= times
        else:
            states = 300 if token[:2] in {r"\p", r"\P"} else 6
            if token == _CLOSE and len(groups) > 1:
                states = groups.pop()[0]
            groups[-1][1] = states
        groups[-1][0] += states
        if groups[-1][0] > MAX_STATES:
            raise ValueError("it is too large to be searched with")
    return sum(states for states, _ in groups) + len(tokens)


def _conditions(tokens: list[str]) -> list[tuple[bool, list[str]]]:
    """`^(?=a)(?!b)c` as three patterns: `^(?:a)` and `^c`, which must be found, and `^(?:b)`, which must not."""
    conditions: list[tuple[bool, list[str]]] = []
    rest = tokens
    while rest[:1] == ["^"] and rest[1:2] in (["(?="], ["(?!"]):
        depths = _depths(rest)
        if 0 not in depths[1:]:
            break  # the group is not closed
        end = depths.index(0, 1)
        conditions.append((rest[1] == "(?=", ["^", "(?:", *rest[2:end], _CLOSE]))
        rest = ["^", *rest[end + 1 :]]
    if any(token == _OR and not depth for token, depth in zip(rest, _depths(rest), strict=True)):
        return [(True, tokens)]
    return [*conditions, (True, rest)]


def _depths(tokens: list[str]) -> list[int]:
    """How many groups are open after each token."""
    depths, depth = list[int](), 0
    for token in tokens:
        depth += _opens(token) - (token == _CLOSE)
        depths.append(depth)
    return depths


def _compile(tokens: list[str]) -> Callable[[str], bool]:
    pattern = "".join(_translate(token, _RUST, r"\x08") for token in tokens)
    rules = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
    try:
        return SchemaValidator(rules).isinstance_python
    except SchemaError as error:
        if not any(re.match(r"\(\?<?[=!]|\\[1-9k]", token) for token in tokens):
            raise ValueError(str(error).splitlines()[-1].strip()) from None
    return _backtracking(tokens)


def _translate(token: str, words: dict[str, str], backspace: str) -> str:
    if token in words:
        return words[token]
    if token[0] == "[" and token[-1] == "]":
        inside = {**words, r"\b": backspace}
        parts: list[str] = re.findall(r"\\.|.", token[1:-1], re.DOTALL)
        return "[" + "".join("\\" + part if part in "[&~|" else inside.get(part, part) for part in parts) + "]"
    if token.startswith(r"\c") and len(token) > 2:
        return rf"\x{ord(token[2]) % 32:02x}"
    return token


def _backtracking(tokens: list[str]) -> Callable[[str], bool]:
    words: list[str] = [re.sub(r"^\(\?<(?=\w)", "(?P<", re.sub(r"^\\k<(\w+)>$", r"(?P=\1)", token)) for token in tokens]
    try:
        search = re.compile("".join(_translate(word, _PYTHON, r"\b") for word in words), re.ASCII).search
    except re.error as error:
        raise ValueError(str(error)) from None
    # Matching takes at most length ** ways steps, unless a repeated group holds a repetition: then there is no bound.
    ways = sum(_repeats(token) or token == _OR for token in tokens)
    ways += (tokens[0] != "^") + any(re.match(r"\\[1-9k]", token) for token in tokens)
    nested = any(before == _CLOSE and token[0] in "*+{" for before, token in pairwise(tokens))

    def matches(text: str) -> bool:
        work.spend(math.inf if nested else (len(text) + 2) ** ways // 50)
        return search(text) is not None

    return matches
