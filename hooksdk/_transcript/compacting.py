"""What a compaction puts in the place of stored messages. Pure, like the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from hooksdk._transcript.entries import Entry
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.loose_ends import without_loose_ends
from hooksdk._transcript.matching import MismatchError, check_message, is_shown, without_opening
from hooksdk._transcript.pairing import pair_results
from hooksdk.formats import Message


def plan_compaction(ledger: Ledger, messages: Sequence[Message]) -> Entry:
    """The journal entry that lets the view begin with these messages: those at their beginning and end that the view
    has there, too, are told by their places. Raises `MismatchError`.
    """
    message_format = ledger.need_format()
    base = [
        check_message(message, message_format, position)
        for position, message in enumerate(without_opening(messages, ledger))
    ]
    waiting = [slot.id for slot in ledger.slots if not slot.record]
    base = pair_results(without_loose_ends(base, message_format), message_format, still_open=waiting)
    view, places = ledger.as_shown(), ledger.places
    later = view[len(ledger.base) :]
    same_start = same_end = 0
    while same_end < min(len(base), len(later)) and is_shown(base[-1 - same_end], later[-1 - same_end], ledger):
        same_end += 1
    while same_start < min(len(base), len(view)) - same_end and is_shown(base[same_start], view[same_start], ledger):
        same_start += 1
    upto = next((place for place in places[len(places) - same_end :] if isinstance(place, int)), ledger.count)
    if waiting and ledger.last_reply < upto:
        problem = (
            f"call '{waiting[0]}' waits for its result, so its reply must stay at the list's end with what follows"
        )
        raise MismatchError(len(base), problem)
    changed_base = [*places[:same_start], *base[same_start : len(base) - same_end]]
    return {"kind": "compact", "base": changed_base, "upto": upto, "hash": ledger.last_hash(upto)}
