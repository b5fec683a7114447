"""The pairing of calls and results, checked on everything that comes in: what is stored is never rewritten, so one
wrong message would make a session unsendable for good."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hooksdk._transcript.facts import read_message
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.matching import MismatchError, encoded, without_repeats
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.kit import with_call_ids

# What a call without a result gets, so that the next request can be sent.
NO_RESULT = "no result: the conversation went on before this call had one"


def gather_results(messages: Sequence[Message], message_format: MessageFormat) -> list[Message]:
    """The messages with all results of one turn in one message, the results first, where the format wants it so."""
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
    """The messages as they are stored after all others, and whether they leave the newest reply's turn, whose calls
    need results first then. Raises `MismatchError`."""
    answers = with_our_ids(messages, ledger)
    fresh = [encoded(message, message_format, position) for position, message in enumerate(answers, ledger.count)]
    new = without_repeats(fresh, ledger)
    leaves_turn = bool(new) and any(slot.open for slot in ledger.slots) and ledger.leaves_turn(new[0])
    waiting = [] if leaves_turn else [slot.call for slot in ledger.slots if slot.record is None]
    return pair_results(new, message_format, open_calls=waiting, after=ledger), leaves_turn


def with_our_ids(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """The messages, with the ids of the open calls in results for them that name those which the view has."""
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
    """The messages, with an error result for each call after which the conversation goes on without one.

    `after` is what they come after, `open_calls` those of its calls that wait for results. The last reply's calls may
    stay open, or those with the ids `still_open`. Raises `MismatchError` for a result that answers no open call.
    """
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
                has_one = result.call_id in answered or (after is not None and after.records.by_id(result.call_id))
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
