"""What the journal says of a result beside its text. Where it says nothing of labels the result is untrusted."""

from __future__ import annotations

from collections.abc import Sequence

from hooksdk._origins.labels import UNLABELLED, Labels
from hooksdk._transcript.entries import Entry
from hooksdk._transcript.facts import Marks, Turns


def marks_in(entry: Entry) -> Marks:
    """What an entry says of its result."""
    labels = frozenset(map(str, entry["labels"])) if "labels" in entry else None
    return Marks(bool(entry["disposable"]), str(entry.get("ran", "")), entry.get("said"), labels=labels)


class Labelled(Turns):
    """The part of a ledger that knows which results were loaded, and have to be labelled still."""

    unlabelled = 0
    """How many of the first results were loaded from elsewhere, and nobody has labelled yet."""

    def _apply_loaded(self, entry: Entry) -> None:
        self.unlabelled = int(entry["results"])

    def _apply_labelled(self, entry: Entry) -> None:
        self.unlabelled = 0
        for number, labels in entry["results"]:
            place = int(number)
            if 0 <= place < len(self.records):
                self.records[place].own_marks.labels = frozenset(map(str, labels))


def labelled_entry(labels: Sequence[Labels]) -> Entry:
    """The entry with the labels of the first results, one each."""
    said = [[number, sorted(one)] for number, one in enumerate(labels) if one != UNLABELLED]
    return {"kind": "labelled", "results": said}
