"""Messages as their provider takes them: ids, empty content and the like, which it would refuse, are mended.

Each format has its rules, with their sources (`HasRules`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import final

from hooksdk.formats import HasRules, Message, MessageFormat

__all__ = ["CallIds", "call_ids", "opening_at", "refusals", "sendable"]


@final
class CallIds:
    """Ids of calls as their provider takes them: an id that it would refuse, or that an earlier call has, is replaced.
    The new id depends on earlier calls only, so that the next request begins with the same bytes.

    ```python
    from hooksdk.formats import get_format
    from hooksdk.formats.sending import CallIds

    ids = CallIds(get_format("anthropic"))
    assert [ids.of_call("call_0"), ids.of_result("call_0")] == ["call_0", "call_0"]
    assert [ids.of_call("call_0"), ids.of_result("call_0")] == ["call_0-2", "call_0-2"]
    assert ids.of_call("functions.read:0") == "functions_read_0"
    ```
    """

    def __init__(self, message_format: MessageFormat) -> None:
        self._rules = message_format if isinstance(message_format, HasRules) else None
        self._taken = set[str]()
        self._repeats = Counter[str]()
        self._open: dict[str, deque[str]] = {}
        self._answering = False

    def of_call(self, call_id: str) -> str:
        """The id of the next call."""
        if self._answering:
            self._open, self._answering = {}, False
        stem = self._rules.sendable_id(call_id) if self._rules else None
        if self._rules is None or stem is None:
            return call_id
        sent = stem
        while sent in self._taken:
            self._repeats[stem] += 1
            sent = self._rules.sendable_id(call_id, f"-{self._repeats[stem] + 1}") or sent
        self._taken.add(sent)
        self._open.setdefault(call_id, deque()).append(sent)
        return sent

    def of_result(self, call_id: str) -> str:
        """The id of the next result, which answers the first open call of this id in the newest reply."""
        self._answering = True
        waiting = self._open.get(call_id)
        return waiting.popleft() if waiting else call_id

    def of_message(self, message: Message, message_format: MessageFormat) -> tuple[list[str], list[str]]:
        """The ids of the calls or the results in the next message: as stored, and as sent."""
        if message_format.is_reply(message):
            ids = [call.id for call in message_format.calls(message)]
            return ids, [self.of_call(each) for each in ids]
        ids = [result.call_id for result in message_format.results(message)]
        return ids, [self.of_result(each) for each in ids]


def sendable(messages: Iterable[Message], message_format: MessageFormat) -> list[Message]:
    """The messages as the provider takes them; a message that needs no change is the same object. A message may be put
    before them (`opening_at`)."""
    whole = list(messages)
    if not isinstance(message_format, HasRules):
        return whole
    names = CallIds(message_format)
    for at, message in enumerate(whole):
        ids, sent = names.of_message(message, message_format)
        whole[at] = message_format.mend(message if ids == sent else message_format.with_call_ids(message, sent))[0]
    at, opening = opening_at(whole, message_format)
    return whole if opening is None else [*whole[:at], opening, *whole[at:]]


def opening_at(messages: Iterable[Message], message_format: MessageFormat) -> tuple[int, Message | None]:
    """The position of the first message that is not the operator's, and the message that the provider wants before
    it."""
    at = 0
    for message in messages:
        if message.get("role") not in ("system", "developer"):
            return at, message_format.opening(message) if isinstance(message_format, HasRules) else None
        at += 1
    return at, None


def call_ids(messages: Iterable[Message], message_format: MessageFormat) -> list[tuple[str, str]]:
    """The ids of all calls, in order: as stored, and as `sendable` sends them."""
    names, pairs = CallIds(message_format), list[tuple[str, str]]()
    for message in messages:
        ids, sent = names.of_message(message, message_format)
        if message_format.is_reply(message):
            pairs += zip(ids, sent, strict=True)
    return pairs


def refusals(messages: Sequence[Message], message_format: MessageFormat) -> Iterator[tuple[int, str]]:
    """What the provider would refuse in these messages, each with the position of the message."""
    if not isinstance(message_format, HasRules):
        return
    at, opening = opening_at(messages, message_format)
    if opening is not None:
        yield at, "a user must speak before it"
    first: dict[str, int] = {}
    for at, message in enumerate(messages):
        for call in message_format.calls(message) if message_format.is_reply(message) else ():
            if message_format.sendable_id(call.id) not in (None, call.id):
                yield at, f"the id of call '{call.id}' is too long, or has characters that the provider does not take"
            elif message_format.wants_unique_ids and call.id in first:
                yield at, f"message {first[call.id]} has a call with the id '{call.id}' already"
            first.setdefault(call.id, at)
        if why := message_format.mend(message)[1]:
            yield at, why
