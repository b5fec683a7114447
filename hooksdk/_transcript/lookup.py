"""Stored messages by what they are: in which places a message stands, and whether a user has said a text.

The store finds older messages by their rows' tags. The newer ones are gone through here when somebody first asks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import final

from hooksdk import schema
from hooksdk._origins.folding import fold
from hooksdk._transcript.rows import USER, RowKind, StoredRow
from hooksdk._transcript.turns import Turns


@final
class Lookup:
    """The tags of one session's messages.

    Attributes:
        shown_forms: The fingerprints of other forms in which the view has shown messages, with their positions, that
            the store does not have among its rows.
        shown_count: The number of those that it has.
    """

    def __init__(self, turns: Turns, shown_forms: list[tuple[str, int]], is_reason: Callable[[str], bool]) -> None:
        """`is_reason` says of a text in the user's place whether no user has written it."""
        self._turns = turns
        self._is_reason = is_reason
        self.shown_forms = shown_forms
        self.shown_count = 0
        self.forget()

    def forget(self) -> None:
        """Forget what the store has by now."""
        self._next = self._turns.rows.stored
        self._places: dict[str, list[int]] = {}
        self._prompts: dict[str, list[int]] = {}
        self._fingerprints: dict[int, str] = {}

    def _read(self) -> None:
        turns, rows = self._turns, self._turns.rows
        start, self._next = self._next, turns.count
        for position, message in enumerate(turns.messages.since(start), start):
            fingerprint = self._fingerprints[position] = schema.fingerprint(message)
            self._places.setdefault(fingerprint, []).append(position)
            if rows[position].kind == USER and turns.format is not None:
                text = turns.format.text(message)
                if not self._is_reason(text):
                    self._prompts.setdefault(schema.fingerprint(fold(text)), []).append(position)

    def places(self, fingerprint: str) -> list[int]:
        """The positions of stored messages that have this fingerprint, or had it in the view, in order."""
        self._read()
        source = self._turns.rows.source
        found = {*self._places.get(fingerprint, ())}
        if source is not None:
            found.update(row.number for row in source.find_rows("message", fingerprint))
            found.update(int(row.body) for row in source.find_rows("shown", fingerprint))
        found.update(place for form, place in self.shown_forms if form == fingerprint)
        return sorted(place for place in found if place < self._turns.count)

    def has_prompt(self, folded: str) -> bool:
        """True where a user's message reads so, folded."""
        self._read()
        source, tag = self._turns.rows.source, schema.fingerprint(folded)
        return tag in self._prompts or (source is not None and bool(source.find_rows("prompt", tag)))

    def unstored(self) -> Iterator[tuple[RowKind, StoredRow]]:
        """The rows about messages that the store does not have."""
        self._read()
        for position, row in self._turns.rows.unstored():
            yield "message", StoredRow(position, self._fingerprints[position], json.dumps(row))
        for tag, positions in self._prompts.items():
            for position in positions:
                yield "prompt", StoredRow(position, tag, "")
        for number, (form, place) in enumerate(self.shown_forms, self.shown_count):
            yield "shown", StoredRow(number, form, str(place))
