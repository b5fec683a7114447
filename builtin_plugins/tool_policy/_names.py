"""`path_name` and `path_outside`: conditions on paths that only stop calls, so that whatever may be meant fits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache

from builtin_plugins.tool_policy import _paths as paths
from builtin_plugins.tool_policy._conditions import Words
from builtin_plugins.tool_policy._shell_words import FOUND, HOLES

_MAX_NAME = 255
_HOLES = re.compile(f"[{''.join(sorted(HOLES))}]+")
_GLOBS = re.compile(r"\*+|\?|\[[^\]]*\]|\{\{[^{}]*\}\}|\$\{?\w+\}?")
_HOME = re.compile(r"^\$(?:HOME\b|\{HOME\})")
_DEVICES = re.compile(r"/dev/(?:null|zero|stdin|stdout|stderr|tty|u?random|fd/\d+)")
_ADDRESS = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)


class NameReader(paths.PathReader):
    """Names of files and folders, wherever they lie: `.env`, `*.pem`, `.ssh`."""

    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:
        """True when some part of the path may have one of the names, also where a link leads."""
        if any(_has_name(reading, wanted) for reading in paths.readings(text)):
            return True
        place = paths.absolute(text, workspace) if named or self.resembles(text) else None
        return place is not None and _has_name(paths.resolved(place), wanted)

    def in_words(self, words: Words, wanted: Sequence[str], workspace: str | None) -> bool:
        """True when a word of a command may be a path with one of the names, from wherever the line goes."""
        texts, starts = words
        places = list(dict.fromkeys((workspace, *paths.places_of(starts, workspace))))
        if len(texts) * len(places) > paths.MAX_LOOKS or len(texts) > paths.MAX_TEXTS:
            return True
        if any(
            self.possibly(one, wanted, workspace, named=HOLES.isdisjoint(one))
            for one in (*starts, *filter(None, places[1:]))
        ):
            return True
        return any(
            self.possibly(text, wanted, place, named=HOLES.isdisjoint(text)) for text in texts for place in places
        )


class OutsideReader(paths.PathReader):
    """Folders that paths lie outside of."""

    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:
        """True when the path may lie in none of the folders."""
        if not named and ("\n" in text or not self.resembles(text)):
            return False
        return _may_be_outside(text, wanted, workspace, workspace)

    def in_words(self, words: Words, wanted: Sequence[str], workspace: str | None) -> bool:
        """True when a word of a command may be a path outside, from wherever the line goes."""
        texts, starts = words
        if len(texts) > paths.MAX_TEXTS:
            return True
        places = paths.places_of(starts, workspace) or [workspace]
        for text in texts:
            word = text.partition("=")[2] if text.startswith("-") else text
            if not word or _ADDRESS.match(word):
                continue
            if any(_may_be_outside(word, wanted, place, workspace) for place in places):
                return True
        return False


def check_name(text: str) -> str:
    """A file's or folder's name as a rule has it. Raises `ValueError`."""
    if "/" in text or not text.strip("*?. ") or not text.isprintable():
        raise ValueError(
            f"'{text}' is not the name of a file or a folder; write one such as '.env' or '*.pem', without / (path_inside takes folders)"
        )
    return text


def _may_be_outside(text: str, wanted: Sequence[str], start: str | None, workspace: str | None) -> bool:
    text = paths.home_filled(_HOME.sub("~", text.strip())).removesuffix(f"/{FOUND}")
    if _DEVICES.fullmatch(text):
        return False
    fixed = re.split(rf"[*?\[{''.join(sorted(HOLES))}]", text, maxsplit=1)[0]
    rest = text[len(fixed) :]
    # A pattern of the shell stays below the folder before it; a variable may hold a whole path.
    if (
        paths.hides_something(text)
        or text.startswith("~")
        or ".." in rest
        or (not fixed and not HOLES.isdisjoint(rest))
    ):
        return True
    place = paths.absolute(fixed.rpartition("/")[0] + "/" if rest and "/" in fixed else "." if rest else fixed, start)
    if place is None:
        return True
    ends = [paths.folded(paths.resolved(folder)) for one in wanted if (folder := paths.absolute(one, workspace))]
    ways = {paths.folded(paths.resolved(place)), paths.folded(paths.resolved(os.path.normpath(place)))}
    if rest and HOLES.isdisjoint(rest):
        ways.update(map(paths.folded, paths.linked(paths.absolute(text, start) or place)))
    return not all(any(paths.is_inside(way, end) for end in ends) for way in ways)


def _has_name(text: str, wanted: Sequence[str]) -> bool:
    parts = {part.casefold() for part in re.split(r"[/\\]", text) if part and len(part) <= _MAX_NAME}
    return any(_may_be(_HOLES.sub("*", _GLOBS.sub("*", part)), one.casefold()) for part in parts for one in wanted)


@lru_cache(maxsize=4096)
def _may_be(name: str, pattern: str) -> bool:
    """True when some text fits both. A name of which next to nothing is known is none: `cat *` and `.[dev]` name no
    file."""
    if len(name.replace("*", "")) < min(2, len(pattern)):
        return False
    if pattern.startswith("*.") and "*" in name:  # whatever is filled in elsewhere, the ending decides
        stem, dot, name = name.rpartition(".")
        return bool(stem and dot) and _may_be(f".{name}", "." + pattern.rpartition(".")[2])
    if "*" not in name and "?" not in name:
        return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), name, re.DOTALL) is not None
    places = {0}  # where in the pattern one may stand after each sign of the name

    def further(reached: set[int]) -> set[int]:
        return reached | {at + 1 for at in reached if pattern[at : at + 1] == "*"}

    for sign in name:
        places = further(places)
        if sign == "*":
            places = further(set(range(min(places), len(pattern) + 1))) if places else places
        else:
            places = {
                at if pattern[at] == "*" else at + 1
                for at in places
                if at < len(pattern) and (pattern[at] in {"*", "?"} or pattern[at] == sign)
            }
    return len(pattern) in further(places)
