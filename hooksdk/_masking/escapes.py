"""A text as it reads once its escapes are undone, and where each character of that stands in the text as it was
written."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations, product
from urllib.parse import unquote

# How often a text is decoded. Each time may cost as much as the first, and JSON in JSON in an address has three
# escapes.
MAX_DEPTH = 5
# How many texts one of those times may leave, where a value has escapes of its own: they are undone, or they stay.
MAX_WAYS = 32

# Where a piece of text begins and ends.
Span = tuple[int, int]

_HEX = "[0-9a-fA-F]"
# Wrapping may put a line end into the middle of an escape, and what wraps once may wrap twice.
_WRAP = r"(?:\r?\n[ \t]{0,16}){0,2}"

_WRAPS = re.compile(_WRAP)


def _row(*characters: str) -> str:
    return _WRAP.join(characters)


def _utf8(*mark: str, octal: bool = False) -> list[str]:
    """One character beyond ASCII as the bytes of its UTF-8, each behind `mark`. As a whole: hex digits that stand
    behind a lone `%` are no escape."""
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
# As formats, `configparser` and Compose files write one.
_DOUBLED = [_row("%", "%"), _row(r"\$", r"\$")]
_ENTITY = [
    _row("&", "#", f"(?:[0-9]{_WRAP}){{1,7}}") + ";",
    _row("&", "#", "[xX]", f"(?:{_HEX}{_WRAP}){{1,6}}") + ";",
    _row("&", f"(?:[a-zA-Z0-9]{_WRAP}){{2,32}}") + ";",
]
# What a terminal or a page shows in colour, or not at all, is no part of the text.
_UNSEEN = [
    r"\x1b\[[0-9;:?]{0,32}[a-zA-Z]",
    r"</?(?:b|i|u|em|mark|strong|span|code|font|wbr)(?: class=['\"][\w -]{1,60}['\"])?/?>",
    *"\u00ad\u200b\u200c\u200d\u2060\ufeff",
]
FAMILIES = ("|".join(_BACKSLASH), "|".join(_PERCENT), *_DOUBLED, "|".join(_ENTITY), *_UNSEEN)
# Families of which no escape is undone, since a value has some of its own.
Kept = frozenset[str]
# Each has a greatest length, so that a text is searched in steps as many as its characters, whatever it is made of.
ESCAPES = re.compile(f"({'|'.join(FAMILIES)})")

_SOFT = r"=\r?\n"
_MORE = f"(?:{_SOFT})?=[89AB][0-9A-F]"
# The escapes of mail. Not one with the others: in `KEY=ab...` these are no escape.
_QUOTED_PRINTABLE = re.compile(
    f"({_SOFT}|=[CD][0-9A-F]{_MORE}|=E[0-9A-F](?:{_MORE}){{2}}|=F[0-4](?:{_MORE}){{3}}|=[0-7][0-9A-F])"
)
_SOFT_BREAK = re.compile(rf"[^\s=]{_SOFT}\S")
_OFFSET = r"^[0-9a-fA-F]{4,16}:?[ \t]{1,4}"
_BYTES = "|".join(rf"(?:{_HEX}{{{size}}}[ \t]{{1,3}}){{1,{32 // size}}}" for size in (2, 4, 8))
# A line as `xxd` and `hexdump -C` print it: where it begins, sixteen bytes, and the same as text.
_DUMP = re.compile(rf"{_OFFSET}(?:{_HEX}{{2,8}}[ \t]{{1,3}}){{2}}", re.MULTILINE)
_BESIDE_HEX = re.compile(
    rf"({_OFFSET}(?={_HEX}{{2}})|[ \t]{{2,80}}\|.{{0,16}}\|?$|[ \t]{{2,80}}.{{1,16}}$)", re.MULTILINE
)
_BESIDE_TEXT = re.compile(rf"({_OFFSET}(?:{_BYTES})(?:{_HEX}{{2}}[ \t]{{2}})?[ \t]{{0,80}}\|?|\|?\r?\n)", re.MULTILINE)
# One character beyond 65535, of which JSON and JavaScript escape the halves.
_PAIR = re.compile(rf"([\ud800-\udbff]{_WRAP}[\udc00-\udfff])")
_SIGNS = re.compile("([%$])")
# Each by itself: what begins with one certain character is looked for ten times faster.
_TWO_SIGNS = re.compile(r"%\s{0,20}%"), re.compile(r"\$\s{0,20}\$")
_CONTROL = dict(zip("abefnrtv0", "\a\b\x1b\f\n\r\t\v\0", strict=True))

# What writers put in, take away or double: line ends and blanks, `+` for a blank, quotes, and what concatenates two
# texts.
_NOISE = re.compile("([ \t-\r\x1c-\x1f\xa0'\"`+\\\\]+)")
_NOISE_BYTES = bytes(code for code in range(128) if _NOISE.match(chr(code)))


@dataclass(frozen=True, slots=True)
class Reading:
    """A text, and the one of which it was made by writing each of the `tokens` in it in another way."""

    text: str
    source: Reading | None = None
    tokens: re.Pattern[str] = ESCAPES
    write: Callable[[str], str] = str

    def origin(self, spans: Iterable[Span], until: Reading | None = None) -> list[Span]:
        """Where these stand in the text as it was written, or as it is read in `until`; with the whole of an escape of
        which they are a part."""
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
    """The characters at both ends of a text that folding takes away."""
    parts = ["", *_NOISE.split(text), ""]
    return "" if parts[1] else parts[2], "" if parts[-2] else parts[-3]


def readings(text: str, depth: int = MAX_DEPTH, kept: Sequence[Kept] = ()) -> Iterator[Reading]:
    """The text as it is and with its escapes undone, as often as there are any, and so without those that are `kept`;
    what mail and hex dumps hold; and the last one without `%` and `$`, where two of them stood together: then it is not
    known whether one was meant."""
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
    """Without `%` and `$`, of which two often stand for one."""
    return text.replace("%", "").replace("$", "")


def _decoded(written: Reading, depth: int = MAX_DEPTH, kept: Sequence[Kept] = ()) -> Iterator[Reading]:
    """The text with its escapes undone once, twice and so on. At each step the escapes of the families of one of `kept`
    may stay: a value has such escapes itself, and another writer's stand around them."""
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
    """Each choice of the families of which a value has escapes of its own, or at its end a half of one."""
    texts = [value, *unescaped(value)]
    own = [one for one in FAMILIES if any(re.search(one, f"{text}0000;") for text in texts)]
    return [frozenset(some) for size in range(1, len(own) + 1) for some in combinations(own, size)]


def folded(reading: Reading) -> Reading:
    """Without case, and without the characters that writers put in or take away."""
    return Reading(fold(reading.text), reading, _NOISE, _nothing)


def fold(text: str) -> str:
    """Without case, and without the characters that writers put in or take away. Each other character stays one."""
    return fold_bytes(text).decode("utf-8", "surrogatepass")


def fold_bytes(text: str) -> bytes:
    """The same as UTF-8, of which characters are taken out several times faster."""
    if text.isascii():
        return text.lower().encode().translate(None, _NOISE_BYTES)
    # One that would become two, a blank beyond ASCII, and one that has two small forms.
    plain = text.replace("\u0130", "i").replace("\xa0", " ").lower().replace("\u03c2", "\u03c3")
    return plain.encode("utf-8", "surrogatepass").translate(None, _NOISE_BYTES)


def unescaped(text: str, depth: int = MAX_DEPTH) -> list[str]:
    """The text with its escapes undone once, twice and so on, as long as there are any."""
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
    """The character for which an escape stands; the escape itself where there is none."""
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
    except ValueError:  # beyond what Unicode has, or no UTF-8
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
