"""The stems of English words."""

import threading
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

_MAX_STEMS = 1 << 16
_stemming = threading.Lock()


@cache
def _stemmer() -> Any:
    # Loaded here, because only a search needs it. It has no types, and its own cache makes a new word three times as slow.
    return import_module("Stemmer").Stemmer("english", 0)


@lru_cache(_MAX_STEMS)
def stem(word: str) -> str:
    """Cut an English word to its stem; words of other languages mostly stay as they are."""
    with _stemming:  # one stemmer must not work in two threads at once
        return str(_stemmer().stemWord(word))
