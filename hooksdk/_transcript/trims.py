"""What a trim puts in a result's place, and what became of each in the drain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hooksdk._schema.values import clip
from hooksdk.formats._shared import clean as encodable

MAX_SUMMARY = 2_000
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
    tokens_saved: int
    """Tokens that the view lost, estimated; negative for a restore."""


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What one drain did."""

    trims: tuple[DrainedTrim, ...] = ()
    """Every trim and restore that was queued, in the order in which they came."""


_NOTE = re.compile(r"\[(?=Result \S+ of \S+ was trimmed)")


def clean(text: str, max_chars: int) -> str:
    """The text stripped, cut to `max_chars`, fit for every encoder, and without what reads like the host's own note."""
    return clip(_NOTE.sub("(", encodable(text).strip()), max_chars)


def note(handle: str, tool: str, characters: int, is_error: bool) -> str:
    """The host's own words for a trimmed result. Plain ASCII without quotes: as long in JSON as in characters.

    An error still begins with "Error": in some formats nothing else says that it is one.
    """
    name = re.sub(r"[^A-Za-z0-9_.:/-]", "_", tool)[:64] or "a tool"
    return (
        f"{'Error: ' if is_error else ''}[Result {handle} of {name} was trimmed: {characters:,} characters. "
        f"Where recall-tool-result is offered, its id {handle} gets it back.]"
    )


def short_text(start: str, replacement: str | None, characters: int, fits: Callable[[str], bool]) -> str | None:
    """`start` with as much of the replacement as keeps it shorter than the original; None when even `start` is not.

    `fits` tells whether a text makes the message shorter as it is stored, where quotes and line ends count twice.
    """
    if len(start) >= characters or not fits(start):
        return None
    start_of_summary = f"{start}\nSummary: "
    room = min(MAX_SUMMARY, characters - 1 - len(start_of_summary))
    summary = clean(replacement or "", max(room, 1))
    while room > 0 and summary:
        text = start_of_summary + clip(summary, room)
        if fits(text):
            return text
        room //= 2
    return start
