"""Tool patterns: `delete_*`, `mcp:github:*`. One syntax for handlers, policies and configuration, in two readings.

What stops or watches takes a pattern by its words, in any case and any joining; what gives takes it as it is written.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Literal, Protocol, final, get_args

from hooksdk.errors import HookSDKError, did_you_mean

__all__ = [
    "SOURCES",
    "PatternError",
    "Source",
    "ToolPattern",
    "char_kind",
    "check_patterns",
    "name_piece",
    "near_miss",
    "near_misses",
    "near_tools",
    "readable",
]

Source = Literal["host", "mcp", "plugin", "client", "resource", "prompt"]
"""Who brings a tool: the host itself, an MCP server, a plugin, or the program behind the conversation. What an MCP
server offers beside its tools is judged as a tool of the source `resource` or `prompt`: no model is offered it."""
SOURCES: tuple[Source, ...] = get_args(Source)
"""The first part of a tool's id."""


class PatternError(HookSDKError, ValueError):
    """A tool pattern cannot be read; the text says what it must look like."""


class _Identified(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def own_name(self) -> str: ...
    @property
    def name(self) -> str: ...


@final
@dataclass(frozen=True)
class ToolPattern:
    """Which tools something is about: a name (`delete_*`), or `source:owner:name` (`mcp:github:*`).

    `*` stands for any text, `?` for one character, everything else for itself. A bare name is compared with the name
    that the model sees and with the owner's own. Raises `PatternError`.

    ```python
    from hooksdk import Tool
    from hooksdk.patterns import ToolPattern

    tool = Tool(name="deleteIssue", source="mcp", owner="github")
    assert ToolPattern("delete_*").may_mean(tool)  # for what stops or watches
    assert not ToolPattern("delete_*").matches(tool)  # for what gives
    ```
    """

    text: str
    _parts: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = self.text.split(":", 2) if isinstance(self.text, str) else []  # pyright: ignore[reportUnnecessaryIsInstance]
        if not parts or not all(part and part == part.strip() for part in parts):
            raise PatternError(
                f"{self.text!r} is not a tool pattern; write a name such as 'delete_*' or 'mcp:github:*'"
            )
        if odd := re.search(r"[|^$\\]", self.text):
            known = "only * and ? have a meaning; give several patterns as a list"
            raise PatternError(f"{self.text!r} looks like a regular expression ({odd[0]!r}): {known}")
        if len(parts) == 2:
            raise PatternError(f"{self.text!r} has two parts; write all three, such as '{self.text}:*'")
        if len(parts) == 3 and parts[0] not in SOURCES and not re.search(r"[*?]", parts[0]):
            known = f"it is one of {', '.join(SOURCES)}, or *"
            raise PatternError(
                f"{self.text!r}: no tool has the source '{parts[0]}'; {known}.{did_you_mean(parts[0], SOURCES)}"
            )
        object.__setattr__(self, "_parts", tuple(_compile(part) for part in parts))

    def matches(self, tool: _Identified) -> bool:
        """True when the tool is one of those meant, exactly as it is written: for what allows or hands out
        something."""
        parts = self._parts
        if len(parts) == 1:
            return bool(parts[0].fullmatch(tool.name) or parts[0].fullmatch(tool.own_name))
        source, owner, name = parts
        return bool(source.fullmatch(tool.source) and owner.fullmatch(tool.owner) and name.fullmatch(tool.own_name))

    def may_mean(self, tool: _Identified) -> bool:
        """True when the tool may be one of those meant, by the words of its name: for what denies, asks or watches. It
        is for every tool that the pattern matches, and for those that only case or joining tells apart from them."""
        if self.matches(tool):
            return True
        if not self._fits_owner(tool):
            return False
        fits = self.words.fullmatch
        for name in self._names(tool):
            for text in _read(name):
                if fits(text):
                    return True
        return False

    def nearly_means(self, tool: _Identified) -> bool:
        """True when the pattern does not mean the tool even by its words, and yet they are the tool's: in another order
        or place; without a star also in the plural, or run together. Only what is certain: `delete_*` nearly means
        `issue_delete`, and not `remove_issue`."""
        own = {word for piece in re.split(r"[*?]+", self._name) for word in _words(piece)}
        if not any(map(str.isalpha, own)) or not self._fits_owner(tool) or self.may_mean(tool):
            return False
        if re.search(r"[*?]", self._name):
            return any(own <= {*_words(name)} for name in self._names(tool))
        return any(_without_order(self._name) & _without_order(name) for name in self._names(tool))

    @property
    def _name(self) -> str:
        return self.text.split(":", 2)[-1]

    @property
    def parts(self) -> tuple[re.Pattern[str], ...]:
        """As it is written: for source, owner and name, or for the name alone."""
        return self._parts

    @cached_property
    def words(self) -> re.Pattern[str]:
        """By its words: for the name as `name_piece` reads it."""
        return _compile_words(self._name)

    @cached_property
    def owners(self) -> tuple[re.Pattern[str], ...]:
        """By its words: for source and owner in small letters; empty where it says neither."""
        return tuple(_compile(part.casefold()) for part in self.text.split(":", 2)[:-1])

    def _fits_owner(self, tool: _Identified) -> bool:
        if not self.owners:  # a bare name is for every owner
            return True
        source, owner = self.owners
        return bool(source.fullmatch(tool.source) and owner.fullmatch(tool.owner.casefold()))

    def _names(self, tool: _Identified) -> tuple[str, ...]:
        """The names by which the pattern may call the tool."""
        own = tool.own_name
        if self.owners:
            return (own,)
        if "__" in self.text:  # as clients write the names of servers' tools: mcp__github__delete_*
            owned = f"{tool.owner}__{own}"
            return own, tool.name, owned, f"{tool.source}__{owned}"
        return (own,) if tool.name == own else (own, tool.name)

    def __str__(self) -> str:
        return self.text


def _compile(glob: str) -> re.Pattern[str]:
    segments = ["".join("." if char == "?" else re.escape(char) for char in part) for part in re.split(r"\*+", glob)]
    return re.compile(_joined(segments), re.DOTALL)


def _joined(segments: list[str]) -> str:
    """Join the segments of a pattern with its stars."""
    if len(segments) == 1:
        return segments[0]
    first, *middle, last = segments
    # Between two stars the leftmost match is as good as any other: it is never tried again, so hostile patterns stay
    # cheap.
    return first + "".join(f"(?>.*?{segment})" for segment in middle) + ".*" + last


def readable(text: str) -> str:
    """Without the differences that nobody sees: width, composition, invisible characters."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


_KINDS = {"Lu": "upper", "Lt": "upper", "Ll": "lower"}


def char_kind(char: str, before: str) -> str:
    """What a character of a name is: upper, lower, other, digit; empty for one that separates words. A mark is what the
    character before it is."""
    category = unicodedata.category(char)
    mark_of = before if category[0] == "M" else ""
    return _KINDS.get(category) or mark_of or {"L": "other", "N": "digit"}.get(category[0], "")


def _kinds(text: str) -> list[str]:
    kinds = [""]
    for char in text:
        kinds.append(char_kind(char, kinds[-1]))
    return kinds[1:]


def name_piece(char: str, before: str | None, kind: str, after: str) -> str:
    """One character of a readable name as patterns read it by their words: in small letters, `_` where something
    separates words, and `-` before it where its kind alone does. The kinds are those of `char_kind`; `before` is None
    for the first."""
    if not kind:
        return "_" if before or before is None else ""
    begins = kind != before and (before, kind) != ("upper", "lower")
    ends_acronym = before == kind == "upper" and after == "lower"
    return ("-" if before and (begins or ends_acronym) else "") + char.casefold()


# A policy reads the whole catalog for each run, with each of its patterns; the largest catalogs have ten thousand
# tools.
@lru_cache(maxsize=100_000)
def _read(name: str) -> tuple[str, ...]:
    """The name in small letters, with `_` where something separates its words and `-` where case, a digit or another
    script tells them apart, which may be one word all the same (`GitHub`); and with `_` for both."""
    text = readable(name)
    kinds = _kinds(text)
    around = zip(text, [None, *kinds], kinds, [*kinds[1:], ""], strict=False)
    read = "".join(name_piece(*one) for one in around)
    return (read, read.replace("-", "_")) if "-" in read else (read,)


def _words(name: str) -> list[str]:
    return [word for word in _read(name)[-1].split("_") if word]


def _without_order(name: str) -> set[str]:
    """Two forms of a name that are equal for names of the same words: joined, and as sorted words without a plural
    s."""
    words = _words(name)
    return {"".join(words), " ".join(sorted(word.removesuffix("s") for word in words))}


def _compile_words(glob: str) -> re.Pattern[str]:
    """For names as `_read` gives them. What a character stands for depends on the one before it alone, so where a `*`
    takes the place of some, the pattern means all that it did; but for several separators at a time, of which one
    counts."""
    segments: list[str] = []
    for part in re.split(r"\*+", glob):
        pieces: list[str] = []
        before = ""  # the kind of the character before, or "?"
        for literal in re.split(r"(\?)", part):
            if literal == "?":
                pieces.append("-?[^-]")
                before = "?"
                continue
            text = readable(literal)
            for char, kind in zip(text, _kinds(text), strict=True):
                if kind:
                    may_begin = kind == "upper" or "digit" in {kind, before}
                    pieces.append(("[_-]?" if may_begin else "-?") if before else "")
                    pieces.append(re.escape(char.casefold()))
                elif before or not pieces:  # of several separators one counts
                    pieces.append("[_-]")
                before = kind
        segments.append("".join(pieces))
    return re.compile(f"_?{_joined(segments)}_?", re.DOTALL)


def check_patterns(texts: list[str]) -> list[str]:
    """The same texts, all of them patterns: for a setting such as `Annotated[list[str],
    pydantic.AfterValidator(check_patterns)]`. Raises `PatternError` for the first that is none."""
    for text in texts:
        ToolPattern(text)
    return texts


def near_misses(patterns: Iterable[ToolPattern], tools: Iterable[_Identified], *, exact: bool = False) -> Iterator[str]:
    """One line for each pattern of a setting that somebody may believe to mean other tools than it does. Where patterns
    count as they are written (`exact`) those are the tools that they would mean by their words; anywhere else, those
    that have the same words. A tool that another one of the patterns means is none of them."""
    patterns = list(dict.fromkeys(patterns))
    mean = ToolPattern.matches if exact else ToolPattern.may_mean
    nearly_mean = ToolPattern.may_mean if exact else ToolPattern.nearly_means
    others = [tool for tool in tools if not any(mean(pattern, tool) for pattern in patterns)]
    for pattern in patterns:
        ids = [f"{tool.source}:{tool.owner}:{tool.own_name}" for tool in others if nearly_mean(pattern, tool)]
        if ids:
            yield near_miss(pattern, ids, exact=exact)


def near_miss(pattern: ToolPattern, ids: Sequence[str], *, exact: bool = False) -> str:
    """The line about a pattern and the tools that it is near to; it names at most three of them."""
    more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
    named = ", ".join(map(repr, ids[:3])) + more
    if exact:
        return f"'{pattern}' counts as it is written here, and does not mean {named}"
    return f"'{pattern}' has the same words as {named}, and does not mean {'it' if len(ids) == 1 else 'them'}"


def near_tools(text: str, tools: Collection[_Identified]) -> str:
    """` Did you mean 'x'?` for a name or a pattern, or nothing where no tool's name is close."""
    if ":" in text:
        last = text.rpartition(":")[2]
        owners = {
            f"{tool.source}:{tool.owner}:{last}"
            for tool in tools
            if tool.owner and ("*" in last or tool.own_name == last)
        }
        names = owners or {f"{tool.source}:{tool.owner}:{tool.own_name}" for tool in tools}
    else:
        names = {name for tool in tools for name in (tool.name, tool.own_name)}
        if text.endswith("_*"):
            words = text.count("_")
            beginnings = ["_".join(name.split("_")[:words]) for name in sorted(names) if name.count("_") >= words]
            # Closer than names need be: `delete_*` is no slip of `create_*`.
            for near in difflib.get_close_matches(text[:-2].casefold(), beginnings, n=1, cutoff=0.75):
                return f" Did you mean '{near}_*'?"
    folded = [name for name in sorted(names) if fnmatchcase(name.casefold(), text.casefold())]
    return f" Did you mean '{folded[0]}'?" if folded else did_you_mean(text, names)
