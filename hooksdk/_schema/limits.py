"""What a check may cost: its steps and its CPU time, the size of what is checked, and patterns in linear time.

ECMA 262 patterns run on Rust's regex engine, which pydantic brings and which needs time linear to the text.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from pydantic_core import SchemaError, SchemaValidator, core_schema

__all__ = [
    "NOT_KEPT",
    "Budget",
    "Kept",
    "Survey",
    "TooMuchWork",
    "budget",
    "pattern_matcher",
    "pattern_weight",
    "survey",
]

MAX_DEPTH = 200
MAX_VALUES = 50_000
"""More values than any model writes; the survey of this many takes some 3 ms."""
MAX_INT_BITS = 14_000
"""Python refuses to print larger ones (4,300 digits)."""
MAX_KEPT = 2_000
"""Validators of subschemas kept for one schema."""
MAX_PATTERN_WEIGHT = 5_000
MAX_PATTERN_WORK = 5_000_000
"""Weight times characters: Rust's slowest engine takes some 5 ns for each."""


class TooMuchWork(Exception):
    """A check would cost, or has cost, more than it may."""


Kept = tuple[Any, Any, frozenset[type]]
NOT_KEPT: Kept = (None, None, frozenset())
_QUICK: dict[str, frozenset[type]] = {
    "array": frozenset((list,)),
    "boolean": frozenset((bool,)),
    "integer": frozenset((int,)),
    "null": frozenset((type(None),)),
    "number": frozenset((int, float)),
    "object": frozenset((dict,)),
    "string": frozenset((str,)),
}


class Budget(threading.local):
    """What the check running in this thread may still spend."""

    steps = 0
    deadline = math.inf
    mask = 0
    kept: dict[Any, Kept] = {}  # noqa: RUF012 - replaced by each check

    def allow(self, values: int, characters: int, kept: dict[Any, Kept]) -> None:
        self.kept = kept
        self.steps = 5_000 + 6 * values
        # CPU time of this thread, so that a busy machine refuses nothing.
        self.deadline = time.thread_time() + 0.04 + values * 2e-6
        # jsonschema writes the value out for its messages, so steps take longer where it is large.
        cost = values // 10 + characters // 500
        self.mask = 63 if cost < 1_000 else 15 if cost < 4_000 else 3 if cost < 8_000 else 0

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0 or (not self.steps & self.mask and time.thread_time() > self.deadline):
            raise TooMuchWork

    def keep(self, key: Any, owner: Any, child: Any) -> tuple[Any, frozenset[type]]:
        """Keep the validator of a subschema, the object whose id is in the key, and the types that need no further look."""
        if len(self.kept) >= MAX_KEPT:
            self.kept.clear()
        quick = frozenset[type]()
        schema = child.schema
        if isinstance(schema, dict) and cast("dict[str, Any]", schema).keys() & child.VALIDATORS == {"type"}:
            name = cast("dict[str, Any]", schema)["type"]
            quick = _QUICK.get(name, quick) if isinstance(name, str) else quick
        self.kept[key] = (owner, child, quick)
        return child, quick


budget = Budget()


@dataclass(frozen=True, slots=True)
class Survey:
    """The size of a JSON value, and what keeps it from being checked."""

    values: int
    characters: int
    fault: str | None = None
    plain: bool = True
    """False where something is no dict, list, str, int, float, bool or None: a clone may be."""


def survey(instance: object, most: int = MAX_VALUES) -> Survey:
    """Measure a value level by level: neither depth nor width nor a cycle makes this costly."""
    values = characters = depth = 0
    level: list[Any] = [instance]
    while level:
        values += len(level)
        if depth > MAX_DEPTH:
            return Survey(values, characters, f"it is nested deeper than {MAX_DEPTH} levels")
        if values > most:
            return Survey(values, characters, f"it holds more than {most:,} values")
        below: list[Any] = []
        for value in level:
            kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the class of anything
            if kind is str:
                characters += len(value)
            elif kind is dict:
                for key in value:
                    if type(key) is not str:
                        return Survey(values, characters, plain=False)
                    characters += len(key)
                below.extend(value.values())
            elif kind is list:
                below.extend(value)
            elif kind is int:
                if value.bit_length() > MAX_INT_BITS:
                    return Survey(values, characters, "it holds a number of more than 4,000 digits")
            elif kind is float:
                if not math.isfinite(value):
                    return Survey(values, characters, "it holds NaN or Infinity, which JSON does not have")
            elif kind is not bool and value is not None:
                return Survey(values, characters, plain=False)
        level = below
        depth += 1
    return Survey(values, characters)


