"""What a ranker answers."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Ranked:
    """A tool that fits a query, and how well."""

    id: str
    score: float
    weak: bool
    """The tool covers so little of the query that it is probably not what was asked for."""
    evidence: float | None = None
    """What speaks for the tool, whatever the query's length: its score as a share of what a word weighs that only one tool
    has. None: not known, as in a catalog of a few tools, or the query is the tool's name; of a ranker of your own also what its
    words are to say."""


class Ranker(Protocol):
    """Anything that orders a catalog by a query."""

    def search(self, query: str, limit: int) -> list[Ranked]:
        """Answer at most `limit` tools, the best first."""
        ...
