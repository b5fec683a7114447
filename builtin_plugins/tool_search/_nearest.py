"""The tools that fit what the user asked: how they are found, and which of those that resemble each other are left
out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import cast

from builtin_plugins.tool_search._answers.signatures import summary
from builtin_plugins.tool_search._ranking import lexicon
from builtin_plugins.tool_search._ranking.words import name_words, split_words, stem, word_list
from builtin_plugins.tool_search.rankers import Ranked, Ranker
from hooksdk import Tool

# Sentences of a prompt that are searched one by one, beside the whole of it.
MAX_STEPS = 8
EVIDENCE, EVIDENCE_UNASKED = 0.37, 0.74
"""What has to speak for a hit (see `Ranked.evidence`), and where no tool seems to be asked for."""
NEAR, FAR = 0.5, 0.3
"""The shares of the best hit's score down to which a hit is near, and where the list ends. Chosen on one half of the
queries of `benchmarks/prefetch.py`."""
_STEP_END = re.compile(r"(?<=[.!?;])\s+|[\u3002\uff01\uff1f\uff1b]|\n+|,?\s+(?:and\s+)?then\s+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that fits a prompt.

    Attributes:
        near: Whether it fits nearly as well as the best hit does.
        first: Whether nothing fits better, the prompt or one of its sentences.
    """

    name: str
    near: bool
    first: bool


def nearest(ranker: Ranker, prompt: str, count: int) -> list[Hit]:
    """The tools that fit what was asked, the best first, and none that fits badly. A prompt of several sentences is
    searched as a whole and by each of them."""
    hits: dict[str, Hit] = {}
    for hit in _in_turns([_hits(ranker, query, count) for query in (prompt, *steps(prompt))]):
        known = hits.get(hit.name, hit)
        hits[hit.name] = Hit(hit.name, near=hit.near or known.near, first=hit.first or known.first)
    return [*hits.values()][:count]


def steps(prompt: str) -> list[str]:
    """The sentences of a prompt, where there are several."""
    parts = [part for part in _STEP_END.split(prompt) if len(part.split()) > 1]
    return parts[:MAX_STEPS] if len(parts) > 1 else []


def _hits(ranker: Ranker, query: str, count: int) -> list[Hit]:
    least = EVIDENCE_UNASKED if wants_no_tool(query) else EVIDENCE
    hits = [hit for hit in ranker.search(query, count) if _fits(hit, least)]
    best = hits[0].score if hits else 0.0
    return [
        Hit(hit.id, near=_reaches(hit, NEAR * best), first=hit is hits[0]) for hit in hits if _reaches(hit, FAR * best)
    ]


def _fits(hit: Ranked, evidence: float) -> bool:
    return not hit.weak and (hit.evidence is None or hit.evidence >= evidence)


def _reaches(hit: Ranked, score: float) -> bool:
    """Whether the hit has this score. A ranker of one's own may count in negative numbers: then nothing is too far."""
    return score <= 0.0 or hit.score >= score


def _in_turns(lists: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """The first of each list, the second of each, and so on."""
    for turn in zip_longest(*lists):
        yield from (hit for hit in turn if hit is not None)


# Characters of a sentence that are read: who thanks or asks back is brief.
MAX_SENTENCE = 400
_PLAIN_WORD = re.compile(r"[a-z]+")
_BEFORE = frozenset(["and", "but", "no", "oh", "ok", "okay", "so", "very", "well", "wow", "yes"])
_BEGINNING, _LONGEST_BEGINNING = 100, 4  # characters that are read, words that a beginning has at most


def wants_no_tool(sentence: str) -> bool:
    """Whether a sentence rather asks the model for words of its own, thanks it, takes leave or speaks of the
    conversation. One that thanks and asks for something, by a usual verb of tools, does not."""
    if _wants_words(sentence):
        return True
    words = _PLAIN_WORD.findall(sentence[:MAX_SENTENCE].lower().replace("'", "").replace("\u2019", ""))
    while words and words[0] in _BEFORE:
        del words[0]
    if not (word_list("changing") | word_list("reading")).isdisjoint(words):
        return False
    return any(_stands(phrase, words[: len(phrase)]) for phrase in lexicon.phrase_list("closings")) or any(
        _stands(phrase, words) for phrase in lexicon.phrase_list("dialogue")
    )


def _stands(phrase: tuple[str, ...], words: Sequence[str]) -> bool:
    size = len(phrase)
    return any(tuple(words[at : at + size]) == phrase for at in range(len(words) - size + 1))


def _wants_words(sentence: str) -> bool:
    """Whether a sentence rather asks the model itself for words, such as an explanation or a poem, than for a tool."""
    words = _PLAIN_WORD.findall(sentence[:_BEGINNING].lower())
    while words and words[0] in word_list("polite"):
        del words[0]
    return any(tuple(words[:count]) in lexicon.answer_beginnings() for count in range(1, _LONGEST_BEGINNING + 1))


# Characters of a prompt in which a verb is looked for.
MAX_PROMPT = 4_000
# Words between the two of "turn ... off" at most.
APART = 4
# Words of a name among which its verb is looked for: git_delete, mail_message_delete.
VERB_PLACES = 3
_WORD = re.compile(r"[^\W\d_]+(?:'t)?")
_NOT = frozenset(["not", "don't", "dont", "never", "without", "instead", "than"])
_AFTER_NOT = 2  # words that are meant by it: "do not even delete it", "instead of deleting it"


class Prompt:
    """The verbs of a prompt."""

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
        """Whether one of these phrases, each as stems, stands in it, with a few words between at most, and not
        denied."""
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
    """Whether the tool, given by its owner and the words of its name, does the opposite of the other one, and the
    prompt names only what the other does."""
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
    for ours, others in lexicon.opposites():
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
    """The verbs, as stems, by which a prompt names a tool that destroys something; none where it does not, by its
    annotations, else by its name."""
    said = tool.annotations
    own = [stem(word) for word in name_words(tool.own_name)[:VERB_PLACES]]
    for group in lexicon.destructive_verbs():
        if not group.isdisjoint(own):
            return frozenset() if said.read_only or said.destructive is False else group
    # Its annotation alone: `write_file` of many servers. Whoever asks for a change may mean it.
    return frozenset(map(stem, word_list("changing"))) | set(own) if said.destructive else frozenset()
