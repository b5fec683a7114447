"""What a misspelt word may have been meant as."""

from collections import Counter
from collections.abc import Iterable
from itertools import chain

_LEAST_OVERLAP = 0.4
_SHORTEST, _SHORTEST_KNOWN = 4, 3


class Spellings:
    """The words of a catalog by their groups of three letters."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words: dict[str, list[str]] = {}
        """By group."""
        for word in words:
            if len(word) >= _SHORTEST_KNOWN:
                for group in _trigrams(word):
                    self._words.setdefault(group, []).append(word)

    def alike(self, word: str) -> dict[str, float]:
        """The words that share many groups of letters with this one, and the share."""
        if len(word) < _SHORTEST:
            return {}
        own = _trigrams(word)
        # A known word has at least as many letters as groups are shared: fewer than this cannot reach the least overlap.
        least = _LEAST_OVERLAP / (2 - _LEAST_OVERLAP) * len(own)
        groups = [self._words[group] for group in own if group in self._words]
        if len(groups) < least:
            return {}
        overlaps = {
            other: 2 * count / (len(own) + len(other))
            for other, count in Counter(chain.from_iterable(groups)).items()
            if count >= least
        }
        return {other: overlap for other, overlap in overlaps.items() if overlap >= _LEAST_OVERLAP}


def _trigrams(word: str) -> list[str]:
    padded = f"^{word}$"
    return list(dict.fromkeys([padded[i : i + 3] for i in range(len(word))]))
