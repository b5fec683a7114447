"""The stems of English words, and how to do without: a new word takes long to stem, and mostly nothing is known of it."""

import re
import threading
from collections.abc import Container, Iterator
from functools import cache
from importlib import import_module
from typing import Any

_STEMS_KEPT = 1 << 16
_stems: dict[str, str] = {}
# The stemmer leaves every other word as it is, and in Python it takes long to find that out.
_CUT = (
    "s", "i", "y", "e", "ed", "ing", "al", "ll", "ful", "er", "ator", "ic", "ant", "ent", "ism", "ogist", "ion",
)  # fmt: skip
_stemming = threading.Lock()


@cache
def stemmer() -> Any:
    """The stemmer: written in C where PyStemmer is installed (extra `fast`), otherwise in Python, with the same answers."""
    return import_module("snowballstemmer").stemmer("english")  # only a search needs it, and it has no types


def stem(word: str) -> str:
    """Cut an English word to its stem; other words stay as they are."""
    found = _stems.get(word)
    if found is not None:
        return found
    if not word.endswith(_CUT) or len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    with _stemming:  # the stemmer keeps the word it works on
        found = str(stemmer().stemWord(word))
    if len(_stems) >= _STEMS_KEPT:
        _stems.clear()
    _stems[word] = found
    return found


def forget_stems() -> None:
    """Start anew, as in a process that has met no words yet."""
    _stems.clear()


# What the stemmer may cut off: endings one by one, and one of two equal letters before some of them.
_ENDING = re.compile(
    "(?:[bdfgmnprt](?=ed|ing)|s|ed|ing|li|ly|y|i|e|(?<=l)l|al|ic|il|at|iv|iz|or|er|able|ible|abl|ibl|ably|ibly|abil|ibil|ity|iti"
    "|anc|enc|ous|ful|ness|ism|ist|ion|ant|ment|ent)*"
)
_LONGEST_ENDING = 16  # the pattern is quick on these only; the longest of an English word has nine letters


def beginnings(term: str) -> Iterator[str]:
    """The beginnings that a stem may share with the words that it is the stem of: all of it, or all but its end."""
    yield term
    if term[-1] in "eily":
        yield term[:-1]
    if term[-2:] in {"le", "ie"}:
        yield term[:-2]


def stem_among(word: str, *starts: Container[str]) -> str:
    """The stem of a word, if any of `starts`, the beginnings of stems, is one of its own; otherwise the word.

    To stem a new word takes long, and a new word is mostly one that nothing is known of.
    """
    found = _stems.get(word)
    if found is not None:
        return found
    for end in range(len(word), 0, -1):
        begin = word[:end]
        for known in starts:
            if begin in known and (len(word) - end > _LONGEST_ENDING or _ENDING.fullmatch(word, end)):
                return stem(word)
    return word
