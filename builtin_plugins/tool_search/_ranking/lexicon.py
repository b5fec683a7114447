"""What is known about words beforehand: the lists in the folder `words`, each read when it is first asked for."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import product

from builtin_plugins.tool_search._ranking.stems import stem

Kind = tuple[str, ...]


def _lines(name: str) -> list[list[str]]:
    """The words of each line of a list; a line that begins with # is a comment."""
    text = files("builtin_plugins.tool_search").joinpath("words", f"{name}.txt").read_text("utf-8")
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


@cache
def stop_words() -> frozenset[str]:
    """Words that are not searched for."""
    return frozenset(word for line in _lines("stop_words") for word in line)


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to the stems that may be written for it."""
    groups: dict[str, dict[str, None]] = {}
    for line in _lines("synonyms"):
        group = dict.fromkeys(map(stem, line))
        for one in group:
            groups.setdefault(one, {}).update(group)
    return {one: tuple(other for other in group if other != one) for one, group in groups.items()}


@cache
def abbreviations() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to its short forms, or to the single words it is short for."""
    groups: dict[str, dict[str, None]] = {}
    for short, *long_forms in _lines("abbreviations") + _lines("forms"):
        for word in long_forms:
            if "_" not in word:
                groups.setdefault(stem(short), {})[stem(word)] = None
                groups.setdefault(stem(word), {})[stem(short)] = None
    return {one: tuple(other for other in group if other != one) for one, group in groups.items()}


@cache
def phrases() -> Mapping[str, tuple[str, ...]]:
    """Map a short form to the words of the phrase it stands for."""
    return {
        short: tuple(word.split("_"))
        for short, *long_forms in _lines("abbreviations")
        for word in long_forms
        if "_" in word
    }


@cache
def initials() -> Mapping[tuple[str, ...], str]:
    """Map the stems of a phrase to its short form."""
    return {tuple(map(stem, words)): stem(short) for short, words in phrases().items()}


@cache
def capabilities() -> frozenset[str]:
    """Stems that name a capability, so that a catalog without them lacks it."""
    return frozenset(stem(word) for line in _lines("capabilities") for word in line)


@cache
def reading_verbs() -> frozenset[str]:
    """Verbs that ask for nothing but an answer, as they are written."""
    return frozenset(word for line in _lines("reading") for word in line)


@cache
def changing_verbs() -> frozenset[str]:
    """Verbs that ask for a change, as they are written."""
    return frozenset(word for line in _lines("changing") for word in line)


@cache
def answer_beginnings() -> frozenset[tuple[str, ...]]:
    """How sentences begin that ask for words rather than for a tool, as they are written."""
    return frozenset(words for line in _lines("answers") for words in product(*[place.split("|") for place in line]))


@cache
def kinds() -> Mapping[str, tuple[Kind, ...]]:
    """Map a stem to the kinds of thing that it is one of, each as stems of equal meaning."""
    found: dict[str, dict[Kind, None]] = {}
    for line in _lines("kinds"):
        names, _, examples = " ".join(line).partition(":")
        kind = tuple(dict.fromkeys(map(stem, names.split())))
        for example in map(stem, examples.split()):
            if example not in kind:
                found.setdefault(example, {})[kind] = None
    return {one: tuple(of) for one, of in found.items()}


@cache
def destructive_verbs() -> tuple[frozenset[str], ...]:
    """Stems of verbs that destroy something, those in one group that are said for one another."""
    return tuple(frozenset(map(stem, line)) for line in _lines("destructive"))


@cache
def opposites() -> tuple[tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]], ...]:
    """Pairs of verbs of opposite effect: for either side the phrases that name it, each as stems."""
    pairs: list[tuple[tuple[tuple[str, ...], ...], ...]] = []
    for line in _lines("opposites"):
        sides = " ".join(line).split("|")
        pairs.append(tuple(tuple(tuple(map(stem, phrase.split("_"))) for phrase in side.split()) for side in sides))
    return tuple((one, two) for one, two in pairs)


@cache
def closings() -> frozenset[tuple[str, ...]]:
    """How sentences begin that thank, praise or take leave, as they are written."""
    return frozenset(tuple(phrase.split("_")) for line in _lines("closings") for phrase in line)


@cache
def dialogue() -> frozenset[tuple[str, ...]]:
    """What sentences have that speak of the conversation itself, as it is written."""
    return frozenset(tuple(phrase.split("_")) for line in _lines("dialogue") for phrase in line)
