"""Texts in a tool's definition that are meant for the model alone: text that people do not see, and orders to the
model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from hooksdk import Tool

# Findings about one tool at most.
MAX_FINDINGS = 5

_TAGS = "tag characters"
_SELECTORS = "variation selectors in a row"
_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
# Parts of the Unicode names of characters that are drawn as nothing.
_DRAWN_AS_NOTHING = re.compile(
    "(?<!GAP|INE|ACE) FILLER|GRAPHEME JOINER|VOWEL INHERENT|FREE VARIATION SELECTOR|PATTERN BLANK|NULL NOTEHEAD"
)
# For texts without blanks at their end; the possessive quantifiers bound the time that a hostile text takes.
_FAR_AWAY = re.compile(r"(?<![^\S\n])[^\S\n]{200,}+(?=\S)|(?<!\n)\n(?:[^\S\n]*+\n){30,}+")
# A carriage return by which a terminal overwrites the line.
_OVERWRITTEN = re.compile(r"\r(?!\n)")
# The flags of England, Scotland and Wales, which are the only proper use of tag characters.
_FLAG_OF_TAGS = re.compile("\U0001f3f4[\U000e0030-\U000e007a]{2,6}\U000e007f")
# Joiners between letters of scripts that need them, and within emoji.
_JOINER = re.compile("(?<=[^\x00-\xff\u200b-\u200f])[\u200c\u200d\ufe0f]{1,2}(?=[^\x00-\xff\u200b-\u200f])")

_OTHERS = r"(?:all |any |the |your |my |of |these |those |previous |prior |above |earlier |other |system |original )*"
_FILES = (
    r"(?:\.ssh\b|id_rsa|id_ed25519|\.aws\b|\.env\b|/etc/passwd|/etc/shadow|\.npmrc|\.netrc|mcp\.json|private keys?\b)"
)
_ORDERS = {
    "a mark of another speaker": re.compile(
        r"(?<!\w)</?(?:important|system|instructions?|secret)>|<\|[a-z_]{2,20}\|>|\[/?(?:inst|system)\]"
    ),
    "an order to ignore other instructions": re.compile(
        rf"\b(?:ignore|disregard|forget|override|bypass) {_OTHERS}"
        r"(?:instructions?|prompts?|rules|directives?|guidelines|polic(?:y|ies)|restrictions|safety)\b"
    ),
    "an order to keep something from the user": re.compile(
        r"\b(?:do not|don't|never|must not|without|avoid|not) (?:ever )?"
        r"(?:tell|telling|inform|informing|notify|notifying|alert|alerting|mention|mentioning|reveal|revealing|disclose|disclosing)\b"
        r"[^.\n]{0,50}\b(?:user|users|human|anyone|anybody)\b"
        r"|\b(?:hide|conceal|keep)\b[^.\n]{0,50}\bfrom (?:the )?(?:user|human)s?\b"
    ),
    "an order to read secrets": re.compile(
        r"\b(?:read|cat|open|load|send|include|attach|upload|pass|copy|put|append|fetch)\b[^.\n]{0,60}"
        rf"(?:~/\S{{0,40}})?{_FILES}"
    ),
    "an order about other tools": re.compile(
        r"\b(?:before|after|when|whenever|instead of|while) (?:you )?(?:use|using|call|calling|invoke|invoking|run|running) "
        r"(?:any|every|all|each|another) (?:of the )?(?:other |the )?(?:tools?|functions?)\b"
    ),
    "an order to send the conversation": re.compile(
        r"\b(?:send|forward|include|append|upload|post|attach|transmit)\b[^.\n]{0,50}"
        r"\b(?:system prompt|whole conversation|entire conversation|conversation history|chat history|previous messages|all messages)\b"
    ),
    "a new role for the model": re.compile(
        r"\byou are (?:now|no longer)\b|\bfrom now on,? (?:you|always|never)\b|\bnew instructions:"
    ),
    "a comment that is not shown": re.compile(r"<!--"),
}


def hidden_text(tool: Tool) -> list[str]:
    """Text in the tool's definition that people do not see, a line each: the place, the kind, and the characters by
    number."""
    return _look(tool, _hidden_in)


def instructions(tool: Tool) -> list[str]:
    """Words that look like an order to the model, a line each: the place, the kind, and the words."""
    return _look(tool, _orders_in)


def visible(text: str) -> str:
    """The text without the characters that people do not see."""
    if not _is_plain(text):
        text = text.translate({ord(char): None for char in set(text) if hidden_kind(char)})
    return _FAR_AWAY.sub("", text)


@lru_cache(4096)
def hidden_kind(char: str) -> str | None:
    """The kind of an invisible character, by its Unicode properties. None for a visible one."""
    category, direction, code = unicodedata.category(char), unicodedata.bidirectional(char), ord(char)
    if category == "Cc":
        return None if char in "\t\n\r" else "control characters"
    if 0xE0000 <= code <= 0xE007F:
        return _TAGS
    name = unicodedata.name(char, "")
    if name.startswith("VARIATION SELECTOR"):
        return _SELECTORS
    if direction in _DIRECTIONS or (category == "Cf" and name.endswith(("-LEFT MARK", "-RIGHT MARK", "LETTER MARK"))):
        return "text direction marks"
    # Signs around numbers are of the category of format characters, too, but are drawn.
    hidden = category == "Cf" and direction in {"BN", "ON"}
    # Code points that Unicode reserves for characters which are not drawn.
    hidden |= category == "Cn" and (code == 0x2065 or 0xFFF0 <= code <= 0xFFF8 or 0xE0000 <= code <= 0xE0FFF)
    return "invisible characters" if hidden or _DRAWN_AS_NOTHING.search(name) else None


def _is_plain(text: str) -> bool:
    """True for nearly all texts: only blanks can hide something in them."""
    return text.isascii() and text.isprintable()


def _look(tool: Tool, look: Any) -> list[str]:
    findings: list[str] = []
    for where, text in texts_of(tool):
        for finding in look(text, where):
            findings.append(f"{where}: {finding}")
            if len(findings) == MAX_FINDINGS:
                return findings
    return findings


def texts_of(tool: Tool) -> Iterator[tuple[str, str]]:
    """Every text in the definition, with its place."""
    yield from {
        "name": tool.own_name,
        "owner": tool.owner,
        "description": tool.description,
        "label": tool.label,
    }.items()
    yield from _texts_in("parameters", tool.parameters)
    yield from _texts_in("output schema", tool.output_schema)


def _texts_in(where: str, part: object) -> Iterator[tuple[str, str]]:
    waiting: list[object] = [part]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield where, one
        elif isinstance(one, dict):
            for key, inner in cast("dict[str, object]", one).items():
                yield where, key
                waiting.append(inner)
        elif isinstance(one, list):
            waiting.extend(cast("list[object]", one))


def _hidden_in(text: str, where: str) -> Iterator[str]:
    text = text.rstrip(" \t\r\n\u00a0")
    if match := _FAR_AWAY.search(text):
        yield f"text far out of sight (after {len(match[0])} blanks)"
    if _is_plain(text):
        return
    plain = _JOINER.sub("", _FLAG_OF_TAGS.sub("", text))
    kinds: dict[str, str] = {}
    for char in sorted(set(plain)):
        if kind := hidden_kind(char):
            kinds[kind] = kinds.get(kind, "") + re.escape(char)
    for kind, chars in kinds.items():
        if match := re.search(f"[{chars}]{'{2,}' if kind == _SELECTORS else '+'}", plain):
            codes = " ".join(f"U+{ord(char):04X}" for char in match[0][:4])
            yield f"{kind} ({codes}{' ...' if len(match[0]) > 4 else ''})"
    if _OVERWRITTEN.search(plain):
        yield "a carriage return that ends no line (U+000D)"
    if where in {"name", "owner"} and any(char in "\n\r\t\u2028\u2029" for char in plain):
        yield "a line break"


def _orders_in(text: str, _where: str) -> Iterator[str]:
    if len(text) < 8:
        return
    plain = " ".join(unicodedata.normalize("NFKC", visible(text)).casefold().replace("\u2019", "'").split())
    for kind, pattern in _ORDERS.items():
        if match := pattern.search(plain):
            yield f"{kind} ({match[0][:80]})"
