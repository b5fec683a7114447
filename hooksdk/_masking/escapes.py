"""Undo the escapes in a text, and find the place of each decoded character in the text as it was written."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations, product
from urllib.parse import unquote

# How many times a text is decoded. Each time may cost as much as the first. JSON in JSON in an address is escaped three
# times.
MAX_DEPTH = 5
# How many decoded texts one time may give. It gives several if a value has escapes of its own, which may be undone or
# kept.
MAX_WAYS = 32

# The beginning and the end of a piece of text.
Span = tuple[int, int]

_HEX = "[0-9a-fA-F]"
# A line end that wrapping puts into an escape. Text that was wrapped twice may have two.
_WRAP = r"(?:\r?\n[ \t]{0,16}){0,2}"

_WRAPS = re.compile(_WRAP)


def _row(*characters: str) -> str:
    return _WRAP.join(characters)


def _utf8(*mark: str, octal: bool = False) -> list[str]:
    """Patterns of a character beyond ASCII as the bytes of its UTF-8, each behind `mark`. They match the whole
    character: hex digits behind a lone `%` are no escape."""
    if octal:
        first, more = (
            (("3", "[0-3]", "[0-7]"), ("3", "[45]", "[0-7]"), ("3", "6", "[0-7]")),
            (*mark, "2", *["[0-7]"] * 2),
        )
    else:
        first, more = (("[cCdD]", _HEX), ("[eE]", _HEX), ("[fF]", "[0-4]")), (*mark, "[89abAB]", _HEX)
    return [_row(*mark, *lead, *more * size) for size, lead in enumerate(first, 1)]


_BACKSLASH = [
    r"\\[^uUx0-3\r\n]",  # by far the most frequent
    *_utf8(r"\\", "x"),
    *_utf8(r"\\", octal=True),
    _row(r"\\", "u", *[_HEX] * 4),
    _row(r"\\", "U", *[_HEX] * 8),
    _row(r"\\", "x", *[_HEX] * 2),
    _row(r"\\", "[ux]", r"\{", f"(?:{_HEX}{_WRAP}){{1,6}}") + r"\}",
    _row(r"\\", "[0-3]", "[0-7]", "[0-7]"),
    r"\\[0-3][0-7]",
    r"\\\r\n",
    r"\\[\s\S]",
]
_PERCENT = [*_utf8("%"), _row("%", "[0-7]", _HEX), _row("%", "u", *[_HEX] * 4)]
# Two signs for one, as in format strings, `configparser` and Compose files.
_DOUBLED = [_row("%", "%"), _row(r"\$", r"\$")]
_ENTITY = [
    _row("&", "#", f"(?:[0-9]{_WRAP}){{1,7}}") + ";",
    _row("&", "#", "[xX]", f"(?:{_HEX}{_WRAP}){{1,6}}") + ";",
    _row("&", f"(?:[a-zA-Z0-9]{_WRAP}){{2,32}}") + ";",
]
# Marks of colours, and characters that a terminal or a page does not show: they are no part of the text.
_UNSEEN = [
    r"\x1b\[[0-9;:?]{0,32}[a-zA-Z]",
    r"</?(?:b|i|u|em|mark|strong|span|code|font|wbr)(?: class=['\"][\w -]{1,60}['\"])?/?>",
    *"\u00ad\u200b\u200c\u200d\u2060\ufeff",
]
FAMILIES = ("|".join(_BACKSLASH), "|".join(_PERCENT), *_DOUBLED, "|".join(_ENTITY), *_UNSEEN)
# Families of escapes that are not undone, because a value has escapes of these families itself.
Kept = frozenset[str]
# Every escape has a greatest length, so the time of a search grows with the length of the text alone.
ESCAPES = re.compile(f"({'|'.join(FAMILIES)})")

_SOFT = r"=\r?\n"
_MORE = f"(?:{_SOFT})?=[89AB][0-9A-F]"
# The escapes of mail. They are not among the others, because in `KEY=ab...` they are no escape.
_QUOTED_PRINTABLE = re.compile(
    f"({_SOFT}|=[CD][0-9A-F]{_MORE}|=E[0-9A-F](?:{_MORE}){{2}}|=F[0-4](?:{_MORE}){{3}}|=[0-7][0-9A-F])"
)
_SOFT_BREAK = re.compile(rf"[^\s=]{_SOFT}\S")
_OFFSET = r"^[0-9a-fA-F]{4,16}:?[ \t]{1,4}"
_BYTES = "|".join(rf"(?:{_HEX}{{{size}}}[ \t]{{1,3}}){{1,{32 // size}}}" for size in (2, 4, 8))
# A line of `xxd` or `hexdump -C`: an offset, sixteen bytes, and the bytes as text.
_DUMP = re.compile(rf"{_OFFSET}(?:{_HEX}{{2,8}}[ \t]{{1,3}}){{2}}", re.MULTILINE)
_BESIDE_HEX = re.compile(
    rf"({_OFFSET}(?={_HEX}{{2}})|[ \t]{{2,80}}\|.{{0,16}}\|?$|[ \t]{{2,80}}.{{1,16}}$)", re.MULTILINE
)
_BESIDE_TEXT = re.compile(rf"({_OFFSET}(?:{_BYTES})(?:{_HEX}{{2}}[ \t]{{2}})?[ \t]{{0,80}}\|?|\|?\r?\n)", re.MULTILINE)
# The surrogate pair of a character beyond 65535: JSON and JavaScript escape each half.
_PAIR = re.compile(rf"([\ud800-\udbff]{_WRAP}[\udc00-\udfff])")
_SIGNS = re.compile("([%$])")
# Two patterns: a search is ten times faster if all matches begin with one character.
_TWO_SIGNS = re.compile(r"%\s{0,20}%"), re.compile(r"\$\s{0,20}\$")
_CONTROL = dict(zip("abefnrtv0", "\a\b\x1b\f\n\r\t\v\0", strict=True))

# Characters that writers add, remove or double: line ends, blanks, `+` for a blank, quotes, and signs that join texts.
_NOISE = re.compile("([ \t-\r\x1c-\x1f\xa0'\"`+\\\\]+)")
_NOISE_BYTES = bytes(code for code in range(128) if _NOISE.match(chr(code)))


@dataclass(frozen=True, slots=True)
class Reading:
    """A text, and its source: the text in which each match of `tokens` was rewritten to make this one."""

    text: str
    source: Reading | None = None
    tokens: re.Pattern[str] = ESCAPES
    write: Callable[[str], str] = str

    def origin(self, spans: Iterable[Span], until: Reading | None = None) -> list[Span]:
        """The places of these spans in the text as it was written, or in the reading `until`. A span that begins or
        ends within an escape has the whole escape."""
        spans = list(spans)
        if self.source is None or self is until or not spans:
            return spans
        parts = self.tokens.split(self.source.text)
        there = [0, *accumulate(map(len, parts))]
        parts[1::2] = map(self.write, parts[1::2])
        here = [0, *accumulate(map(len, parts))]

        def place(position: int, *, end: bool) -> int:
            part = bisect_right(here, position, hi=len(parts)) - 1
            return there[part + end] if part % 2 else there[part] + position - here[part] + end

        return self.source.origin([(place(start, end=False), place(end - 1, end=True)) for start, end in spans], until)


def ends_of(text: str) -> tuple[str, str]:
    """The characters at both ends of a text that folding removes."""
    parts = ["", *_NOISE.split(text), ""]
    return "" if parts[1] else parts[2], "" if parts[-2] else parts[-3]


def readings(text: str, depth: int = MAX_DEPTH, kept: Sequence[Kept] = ()) -> Iterator[Reading]:
    """All readings of a text: as it is; with its escapes undone, up to `depth` times, and the same with the escapes of
    `kept` families left alone; as mail and as a hex dump. If two `%` or `$` stand together, nobody knows whether one
    was meant: the last reading is without both signs."""
    written = Reading(text)
    if "=3D" in text or (("=\n" in text or "=\r\n" in text) and _SOFT_BREAK.search(text)):
        yield from _decoded(_rewritten(written, _QUOTED_PRINTABLE, _of_mail), depth, kept)
    reading, doubled = written, False
    for reading in _decoded(written, depth, kept):
        yield reading
        doubled = doubled or any(two.search(reading.text) for two in _TWO_SIGNS)
        if ("0: " in reading.text or "0  " in reading.text) and _DUMP.search(reading.text):
            yield _rewritten(reading, _BESIDE_HEX, _nothing)
            yield _rewritten(reading, _BESIDE_TEXT, _nothing)
    if doubled:
        yield Reading(without_signs(reading.text), reading, _SIGNS, _nothing)


def without_signs(text: str) -> str:
    """The text without `%` and `$`, of which two often stand for one."""
    return text.replace("%", "").replace("$", "")


def _decoded(written: Reading, depth: int = MAX_DEPTH, kept: Sequence[Kept] = ()) -> Iterator[Reading]:
    """The text with its escapes undone once, twice and so on. Each step is also made without undoing the families of
    each of `kept`: a value may have such escapes itself, within the escapes of another writer."""
    seen = {written.text}
    latest: list[Reading] = [written]
    yield written
    for _ in range(depth):
        before, latest = latest, []
        for reading, own in product(before, (frozenset[str](), *kept)):
            decoded = _rewritten(reading, _escapes(own), _plain)
            if not decoded.text.isascii() and _PAIR.search(decoded.text):
                decoded = _rewritten(decoded, _PAIR, _joined)
            if decoded.text not in seen and len(latest) < MAX_WAYS:
                yield decoded
                seen.add(decoded.text)
                latest.append(decoded)


@lru_cache(32)
def _escapes(kept: Kept) -> re.Pattern[str]:
    return re.compile(f"({'|'.join(one for one in FAMILIES if one not in kept) or '(?!)'})") if kept else ESCAPES


def own_families(value: str) -> list[Kept]:
    """All combinations of the families of which a value has escapes itself, or a half of one at its end."""
    texts = [value, *unescaped(value)]
    own = [one for one in FAMILIES if any(re.search(one, f"{text}0000;") for text in texts)]
    return [frozenset(some) for size in range(1, len(own) + 1) for some in combinations(own, size)]


def folded(reading: Reading) -> Reading:
    """The reading in lower case, without the characters that writers add or remove."""
    return Reading(fold(reading.text), reading, _NOISE, _nothing)


def fold(text: str) -> str:
    """The text in lower case, without the characters that writers add or remove. Each other character stays one
    character."""
    return fold_bytes(text).decode("utf-8", "surrogatepass")


def fold_bytes(text: str) -> bytes:
    """As `fold`, as UTF-8: removing characters from bytes is several times faster."""
    if text.isascii():
        return text.lower().encode().translate(None, _NOISE_BYTES)
    # A letter that would become two characters, a blank beyond ASCII, and a letter with two lower-case forms.
    plain = text.replace("\u0130", "i").replace("\xa0", " ").lower().replace("\u03c2", "\u03c3")
    return plain.encode("utf-8", "surrogatepass").translate(None, _NOISE_BYTES)


def unescaped(text: str, depth: int = MAX_DEPTH) -> list[str]:
    """The text with its escapes undone once, twice and so on, until there are none."""
    return [reading.text for reading in _decoded(Reading(text), depth)][1:]


def _rewritten(source: Reading, tokens: re.Pattern[str], write: Callable[[str], str]) -> Reading:
    parts = tokens.split(source.text)
    parts[1::2] = map(write, parts[1::2])
    return Reading("".join(parts), source, tokens, write)


def _nothing(_token: str) -> str:
    return ""


def _joined(pair: str) -> str:
    return (pair[0] + pair[-1]).encode("utf-16", "surrogatepass").decode("utf-16")


def _of_mail(token: str) -> str:
    return unquote(re.sub(_SOFT, "", token).replace("=", "%"))


@lru_cache(4096)
def _plain(token: str) -> str:
    """The character for which an escape stands; the escape itself if it stands for none."""
    first, token = token[0], _WRAPS.sub("", token)
    if token in {"%%", "$$"}:
        return first
    try:
        if first == "&":
            if token[1] != "#":
                return html.unescape(token)
            return chr(int(token[3:-1], 16) if token[2] in "xX" else int(token[2:-1]))
        if first == "%":
            return chr(int(token[2:], 16)) if token[1] == "u" else unquote(token)  # noqa: FURB166 - no 0u
        return _of_backslash(token) if first == "\\" else ""
    except ValueError:  # not in Unicode, or not UTF-8
        return token


def _of_backslash(token: str) -> str:
    kind, more = token[1:2], token[2:].strip("{}")
    if not more:
        return _CONTROL.get(kind, kind)
    if kind not in "uUx":
        raw = bytes(int(octal, 8) for octal in token.split("\\")[1:])
    elif "\\" not in more:
        return chr(int(more, 16))
    else:
        raw = bytes.fromhex(token.replace("\\x", ""))
    return raw.decode() if len(raw) > 1 else chr(raw[0])
