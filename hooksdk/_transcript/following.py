"""What lets the view be a list that its host has changed: a fork, a filtered or a rewritten one. Pure, like the
ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hooksdk._transcript.entries import Entry
from hooksdk._transcript.facts import LOOSE, REPLY
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.matching import check_message, fits
from hooksdk._transcript.pairing import pair_results
from hooksdk.formats import Message
from hooksdk.schema import fingerprint


def plan_following(ledger: Ledger, messages: Sequence[Message], run_id: str) -> tuple[list[Entry], int]:
    """The journal entries that let the view be this list, as far as it is known, and how many messages that are: those
    after them are new. Messages that are stored are told by their places, so their results keep their trims.
    `Unmatched.keep` has made it a list that can be stored.
    """
    message_format = ledger.need_format()
    checked = [check_message(message, message_format, position) for position, message in enumerate(messages)]
    places = _places_of(checked, ledger)
    known = max(places, default=-1) + 1
    waiting = [slot.id for slot in ledger.slots if not slot.record]
    is_open = bool(waiting) and ledger.last_reply in places.values()
    while not is_open and known < len(checked) and message_format.results(checked[known]):
        known += 1  # of calls that are over in the transcript: it takes no results for them any more
    place_of = {id(checked[index]): place for index, place in places.items()}
    base: list[Message | int] = [
        place_of.get(id(message), message)
        for message in pair_results(checked[:known], message_format, still_open=waiting if is_open else ())
    ]
    upto = ledger.count
    while upto and base and (base[-1] == upto - 1 or upto - 1 in ledger.loose_ends):
        upto -= 1
        if base[-1] == upto:
            base.pop()
    view: Entry = {"kind": "compact", "base": base, "upto": upto, "hash": ledger.last_hash(upto)}
    rewriting = run_id if len(places) < len(checked) else ""
    told = {result.call_id for message in checked for result in message_format.results(message)}
    return [view, *_lost(ledger, places.values(), rewriting, run_id, told)], known


def _lost(ledger: Ledger, places: Collection[int], rewriting: str, run_id: str, told: Collection[str]) -> list[Entry]:
    """The calls that ran and whose reply stands behind all that the list knows: what it left out before that, it had. A
    run that is `rewriting` its list, as by a summary, has lost none of its own; of an earlier run also those of the
    last reply that it knows are lost whose results it has not `told`."""
    effects, kinds = ledger.effects, ledger.facts.kinds[: max(places, default=-1) + 1]
    effects.sweep()
    joined, known, before = ledger.need_format().joined, 0, False
    for kind in kinds if effects.over else ():
        is_reply = kind in (REPLY, LOOSE)
        known += is_reply and not (joined and before)
        before = is_reply
    lost = [
        effect
        for effect, one in effects.over.items()
        if ((one.reply or 0) > known and one.entry["run"] != rewriting)
        or (one.reply == known and one.entry["run"] != run_id and one.entry["call"][0] not in told)
    ]
    return [{"kind": "lost", "effects": lost}] if lost else []


def _places_of(messages: Sequence[Message], ledger: Ledger) -> dict[int, int]:
    """Where these messages are stored, for those that are. Of equal ones, a fork has the first, and a list that was cut
    at its beginning the last."""
    found: dict[int, int] = {}
    start = 0
    for theirs, (place, ours) in zip(messages, ledger.shown(), strict=False):
        if not fits(theirs, place, ours, ledger):
            break
        if isinstance(place, int):
            found[start] = place
        start += 1
    used = set(found.values())
    stored: dict[str, list[int]] = {}
    for place in range(ledger.count):
        if place not in used and place not in ledger.loose_ends:
            for way in {fingerprint(ledger.messages[place]), *ledger.shown_before.get(place, ())}:
                stored.setdefault(way, []).append(place)
    later = ledger.count
    for index in range(len(messages) - 1, start - 1, -1):
        theirs = messages[index]
        candidates = stored.get(fingerprint(theirs)) or [
            row.position
            for result in ledger.need_format().results(theirs)
            for row in ledger.records.by_id(result.call_id)
            if fits(theirs, row.position, ledger.shown_at(row.position), ledger)
        ]
        free = [place for place in candidates if place not in used]
        if free:
            later = max((place for place in free if place < later), default=free[-1])
            found[index] = later
            used.add(later)
    return found
