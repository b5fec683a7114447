"""Tools that resemble a better one so much that a model takes the wrong one: they are left out, where the prompt says which is
meant. Search finds them all the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast

from builtin_plugins.tool_search._answers.signatures import summary
from builtin_plugins.tool_search._nearest.hits import Hit
from builtin_plugins.tool_search._ranking.lexicon import changing_verbs, destructive_verbs, opposites
from builtin_plugins.tool_search._ranking.stems import stem
from builtin_plugins.tool_search._ranking.words import name_words, split_words
from hooksdk import Tool

MAX_PROMPT = 4_000
"""Characters of a prompt in which a verb is looked for."""
APART = 4
"""Words between the two of "turn ... off" at most."""
VERB_PLACES = 3
"""Words of a name among which its verb is looked for: git_delete, mail_message_delete."""
_WORD = re.compile(r"[^\W\d_]+(?:'t)?")
_NOT = frozenset(["not", "don't", "dont", "never", "without", "instead", "than"])
_AFTER_NOT = 2  # words that are meant by it: "do not even delete it", "instead of deleting it"


class Prompt:
    """What the user asked, as the verbs that it holds."""

    def __init__(self, text: str) -> None:
        self._text = text[:MAX_PROMPT].casefold().replace("\u2019", "'")

    @cached_property
    def _stems(self) -> list[str]:
        stems: list[str] = []
        denied = 0
        for word in _WORD.findall(self._text):
            if word in _NOT:
                denied = _AFTER_NOT
            elif denied:
                denied -= 1
            else:
                stems.append(stem(word))
        return stems

    def has(self, *phrases: tuple[str, ...]) -> bool:
        """Whether one of these phrases, each as stems, stands in it, with a few words between at most, and not denied."""
        return any(self._has(phrase) for phrase in phrases)

    def count(self, words: Sequence[str]) -> int:
        """How many of these words stand in it."""
        return len({stem(word) for word in words}.intersection(self._stems))

    def _has(self, phrase: tuple[str, ...]) -> bool:
        stems = self._stems
        places = [at for at, one in enumerate(stems) if one == phrase[0]]
        for one in phrase[1:]:
            places = [
                at for start in places for at in range(start + 1, start + 2 + APART) if stems[at : at + 1] == [one]
            ]
        return bool(places)


def without_siblings(hits: Sequence[Hit], tools: Mapping[str, Tool], asked: str) -> list[Hit]:
    """The hits without

    - what another owner has in the same form, if the prompt has more of that owner's words, or else it fits better,
    - what destroys something, beside a better hit of its owner that does not, unless the prompt names it,
    - what does the opposite of what the prompt names, where a tool that does that is among them.
    """
    prompt = Prompt(asked)
    kept: list[Hit] = []
    for hit in _one_of_twins(hits, tools, prompt):
        if hit.first or not _is_too_much(tools[hit.name], kept, tools, prompt):
            kept.append(hit)
    words = [(tools[hit.name].owner, name_words(tools[hit.name].own_name)) for hit in kept]
    return [
        hit for hit, own in zip(kept, words, strict=True) if not any(_is_opposed(own, one, prompt) for one in words)
    ]


def _one_of_twins(hits: Sequence[Hit], tools: Mapping[str, Tool], prompt: Prompt) -> list[Hit]:
    names = Counter(tools[hit.name].own_name for hit in hits)
    kept: dict[object, tuple[int, Hit]] = {}
    for hit in hits:
        tool = tools[hit.name]
        form = _form(tool) if names[tool.own_name] > 1 else None
        key = hit.name if form is None else form
        words = prompt.count(name_words(tool.owner)) if form is not None else 0
        if key not in kept or words > kept[key][0]:
            kept[key] = (words, hit)
    best = {hit.name for _, hit in kept.values()}
    return [hit for hit in hits if hit.name in best]


def _form(tool: Tool) -> object:
    """What equal tools of several owners have in common; None for one that says too little of itself."""
    parameters = cast("Mapping[str, object]", tool.parameters or {})
    properties = parameters.get("properties")
    keys = frozenset(cast("Mapping[str, object]", properties)) if isinstance(properties, Mapping) else frozenset[str]()
    sentence = frozenset(map(stem, split_words(summary(tool.description))))
    return (tool.own_name, keys, sentence) if sentence else None


def _is_opposed(tool: tuple[str, list[str]], other: tuple[str, list[str]], prompt: Prompt) -> bool:
    """Whether the tool, given by its owner and the words of its name, does the opposite of the other one, and the prompt names
    only what the other does."""
    (owner, own), (other_owner, theirs) = tool, other
    if owner != other_owner or len(own) != len(theirs):
        return False
    different = [pair for pair in zip(own, theirs, strict=True) if pair[0] != pair[1]]
    if len(different) != 1:
        return False
    (verb, opposite), *_ = different
    sides = _sides(stem(verb), stem(opposite))
    return sides is not None and not prompt.has(*sides[0]) and prompt.has(*sides[1])


_Phrases = tuple[tuple[str, ...], ...]


def _sides(verb: str, opposite: str) -> tuple[_Phrases, _Phrases] | None:
    """The phrases for either of two opposed verbs, given as stems; None where they are not opposed."""
    if f"un{opposite}" == verb or f"un{verb}" == opposite:
        return ((verb,),), ((opposite,),)
    for ours, others in opposites():
        for one, two in ((ours, others), (others, ours)):
            if (verb,) in one and (opposite,) in two:
                return _spoken(one), _spoken(two)
    return None


def _spoken(side: _Phrases) -> _Phrases:
    """Without "on" and the like: alone it names nothing."""
    return tuple(phrase for phrase in side if len("".join(phrase)) > 2)


def _is_too_much(tool: Tool, better: Sequence[Hit], tools: Mapping[str, Tool], prompt: Prompt) -> bool:
    verbs = _destructive(tool)
    if not verbs or prompt.has(*((verb,) for verb in verbs)):
        return False
    return any(tools[hit.name].owner == tool.owner and not _destructive(tools[hit.name]) for hit in better)


def _destructive(tool: Tool) -> frozenset[str]:
    """The verbs, as stems, by which a prompt names a tool that destroys something; none where it does not, by its annotations,
    else by its name."""
    said = tool.annotations
    own = [stem(word) for word in name_words(tool.own_name)[:VERB_PLACES]]
    for group in destructive_verbs():
        if not group.isdisjoint(own):
            return frozenset() if said.read_only or said.destructive is False else group
    # Its annotation alone: `write_file` of many servers. Whoever asks for a change may mean it.
    return frozenset(map(stem, changing_verbs())) | set(own) if said.destructive else frozenset()
