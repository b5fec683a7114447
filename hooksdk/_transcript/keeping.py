"""What a store keeps of a ledger, so that the next opening needs no messages: its rows, and the rest as one state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hooksdk._transcript.effects import Begun
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.messages import Messages
from hooksdk._transcript.rows import CallRow, RowKind, RowSource, StoredRow
from hooksdk._transcript.turns import Slot
from hooksdk.formats import MessageFormat

# The attributes of a ledger that are JSON as they are.
_PLAIN_STATE = (
    "replies",
    "last_reply",
    "first_user",
    "last_kind",
    "upto",
    "base",
    "format_name",
    "requesters",
    "trim_count",
    "states",
    "unlabelled",
    "void",
)
_EFFECTS = ("begun", "over", "lost")


def state_of(ledger: Ledger) -> dict[str, Any] | None:
    """What the next opening needs besides the rows, as JSON; None while calls of the newest reply are open."""
    if ledger.queue or ledger.orphans or any(slot.record is None for slot in ledger.slots):
        return None
    ledger.effects.sweep()
    return {
        **{name: getattr(ledger, name) for name in _PLAIN_STATE},
        "loose_ends": ledger.loose_ends.dump(),
        "slots": [[slot.row, slot.record.number] for slot in ledger.slots if slot.record],
        "unanswered": [*ledger.unanswered.values()],
        "results": ledger.results,
        "handle_ids": sorted(ledger.records.handle_ids),
        "labels": sorted(map(sorted, ledger.records.labels)),
        "trimmed": sorted(ledger.trimmed_messages),
        "shown": {place: sorted(forms) for place, forms in ledger.shown_before.items()},
        "shown_count": ledger.lookup.shown_count + len(ledger.lookup.shown_forms),
        "effects": {
            name: [[one.entry, one.in_doubt] for one in getattr(ledger.effects, name).values()] for name in _EFFECTS
        },
    }


def restore(
    state: dict[str, Any], count: int, message_format: MessageFormat | None, messages: Messages, rows: RowSource
) -> Ledger:
    """The ledger of the first `count` messages, from its state. Raises `KeyError` and the like for a state of another
    kind."""
    ledger = Ledger(message_format, messages)
    for name in _PLAIN_STATE:
        setattr(ledger, name, state[name])
    ledger.entries = rows
    ledger.count, ledger.results = count, int(state["results"])
    ledger.rows.begin_after(count, rows)
    ledger.records.begin_after(ledger.results, rows)
    labels = [frozenset(map(str, each)) for each in state["labels"]]
    ledger.records.begin_with(state["handle_ids"], labels)
    ledger.loose_ends.load(state["loose_ends"])
    ledger.unanswered = {row.id: row for row in map(CallRow.load, state["unanswered"])}
    for order, (row, number) in enumerate(state["slots"]):
        slot = Slot(CallRow.load(row), order, ledger.call_at, record=ledger.records[int(number)])
        ledger.slots.append(slot)
    for name in _EFFECTS:
        for entry, in_doubt in state["effects"][name]:
            getattr(ledger.effects, name)[str(entry["effect"])] = Begun(entry, in_doubt)
    kept = ledger.kept_by_compaction = frozenset(place for place in ledger.base if isinstance(place, int))
    messages.pin(kept)
    ledger.kept_upto = ledger.upto
    ledger.shown_before = {int(place): set(forms) for place, forms in state["shown"].items()}
    ledger.trimmed_messages = dict.fromkeys(state["trimmed"])
    ledger.lookup.forget()
    ledger.lookup.shown_count = int(state["shown_count"])
    return ledger


def unstored(ledger: Ledger) -> Iterator[tuple[RowKind, StoredRow]]:
    """The rows that the store does not have as they are now."""
    yield from ledger.lookup.unstored()
    for _, record in ledger.records.unstored():
        yield "result", record.dump()


def note_stored(ledger: Ledger, count: int, results: int, source: RowSource) -> None:
    """The store has the rows of so many messages and results now, as they are."""
    ledger.rows.note_stored(count, source)
    ledger.records.note_stored(results, source)
    ledger.kept_upto = ledger.upto
    ledger.lookup.shown_count += len(ledger.lookup.shown_forms)
    ledger.lookup.shown_forms.clear()
    ledger.lookup.forget()
