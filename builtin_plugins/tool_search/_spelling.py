"""What a misspelt word may have been meant as."""

import threading
from collections import Counter
from collections.abc import Container, Iterable, Sized
from itertools import chain

_LEAST_OVERLAP = 0.4
_MOST_GONE = 1_000
_SHORTEST, _SHORTEST_KNOWN = 4, 3


class Spellings:
    """Words by their groups of three letters. It only grows, so that catalogs which follow each other can share it."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._grams: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def serves(self, words: Sized) -> bool:
        """Whether there are not too many others than these."""
        return len(self._known) <= _MOST_GONE + 2 * len(words)

    def learn(self, words: Iterable[str]) -> None:
        """Take in words, each once."""
        with self._lock:
            for word in words:
                if word in self._known or len(word) < _SHORTEST_KNOWN:
                    continue
                for gram in _trigrams(word):
                    self._grams.setdefault(gram, []).append(word)
                self._known[word] = None

    def alike(self, word: str, words: Container[str]) -> dict[str, float]:
        """Those of `words` that share many groups of letters with a word, and the share."""
        if len(word) < _SHORTEST:
            return {}
        own = _trigrams(word)
        # A known word has at least as many letters as groups are shared: fewer than this cannot reach the least overlap.
        least = _LEAST_OVERLAP / (2 - _LEAST_OVERLAP) * len(own)
        groups = [self._grams[gram] for gram in own if gram in self._grams]
        if len(groups) < least:
            return {}
        overlaps = {
            known: 2 * count / (len(own) + len(known))
            for known, count in Counter(chain.from_iterable(groups)).items()
            if count >= least and known in words
        }
        return {known: overlap for known, overlap in overlaps.items() if overlap >= _LEAST_OVERLAP}


def _trigrams(word: str) -> list[str]:
    padded = f"^{word}$"
    return list(dict.fromkeys([padded[i : i + 3] for i in range(len(word))]))
