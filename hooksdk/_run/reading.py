"""What a session has read: what it is worth."""

from __future__ import annotations

from typing import final

from hooksdk._origins.labels import Labels, join_labels
from hooksdk._transcript.journal import Ledger
from hooksdk.transcript import Transcript


@final
class Reading:
    """All that the session's agent has read, in this run and the earlier ones."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._labels: Labels | None = None
        """Of all that was noted and of the first results; None while there is nothing."""
        self._results = 0
        """How many of the transcript's results were looked at."""

    def note(self, labels: Labels) -> None:
        """Something with these labels was read."""
        self._labels = labels if self._labels is None else join_labels(self._labels, labels)

    def begin_anew(self) -> None:
        """The labels of stored results are others now."""
        self._labels, self._results = None, 0

    @property
    def labels(self) -> Labels | None:
        """Of all that was read, joined; None where that is nothing."""
        for labels in self._transcript.ask(self._new_labels):
            self.note(labels)
        return self._labels

    def _new_labels(self, ledger: Ledger) -> set[Labels]:
        records = ledger.records
        fresh = {row.labels for row in records[self._results :]} if len(records) > self._results else set[Labels]()
        self._results = len(records)
        return fresh
