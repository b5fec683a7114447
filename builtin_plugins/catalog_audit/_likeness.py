# ruff: noqa: RUF001 - letters that look alike are what this file is about
"""Names that people, or a rule for one name, take for another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from builtin_plugins.catalog_audit._texts import visible

_UNKNOWN = "\ufffd"
_TWINS = str.maketrans(
    # Letters of other alphabets that are drawn as Latin ones. The rest of Unicode's table needs no list: see `resembling`.
    "авеѕіјкӏмнорсԁтухһԛԝгпцзбαβεικνορτυχγηωμа",
    "abesijklmhopcdtyxhqwrnu36abeikvoptuxynwua",
)
_CAPITALS = str.maketrans("ΗΜΝΥϒ", "hmnyy")
"""Of these the small letter is drawn like another Latin one than the capital."""
_ALIKE = ((re.compile("rn"), "m"), (re.compile("vv"), "w"), (re.compile("[1i|!]"), "l"), (re.compile("[0]"), "o"))
_SIGNS = re.compile(r"[\s_.\-\u2010-\u2015\u2212/]+")


def look_of(name: str) -> str:
    """The same text for names that are hard to tell apart: by case, width, accents, alphabets, separators, and by letters
    that look alike (`l`, `1` and `I`; `rn` and `m`). A letter that is drawn like nobody knows what becomes U+FFFD."""
    text = unicodedata.normalize("NFKD", re.sub("[\u017f\u02db\u037a]", _UNKNOWN, visible(name)))
    text = "".join(char for char in text if not unicodedata.combining(char)).translate(_CAPITALS)
    text = text.casefold().translate(_TWINS)
    text = _SIGNS.sub("", text)
    for pattern, letter in _ALIKE:
        text = pattern.sub(letter, text)
    return re.sub(r"[^\x00-\x7f]", _UNKNOWN, text)


def resembling(name: str, known: Mapping[str, Iterable[str]]) -> list[str]:
    """Of the known names, by `look_of`, those that this one resembles.

    A foreign letter between Latin ones may be drawn like any of them, so it stands for each; where half of a name is
    foreign it is a word of another language and resembles none.
    """
    own = look_of(name)
    strange = own.count(_UNKNOWN)
    if not strange:
        return list(known.get(own, ()))
    if 2 * strange > len(own):
        return []
    # One sign may be drawn like two letters. With many of them in a name all ways to read it would be too many.
    letters = "[\\s\\S]{1,2}" if strange <= 4 else "[\\s\\S]"
    pattern = re.compile(re.escape(own).replace(_UNKNOWN, letters))
    return [one for other, names in known.items() if pattern.fullmatch(other) for one in names]
