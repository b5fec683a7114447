"""What is remembered of a catalog's stems and of a query's words."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(slots=True)  # made for each new word: a frozen one takes three times as long to make
class Term:
    """A stem of the catalog: the tools that have it, what it weighs in each, and those that have it in their name."""

    numbers: Sequence[int]
    values: Sequence[float]
    in_name: Sequence[int]
    idf: float
    prominent: bool
    """Whether a tool is about it: has it in its name, its first sentence or its owner."""


@dataclass(slots=True)
class Word:
    """A word of a query: the tools that it finds, and what it adds to each."""

    text: str
    stem: str
    numbers: Sequence[int]
    values: Sequence[float]
    in_name: Sequence[int]
    """The tools that have it, or what stands for it, in their name."""
    idf: float


Values = tuple[Sequence[int], Sequence[float]]
"""Numbers of tools, and what is added to each. Arrays, because a common word may have a hundred thousand."""


def arrays(values: Mapping[int, float]) -> Values:
    return (array("I", values), array("d", values.values())) if values else _NOTHING


_NOTHING: Values = (), ()
