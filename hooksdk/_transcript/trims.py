"""What a trim puts in a result's place, and what became of each in the drain."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hooksdk import schema
from hooksdk.formats.content import NOTE
from hooksdk.formats.kit import clean_text as encodable
from hooksdk.values import clip

# Characters that a plugin's or model's summary may keep.
MAX_SUMMARY = 2_000

# What a trim must save at least, estimated. The provider's cache of everything behind the result is lost, and a model
# that asks for the trim itself writes about half of this: what saves less is paid back in no session of ordinary
# length.
MIN_TOKENS_SAVED = 100
# Which part of the result must go at least, in tokens, in characters and as it is stored. The estimate of tokens may be
# wrong by that much: what saves less by it may save nothing.
MIN_SHARE_SAVED = 0.3
# More than any note costs.
MOST_NOTE_TOKENS = 80
TOO_SHORT = f"too short: a trim has to save {MIN_TOKENS_SAVED} tokens and {MIN_SHARE_SAVED:.0%} of the result"

# `gone`: compacted away meanwhile. `stale`: the stored content is not the one that the trim was made for.
TrimStatus = Literal["applied", "already_trimmed", "not_trimmed", "gone", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedTrim:
    """What became of one queued trim or restore.

    Attributes:
        handle: Also what undoes it: `results.restore(handle)`.
        owner: The plugin that asked for it.
        age: How many model turns came after the result.
        tokens_saved: Tokens that the view lost, estimated; negative for a restore.
    """

    handle: str
    kind: Literal["trim", "restore"]
    status: TrimStatus
    owner: str
    reason: str
    tool: str
    age: int
    tokens_saved: int


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What one drain did.

    Attributes:
        trims: Every trim and restore that was queued, in the order in which they came.
    """

    trims: tuple[DrainedTrim, ...] = ()


def clean(text: str, max_chars: int) -> str:
    """The text stripped, cut to `max_chars`, fit for every encoder, and without what reads like the host's own note."""
    return clip(NOTE.sub("(", encodable(text).strip()), max_chars)


def note(handle: str, tool: str, characters: int, *, is_error: bool, in_session: bool, what: str = "Result") -> str:
    """The host's own words for a trimmed result, or argument. Plain ASCII without quotes: as long in JSON as in
    characters.

    Only a session can have the tool that gets it back. An error still begins with "Error": in some formats nothing else
    says that it is one.
    """
    name, handle = plain_name(tool) or "a tool", plain_name(handle)
    recall = f" Where recall-tool-result is offered, its id {handle} gets it back." if in_session else ""
    return f"{'Error: ' if is_error else ''}[{what} {handle} of {name} was trimmed: {characters:,} characters.{recall}]"


def plain_name(name: str) -> str:
    """A name, or a handle, as the note has it."""
    return re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[:64]


def saves_enough(before: int, after: int, least: int = MIN_TOKENS_SAVED) -> bool:
    """True when it is worth it to have `after` tokens in the place of `before`: at least so many less, and a share."""
    return before - after >= max(least, MIN_SHARE_SAVED * before)


def tokens_of(text: str) -> int:
    """What a text costs, estimated with more care than for a list: of Chinese or emoji each character is about one
    token."""
    return schema.estimate_tokens(text) + wide_tokens(text)


def wide_tokens(text: str) -> int:
    """What the usual estimate leaves out of the characters that are not ASCII."""
    return 0 if text.isascii() else sum(not character.isascii() for character in text) * 3 // 4


def short_text(start: str, replacement: str | None, fits: Callable[[str], bool]) -> str | None:
    """`start` with as much of the replacement as fits; None when even `start` does not. `fits` tells whether a text
    saves enough; one that is longer never does so where a shorter one does not.
    """
    if not fits(start):
        return None
    summary = clean(replacement or "", MAX_SUMMARY)

    def with_summary(length: int) -> str:
        return f"{start}\nSummary: {clip(summary, length)}" if length else start

    longest = bisect.bisect_left(range(1, len(summary) + 1), x=True, key=lambda length: not fits(with_summary(length)))
    return with_summary(longest)
