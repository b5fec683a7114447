"""What a compaction puts in the place of stored messages. Pure, like the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from hooksdk._transcript.changes import same
from hooksdk._transcript.entries import Entry
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.matching import MismatchError, checked
from hooksdk._transcript.pairing import paired
from hooksdk.formats import Message


def plan_compaction(ledger: Ledger, messages: Sequence[Message]) -> Entry:
    """The journal entry that lets the view begin with these messages: those at their beginning and end that the view has
    there, too, are told by their places. Raises `MismatchError`.
    """
    message_format = ledger.need_format()
    base = [checked(message, message_format, position) for position, message in enumerate(messages)]
    base = paired(base, message_format, still_open={slot.id for slot in ledger.slots if not slot.record})
    view, places = ledger.view, ledger.places
    later = view[len(ledger.base) :]
    same_start = same_end = 0
    while same_end < min(len(base), len(later)) and same(base[-1 - same_end], later[-1 - same_end]):
        same_end += 1
    while same_start < min(len(base), len(view)) - same_end and same(base[same_start], view[same_start]):
        same_start += 1
    waiting = next((slot.id for slot in ledger.slots if slot.record is None), None)
    if waiting is not None and ledger.last_reply < ledger.count - same_end:
        problem = f"call '{waiting}' waits for its result, so its reply must stay at the list's end with what follows"
        raise MismatchError(len(base), problem)
    upto = ledger.count - same_end
    changed_base = [*places[:same_start], *base[same_start : len(base) - same_end]]
    return {"kind": "compact", "base": changed_base, "upto": upto, "hash": ledger.last_hash(upto)}
