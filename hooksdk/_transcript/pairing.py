"""The pairing of calls and results, checked on everything that comes in: what is stored is never rewritten, so one
wrong message would make a session unsendable for good."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hooksdk import schema
from hooksdk._transcript.encoding import EncodedMessage, as_stored
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.rows import ResultRow
from hooksdk._transcript.turns import Slot, read_message
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.kit import with_call_ids, with_readable_arguments

# The text of the error result of a call that got none, so that the next request can be sent.
NO_RESULT = "no result: the conversation went on before this call had one"


class MismatchError(ValueError):
    """A host's list does not fit the stored messages. `position` is the first message that does not fit."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


def check_message(message: Message, message_format: MessageFormat, position: int) -> Message:
    """A plain copy of a message, as it would come back from a file. Raises `MismatchError` if it is not of the
    format."""
    return encoded(message, message_format, position).plain


def encoded(message: Message, message_format: MessageFormat, position: int) -> EncodedMessage:
    """The same message on its way into the store: with its JSON and with the parts that its format finds in it."""
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
        return schema.clone(
            with_readable_arguments(message)
        )  # the model wrote these arguments, and reads why they cannot be kept


def gather_results(messages: Sequence[Message], message_format: MessageFormat) -> list[Message]:
    """The messages, with all results of one turn in one message, the results first, if the format wants that."""
    whole: list[Message] = []
    for message in messages:
        key = next((key for key in ("content", "parts") if isinstance(message.get(key), list)), None)
        last = whole[-1] if whole else {}
        if (
            message_format.grouped
            and key is not None
            and isinstance(last.get(key), list)
            and message_format.results(last)
            and message_format.results(message)
        ):
            results: list[Any] = []
            others: list[Any] = []
            for block in [*last[key], *message[key]]:
                (results if message_format.results({**message, key: [block]}) else others).append(block)
            whole[-1] = {**last, key: [*results, *others]}
        else:
            whole.append(message)
    return whole


def plan_append(
    ledger: Ledger, messages: Sequence[Message], message_format: MessageFormat
) -> tuple[list[Message], bool]:
    """New messages as they are stored after all others, and True if they leave the newest reply's turn: the open calls
    of that reply need results first. Raises `MismatchError`."""
    answers = with_our_ids(messages, ledger)
    fresh = [encoded(message, message_format, position) for position, message in enumerate(answers, ledger.count)]
    new = without_repeats(fresh, ledger)
    leaves_turn = bool(new) and any(slot.open for slot in ledger.slots) and ledger.leaves_turn(new[0])
    waiting = [] if leaves_turn else [slot.call for slot in ledger.slots if slot.record is None]
    return pair_results(new, message_format, open_calls=waiting, after=ledger), leaves_turn


def with_our_ids(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """The messages, in which results that name calls by the ids of the view name them by the stored ids."""
    waiting = {slot.id for slot in ledger.slots if slot.record is None}
    whole = list(messages)
    message_format = ledger.need_format()
    for at, message in enumerate(whole if waiting else ()):
        if message_format.check(message) or message_format.is_reply(message):
            break
        if any(result.call_id and result.call_id not in waiting for result in message_format.results(message)):
            whole[at] = ledger.with_stored_ids(message, len(ledger.slots))
    return whole


def pair_results(
    messages: Sequence[Message],
    message_format: MessageFormat,
    *,
    open_calls: Sequence[ToolCall] = (),
    after: Ledger | None = None,
    still_open: Collection[str] | None = None,
) -> list[Message]:
    """The messages, with an error result for each call after which the conversation goes on without a result.

    `after` is the ledger of the messages before them, and `open_calls` are its calls that wait for results. The last
    reply's calls may stay open; with `still_open` only those with these ids may. Raises `MismatchError` for a result
    that answers no open call."""
    whole: list[Message] = []
    waiting, answered = list(open_calls), set[str]()
    reply_goes_on, start = (after.reply_goes_on(), after.count) if after else (False, 0)
    one_message_a_turn = message_format.grouped and not message_format.joined
    after_reply = after is not None and after.ends_with_reply
    for position, message in enumerate(messages, start):
        parts = read_message(message, message_format)
        results, is_reply = with_call_ids(parts.results, waiting) if parts.results else [], parts.is_reply
        for result in results:
            call = next((call for call in waiting if call.id == result.call_id), None)
            if call is None:
                has_one = result.call_id in answered or (after is not None and after.records.with_id(result.call_id))
                why = "has a result already" if has_one else "was made by no reply before it"
                advice = "Leave this result out" if has_one else "Put the reply that made it first"
                raise MismatchError(
                    position, f"it answers call '{result.call_id or result.name}', which {why}. {advice}"
                )
            waiting.remove(call)
            answered.add(result.call_id)
        if is_reply and reply_goes_on:
            waiting += parts.calls
        elif not results or is_reply:
            if waiting:
                whole += message_format.result_messages([(call, ToolResult.error(NO_RESULT)) for call in waiting])
                answered.update(call.id for call in waiting)
                after_reply = False
            waiting = [*parts.calls]
            if one_message_a_turn and waiting and after_reply:
                problem = "it makes calls, and a reply stands before it. Put the parts of one reply into one message"
                raise MismatchError(position, problem)
        elif waiting and one_message_a_turn:
            missing = ", ".join(call.id for call in waiting)
            problem = f"it has no result for {missing}, and all results of one turn must stand in one message"
            raise MismatchError(position, f"{problem}. Put them together")
        reply_goes_on, after_reply = is_reply and message_format.joined, is_reply
        whole.append(message)
    if still_open is not None:
        closed = [call for call in waiting if call.id not in still_open]
        whole += message_format.result_messages([(call, ToolResult.error(NO_RESULT)) for call in closed])
    return whole


def without_repeats(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """The messages without results that are stored already: a host that keeps a list of its own tends to record the
    run's results once more. Raises `MismatchError` for a result with another text than the run recorded."""
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
        differing = [slot for result, slot, record in pairs if not reads_as(result, ledger.body(record), record)]
        if any(slot.by_run for slot in differing):
            problem = f"call '{differing[0].call.id}' has another result already: a run records results by itself"
            raise MismatchError(ledger.count, f"{problem}. Leave this message out")
        if differing:
            new.append(message)
    return new


def _answered(call_id: str, slots: Sequence[Slot]) -> Slot | None:
    """The last call with this id in the newest reply, if all calls with this id have results."""
    same_id = [slot for slot in slots if slot.id == call_id]
    return same_id[-1] if same_id and all(slot.record for slot in same_id) else None


def reads_as(theirs: FoundResult, ours: FoundResult, record: ResultRow) -> bool:
    """True for the same text, or for the run's own text if the format stores it in other words ("Error: ...")."""
    return theirs.text == ours.text or schema.fingerprint(theirs.text) == record.marks.answer_hash
