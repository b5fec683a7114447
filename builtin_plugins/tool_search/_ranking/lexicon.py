"""A house's own terms: a table, or a TOML or JSON file of one."""

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BeforeValidator

from builtin_plugins.tool_search._ranking.words import split_words, stem
from hooksdk.config import ProjectSettings

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
