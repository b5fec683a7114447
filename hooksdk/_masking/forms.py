"""The forms in which a value is looked for. Escapes need no form: the text is decoded instead."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterator

from hooksdk._masking.escapes import fold, unescaped, without_signs

# Characters from which a form is found in any case, and across line ends, blanks and quotes. A shorter one, so loosely
# compared, would be found where it is not.
MIN_LOOSE = 8
# Bytes of the shortest value that is looked for within the base64 of something longer.
MIN_BASE64 = 6
# Characters of a line of a longer value that is masked by itself, if it has no blanks: a line of a private key says
# much of it, while one of a settings file may be anybody's.
MIN_LINE = 32
# Characters of what a value with an escape of its own may be read as, to be looked for: few of them may be a word.
MIN_OTHER = 6
# At the end of a value, where it may be read together with what follows.
_HALF_ESCAPE = re.compile(r"(?:%[0-9a-fA-F]?|\\(?:[uUx][0-9a-fA-F]{0,3})?|&#?)$")


def texts_of(value: str) -> Iterator[str]:
    """The value itself, as text: with its escapes undone in case that somebody undoes them, and its lines."""
    others = [_HALF_ESCAPE.sub("", value), *unescaped(value)]
    if not fold(bare := without_signs(others[-1])).isalpha():  # not the word in `$password`
        others.append(bare)
    for text in dict.fromkeys((value, value.strip(), *(text for text in others if len(text.strip()) >= MIN_OTHER))):
        yield from dict.fromkeys((text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)))
        if not text.isascii() and len(text) >= MIN_LOOSE:
            yield from (text.lower(), text.upper())  # beyond ASCII not every case folds to one form
    raw = value.encode("utf-8", "surrogatepass")
    beside_hex = "".join(chr(code) if 32 <= code < 127 else "." for code in raw)
    if is_loose(beside_hex.replace(".", "")):
        yield beside_hex
    lines = value.split("\n")
    for line in map(str.strip, lines if len(lines) > 1 else ()):
        if len(line) >= MIN_LINE and len(line.split()) == 1 and not line.startswith("--"):
            yield line


def quoted(text: str) -> Iterator[str]:
    """A text that is too short to be found without its quotes and blanks: with them, as several languages write
    them."""
    yield from (text, text.replace("'", "''"), text.replace('"', '""'), text.replace(" ", "+"))
    yield from (
        text.replace("'", "'\"'\"'"),
        text.replace("'", "'''"),
    )  # for a shell; the latter is '\'' once it is decoded


def in_base64(value: str) -> Iterator[str]:
    """In base64, alone and as a part of something longer, such as `user:value`: it may begin at each of three places
    within four characters, and the characters at its ends are shared with its neighbours."""
    in_json = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for text in dict.fromkeys((value, value.strip(), *in_json)):
        raw = text.encode("utf-8", "surrogatepass")
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(raw).decode().rstrip("=")
            for before in range(3 if len(raw) >= MIN_BASE64 else 0):
                start, end = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
                yield encode(bytes(before) + raw).decode()[start:end]


def in_numbers(value: str) -> Iterator[str]:
    """The bytes in hexadecimal, with what is usually put between them, and as the numbers of a list. Blanks do not
    count, so groups need no form."""
    for text in dict.fromkeys((value, value.strip())):
        raw = text.encode("utf-8", "surrogatepass")
        for between in ("", ":", "-", ",", "0x", ",0x"):
            yield between.join(f"{byte:02x}" for byte in raw)
        if len(raw) > 3:  # a short one in decimal is any number
            yield ",".join(map(str, raw))


def is_loose(form: str) -> bool:
    """True when the form is looked for without case, blanks and quotes."""
    return len(fold(form)) >= MIN_LOOSE
