"""Stored messages by what they are: in which places a message stands, and whether a user has said a text.

The store finds older messages by their rows' tags. The newer ones are gone through here when somebody first asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from hooksdk import schema
from hooksdk._origins.folding import fold
from hooksdk._transcript.pairing import UNKNOWN
from hooksdk._transcript.rows import USER, RowKind, StoredRow, numbered

if TYPE_CHECKING:
    from hooksdk._transcript.journal import Ledger

# The name of the digests of what stands in the user's place and no user has written, among the session's states.
REASONS = "hooksdk.reasons"


@final
class Lookup:
    """The tags of one session's messages."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.forget()

    def forget(self) -> None:
        """Forget what the store has by now."""
        self._next = self._ledger.rows.stored
        self._places: dict[str, list[int]] = {}
        self._prompts: dict[str, list[int]] = {}
        self._fingerprints: dict[int, str] = {}

    def _read(self) -> None:
        ledger, kinds = self._ledger, self._ledger.rows
        start, self._next = self._next, ledger.count
        for position, message in enumerate(ledger.messages.since(start), start):
            fingerprint = self._fingerprints[position] = schema.fingerprint(message)
            self._places.setdefault(fingerprint, []).append(position)
            if kinds[position].kind == USER and ledger.format is not None:
                text = ledger.format.text(message)
                if not is_reason(ledger, text):
                    self._prompts.setdefault(prompt_tag(text), []).append(position)

    def places(self, fingerprint: str) -> list[int]:
        """The positions of stored messages that have this fingerprint, or had it in the view, in order."""
        self._read()
        ledger, source = self._ledger, self._ledger.rows.source
        found = {*self._places.get(fingerprint, ())}
        if source is not None:
            found.update(row.number for row in source.find_rows("message", fingerprint))
            found.update(int(row.body) for row in source.find_rows("shown", fingerprint))
        found.update(place for form, place in ledger.shown_forms if form == fingerprint)
        return sorted(place for place in found if place < ledger.count)

    def has_prompt(self, folded: str) -> bool:
        """True where a user's message reads so, folded."""
        self._read()
        source, tag = self._ledger.rows.source, schema.fingerprint(folded)
        return tag in self._prompts or (source is not None and bool(source.find_rows("prompt", tag)))

    def unstored(self) -> Iterator[tuple[RowKind, StoredRow]]:
        """The rows of messages that the store does not have."""
        self._read()
        for row in numbered(self._ledger.rows.unstored(), self._fingerprints.__getitem__):
            yield "message", row
        for tag, positions in self._prompts.items():
            for position in positions:
                yield "prompt", StoredRow(position, tag, "")


def prompt_tag(text: str) -> str:
    """The tag of a prompt."""
    return schema.fingerprint(fold(text))


def is_reason(ledger: Ledger, text: str) -> bool:
    """True for what stands where a user's message would, and no user has written it."""
    reasons = ledger.states.get(REASONS, {})
    return text.startswith(UNKNOWN) or (bool(reasons) and schema.fingerprint(text) in reasons)
