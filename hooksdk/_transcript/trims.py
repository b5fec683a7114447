"""The note in the place of a trimmed result, the least that a trim must save, and the report of a drain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hooksdk._transcript.encoding import Entry
from hooksdk.calls import TrimReceipt

# Tokens that a trim must save at least, estimated. The provider's cache of everything behind the result is lost, and a
# model that asks for the trim writes about half of this: a smaller saving pays in no session of ordinary length.
MIN_TOKENS_SAVED = 100
# The share of the result that a trim must save at least, in tokens, in characters and as it is stored. The estimate of
# tokens may be wrong by that much.
MIN_SHARE_SAVED = 0.3
# No note has as many tokens.
MOST_NOTE_TOKENS = 80
TOO_SHORT = f"too short: a trim has to save {MIN_TOKENS_SAVED} tokens and {MIN_SHARE_SAVED:.0%} of the result"

# The answer to a request to trim or restore, and the journal entry of one that is accepted.
Plan = tuple[TrimReceipt, Entry | None]
# `gone`: a compaction took the result out of the view meanwhile. `stale`: the stored content is another one than that
# for which the trim was made.
TrimStatus = Literal["applied", "already_trimmed", "not_trimmed", "gone", "stale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedTrim:
    """The outcome of one queued trim or restore.

    Attributes:
        handle: The result's handle: `results.restore(handle)` ends the trim.
        owner: The plugin that asked for it.
        age: The number of model turns after the result.
        tokens_saved: The tokens by which the view became shorter, estimated; negative for a restore.
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
    """The outcome of one drain.

    Attributes:
        trims: Every trim and restore that was queued, in the order of the requests.
    """

    trims: tuple[DrainedTrim, ...] = ()


def note(handle: str, tool: str, characters: int, *, is_error: bool, in_session: bool, what: str = "Result") -> str:
    """The host's note in the place of a trimmed result or argument: ASCII without quotes, so that it is as long in JSON
    as in characters.

    Only a session can have the tool that gets the result back. The note of an error begins with "Error", because in
    some formats nothing else says that a result is one."""
    name, handle = plain_name(tool) or "a tool", plain_name(handle)
    recall = f" Where recall-tool-result is offered, its id {handle} gets it back." if in_session else ""
    return f"{'Error: ' if is_error else ''}[{what} {handle} of {name} was trimmed: {characters:,} characters.{recall}]"


def plain_name(name: str) -> str:
    """A name, or a handle, in the spelling of the note."""
    return re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)[:64]


def saves_enough(before: int, after: int, least: int = MIN_TOKENS_SAVED) -> bool:
    """True if `after` tokens are at least `least` fewer than `before`, and a share of it fewer."""
    return before - after >= max(least, MIN_SHARE_SAVED * before)
