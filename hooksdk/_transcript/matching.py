"""Match a host's message list against the stored one, by content."""

from __future__ import annotations

from collections.abc import Container, Sequence

from hooksdk import schema
from hooksdk._transcript.changes import same
from hooksdk._transcript.encoding import EncodedMessage, as_stored
from hooksdk._transcript.facts import ResultRow, Slot, read_message
from hooksdk._transcript.journal import Ledger
from hooksdk.formats import FoundResult, HasRules, Message, MessageFormat
from hooksdk.formats.kit import with_call_ids, with_readable_arguments
from hooksdk.formats.sending import opening_at


class MismatchError(ValueError):
    """The list does not fit: at `position`, for the reason that the text gives."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


def check_message(message: Message, message_format: MessageFormat, position: int) -> Message:
    """A plain copy of a message of the format, as it would come back from a file. Raises `MismatchError`."""
    return encoded(message, message_format, position).plain


def encoded(message: Message, message_format: MessageFormat, position: int) -> EncodedMessage:
    """The same, on its way into the store: with its JSON, and with what the format says of it."""
    try:
        fresh = as_stored(_plain(message, message_format))
        problem = message_format.check(fresh.plain)
        if not problem:
            read_message(fresh, message_format)
    except (ValueError, TypeError, RecursionError, KeyError, AttributeError) as error:
        raise MismatchError(position, f"this message cannot be stored: {error}") from error
    if problem:
        raise MismatchError(position, f"this is no message of format '{message_format.name}': {problem}")
    return fresh


def _plain(message: Message, message_format: MessageFormat) -> Message:
    try:
        return schema.clone(message)
    except schema.Uncloneable:
        if not message_format.is_reply(message):
            raise
        return schema.clone(with_readable_arguments(message))  # the model wrote them, and reads the reason


def compare(messages: Sequence[Message], ledger: Ledger) -> int:
    """How many messages the view has, if the list begins with them: each as it is stored, as it is shown now, or as it
    was shown before. Raises `MismatchError`.
    """
    length = len(ledger.places)
    for position, (theirs, (place, ours)) in enumerate(zip(messages, ledger.shown(), strict=False)):
        if not fits(theirs, place, ours, ledger):
            advice = (
                "Pass the messages as prepare_messages() gave them and new ones after them, or None for the stored ones"
            )
            raise MismatchError(
                position,
                f"it differs from the stored one. {advice}; shorten a list inside run.compaction(), or pass follow=True",
            )
    if len(messages) < length:
        missing = f"the list ends here, but {length - len(messages)} more messages are stored"
        advice = (
            "Pass them too, or None for the stored ones; shorten a list inside run.compaction(), or pass follow=True"
        )
        raise MismatchError(len(messages), f"{missing}. {advice}")
    return length


def fits(theirs: Message, place: Message | int, ours: Message, ledger: Ledger) -> bool:
    """True for the message at this place, which is shown as `ours`: as it is stored, as it is shown, or as it was
    before, each as it was sent, too."""
    if same(theirs, ours) or _fits(theirs, place, ours, ledger):
        return True
    with_our_ids = ledger.with_stored_ids(theirs)
    return with_our_ids is not theirs and _fits(with_our_ids, place, ours, ledger)


def is_shown(theirs: Message, ours: Message, ledger: Ledger) -> bool:
    """True for what is shown as `ours`, or sent so."""
    return same(theirs, ours) or _is_any(ledger.with_stored_ids(theirs), _with_mended([ours], ledger), ())


def without_opening(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """A host's list without the message that the view has before all stored ones, where the provider wants it."""
    message_format = ledger.need_format()
    opening = opening_at((message for _, message in ledger.shown()), message_format)[1]
    at, _ = opening_at(messages, message_format)
    is_ours = opening is not None and at < len(messages) and same(messages[at], opening)
    return [*messages[:at], *messages[at + 1 :]] if is_ours else list(messages)


def _with_mended(ways: Sequence[Message], ledger: Ledger) -> list[Message]:
    form = ledger.need_format()
    mended = [form.mend(way)[0] for way in ways] if isinstance(form, HasRules) else []
    return [*ways, *(each for each, way in zip(mended, ways, strict=False) if each is not way)]


def _fits(theirs: Message, place: Message | int, ours: Message, ledger: Ledger) -> bool:
    ways = [ours] if not isinstance(place, int) else [ours, ledger.messages[place]]
    shown_before = ledger.shown_before.get(place, set()) if isinstance(place, int) else ()
    if _is_any(theirs, _with_mended(ways, ledger), shown_before):
        return True
    return isinstance(place, int) and _same_results(theirs, ways, place, ledger)


def _is_any(message: Message, ways: Sequence[Message], fingerprints: Container[str]) -> bool:
    try:
        text = schema.canonical(message)
        return any(schema.canonical(each) == text for each in ways) or schema.fingerprint(message) in fingerprints
    except ValueError:
        return False


def _same_results(theirs: Message, ways: Sequence[Message], place: int, ledger: Ledger) -> bool:
    """The same results and nothing else, in another of the format's shapes, such as text as a string or as one
    block."""
    records, message_format = ledger.records.at(place), ledger.need_format()
    if not records or message_format.check(theirs) or message_format.is_reply(theirs):
        return False
    if message_format.text(theirs) or message_format.text(ways[0]):
        return False
    calls = [ledger.call_at(record.call) for record in records if record.call is not None]
    results = with_call_ids(message_format.results(theirs), calls)
    if [result.call_id for result in results] != [record.call_id for record in records]:
        return False
    pairs = [zip(results, message_format.results(message), records, strict=True) for message in ways]
    return any(all(_reads_as(result, our, record) for result, our, record in each) for each in pairs)


def _reads_as(theirs: FoundResult, ours: FoundResult, record: ResultRow) -> bool:
    """The same text, or the text that the run answered before the format put it in other words ("Error: ...")."""
    return theirs.text == ours.text or schema.fingerprint(theirs.text) == record.marks.answer_hash


def without_repeats(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """The messages without results that are stored already: hosts that keep a list of their own tend to record once
    more what the run has recorded. Raises `MismatchError` for another text than the run recorded.
    """
    new: list[Message] = []
    message_format = ledger.need_format()
    for number, message in enumerate(messages):
        parts = read_message(message, message_format)
        if parts.is_reply:
            return [*new, *messages[number:]]
        results = with_call_ids(parts.results, (slot.call for slot in ledger.slots))
        slots = [slot for result in results if (slot := _answered(result.call_id, ledger.slots))]
        records = [slot.record for slot in slots if slot.record]
        if not results or len(records) < len(results) or message_format.text(message):
            new.append(message)
            continue
        pairs = zip(results, slots, records, strict=True)
        differing = [slot for result, slot, record in pairs if not _reads_as(result, ledger.body(record), record)]
        if any(slot.by_run for slot in differing):
            problem = f"call '{differing[0].call.id}' has another result already: a run records results by itself"
            raise MismatchError(ledger.count, f"{problem}. Leave this message out")
        if differing:
            new.append(message)
    return new


def _answered(call_id: str, slots: Sequence[Slot]) -> Slot | None:
    """The last call of the newest reply with this id, once all calls with it have results."""
    same_id = [slot for slot in slots if slot.id == call_id]
    return same_id[-1] if same_id and all(slot.record for slot in same_id) else None
