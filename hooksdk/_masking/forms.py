"""The forms in which a value is searched for. Escapes need no form, because the searched text is decoded."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterator

from hooksdk._masking.escapes import fold, unescaped, without_signs

# Characters of the shortest form that is found in any case, and across line ends, blanks and quotes. Shorter forms
# would be found in unrelated words.
MIN_LOOSE = 8
# Bytes of the shortest value that is searched for within the base64 of a longer text.
MIN_BASE64 = 6
# Characters of a line of a value that is masked by itself, if it has no blanks: a line of a private key tells much of
# it, a line of a settings file may be anybody's.
MIN_LINE = 32
# Characters of the shortest other reading of a value with escapes of its own: a shorter one may be a word.
MIN_OTHER = 6
# A half of an escape at the end of a value: a decoder may read it together with the text behind it.
_HALF_ESCAPE = re.compile(r"(?:%[0-9a-fA-F]?|\\(?:[uUx][0-9a-fA-F]{0,3})?|&#?)$")


def texts_of(value: str) -> Iterator[str]:
    """The value as text, with its own escapes undone (somebody may undo them), and its lines."""
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
    """A text that is too short to be found without its quotes and blanks, with these as several languages write
    them."""
    yield from (text, text.replace("'", "''"), text.replace('"', '""'), text.replace(" ", "+"))
    yield from (
        text.replace("'", "'\"'\"'"),
        text.replace("'", "'''"),
    )  # for a shell; the latter is '\'' once it is decoded


def in_base64(value: str) -> Iterator[str]:
    """A value in base64, alone and as a part of a longer text such as `user:value`. It may begin at each of three
    places within four characters, and shares the characters at its ends with its neighbours."""
    in_json = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    for text in dict.fromkeys((value, value.strip(), *in_json)):
        raw = text.encode("utf-8", "surrogatepass")
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(raw).decode().rstrip("=")
            for before in range(3 if len(raw) >= MIN_BASE64 else 0):
                start, end = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
                yield encode(bytes(before) + raw).decode()[start:end]


def in_numbers(value: str) -> Iterator[str]:
    """The bytes of a value in hexadecimal, with the usual separators, and as a list of numbers. Blanks do not count, so
    groups need no form."""
    for text in dict.fromkeys((value, value.strip())):
        raw = text.encode("utf-8", "surrogatepass")
        for between in ("", ":", "-", ",", "0x", ",0x"):
            yield between.join(f"{byte:02x}" for byte in raw)
        if len(raw) > 3:  # a short one in decimal is any number
            yield ",".join(map(str, raw))


def is_loose(form: str) -> bool:
    """True if the form is searched for in any case, without blanks and quotes."""
    return len(fold(form)) >= MIN_LOOSE
