"""What a host's list has that no session can keep as it is. A framework may accept it all the same, so it becomes a
text: nobody knows who wrote it, and it ends no call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from hooksdk._transcript.facts import read_message
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.matching import MismatchError, check_message
from hooksdk._transcript.pairing import NO_RESULT, gather_results
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, Message, MessageFormat
from hooksdk.formats.kit import clean_text, with_call_ids

# How its text begins.
UNKNOWN = "(of an unknown author)\n"


@final
@dataclass
class Unmatched:
    """What could not be matched in a list.

    Attributes:
        problems: What was wrong with it, each once.
        call_ids: Those that results named.
    """

    problems: dict[str, None] = field(default_factory=dict[str, None])
    call_ids: set[str] = field(default_factory=set[str])

    def readable(self, messages: Sequence[Message], message_format: MessageFormat) -> list[Message]:
        """The list with a text in the place of whatever is no message of the format."""
        return [
            message if message_format.check(message) is None else self._readable(message, message_format)
            for message in messages
        ]

    def keep(
        self, messages: Sequence[Message], message_format: MessageFormat, after: Ledger | None = None
    ) -> list[Message]:
        """The list as it can be stored, or as it can be `after` what is stored. A text stands behind the results of its
        turn, which it would end."""
        one_message_a_turn = message_format.grouped and not message_format.joined
        whole: list[Message] = []
        texts: list[Message] = []
        waiting = [slot.call for slot in after.slots if slot.record is None] if after else list[ToolCall]()
        goes_on = after is not None and after.reply_goes_on()
        after_reply = after is not None and after.ends_with_reply
        readable = [self._readable(message, message_format) for message in messages]
        for given in gather_results(readable, message_format) if one_message_a_turn else readable:
            message, parts = given, read_message(given, message_format)
            strange = self._take(with_call_ids(parts.results, waiting), waiting)
            if strange:
                texts += [self._text(each.text, message_format) for each in strange]
                if parts.is_reply or len(strange) == len(parts.results):
                    rest = message_format.text(message)
                    message = message_format.user(rest) if rest and not parts.is_reply else None
                else:
                    message = _without([each.index for each in strange], message, message_format)
            if message is None and waiting:
                continue
            if message is None:
                whole, texts, goes_on, after_reply = [*whole, *texts], [], False, False
                continue
            is_result = not parts.is_reply and bool(message_format.results(message))
            if is_result and waiting and one_message_a_turn:
                missing = message_format.result_messages([(call, ToolResult.error(NO_RESULT)) for call in waiting])
                (message,), waiting = gather_results([message, *missing], message_format), []
            elif parts.is_reply and goes_on:
                waiting += parts.calls
            elif not is_result:
                after_reply = after_reply and not waiting and not texts
                whole += texts
                texts, waiting = [], [*parts.calls]
                if one_message_a_turn and waiting and after_reply:
                    self.problems["a reply makes calls, and another one stands right before it"] = None
                    message, waiting = self._text(_written(message), message_format), []
            is_reply = message_format.is_reply(message)
            goes_on, after_reply = is_reply and message_format.joined, is_reply
            whole.append(message)
        return [*whole, *texts]

    def _readable(self, message: Message, message_format: MessageFormat) -> Message:
        try:
            return check_message(message, message_format, 0)
        except MismatchError as error:
            self.problems[str(error)] = None
            return self._text(_written(message), message_format)

    def _take(self, results: Sequence[FoundResult], waiting: list[ToolCall]) -> list[FoundResult]:
        """Take the calls that these results answer from those that wait; the other results."""
        strange: list[FoundResult] = []
        for result in results:
            call = next((call for call in waiting if call.id == result.call_id), None)
            if call is None:
                self.problems[f"a result answers call '{result.call_id or result.name}', which waits for none"] = None
                self.call_ids.add(result.call_id)
                strange.append(result)
            else:
                waiting.remove(call)
        return strange

    @staticmethod
    def _text(text: str, message_format: MessageFormat) -> Message:
        return message_format.user(UNKNOWN + clean_text(text))


def _without(indexes: Sequence[int], message: Message, message_format: MessageFormat) -> Message:
    """The message without these of its results."""
    key = "content" if isinstance(message.get("content"), list) else "parts"
    at = -1
    blocks: list[Any] = []
    for block in message[key]:
        at += (is_result := bool(message_format.results({**message, key: [block]})))
        if not is_result or at not in indexes:
            blocks.append(block)
    return {**message, key: blocks}


def _written(message: object) -> str:
    try:
        return json.dumps(message, ensure_ascii=False, default=repr)
    except (ValueError, TypeError, RecursionError):
        return "(it cannot be written as JSON)"
