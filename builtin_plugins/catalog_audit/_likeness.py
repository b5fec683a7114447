# ruff: noqa: RUF001 - letters that look alike are what this file is about
"""Names that a person, or a pattern, may take for another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from builtin_plugins.catalog_audit._texts import visible

_UNKNOWN = "\ufffd"
_TWINS = str.maketrans(
    # Letters of other alphabets that look like Latin ones. Other letters need no list: see `resembling`.
    "авеѕіјкӏмнорсԁтухһԛԝгпцзбαβεικνορτυχγηωμа",
    "abesijklmhopcdtyxhqwrnu36abeikvoptuxynwua",
)
# Capitals that look like another Latin letter than their small form does.
_CAPITALS = str.maketrans("ΗΜΝΥϒ", "hmnyy")
_ALIKE = ((re.compile("rn"), "m"), (re.compile("vv"), "w"), (re.compile("[1i|!]"), "l"), (re.compile("[0]"), "o"))
_SIGNS = re.compile(r"[\s_.\-\u2010-\u2015\u2212/]+")


def look_of(name: str) -> str:
    """One text for all names that are hard to tell apart: by case, width, accents, alphabets, separators, and by
    letters that look alike (`l`, `1` and `I`; `rn` and `m`). A letter that looks like no known one becomes U+FFFD."""
    text = unicodedata.normalize("NFKD", re.sub("[\u017f\u02db\u037a]", _UNKNOWN, visible(name)))
    text = "".join(char for char in text if not unicodedata.combining(char)).translate(_CAPITALS)
    text = text.casefold().translate(_TWINS)
    text = _SIGNS.sub("", text)
    for pattern, letter in _ALIKE:
        text = pattern.sub(letter, text)
    return re.sub(r"[^\x00-\x7f]", _UNKNOWN, text)


def resembling(name: str, known: Mapping[str, Iterable[str]]) -> list[str]:
    """The known names, given by `look_of`, that this one resembles.

    A foreign letter between Latin ones may look like any of them, so it matches each. A name of which half is foreign
    is a word of another language, and resembles none.
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
