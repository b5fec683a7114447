"""One open session's messages, calls, trims and view."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar, final

from hooksdk import schema
from hooksdk._origins.labels import UNLABELLED, Labels, stored_labels
from hooksdk._tasks.background import logger
from hooksdk._transcript.effects import in_doubt
from hooksdk._transcript.encoding import (
    EncodedMessage,
    Entry,
    as_stored,
    plain_call,
    plain_result,
    save_result,
)
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.loose_ends import without_loose_ends
from hooksdk._transcript.pairing import NO_RESULT, MismatchError, plan_append, with_our_ids
from hooksdk._transcript.storage import as_store_errors
from hooksdk._transcript.stored import Stored, alone
from hooksdk._transcript.trims import DrainReport, Plan
from hooksdk._transcript.turns import Slot, read_message
from hooksdk.calls import CallInDoubt, ResultInfo, ToolCall, ToolResult, TrimReceipt
from hooksdk.errors import ConfigError, WrongArgument
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.content import result_of
from hooksdk.formats.sending import sendable
from hooksdk.tools import Tool

T = TypeVar("T")


@final
class Transcript(Stored):
    """One open session's messages, calls, trims and view. `fenced`: true while nobody may edit: from a run's begin on,
    but for the time of its `agent_end` handlers."""

    # The ids of results that could not be matched, in the list that was followed last.
    _unmatched: Collection[str] = ()
    _told = frozenset[str]()
    fenced = False

    @alone
    async def touch(self) -> None:
        """Append a record without an effect, to test that the log is writable."""
        await self._journal({"kind": "format", "name": self._need_format().name})

    # Messages

    @property
    def format(self) -> MessageFormat | None:
        """The session's message format; None until the first run declares it."""
        return self._ledger.format if self._ledger.format_name else None

    def _need_format(self) -> MessageFormat:
        if self.format is None:
            problem = f"session '{self.session_id}' has no message format yet; begin a run with format='...' first"
            raise ConfigError("format", (problem,))
        return self.format

    @alone
    async def use_format(self, message_format: MessageFormat, began: Mapping[str, str | None] | None = None) -> None:
        """Declare the session's format. It stays the same for good: another one is a `ConfigError`. What the first run
        `began` with is stored with it, for whoever lists sessions, and each further requester, for whoever erases what
        is stored of a person."""
        told = {key: value for key, value in (began or {}).items() if value}
        if (name := self._ledger.format_name) is None:
            await self._journal({"kind": "format", "name": message_format.name, **told})
        elif name == message_format.name and told.get("requester", "") not in ("", *self._ledger.requesters):
            await self._journal({"kind": "format", "name": name, "requester": told["requester"]})
        elif name != message_format.name:
            problem = f"session '{self.session_id}' is kept in '{name}', so '{message_format.name}' cannot be used"
            raise ConfigError("format", (f"{problem}. Run it with format='{name}', or take another session id",))
        if type(self._ledger.format) is not type(message_format):
            if self._ledger.count:
                await self._load(message_format)
            else:
                self._ledger.format = message_format
        await self._flush()

    @property
    def messages(self) -> list[Message]:
        """The stored messages, whole: fresh copies."""
        return list(self._ledger.messages.since(0, copied=True))

    @property
    def count(self) -> int:
        """How many messages are stored."""
        return self._ledger.count

    @property
    def view(self) -> list[Message]:
        """What the model is sent: the newest compaction and what came after it, with the applied trims. Fresh
        copies."""
        return sendable(self._ledger.copies(), self._ledger.format) if self._ledger.format else self._ledger.copies()

    def newest(self) -> Iterator[Message]:
        """The messages of the view, the newest first: not to be changed."""
        for place in reversed(self._ledger.places):
            yield self._ledger.shown_at(place) if isinstance(place, int) else place

    def message_tokens(self) -> list[int]:
        """The size of each stored message in the view, estimated."""
        from hooksdk._transcript.requests import message_tokens

        return message_tokens(self._ledger)

    @property
    def tokens(self) -> int:
        """The size of the view, estimated."""
        return sum(schema.estimate_tokens(message) for _, message in self._ledger.shown())

    @alone
    async def append(self, messages: Sequence[Message], used: Entry | None = None) -> None:
        """Store messages, and what a reply among them `used`; durable when this returns. A reply opens its calls; a
        result answers its call, and one that `answer` recorded already is not stored twice. When the conversation goes
        on although calls are open, these get an error result first. Raises `TranscriptChanged` for a message that is
        not of the format."""
        await self._append(messages)
        if used is not None:
            await self._journal({"kind": "used", **used})

    @alone
    async def match(self, messages: Sequence[Message], *, follow: bool = False, run_id: str = "") -> list[Message]:
        """Take a message list that the host keeps: it must begin with the view (each message as stored, as shown now,
        or as shown before), and what follows is appended, and answered. Else the view is to `follow` the list, or
        `TranscriptChanged` is raised. A list to follow is always taken: what cannot be matched in it becomes text.
        `run_id` is the run that hands it in."""
        from hooksdk._transcript.host_lists import Unmatched, compare, without_opening

        unmatched, message_format = Unmatched(), self._need_format()
        if follow:
            messages = unmatched.readable(messages, message_format)
        ours = without_opening(without_loose_ends(messages, message_format), self._ledger)
        await self._flush()
        try:
            count = compare(ours, self._ledger)
        except MismatchError:
            if not follow:
                raise
            ours = unmatched.keep(ours, message_format)
            try:
                count = compare(ours, self._ledger)
            except MismatchError:
                count = await self._follow(ours, run_id)
        new = ours[count:]
        if follow:
            new = unmatched.keep(with_our_ids(new, self._ledger), message_format, self._ledger)
            self._unmatched = unmatched.call_ids
            self._told = unmatched.log(self.session_id, self._told)
        await self._append(new)
        return new

    @property
    def trimmed(self) -> dict[tuple[str, int], str]:
        """By call id, and which result with this id: the text in the place of each that is trimmed. Not of an id that
        is also that of a result which could not be matched: in the host's list the number would be of another."""
        found = self._ledger.trimmed_results()
        return {key: text for key, text in found.items() if key[0] not in self._unmatched}

    async def _follow(self, messages: Sequence[Message], run_id: str) -> int:
        from hooksdk._transcript.host_lists import plan_following

        entries, count = plan_following(self._ledger, messages, run_id)
        if self._ledger.last_reply < entries[0]["upto"] and any(slot.record is None for slot in self._ledger.slots):
            await self._close_turn(NO_RESULT)  # of a reply that the list goes on from no more
            entries, count = plan_following(self._ledger, messages, run_id)
        await self._journal(*entries)
        return count

    async def _append(self, messages: Sequence[Message]) -> None:
        await self._flush()
        fresh, leaves_turn = plan_append(self._ledger, messages, self._need_format())
        if leaves_turn:
            await self._close_turn(NO_RESULT)
        await self._store(fresh)
        await self._flush()

    # Calls

    @property
    def replies(self) -> int:
        """How many replies of the model are stored."""
        return self._ledger.replies

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """Calls of the newest reply that have no result yet, also after a pause or in another process."""
        return tuple(slot.call for slot in self._ledger.slots if slot.open)

    def result_of(self, call: ToolCall) -> ToolResult | None:
        """The result that this very call (id, name and arguments) of the newest reply has already; None for any
        other."""
        return self._ledger.result_of(call)

    @alone
    async def answer(
        self, call: ToolCall, result: ToolResult, tool: Tool | None, *, replies: int | None = None, ends: str = ""
    ) -> None:
        """Record a call's result; durable when this returns. It joins the messages in the order of the calls, as soon
        as the earlier ones have theirs. A call whose reply is not recorded yet waits for it.

        `replies` is how many replies there were when the call's run ended, if it has: a call of a later one has
        another's id, and a result that no open call waits for is left out then. `ends` is the effect whose end it
        tells: what else has begun as this call stays in doubt."""
        slot, effects = self._ledger.slot_of(call), self._ledger.effects
        is_late = replies is not None and (slot is None or self._ledger.replies > replies)
        if ends in effects.begun and (is_late or effects.begun[ends].in_doubt):
            await self._journal({"kind": "done", "effects": [ends]})
        if is_late:
            logger.warning("left out of session %r: a result that came after its run (%s)", self.session_id, call.id)
        else:
            await self._answer(slot, call, result, tool, ends)

    async def _answer(
        self, slot: Slot | None, call: ToolCall, result: ToolResult, tool: Tool | None, ends: str
    ) -> None:
        result = plain_result(result)
        if slot is not None and self._ledger.effects.begun:
            begun = self._ledger.effects.of_slot(slot)
            await self._doubt([one for one in begun if one.effect_id != ends and not one.in_doubt])
        if self._ended:  # calls that this one made
            await self._journal()
        due = [] if slot is None else self._ledger.due(slot, result)
        ran = tool.name if tool is not None and tool.name != call.name else ""
        entry: Entry = {"reply": self._ledger.last_reply, "order": slot.order if slot else None, "ran": ran}
        entry["disposable"] = tool is not None and tool.disposable
        entry |= (labels := stored_labels(result.labels))
        if slot is None or (slot, result) not in due:  # calls before it have no result yet
            await self._journal({"kind": "staged", "call": plain_call(call), "result": save_result(result), **entry})
            return
        messages = self._result_messages(due)
        texts = [
            each.text for message in messages for each in read_message(message, self._ledger.need_format()).results
        ]
        reads_otherwise = texts[due.index((slot, result))] != result.text
        if entry["disposable"] or ran or reads_otherwise or slot.marks or labels:
            answer_hash = schema.fingerprint(result.text) if reads_otherwise else None
            await self._journal({"kind": "answered", **entry, "said": answer_hash})
        await self._store(messages)
        slot.by_run = True

    async def _flush(self) -> None:
        """Store the results whose turn it is."""
        if self._ledger.format:
            await self._store(self._result_messages(self._ledger.due()))

    def _result_messages(self, answers: Sequence[tuple[Slot, ToolResult]]) -> list[EncodedMessage]:
        pairs = [(slot.call, result) for slot, result in answers]
        return [as_stored(each) for each in self._ledger.need_format().result_messages(pairs)] if pairs else []

    async def close_turn(self, text: str) -> int:
        """Give every open call an error result with this text, and store the results that still wait. Answers how
        many."""
        ledger = self._ledger
        is_done = not ledger.orphans and all(slot.record for slot in ledger.slots)
        return 0 if is_done and not self._must_reload and not self._closed else await self._close_turn_alone(text)

    async def _close_turn(self, text: str) -> int:
        ledger, missing = self._ledger, len(self.pending)
        begun = ledger.effects
        await self._doubt(begun.closed_with_turn(self._replies_before))
        if ledger.replies <= self._replies_before and text.startswith("not run"):  # of those nothing is written
            text += ". If it only reads, it may have been cut off"
        open_slots = [slot for slot in ledger.slots if slot.record is None]
        texts = [in_doubt(slot.name) if begun.of_slot(slot) else text for slot in open_slots]
        results = [slot.staged or ToolResult.error(each) for slot, each in zip(open_slots, texts, strict=True)]
        await self._store(self._result_messages(list(zip(open_slots, results, strict=True))))
        if ledger.orphans:
            names = ", ".join(sorted({orphan[0].id for orphan in ledger.orphans}))[:200]
            problem = "left out of session %r: results of calls that no recorded reply made (%s)"
            logger.warning(problem, self.session_id, names)
            await self._journal({"kind": "dropped"})
        return missing

    _close_turn_alone = alone(_close_turn)

    @alone
    async def settle(self, reference: str, result: ToolResult, running: Collection[str] = ()) -> CallInDoubt:
        """Say what came of a call that is in doubt, by its id or its effect's: its result, where it has none yet.
        Raises `WrongArgument` where none, or more than one, is meant; those that are `running` are none."""
        calls = [one for one in (*self.without_end, *self.lost) if one.effect_id not in running]
        meant = [one for one in calls if reference in (one.call_id, one.effect_id)]
        if len(meant) != 1:
            known = ", ".join(f"{one.call_id} ({one.effect_id})" for one in meant or calls) or "none"
            problem = "several have this id" if meant else "no call of this id is in doubt"
            raise WrongArgument(f"settle({reference!r})", problem, f"In doubt: {known}")
        effect_id = meant[0].effect_id
        one = self._ledger.effects.begun.get(effect_id)  # None: it has ended, and is lost
        slot = next(
            (slot for slot in self._ledger.slots if slot.open and one in self._ledger.effects.of_slot(slot)), None
        )
        if slot is None:
            await self._journal({"kind": "done", "effects": [effect_id]})
        else:
            await self._answer(slot, slot.call, result, None, effect_id)
        return meant[0]

    # Results and trims

    @property
    def queued(self) -> int:
        """How many trims and restores wait for the drain."""
        return len(self._ledger.queue)

    def list_results(self, *, arguments: bool = False) -> list[ResultInfo]:
        """All results, oldest first, without their bodies; with the long `arguments` of each call before its result."""
        return self._ledger.infos(arguments=arguments)

    @alone
    async def note_loaded(self) -> None:
        """All results that are stored come from elsewhere: they are labelled when there are tools by whose names to do
        so."""
        await self._journal({"kind": "loaded", "results": len(self._ledger.records)})

    @alone
    async def label_loaded(self, labels: Sequence[Labels]) -> None:
        """Label the loaded results, the first of all, for good."""
        told = [[number, sorted(each)] for number, each in enumerate(labels) if each != UNLABELLED]
        await self._journal({"kind": "labelled", "results": told})

    def ask(self, question: Callable[[Ledger], T]) -> T:
        """What a pure function says of all that is known now."""
        return question(self._ledger)

    def read_result(self, reference: str) -> ToolResult:
        """The original result, its images and files among it, with its labels and its handle."""
        from hooksdk._transcript.requests import find_record

        record = find_record(self._ledger, reference)
        return result_of(self._ledger.body(record), labels=record.labels, handle=record.handle)

    @alone
    async def queue(self, plan: Callable[[Ledger], Plan], owner: str, reason: str) -> TrimReceipt:
        """Queue what `plan` makes of the transcript as it is now; durable when this returns."""
        self._need_format()
        receipt, entry = plan(self._ledger)
        if entry is not None:
            from hooksdk._transcript.requests import clean

            await self._journal({**entry, "owner": owner, "reason": clean(reason, 500)})
        return receipt

    @alone
    async def drain(self) -> DrainReport:
        """Apply everything queued in one atomic step. Raises `TranscriptChanged`, and keeps the queue, when somebody
        else changed what is stored."""
        if not self._ledger.queue or not self._ledger.format:
            return DrainReport()
        from hooksdk._transcript.requests import plan_drain

        entry, trims = plan_drain(self._ledger)
        await self._journal(entry, verify=True)
        return DrainReport(trims)

    @alone
    async def compact(self, messages: Sequence[Message]) -> None:
        """Let the view begin with these messages. What is stored stays whole; results that they stand for are gone for
        trims. Messages at their beginning and end that the view has there, too, count as kept: their results do not
        go."""
        from hooksdk._transcript.host_lists import plan_compaction

        self._need_format()
        await self._journal(plan_compaction(self._ledger, messages))

    # Fence, end

    def close_fence(self) -> None:
        """No edits from now on: a run begins, or has drained its trims."""
        self.fenced = True

    def open_fence(self) -> None:
        """Edits are possible: it is the turn of `agent_end`."""
        self.fenced = False

    @alone
    async def verify(self) -> None:
        """Raise `TranscriptChanged` when somebody else changed what is stored."""
        with as_store_errors(self._where):
            await self._log.verify()