_TOKEN = re.compile(
    r"\\(?:u\{[0-9a-fA-F]+\}|u[dD][89abAB]..\\u[dD][c-fC-F]..|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<\w+>|[1-9]\d*|.)"
    r"|\[\^?(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}\??|[*+?]\??"
    r"|\(\?(?:[:=!]|<[=!]|P?<\w+>|[a-zA-Z-]+[:)])|.",
    re.DOTALL,
)
_SPACE = r"\t\n\v\f\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"
_ECMA = {
    "d": "[0-9]", "D": "[^0-9]", "w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]", "s": f"[{_SPACE}]", "S": f"[^{_SPACE}]",
    "b": r"(?-u:\b)", "B": r"(?-u:\B)", "Z": r"\z", "0": r"\x00",
}  # fmt: skip
"""ECMA 262 means ASCII by these, Rust means Unicode."""
_CLOSE, _OR, _DOT = ")|."
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")


def _rust_escape(token: str, in_class: bool) -> str:
    head, rest = token[1:2], token[2:]
    if head == "u":
        high, _, low = rest.strip("{}").partition("\\u")
        code = int(high, 16)
        if low:
            code = 0x10000 + ((code & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
        return f"\\x{{{0xFFFD if 0xD800 <= code < 0xE000 else code:x}}}"
    if head == "c" and rest:
        return f"\\x{{{ord(rest) % 32:x}}}"
    if in_class and head == "b":
        return r"\x08"
    if not head.isalnum():
        return f"\\x{{{ord(head):x}}}"
    return _ECMA.get(head, token)


def _rust_token(token: str) -> str:
    if token[0] == "\\":
        return _rust_escape(token, in_class=False)
    if token[0] == "[" and len(token) > 1:
        negated = token.startswith("[^")
        inner = token[2 if negated else 1 : -1]
        if not inner:
            return r"[\x{0}-\x{10ffff}]" if negated else r"[^\x{0}-\x{10ffff}]"
        parts = [
            _rust_escape(part, in_class=True) if part[0] == "\\" else "\\" + part if part in "[&~" else part
            for part in re.findall(
                r"\\u\{[^}]*\}|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u.{4}|\\x..|\\c.|\\[pP]\{[^}]*\}|\\.|.",
                inner,
                re.DOTALL,
            )
        ]
        return ("[^" if negated else "[") + "".join(parts) + "]"
    return f"\\{token}" if token in {"{", "}", "]"} else token


@dataclass(slots=True)
class _Group:
    weight: int = 0
    loops: int = 0
    varies: bool = False
    last: tuple[int, int, bool] = (0, 0, False)

    def add(self, weight: int, loops: int, varies: bool) -> None:
        self.weight += weight
        self.loops += loops
        self.varies |= varies
        self.last = (weight, loops, varies)


def pattern_weight(pattern: str) -> int:
    """The states of the compiled pattern, which are what time and memory grow with."""
    return _weigh(_TOKEN.findall(pattern))[0]


def _weigh(tokens: list[str]) -> tuple[int, int, bool]:
    """States of the compiled pattern; its loops; and whether one loop stands in another, which may backtrack for ever."""
    stack, nested = [_Group()], False
    for token in tokens:
        top = stack[-1]
        if token[0] == "(" and token[-1] != ")":
            stack.append(_Group())
        elif token == _CLOSE and len(stack) > 1:
            done = stack.pop()
            stack[-1].add(done.weight, done.loops, done.varies)
        elif token == _OR:
            top.varies = True
        elif token[0] in "*+?" or (token[0] == "{" and len(token) > 1):
            low, _, high = token.strip("{}?").partition(",") if token[0] == "{" else (token[0], "", "")
            weight, _, varies = top.last
            times = int((high or low)[:6]) if low.isdigit() else 1
            loops = low in "*+" or token.count(",") > 0
            nested |= varies and (loops or times > 1)
            top.weight = min(top.weight + weight * max(times - 1, 0), 10**9)
            top.loops += loops
            top.varies |= loops or token[0] == "?"
            top.last = (weight * max(times, 1), int(loops), loops or token[0] == "?" or varies)
        else:
            unicode = 75 * ("\\p" in token or "\\P" in token)
            top.add(unicode or (6 if token == _DOT or token.startswith(("[^", "\\S", "\\W", "\\D")) else 1), 0, False)
    return stack[0].weight, sum(group.loops for group in stack), nested


def _closing(tokens: list[str], start: int) -> int | None:
    """Where the group that opens at `start` ends."""
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        depth += (token[0] == "(" and token[-1] != ")") - (token == _CLOSE)
        if not depth:
            return index
    return None


def _leading_conditions(tokens: list[str]) -> tuple[list[tuple[bool, list[str]]], list[str]]:
    """Split `^(?=a)(?!b)c` into what must match, what must not, and `^c`: so written, look-ahead needs no backtracking."""
    conditions: list[tuple[bool, list[str]]] = []
    rest = tokens
    while rest[:1] == ["^"] and rest[1:2] in (["(?="], ["(?!"]):
        end = _closing(rest, 1)
        if end is None:
            return [], tokens
        conditions.append((rest[1] == "(?!", ["^", "(?:", *rest[2:end], ")"]))
        rest = ["^", *rest[end + 1 :]]
    depth = 0
    for token in rest:
        depth += (token[0] == "(" and token[-1] != ")") - (token == _CLOSE)
        if token == _OR and not depth:
            return [], tokens
    return conditions, rest


def _rust_matcher(tokens: list[str]) -> Callable[[str], bool]:
    pattern = "".join(map(_rust_token, tokens))
    return SchemaValidator(
        core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
    ).isinstance_python


def _python_token(token: str) -> str:
    if token[0] == "[" and len(token) > 1:
        return (
            "["
            + re.sub(r"(\\.)|([\[&~|])", lambda found: found[1] or "\\" + found[2], token[1:-1], flags=re.DOTALL)
            + "]"
        )
    token = re.sub(r"^\(\?<(?=\w)", "(?P<", re.sub(r"^\\k<(\w+)>$", r"(?P=\1)", token))
    return {"$": r"\Z", r"\z": r"\Z", r"\/": "/"}.get(token, token)


def _python_matcher(tokens: list[str]) -> Callable[[str], bool]:
    """Back-references and inner look-around need a backtracking engine: for strings so short that it cannot run away."""
    _, loops, nested = _weigh(tokens)
    compiled = re.compile("".join(map(_python_token, tokens)), re.ASCII)
    degree = loops + (tokens[0] != "^")
    choices = sum(token[0] == "?" or token == _OR for token in tokens)

    def search(text: str) -> bool:
        if nested or choices > 12 or (len(text) + 2) ** degree << choices > 300_000:
            raise TooMuchWork
        return compiled.search(text) is not None

    return search


@lru_cache(maxsize=1_024)
def pattern_matcher(pattern: str) -> Callable[[str], bool]:
    """A search for an ECMA 262 pattern in time linear to the text. Raises `ValueError` for what is no pattern."""
    tokens = _TOKEN.findall(pattern)
    weight = _weigh(tokens)[0]
    if weight > MAX_PATTERN_WEIGHT or len(pattern) > MAX_PATTERN_WEIGHT:
        return _too_large
    conditions, rest = _leading_conditions(tokens)
    parts: list[tuple[bool, Callable[[str], bool]]] = []
    for negated, part in [*conditions, (False, rest)]:
        try:
            parts.append((negated, _rust_matcher(part)))
        except SchemaError as error:
            if not any(token in _LOOKS or re.match(r"\\[1-9k]", token) for token in part):
                raise ValueError(str(error).splitlines()[-1].strip()) from None
            try:
                parts.append((negated, _python_matcher(part)))
            except re.error as reason:
                raise ValueError(str(reason)) from None

    def search(text: str) -> bool:
        if len(text) * weight > MAX_PATTERN_WORK:
            raise TooMuchWork
        if not text.isascii():  # half of a surrogate pair is no text to Rust
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return all(match(text) is not negated for negated, match in parts)

    return search


def _too_large(_text: str) -> bool:
    raise TooMuchWork
