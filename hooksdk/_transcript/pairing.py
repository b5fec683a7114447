"""The pairing of calls and results, checked on everything that comes in: what is stored is never rewritten, so one wrong
message would make a session unsendable for good."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hooksdk._transcript.matching import MismatchError
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import Message, MessageFormat

NO_RESULT = "no result: the conversation went on before this call had one"
"""What a call without a result gets, so that the next request can be sent."""


def paired(
    messages: Sequence[Message],
    message_format: MessageFormat,
    *,
    open_calls: Sequence[ToolCall] = (),
    answered_ids: Collection[str] = (),
    start: int = 0,
) -> list[Message]:
    """The messages, with an error result for each call after which the conversation goes on without one.

    `open_calls` are those that wait before the first message, `answered_ids` those that have a result already, `start` is
    its position. The last reply's calls may stay open. Raises `MismatchError` for a result that answers no open call.
    """
    whole: list[Message] = []
    waiting, answered = list(open_calls), set(answered_ids)
    for position, message in enumerate(messages, start):
        results = message_format.results(message)
        for result in results:
            call = next((call for call in waiting if call.id == result.call_id), None)
            if call is None:
                why = "has a result already" if result.call_id in answered else "was made by no reply before it"
                advice = "Leave this result out" if result.call_id in answered else "Put the reply that made it first"
                raise MismatchError(position, f"it answers call '{result.call_id}', which {why}. {advice}")
            waiting.remove(call)
            answered.add(result.call_id)
        if not results or message_format.is_reply(message):
            if waiting:
                whole += message_format.result_messages([(call, ToolResult.error(NO_RESULT)) for call in waiting])
                answered.update(call.id for call in waiting)
            waiting = message_format.calls(message)
        whole.append(message)
    return whole
