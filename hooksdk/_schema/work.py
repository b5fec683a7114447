"""The cost of a check, counted in steps: the same call is valid on every machine or on none.

A step is a visit of a subschema, or 16 names or items that it may have to look at, or 250 states of a pattern times
characters; an error that somebody will read is five, and one more for each 1,000 characters that jsonschema writes into
it. Each takes one to four microseconds. `Work.begin` says how many there are: 20,000 for any value, ten more for each
value inside of it and one for each 50 characters. So a hostile schema costs at most 20,000 steps where the call is
small (below 0.1 s), and 520,000 where it holds as many values as a call may have (one to two seconds). Five thousand
rows of a plain table take a tenth of what they may, rows of four variants a third.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

from hooksdk.values import MAX_DEPTH, MAX_DIGITS

# Five thousand rows of a table with nine columns.
MAX_VALUES = 50_000
_TOO_LARGE = 10**MAX_DIGITS

_CONTAINERS = frozenset((dict, list))


class TooMuchWork(Exception):
    """A check would cost more than it may."""


class Work(threading.local):
    """What the check running in this thread has spent, and the validators that its schema has already.

    Attributes:
        silent: Whether nobody reads the errors: it is only asked whether a value fits.
    """

    steps = 0
    limit = 0
    silent = False
    nodes: dict[Any, Any] | None = None

    def begin(self, size: Size, nodes: dict[Any, Any] | None) -> None:
        """Start a check of a value of this size."""
        self.steps = 0
        self.silent = False
        self.limit = 20_000 + 10 * size.values + size.characters // 50
        self.nodes = nodes

    def spend(self, steps: float = 1) -> None:
        """Take steps. Raises `TooMuchWork`."""
        self.steps += steps
        if self.steps > self.limit:
            raise TooMuchWork

    def visit(self, cost: int, value: Any) -> None:
        """Spend what it costs to look at a value with a subschema."""
        self.spend(cost + len(value) // 16 if type(value) in _CONTAINERS else cost)


work = Work()


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a JSON value, or what keeps it from being checked.

    Attributes:
        plain: False where something is no dict, list, str, int, float, bool or None: a clone may be.
    """

    values: int
    characters: int
    fault: str | None = None
    plain: bool = True


def survey(value: object, most: int = MAX_VALUES) -> Size:
    """Measure a value level by level: neither depth nor width nor a cycle makes this costly."""
    values = characters = 0
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        values += len(level)
        if values > most:
            return Size(values, characters, f"it holds more than {most:,} values")
        below: list[Any] = []
        for each in level:
            kind = type(each)  # pyright: ignore[reportUnknownVariableType] - the class of anything
            if kind is str:
                characters += len(each)
            elif kind is dict:
                for key in each:
                    if type(key) is not str:
                        return Size(values, characters, plain=False)
                    characters += len(key)
                below.extend(each.values())
            elif kind is list:
                below.extend(each)
            elif kind is int:
                if abs(each) >= _TOO_LARGE:
                    return Size(values, characters, f"it holds a number of more than {MAX_DIGITS} digits")
            elif kind is float:
                if not math.isfinite(each):
                    return Size(values, characters, "it holds NaN or Infinity, which JSON does not have")
            elif kind is not bool and each is not None:
                return Size(values, characters, plain=False)
        if not below:
            return Size(values, characters)
        level = below
    return Size(values, characters, f"it is nested deeper than {MAX_DEPTH} levels")
