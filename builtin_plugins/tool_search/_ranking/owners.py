"""What the tools of one owner say of each other: a query that fits several of them rather means that owner."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

_SHARE: Final = 0.2
_COUNTED: Final = 5


class Owners:
    """The owners of one catalog's tools."""

    def __init__(self, owners: Sequence[object]) -> None:
        # Of a ranker's documents the owner may be anything.
        self._owners = [owner if isinstance(owner, str) else "" for owner in owners]
        self._counted: dict[str, int] = {}
        """How many tools of each owner count, at most."""
        for owner in self._owners:
            self._counted[owner] = min(_COUNTED, self._counted.get(owner, 0) + 1)

    def shares(self, scores: Mapping[int, float]) -> dict[int, float]:
        """What to add to each score: a share of the mean of its owner's best. A tool that has no owner is its own."""
        owners = self._owners
        best: defaultdict[str, list[float]] = defaultdict(list)
        for number, score in scores.items():
            best[owners[number]].append(score)
        means = {
            owner: sum(sorted(values, reverse=True)[:_COUNTED]) / self._counted[owner]
            for owner, values in best.items()
            if owner
        }
        return {number: _SHARE * means.get(owners[number], score) for number, score in scores.items()}
