"""How text becomes search words: names and texts split at case, digits and signs, schemas walked near their root first."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

from builtin_plugins.tool_search._ranking.lexicon import stop_words

_LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "æ": "ae", "œ": "oe", "đ": "d", "\u0131": "i"}
)
# Scripts written without spaces: every character is a word, and neighbours count as pairs.
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{2,4}(?![A-Za-z0-9])"  # s3, mp3, k8s
    r"|[A-Z]{2,}s(?![a-z])"  # URLs
    r"|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+"  # HTTPServer, camelCase
    rf"|[{_UNSPACED}]|[^\W_A-Za-z0-9{_UNSPACED}]+"
)
_LONGEST_WORD = 40


def plain_letters(text: str) -> str:
    """Drop accents and width variants, keep case."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return unicodedata.normalize("NFKC", "".join([c for c in plain if not unicodedata.combining(c)]))


def split_words(text: str) -> list[str]:
    """Split a text or an identifier into lower-case words, without stop words."""
    skipped = stop_words()
    return [
        word for each in _WORD.findall(plain_letters(text)) if (word := each[:_LONGEST_WORD].lower()) not in skipped
    ]


def name_words(name: object) -> list[str]:
    """Split an identifier into lower-case words, stop words too."""
    return [word.lower() for word in _WORD.findall(plain_letters(_text(name, _NAME_LIMIT)))]


def squeeze(text: object) -> str:
    """A name so that its case and its separators no longer matter."""
    return "".join([c for c in plain_letters(_text(text, _NAME_LIMIT)).casefold() if c.isalnum()])


# Schemas and texts come from strangers: whatever their size, a tool is indexed in bounded time.
_TEXT_LIMIT, _NAME_LIMIT, _FIELD_LIMIT = 4_000, 200, 20_000
_SCHEMA_DEPTH, _SCHEMA_NODES, _ENUM_LIMIT = 16, 500, 50
_NESTING = ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties")
_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n")


def _text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _walk(schema: object) -> tuple[list[str], list[str], list[str]]:
    """Collect parameter names, descriptions and enum values, those near the root first."""
    names: list[str] = []
    texts: list[str] = []
    values: list[str] = []
    queue: list[tuple[object, int]] = [(schema, 0)]
    visited: set[int] = set()
    for node, depth in queue:  # grows while it is walked
        if len(visited) >= _SCHEMA_NODES:
            break
        if id(node) in visited or depth > _SCHEMA_DEPTH:
            continue
        visited.add(id(node))
        if isinstance(node, list):
            queue.extend((child, depth + 1) for child in cast("list[object]", node)[:_SCHEMA_NODES])
        if not isinstance(node, Mapping):
            continue
        mapping = cast("Mapping[object, object]", node)
        texts.append(_text(mapping.get("description"), _TEXT_LIMIT))
        enum = mapping.get("enum")
        if isinstance(enum, list):
            values.extend(_text(value, _NAME_LIMIT) for value in cast("list[object]", enum)[:_ENUM_LIMIT])
        for key in ("properties", "$defs", "definitions"):
            children = mapping.get(key)
            if isinstance(children, Mapping):
                items = list(islice(cast("Mapping[object, object]", children).items(), _SCHEMA_NODES))
                if key == "properties":
                    names.extend(_text(name, _NAME_LIMIT) for name, _ in items)
                queue.extend((child, depth + 1) for _, child in items)
        queue.extend((mapping[key], depth + 1) for key in _NESTING if key in mapping)
    return names, texts, values


def _split_all(texts: Sequence[str]) -> Iterator[list[str]]:
    room = _FIELD_LIMIT
    for text in texts:
        if room > 0 and (words := split_words(text[:room])):
            yield words
        room -= len(text)


def tool_words(name: object, description: object, parameters: object, owner: object) -> Iterator[list[list[str]]]:
    """Split a tool into the words of its fields, each a list of texts.

    The fields are: name, first sentence, rest of the description, names, descriptions and enum values of the
    parameters, owner.
    """
    first, *rest = _SENTENCE_END.split(_text(description, _TEXT_LIMIT).strip(), maxsplit=1)
    for texts in ([_text(name, _NAME_LIMIT)], [first], rest, *_walk(parameters), [_text(owner, _NAME_LIMIT)]):
        yield list(_split_all(texts))
