"""What a trim puts in a result's place, what became of the queued ones, and how results are referred to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hooksdk.errors import UnknownResult, nearest

__all__ = ["DrainReport", "DrainedTrim", "TrimStatus", "clean", "head", "resolve", "short_form"]

MAX_REPLACEMENT = 2_000
"""Characters that a plugin's or model's summary may keep."""

TrimStatus = Literal["applied", "already_trimmed", "not_trimmed", "gone", "stale"]
"""`gone`: compacted away meanwhile. `stale`: the stored content is not the one that the trim was made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedTrim:
    """What became of one queued trim or restore."""

    handle: str
    """Also what undoes it: `results.restore(handle)`."""
    kind: Literal["trim", "restore"]
    status: TrimStatus
    owner: str
    """The plugin that asked for it."""
    reason: str
    tool: str
    age: int
    """How many model turns came after the result."""
    characters_saved: int
    """Negative for a restore."""
    tokens_saved: int


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What one drain did."""

    trims: tuple[DrainedTrim, ...] = ()

    @property
    def counts(self) -> dict[TrimStatus, int]:
        """How many ended in which status; only statuses that occurred."""
        found: dict[TrimStatus, int] = {}
        for trim in self.trims:
            found[trim.status] = found.get(trim.status, 0) + 1
        return found

    @property
    def applied(self) -> int:
        """How many changed the view."""
        return self.counts.get("applied", 0)

    @property
    def characters_saved(self) -> int:
        """Characters that the view lost, restores counted against it."""
        return sum(trim.characters_saved for trim in self.trims)

    @property
    def tokens_saved(self) -> int:
        """The same in tokens, estimated."""
        return sum(trim.tokens_saved for trim in self.trims)


def clean(text: str, limit: int) -> str:
    """Text that every encoder takes (halves of surrogate pairs become `?`), without blanks around it, cut to `limit`."""
    text = text.encode("utf-8", "replace").decode().strip()
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def head(handle: str, tool: str, characters: int, is_error: bool) -> str:
    """The host's own words for a trimmed result. Plain ASCII without quotes: as long in JSON as in characters.

    An error still begins with "Error": in some formats nothing else says that it is one.
    """
    name = re.sub(r"[^A-Za-z0-9_.:/-]", "_", tool)[:64] or "a tool"
    return (
        f"{'Error: ' if is_error else ''}[Result {handle} of {name} was trimmed: {characters:,} characters. "
        f"Where recall-tool-result is offered, its id {handle} gets it back.]"
    )


def short_form(start: str, replacement: str | None, characters: int, fits: Callable[[str], bool]) -> str | None:
    """`start` with as much of the replacement as keeps it shorter than the original; None when even `start` is not.

    `fits` tells whether a text makes the message shorter as it is stored, where quotes and line ends count twice.
    """
    if len(start) >= characters or not fits(start):
        return None
    join = "\nSummary: "
    room = min(MAX_REPLACEMENT, characters - 1 - len(start) - len(join))
    kept = clean(replacement or "", max(room, 1))
    while room > 0 and kept:
        text = start + join + clean(kept, room)
        if fits(text):
            return text
        room //= 2
    return start


def resolve(
    reference: str, handles: Mapping[str, int], by_id: Mapping[str, Sequence[int]], tool_of: Callable[[int], str]
) -> int:
    """The number of the result meant by a handle or an unambiguous call id. Raises `UnknownResult`.

    `tool_of` names the tool of a result: the newest are named in the error.
    """
    wanted = reference.strip()
    if (number := handles.get(wanted.lower())) is not None:
        return number
    if len(found := by_id.get(wanted, ())) == 1:
        return found[0]
    if found:
        known = _names((f"r{number + 1}" for number in found), 10, len(found))
        raise UnknownResult(wanted, f"{len(found)} results have this call id: {known}. Use one of these handles")
    if not handles:
        raise UnknownResult(wanted[:200], "there is no tool result in this session yet")
    count = len(handles)
    newest = ", ".join(f"r{number + 1} ({tool_of(number)})" for number in range(count - 1, max(count - 4, -1), -1))
    recent = [f"r{number + 1}" for number in range(max(count - 100, 0), count)]
    close = nearest(wanted[:200], [*recent, *list(by_id)[-100:]])
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    problem = (
        f"no tool result goes by this handle or call id. {hint}Handles go from r1 to r{count}; the newest: {newest}"
    )
    raise UnknownResult(wanted[:200], problem)


def _names(words: Iterable[str], limit: int, total: int) -> str:
    shown = ", ".join(word for word, _ in zip(words, range(limit), strict=False))
    return shown if total <= limit else f"{shown} and {total - limit} more"
