"""Prompts that want no tool: the model answers them by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from builtin_plugins.tool_search._ranking.lexicon import changing_verbs, closings, dialogue, reading_verbs
from builtin_plugins.tool_search._ranking.purpose import wants_words

MAX_SENTENCE = 400
"""Characters of a sentence that are read: who thanks or asks back is brief."""
_WORD = re.compile(r"[a-z]+")
_BEFORE = frozenset(["and", "but", "no", "oh", "ok", "okay", "so", "very", "well", "wow", "yes"])


def wants_no_tool(sentence: str) -> bool:
    """Whether a sentence rather asks the model for words of its own, thanks it, takes leave or speaks of the conversation. One
    that thanks and asks for something, by a usual verb of tools, does not."""
    if wants_words(sentence):
        return True
    words = _WORD.findall(sentence[:MAX_SENTENCE].lower().replace("'", "").replace("\u2019", ""))
    while words and words[0] in _BEFORE:
        del words[0]
    if not (changing_verbs() | reading_verbs()).isdisjoint(words):
        return False
    return any(_stands(phrase, words[: len(phrase)]) for phrase in closings()) or any(
        _stands(phrase, words) for phrase in dialogue()
    )


def _stands(phrase: tuple[str, ...], words: Sequence[str]) -> bool:
    size = len(phrase)
    return any(tuple(words[at : at + size]) == phrase for at in range(len(words) - size + 1))
