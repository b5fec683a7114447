"""One tool result, and one call that waits for one, as the ledger keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hooksdk import schema
from hooksdk._transcript.trims import note
from hooksdk.calls import ToolCall, ToolResult

Entry = dict[str, Any]
"""One line of the journal."""


@dataclass(slots=True, eq=False)
class Record:
    """One result of the stored messages, without its body."""

    handle: str
    position: int
    index: int
    occurrence: int
    call_id: str
    characters: int
    tokens: int
    is_error: bool
    refusal: str | None
    turn: int
    call: ToolCall | None
    disposable: bool = False
    ran: str = ""
    """The tool that ran, where the call named a bridge."""
    answer_hash: str | None = None
    """The hash of the text that the run answered, where the format may have put it in other words."""
    short_text: str | None = None
    """The text that stands in its place, once a trim is applied."""
    queued_entry: Entry | None = None
    """The last trim or restore of it that waits for the drain."""
    missed_trim: Literal["stale", "gone"] | None = None
    """Why the last drain of a trim of it changed nothing."""
    content_hash: str | None = None
    summary: str | None = None
    """Of the call's arguments, once somebody asked for it."""

    @property
    def note(self) -> str:
        return note(self.handle, self.tool, self.characters, self.is_error)

    @property
    def tool(self) -> str:
        return self.ran or (self.call.name if self.call else "")

    @property
    def will_be_trimmed(self) -> bool:
        """True when a drain would leave it trimmed."""
        return self.queued_entry["kind"] == "trim" if self.queued_entry else self.short_text is not None


@dataclass(slots=True, eq=False)
class Slot:
    """One call of the newest reply, and what is known of its result."""

    call: ToolCall
    order: int
    staged: ToolResult | None = None
    record: Record | None = None
    disposable: bool = False
    ran: str = ""
    answer_hash: str | None = None
    by_run: bool = False
    """Answered by the run, not by a message that the host recorded."""

    @property
    def open(self) -> bool:
        return self.staged is None and self.record is None

    def take(self, result: ToolResult, disposable: bool, ran: str, answer_hash: str | None = None) -> None:
        self.staged, self.disposable, self.ran, self.by_run = result, disposable, ran, True
        self.answer_hash = answer_hash or schema.fingerprint(result.text)
