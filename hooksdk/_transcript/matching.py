"""Is what a host passes what is stored? By content, never by guess."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from hooksdk import schema
from hooksdk._transcript.encoding import encode
from hooksdk._transcript.journal import Ledger, Record, Slot
from hooksdk.formats import FoundResult, Message, MessageFormat

__all__ = ["MismatchError", "checked", "compare", "without_repeats"]


class MismatchError(ValueError):
    """The list does not fit: at `place`, for the reason that the text gives."""

    def __init__(self, place: int, problem: str) -> None:
        super().__init__(problem)
        self.place = place


def checked(message: Message, form: MessageFormat, place: int) -> Message:
    """A plain copy of a message of the format, as it would come back from a file."""
    try:
        fresh = cast("Message", json.loads(encode(schema.clone(message))))
        problem = form.check(fresh)
        if not problem:
            if form.is_reply(fresh):
                form.calls(fresh)
            form.results(fresh)
    except (ValueError, TypeError, RecursionError, KeyError, AttributeError) as error:
        raise MismatchError(place, f"this message cannot be stored: {error}") from error
    if problem:
        raise MismatchError(place, f"this is no message of format '{form.name}': {problem}")
    return fresh


def compare(messages: Sequence[Message], ledger: Ledger, form: MessageFormat) -> int:
    """How many messages the view has, if the list begins with them: each as it is stored, as it is shown now, or as it
    was shown before. Raises `MismatchError`.
    """
    expected = ledger.view()
    base = len(ledger.base)
    for place, (given, shown) in enumerate(zip(messages, expected, strict=False)):
        position = place - base + ledger.upto
        if same(given, shown):
            continue
        if place < base:
            fits = _is_any(given, [shown], set())
        else:
            known = [shown, ledger.messages[position]]
            fits = _is_any(given, known, ledger.forms.get(position, set())) or _same_results(
                given, known, ledger.records_at(position), form
            )
        if not fits:
            advice = (
                "Pass the messages as prepare_messages() gave them and new ones after them, or None for the stored ones"
            )
            raise MismatchError(
                place, f"it differs from the stored one. {advice}; shorten a list inside run.compaction()"
            )
    if len(messages) < len(expected):
        missing = f"the list ends here, but {len(expected) - len(messages)} more messages are stored"
        advice = "Pass them too, or None for the stored ones; shorten a list inside run.compaction()"
        raise MismatchError(len(messages), f"{missing}. {advice}")
    return len(expected)


def _is_any(given: Message, known: Sequence[Message], earlier: set[str]) -> bool:
    try:
        text = schema.canonical(given)
        return any(schema.canonical(message) == text for message in known) or schema.fingerprint(given) in earlier
    except ValueError:
        return False


def _same_results(given: Message, known: Sequence[Message], records: Sequence[Record], form: MessageFormat) -> bool:
    """The same results and nothing else, in another of the format's shapes, such as text as a string or as one block."""
    if not records or form.check(given) or form.is_reply(given) or form.text(given) or form.text(known[0]):
        return False
    theirs = form.results(given)
    if [each.call_id for each in theirs] != [record.call_id for record in records]:
        return False
    return any(
        all(_reads_as(each, our, record) for each, our, record in zip(theirs, form.results(ours), records, strict=True))
        for ours in known
    )


def _reads_as(given: FoundResult, ours: FoundResult, record: Record) -> bool:
    """The same text, or the text that the run answered before the format put it in other words ("Error: ...")."""
    return given.text == ours.text or schema.fingerprint(given.text) == record.said


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: unlike `==`, 1 is not True and not 1.0. Quick, for lists that are compared at every model call."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return len(left) == len(right) and all(key in right and same(value, right[key]) for key, value in left.items())
    if isinstance(one, list):
        items, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(others) and all(map(same, items, others))
    return bool(one == other)


def without_repeats(messages: list[Message], ledger: Ledger, form: MessageFormat) -> list[Message]:
    """The messages without results that are stored already: hosts that keep a list of their own tend to record once more
    what the run has recorded. Raises `MismatchError` for another text than the run recorded.
    """
    kept: list[Message] = []
    for number, message in enumerate(messages):
        if form.is_reply(message):
            return kept + messages[number:]
        found = form.results(message)
        slots = [slot for each in found if (slot := _answered(each.call_id, ledger.slots))]
        records = [slot.record for slot in slots if slot.record]
        if not found or len(records) < len(found) or form.text(message):
            kept.append(message)
            continue
        pairs = zip(found, slots, records, strict=True)
        differing = [slot for each, slot, record in pairs if not _reads_as(each, ledger.body(record), record)]
        if any(slot.by_run for slot in differing):
            problem = f"call '{differing[0].call.id}' has another result already: a run records results by itself"
            raise MismatchError(len(ledger.messages), f"{problem}. Leave this message out")
        if differing:
            kept.append(message)
    return kept


def _answered(call_id: str, slots: Sequence[Slot]) -> Slot | None:
    """The last call of the newest reply with this id, once all calls with it have results."""
    same_id = [slot for slot in slots if slot.call.id == call_id]
    return same_id[-1] if same_id and all(slot.record for slot in same_id) else None
