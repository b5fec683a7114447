"""How text becomes search words: names and texts split at case, digits and signs, schemas walked near their root first;
and the stems of English words."""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from itertools import accumulate, islice
from typing import Any, cast

_MAX_STEMS = 1 << 16
_stemming = threading.Lock()


@cache
def _stemmer() -> Any:
    # Loaded here, because only a search needs it. It has no types, and its own cache makes a new word three times as
    # slow.
    return import_module("Stemmer").Stemmer("english", 0)


@lru_cache(_MAX_STEMS)
def stem(word: str) -> str:
    """Cut an English word to its stem; words of other languages mostly stay as they are."""
    with _stemming:  # one stemmer must not work in two threads at once
        return str(_stemmer().stemWord(word))


def list_lines(name: str) -> list[list[str]]:
    """The lines of a word list, each as its words; a line that begins with # is a comment."""
    text = files("builtin_plugins.tool_search").joinpath("words", f"{name}.txt").read_text("utf-8")
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


@cache
def word_list(name: str) -> frozenset[str]:
    """The words of one of the lists, as they are written: `stop_words` are not searched for, verbs of `reading` ask for
    nothing but an answer, those of `changing` for a change."""
    return frozenset(word for line in list_lines(name) for word in line)


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
APART, FIELD_END = "\x01", "\x02"
"""In a tool's text: between two texts of a field, so that the words beside it are no neighbours, and between two
fields."""
# No word reaches beyond a chunk, so that each chunk of a catalog is split and stemmed once, wherever it stands.
_CHUNK = re.compile(rf"[A-Za-z0-9]+|[{APART}{FIELD_END}]|[{_UNSPACED}]|[^\W_A-Za-z0-9{_UNSPACED}]+")
_SIGNS = bytes([code for code in range(128) if not chr(code).isalnum()])
_BLANKS = bytes([ord(" ") if code in _SIGNS and chr(code) not in APART + FIELD_END else code for code in range(256)])
_LOWER = bytes(range(256)).lower()


def plain_letters(text: str) -> str:
    """Drop accents and width variants, keep case."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    return unicodedata.normalize("NFKC", "".join([c for c in plain if not unicodedata.combining(c)]))


def split_words(text: str) -> list[str]:
    """Split a text or an identifier into lower-case words, without stop words."""
    skipped = word_list("stop_words")
    return [
        word for each in _WORD.findall(plain_letters(text)) if (word := each[:_LONGEST_WORD].lower()) not in skipped
    ]


def chunked(text: str) -> str:
    """A text whose chunks stand between blanks: runs of letters and digits, whose words `split_words` tells, and the
    separators of a tool's text."""
    if text.isascii():  # several times as fast as the pattern, and nearly every text is
        return text.encode().translate(_BLANKS).decode()
    return " ".join(_CHUNK.findall(plain_letters(text)))


def name_words(name: object, count: int | None = None) -> list[str]:
    """Split an identifier into lower-case words, stop words too: all, or as many as said."""
    return [word.lower() for word in _WORD.findall(plain_letters(_text(name, _NAME_LIMIT)))[:count]]


def squeeze(text: object) -> str:
    """The name without case and separators, for comparing."""
    name = _text(text, _NAME_LIMIT)
    if name.isascii():
        return name.encode().translate(_LOWER, _SIGNS).decode()
    return "".join([c for c in plain_letters(name).casefold() if c.isalnum()])


# Schemas and texts come from strangers: whatever their size, a tool is indexed in bounded time.
_TEXT_LIMIT, _NAME_LIMIT, _FIELD_LIMIT = 4_000, 200, 20_000
_SCHEMA_DEPTH, _SCHEMA_NODES, _ENUM_LIMIT = 16, 500, 50
_CHILDREN = ("properties", "$defs", "definitions")
_NESTING = ("items", "prefixItems", "anyOf", "oneOf", "allOf", "additionalProperties")
_INNER = frozenset(("enum", *_CHILDREN, *_NESTING))
_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n")


def _text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _plain(mapping: Mapping[object, object]) -> dict[object, object]:
    """The first of a mapping's items: one that is no dict itself takes far longer to be asked for keys that it
    lacks."""
    plain = cast("dict[object, object]", mapping)
    return (
        plain if type(mapping) is dict and len(plain) <= _SCHEMA_NODES else dict(islice(plain.items(), _SCHEMA_NODES))
    )


def _walk(schema: object) -> tuple[list[str], list[str], list[str]]:
    """Collect parameter names, descriptions and enum values, those near the root first."""
    names: list[str] = []
    texts: list[str] = []
    values: list[str] = []
    level, visited = [schema], set[int]()
    for _ in range(_SCHEMA_DEPTH + 1):
        below: list[object] = []
        for node in level:
            if len(visited) >= _SCHEMA_NODES:
                return names, texts, values
            if id(node) in visited:
                continue
            visited.add(id(node))
            # A plain dict is asked first: whether something is a mapping takes ten times as long.
            if type(node) is not dict and not isinstance(node, Mapping):
                if isinstance(node, list):
                    below += cast("list[object]", node)[:_SCHEMA_NODES]
                continue
            mapping = _plain(cast("Mapping[object, object]", node))
            if isinstance(description := mapping.get("description"), str):
                texts.append(description[:_TEXT_LIMIT])
            if _INNER.isdisjoint(mapping):
                continue
            enum = mapping.get("enum")
            if isinstance(enum, list):
                values += [_text(value, _NAME_LIMIT) for value in cast("list[object]", enum)[:_ENUM_LIMIT]]
            for key in _CHILDREN:
                children = mapping.get(key)
                if isinstance(children, Mapping):
                    inner = _plain(cast("Mapping[object, object]", children))
                    if key == "properties":
                        names += [_text(name, _NAME_LIMIT) for name in inner]
                    below += inner.values()
            below += [mapping[key] for key in _NESTING if key in mapping]
        if not below:
            break
        level = below
    return names, texts, values


def _joined(texts: Sequence[str]) -> str:
    """Join the texts of a field, cut at the field's limit."""
    text = f" {APART} ".join(texts)
    if len(text) > _FIELD_LIMIT:
        starts = accumulate(map(len, texts), initial=0)
        cut = [text[: max(0, _FIELD_LIMIT - start)] for text, start in zip(texts, starts, strict=False)]
        text = f" {APART} ".join(cut)
    return text.replace(FIELD_END, " ")


def tool_text(name: object, description: object, parameters: object, owner: object) -> str:
    """The searchable text of a tool, with `FIELD_END` between its fields and `APART` between the texts of one.

    The fields are: name, first sentence, rest of the description, names, descriptions and enum values of the
    parameters, owner.
    """
    first, *rest = _SENTENCE_END.split(_text(description, _TEXT_LIMIT).strip(), maxsplit=1)
    fields = ([_text(name, _NAME_LIMIT)], [first], rest, *_walk(parameters), [_text(owner, _NAME_LIMIT)])
    return f" {FIELD_END} ".join([_joined(texts) for texts in fields])
