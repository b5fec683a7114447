"""The message lists that a host hands in, against the stored messages: compare them, compact by them, or follow one
that the host has changed. Pure, like the ledger; loaded with the first list, since many hosts keep none."""

from __future__ import annotations

import json
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from hooksdk import schema
from hooksdk._tasks.background import logger
from hooksdk._transcript.changes import same
from hooksdk._transcript.encoding import UNKNOWN, Entry
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.loose_ends import without_loose_ends
from hooksdk._transcript.pairing import (
    NO_RESULT,
    MismatchError,
    check_message,
    gather_results,
    pair_results,
    reads_as,
)
from hooksdk._transcript.turns import read_message
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FoundResult, HasRules, Message, MessageFormat
from hooksdk.formats.kit import clean_text, with_call_ids
from hooksdk.formats.sending import opening_at


def compare(messages: Sequence[Message], ledger: Ledger) -> int:
    """The number of messages in the view, if the host's list begins with them: each as it is stored, as the view shows
    it now, or as the view showed it before. Raises `MismatchError`."""
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
    """True if a host's message is the one at this place, which the view shows as `ours`: as it is stored, shown, or was
    shown before, each also in the form in which it was sent."""
    if same(theirs, ours) or _fits(theirs, place, ours, ledger):
        return True
    with_our_ids = ledger.with_stored_ids(theirs)
    return with_our_ids is not theirs and _fits(with_our_ids, place, ours, ledger)


def is_shown(theirs: Message, ours: Message, ledger: Ledger) -> bool:
    """True if a host's message is the one that the view shows as `ours`, also in the form in which it was sent."""
    return same(theirs, ours) or _is_any(ledger.with_stored_ids(theirs), _with_mended([ours], ledger), ())


def without_opening(messages: Sequence[Message], ledger: Ledger) -> list[Message]:
    """A host's list without the message that the view puts before all stored ones for providers that want one."""
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
    """True if a host's message has the same results and nothing else, in another shape of the format, such as text as a
    string or as one block."""
    records, message_format = ledger.results_at(place), ledger.need_format()
    if not records or message_format.check(theirs) or message_format.is_reply(theirs):
        return False
    if message_format.text(theirs) or message_format.text(ways[0]):
        return False
    calls = [ledger.call_at(record.call) for record in records if record.call is not None]
    results = with_call_ids(message_format.results(theirs), calls)
    if [result.call_id for result in results] != [record.call_id for record in records]:
        return False
    pairs = [zip(results, message_format.results(message), records, strict=True) for message in ways]
    return any(all(reads_as(result, our, record) for result, our, record in each) for each in pairs)


def plan_compaction(ledger: Ledger, messages: Sequence[Message]) -> Entry:
    """The journal entry by which the view begins with these messages. Messages at the list's beginning and end that the
    view has there, too, are named by their positions, so their results keep their trims. Raises `MismatchError`."""
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


def plan_following(ledger: Ledger, messages: Sequence[Message], run_id: str) -> tuple[list[Entry], int]:
    """The journal entries by which the view becomes the part of this list that is stored already, and the number of
    messages in that part: those after it are new. Stored messages are named by their positions, so their results keep
    their trims. The list must be one that can be stored, as `Unmatched.keep` makes it."""
    message_format = ledger.need_format()
    checked = [check_message(message, message_format, position) for position, message in enumerate(messages)]
    places = _places_of(checked, ledger)
    known = max(places, default=-1) + 1
    waiting = [slot.id for slot in ledger.slots if not slot.record]
    is_open = bool(waiting) and ledger.last_reply in places.values()
    while not is_open and known < len(checked) and message_format.results(checked[known]):
        known += 1  # results of calls that have ended in the transcript, which takes none for them any more
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
    """The journal entry of the calls that ran and whose reply is newer than all stored messages in the list: the host
    has lost that reply. A reply that is older than one of them was left out on purpose.

    A run that is `rewriting` its list, as by a summary, has lost none of its own calls. Calls of an earlier run are
    lost also if their reply is the newest in the list, and the list has not their results (`told`)."""
    effects = ledger.effects
    effects.sweep()
    known = ledger.turn_at(max(places, default=-1))
    lost = [
        effect
        for effect, one in effects.over.items()
        if ((one.reply or 0) > known and one.entry["run"] != rewriting)
        or (one.reply == known and one.entry["run"] != run_id and one.entry["call"][0] not in told)
    ]
    return [{"kind": "lost", "effects": lost}] if lost else []


def _places_of(messages: Sequence[Message], ledger: Ledger) -> dict[int, int]:
    """The stored position of each message of the list that is stored. Of equal messages a fork has the first, and a
    list that was cut at its beginning the last."""
    found: dict[int, int] = {}
    start = 0
    for theirs, (place, ours) in zip(messages, ledger.shown(), strict=False):
        if not fits(theirs, place, ours, ledger):
            break
        if isinstance(place, int):
            found[start] = place
        start += 1
    used = set(found.values())
    later = ledger.count
    for index in range(len(messages) - 1, start - 1, -1):
        theirs = messages[index]
        candidates = ledger.lookup.places(schema.fingerprint(theirs)) or [
            row.position
            for result in ledger.need_format().results(theirs)
            for row in ledger.records.with_id(result.call_id)
            if fits(theirs, row.position, ledger.shown_at(row.position), ledger)
        ]
        free = [place for place in candidates if place not in used and place not in ledger.loose_ends]
        if free:
            later = max((place for place in free if place < later), default=free[-1])
            found[index] = later
            used.add(later)
    return found


@final
@dataclass
class Unmatched:
    """The messages and results in a host's list that no session can keep as they are. A framework may accept them, so
    each becomes a text of an unknown author, which ends no call.

    Attributes:
        problems: The reasons, each once.
        call_ids: The call ids that such results name.
    """

    problems: dict[str, None] = field(default_factory=dict[str, None])
    call_ids: set[str] = field(default_factory=set[str])

    def readable(self, messages: Sequence[Message], message_format: MessageFormat) -> list[Message]:
        """The list with a text in the place of each message that is not of the format."""
        return [
            message if message_format.check(message) is None else self._readable(message, message_format)
            for message in messages
        ]

    def keep(
        self, messages: Sequence[Message], message_format: MessageFormat, after: Ledger | None = None
    ) -> list[Message]:
        """The list as it can be stored, alone or `after` the messages of a ledger. A text is put behind the results of
        its turn, because it would end the turn."""
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

    def log(self, session_id: str, told: frozenset[str]) -> frozenset[str]:
        """Log the problems, without those that were `told` before. Answers all that are told now."""
        for problem in [one for one in self.problems if one not in told]:
            advice = "it is kept as the text of an unknown author"
            logger.warning("session %r: of the list that it follows, %s: %s", session_id, problem, advice)
        return told.union(self.problems)

    def _readable(self, message: Message, message_format: MessageFormat) -> Message:
        try:
            return check_message(message, message_format, 0)
        except MismatchError as error:
            self.problems[str(error)] = None
            return self._text(_written(message), message_format)

    def _take(self, results: Sequence[FoundResult], waiting: list[ToolCall]) -> list[FoundResult]:
        """Remove the calls that these results answer from the waiting ones. Answers the results that answer none."""
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
    """The message without the results of these indexes."""
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
