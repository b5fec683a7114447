"""What is known about words before a search: the lists of the folder `words`, and a house's own terms from a table or file."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BeforeValidator

from builtin_plugins.tool_search._ranking.words import list_lines, split_words, stem, word_list
from hooksdk.config import ProjectSettings

# A kind of thing, as stems of equal meaning.
Kind = tuple[str, ...]


@cache
def phrase_list(name: str) -> frozenset[tuple[str, ...]]:
    """The phrases of one of the lists, as they are written: sentences begin with `closings` that thank, praise or take
    leave, and have `dialogue` where they speak of the conversation itself."""
    return frozenset(tuple(phrase.split("_")) for phrase in word_list(name))


def _without_self(groups: Mapping[str, Mapping[str, None]]) -> Mapping[str, tuple[str, ...]]:
    return {one: tuple(other for other in group if other != one) for one, group in groups.items()}


@cache
def synonyms() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to the stems that may be written for it."""
    groups: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for line in list_lines("synonyms"):
        group = dict.fromkeys(map(stem, line))
        for one in group:
            groups[one].update(group)
    return _without_self(groups)


@cache
def abbreviations() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to its short forms, or to the single words it is short for."""
    groups: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for short, *long_forms in list_lines("abbreviations") + list_lines("forms"):
        for word in long_forms:
            if "_" not in word:
                groups[stem(short)][stem(word)] = None
                groups[stem(word)][stem(short)] = None
    return _without_self(groups)


@cache
def phrases() -> Mapping[str, tuple[str, ...]]:
    """Map a short form to the words of the phrase it stands for."""
    return {
        short: tuple(word.split("_"))
        for short, *long_forms in list_lines("abbreviations")
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
    return frozenset(map(stem, word_list("capabilities")))


@cache
def answer_beginnings() -> frozenset[tuple[str, ...]]:
    """How sentences begin that ask for words rather than for a tool, as they are written."""
    return frozenset(
        words for line in list_lines("answers") for words in product(*[place.split("|") for place in line])
    )


@cache
def kinds() -> Mapping[str, tuple[Kind, ...]]:
    """Map a stem to the kinds of thing that it is one of, each as stems of equal meaning."""
    found: dict[str, dict[Kind, None]] = {}
    for line in list_lines("kinds"):
        names, _, examples = " ".join(line).partition(":")
        kind = tuple(dict.fromkeys(map(stem, names.split())))
        for example in map(stem, examples.split()):
            if example not in kind:
                found.setdefault(example, {})[kind] = None
    return {one: tuple(of) for one, of in found.items()}


@cache
def destructive_verbs() -> tuple[frozenset[str], ...]:
    """Stems of verbs that destroy something, those in one group that are said for one another."""
    return tuple(frozenset(map(stem, line)) for line in list_lines("destructive"))


@cache
def opposites() -> tuple[tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]], ...]:
    """Pairs of verbs of opposite effect: for either side the phrases that name it, each as stems."""
    pairs: list[tuple[tuple[tuple[str, ...], ...], ...]] = []
    for line in list_lines("opposites"):
        sides = " ".join(line).split("|")
        pairs.append(tuple(tuple(tuple(map(stem, phrase.split("_"))) for phrase in side.split()) for side in sides))
    return tuple((one, two) for one, two in pairs)


# A house's own terms

MAX_TERMS, MAX_MEANINGS, MAX_CHARS = 2_000, 50, 100
_MAX_BYTES = 1_000_000
_EXAMPLE = '{"pager": ["incident", "on-call"]}'


def read_vocabulary(value: object) -> dict[str, list[str]]:
    """The terms of a table or of the file at a path. Raises `ValueError` with what is wrong and where."""
    table, place = (value, "vocabulary")
    if isinstance(value, str):
        table, place = _load(path := Path(value).expanduser(), path.read_bytes), value
    return _checked(table, place)


def of_project(name: str, project: ProjectSettings) -> object:
    """The terms of a project's file, with the content at which it is trusted; of one that is wrong its path, which
    `read_vocabulary` will say more about. Raises `ConfigError` for one that has changed."""
    path = project.path(name)
    try:
        return _checked(_load(path, lambda: project.read(name)), str(path))
    except ValueError:
        return str(path)


def _checked(table: object, place: str) -> dict[str, list[str]]:
    if not isinstance(table, Mapping):
        kind = type(table).__name__
        raise ValueError(f"{place}: expected a table of terms such as {_EXAMPLE}, got a {kind}")  # noqa: TRY004 - pydantic reads it
    terms = cast("Mapping[object, object]", table)
    if len(terms) > MAX_TERMS:
        raise ValueError(f"{place}: {len(terms):,} terms are too many: {MAX_TERMS:,} at most")
    return {str(term): _meanings(f"{place}: {str(term)[:MAX_CHARS]!r}", term, value) for term, value in terms.items()}


def _load(path: Path, read: Callable[[], bytes]) -> object:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"{path}: a vocabulary has at most {_MAX_BYTES:,} bytes")
        text = read().decode("utf-8")
        return tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
    except OSError as error:
        raise ValueError(f"{path}: the vocabulary cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the vocabulary is no UTF-8 text") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise ValueError(f"{path}: this is no valid {kind}: {error}") from None


def _meanings(place: str, term: object, value: object) -> list[str]:
    if len(split_words(str(term))) != 1:
        raise ValueError(f"{place} must be one word that is searched for; phrases may stand in its list")
    meanings = cast("list[object]", value) if isinstance(value, list) else None
    if meanings is None or not all(isinstance(one, str) for one in meanings):
        raise ValueError(f"{place} must be a list of words, such as {_EXAMPLE}")
    if len(meanings) > MAX_MEANINGS or any(len(str(one)) > MAX_CHARS for one in meanings):
        raise ValueError(f"{place} may have {MAX_MEANINGS} words of {MAX_CHARS} characters at most")
    return [str(one) for one in meanings]


def by_stem(vocabulary: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Map the stem of each term to the stems that it stands for."""
    found: dict[str, dict[str, None]] = {}
    for term, meanings in vocabulary.items():
        for own in map(stem, split_words(term)):
            words = [stem(word) for meaning in meanings for word in split_words(meaning)]
            found.setdefault(own, {}).update(dict.fromkeys(word for word in words if word != own))
    return {own: tuple(words) for own, words in found.items()}


Vocabulary = Annotated[dict[str, list[str]], BeforeValidator(read_vocabulary)]


def leaves(folder: Path, value: Any) -> bool:
    """Whether this names a file outside of a folder."""
    if not isinstance(value, str):
        return False
    return not (folder / Path(value).expanduser()).resolve().is_relative_to(folder)
