"""Tool patterns: `delete_*`, `mcp:github:*`. One syntax for handlers, policies and configuration."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, Protocol, final, get_args

from hooksdk.errors import HookSDKError, did_you_mean

__all__ = ["SOURCES", "PatternError", "Source", "ToolPattern", "check_patterns", "near_tools"]

Source = Literal["host", "mcp", "plugin", "client"]
"""Who brings a tool: the host itself, an MCP server, a plugin, or the program behind the conversation."""
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

    `*` stands for any text, `?` for one character, everything else for itself; upper and lower case count. A bare name
    matches the name that the model sees as well as the owner's own. Raises `PatternError`.
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
        """True when the tool is one of those meant."""
        parts = self._parts
        if len(parts) == 1:
            return bool(parts[0].fullmatch(tool.name) or parts[0].fullmatch(tool.own_name))
        source, owner, name = parts
        return bool(source.fullmatch(tool.source) and owner.fullmatch(tool.owner) and name.fullmatch(tool.own_name))

    def __str__(self) -> str:
        return self.text


def _compile(glob: str) -> re.Pattern[str]:
    segments = ["".join("." if char == "?" else re.escape(char) for char in part) for part in re.split(r"\*+", glob)]
    if len(segments) == 1:
        return re.compile(segments[0], re.DOTALL)
    first, *middle, last = segments
    # Between two stars the leftmost match is as good as any other: it is never tried again, so hostile patterns stay cheap.
    return re.compile(first + "".join(f"(?>.*?{segment})" for segment in middle) + ".*" + last, re.DOTALL)


def check_patterns(texts: list[str]) -> list[str]:
    """The same texts, all of them patterns: for a setting such as `Annotated[list[str], pydantic.AfterValidator(check_patterns)]`.
    Raises `PatternError` for the first that is none."""
    for text in texts:
        ToolPattern(text)
    return texts


def near_tools(text: str, tools: Collection[_Identified]) -> str:
    """` Did you mean 'x'?` for a name or a pattern, or nothing where no tool's name is close."""
    if ":" in text:
        last = text.rpartition(":")[2]
        owners = {f"{tool.source}:{tool.owner}:{last}" for tool in tools if "*" in last or tool.own_name == last}
        names = owners or {f"{tool.source}:{tool.owner}:{tool.own_name}" for tool in tools}
    else:
        names = {name for tool in tools for name in (tool.name, tool.own_name)}
    folded = [name for name in sorted(names) if fnmatchcase(name.casefold(), text.casefold())]
    return f" Did you mean '{folded[0]}'?" if folded else did_you_mean(text, names)
