"""Calls that may take effect: what is written before their tools run, what is asked where an equal one is in doubt, and
what happens where nothing can be written, as on a full disk."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, final

import anyio
import anyio.lowlevel

from hooksdk._approvals.request import Question, digest_of
from hooksdk._ledger.calls import CallEnd, CallInProgress, EffectState
from hooksdk._ledger.waiting import WaitingCalls
from hooksdk._masking.mask import SecretMask
from hooksdk._tasks.limits import run_shielded
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.storage import as_store_errors
from hooksdk.calls import CallInDoubt, ToolResult
from hooksdk.errors import StoreError
from hooksdk.hooks import RunInfo
from hooksdk.transcript import Store, Transcript, encode
from hooksdk.values import clip

# The plugin id under which a person is asked about a call of which an equal one is in doubt. No plugin has it.
OWNER = "hooksdk"
# The words that stand in every text about a call in doubt.
IN_DOUBT = "may have taken effect"
_LOST = (
    "An equal call ran before, and this conversation has lost its result. Look what it did before you call it again."
)
_EARLIER = f"An earlier attempt of it began, and its end is not known: it {IN_DOUBT}. Look before you call it again."
# The storage of the trial record. No plugin has this id: none begins like it.
SPACE = "hooksdk.room"
# Characters of the trial record: on a full disk a small record still fits into the last block of its file, and an
# ordinary result does not.
TRIAL = 16 * 1024
# Characters of the arguments that are kept for the person who has to find out what a call did.
MOST_ARGUMENTS = 2000


def may_take_effect(work: CallInProgress) -> bool:
    """True unless the tool is known to read only. A bridge without an executor stands for other calls."""
    return work.tool is not None and work.tool.annotations.read_only is not True


@final
class CallLedger:
    """The calls of one run that have no result yet, and what is written of them.

    Attributes:
        open_calls: Calls that were taken up and have no result yet, in that order.
        busy: Those of them that a task works on now, with the scope that cancels that task's work.
    """

    def __init__(
        self,
        transcript: Transcript,
        store: Store,
        info: RunInfo,
        mask: SecretMask,
        *,
        transcript_kept: bool,
        in_doubt_elsewhere: Callable[[], Sequence[CallInDoubt]] | None = None,
    ) -> None:
        self._transcript = transcript
        self._store = store
        self._info = info
        self._mask = mask
        self._transcript_kept = transcript_kept
        self._in_doubt_elsewhere = in_doubt_elsewhere
        self.open_calls: list[CallInProgress] = []
        self.busy: dict[CallInProgress, anyio.CancelScope] = {}
        self._failures_before = transcript.unwritten.failures

    @cached_property
    def waiting(self) -> WaitingCalls:
        """The stored decisions about calls that wait for a person."""
        return WaitingCalls(self._transcript, self._info)

    # Which calls are in doubt

    def in_doubt(self, *, lost: bool = False) -> list[CallInDoubt]:
        """The session's calls that began, and of which nobody knows how they ended. With `lost` also those that ran and
        whose reply the conversation has lost: an equal one waits for a person."""
        begun = self._transcript.without_end
        if self._in_doubt_elsewhere is not None:
            own = {one.effect_id for one in begun}
            begun = [*begun, *(one for one in self._in_doubt_elsewhere() if one.effect_id not in own)]
        doubts = [one for one in begun if one.effect_id not in self.at_work] if begun else []
        return [*doubts, *self._transcript.lost] if lost else doubts

    @property
    def at_work(self) -> frozenset[str]:
        """The effect ids of calls that have begun and are not over, or whose results are on their way. Those whose turn
        was closed without a result are left out: the model has read that their end is not known."""
        begun = frozenset(work.effect.id for work in (*self.open_calls, *self.busy) if work.effect.begun)
        begun = begun - self._transcript.doubted if begun else begun
        return begun | self._transcript.unconfirmed

    def equal_in_doubt(self, work: CallInProgress) -> list[CallInDoubt]:
        """The calls in doubt or lost that this one repeats: first this very call, whatever its arguments are by now,
        then calls of the same tool with the same arguments."""
        if not (doubts := self.in_doubt(lost=True)):
            return []
        own, digest = self._began_as(work), self._digest(work)
        tool = "" if work.tool is None else work.tool.id
        equal = [one for one in doubts if one.effect_id in own or (one.tool == tool and one.digest == digest != "")]
        return sorted(equal, key=lambda one: (one.effect_id not in own, one.call_id != work.written.id))

    def has_begun_before(self, work: CallInProgress) -> bool:
        """True for a call that an earlier attempt has left in doubt."""
        doubts = self.in_doubt()
        return bool(doubts) and not self._began_as(work).isdisjoint(one.effect_id for one in doubts)

    def question(self, work: CallInProgress) -> Sequence[Question]:
        """What a person is asked before the call runs, since an equal one may have taken effect. A tool that says of
        itself that a second call changes nothing needs no question."""
        if not may_take_effect(work) or (work.tool is not None and work.tool.annotations.idempotent):
            return ()
        if not (equal := self.equal_in_doubt(work)):
            return ()
        one, name = equal[0], work.call.name
        again = "again" if one.call_id == work.written.id else "once more"
        same = " with the same arguments" if one.digest == self._digest(work) else ""
        if one.lost:
            title = f"Run '{name}' {again}? It ran already"
            known = "and ran to its end, but this conversation has lost its reply, as in a crash"
        else:
            title = f"Run '{name}' {again}? It may have taken effect"
            known = "and its end is not known: it may have taken effect"
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(one.began))
        description = (
            f"The call '{one.call_id}'{same} began at {began}, {known} (effect id {one.effect_id}). Look what it did: "
            f"`hooksdk sessions settle` ends the {'question' if one.lost else 'doubt'}."
        )
        return (Question(title=title, description=description, severity="critical", plugin=OWNER, rule=one.effect_id),)

    def with_doubt(self, work: CallInProgress, end: CallEnd) -> CallEnd:
        """The end of a call that did not run, with the words that an equal one before it may have taken effect."""
        if end.status == "answered" or IN_DOUBT in end.result.text:
            return end
        equal = self.equal_in_doubt(work)
        if not work.effect.repeats and not equal:
            return end
        earlier = _LOST if equal and all(one.lost for one in equal) else _EARLIER
        return CallEnd(end.status, end.result.with_text(f"{end.result.text.rstrip('.')}. {earlier}"), end.answerer)

    # What is written

    async def begin(self, work: CallInProgress) -> bool:
        """Write that the call begins, unless it only reads; False where nothing was written. Raises what the store
        raises: then it must not run."""
        if work.effect.state is not EffectState.NOT_BEGUN or not may_take_effect(work):
            return False
        if not self.take_place(work) and self._transcript.volatile:
            work.effect.state = EffectState.BEGUN
            return False
        await self._write(work)
        await anyio.lowlevel.checkpoint_if_cancelled()
        return True

    def take_place(self, work: CallInProgress) -> bool:
        """True where the call is made in the place of one in doubt, whose doubt ends with its result."""
        doubts = {one.effect_id for one in self.in_doubt()}
        work.effect.repeats = bool(doubts) and self.effect_id(work) in doubts
        return work.effect.repeats

    async def write_running(self) -> None:
        """Write of every call that has begun and has no result that it has begun, where that was not worth it
        before."""
        for work in [*self.open_calls, *self.busy]:
            if work.effect.begun:
                await self._write_late(work)

    async def write_doubt(self, work: CallInProgress) -> None:
        """Write that nobody will know the end of the call, before its result is recorded."""
        await self._write_late(work)
        await self._transcript.doubt(work.effect.id)

    async def finish(self, work: CallInProgress) -> None:
        """Write the end of a call that no result among the messages tells of."""
        if work.effect.in_doubt:
            await self.write_doubt(work)
        elif work.effect.begun:
            if work.effect.confirms:
                await self._write_late(work)
            self._transcript.end(work.effect.id, confirmed=not work.effect.confirms)

    def withdraw(self, work: CallInProgress) -> None:
        """It began, and waits again: its tool has done nothing."""
        if work.effect.begun:
            work.effect.state = EffectState.NOT_BEGUN
            work.effect.nested.clear()
            if not work.effect.repeats:
                self._transcript.end(work.effect.id)

    async def _write_late(self, work: CallInProgress) -> None:
        """Once: by now another call of a later reply may go by the same id."""
        transcript, effect = self._transcript, work.effect.id
        if transcript.volatile and not transcript.ask(lambda ledger: effect in ledger.effects.begun):
            await self._write(work)

    async def _write(self, work: CallInProgress) -> None:
        transcript, tool = self._transcript, work.tool
        assert tool is not None
        entry: dict[str, Any] = {
            "effect": self.effect_id(work),
            "call": [work.call.id, work.call.name],
            "tool": tool.id,
            "digest": self._digest(work),
            "arguments": clip(encode(self.storable_arguments(work)).decode(), MOST_ARGUMENTS),
        }
        if work.parent is not None:
            entry["parent"] = work.parent.call.id
        elif self._transcript_kept:
            slot = transcript.ask(lambda ledger: ledger.slot_of(work.written))
            entry |= {"reply": self.waiting.reply_of(work.written), "order": slot.order if slot else None}
            entry["run"] = self._info.run_id

        async def write() -> None:
            await transcript.begin(entry)
            if not work.effect.in_doubt:
                work.effect.state = EffectState.BEGUN

        await run_shielded(write)  # what is handed over may be stored with another call's: then it is not left alone

    # What could not be written

    @property
    def has_failed(self) -> bool:
        """True where a record could not be written since the run began."""
        return self._transcript.unwritten.failures > self._failures_before

    async def check_space(self) -> None:
        """Before a call is taken up. Writes results that could not be written before, and a trial record where the
        session was just opened, or a record failed before this run. Raises `StoreError` where a record of this run
        could not be written, and what the store raises."""
        self.check_records()
        transcript = self._transcript
        if transcript.unwritten.may_be_full:
            # Of letters and digits, which no file system makes shorter than half.
            with as_store_errors(f"storage '{SPACE}'"):
                await self._store.set_value(SPACE, transcript.session_id, secrets.token_hex(TRIAL // 2))
                await self._store.delete_value(SPACE, transcript.session_id)
            await transcript.touch()
            transcript.unwritten.may_be_full = False
        await self.record_again()

    def check_records(self) -> None:
        """Raise `StoreError` where a record could not be written since the run began."""
        if self.has_failed:
            why = self._transcript.unwritten.problem
            problem = f"it takes no further call, since a record could not be written ({why})"
            raise StoreError(f"run '{self._info.run_id}'", f"{problem}. Make room, and go on in a new run")

    def keep_result(self, work: CallInProgress, result: ToolResult, replies: int | None) -> None:
        """Keep a result that could not be written, for `record_again`."""
        replies = self._transcript.replies if replies is None else replies
        self._transcript.unwritten.results.append((work.written, result, work.tool, replies, work.effect.ends))

    async def record_again(self) -> None:
        """Store the results that could not be written before: their tools have run, and shall not run once more. Raises
        what the store raises."""
        waiting = self._transcript.unwritten.results
        while waiting:
            call, result, tool, replies, ends = one = waiting[0]
            await self._transcript.answer(call, result, tool, replies=replies, ends=ends)
            if one in waiting:  # of several that do this at once one was faster
                waiting.remove(one)

    # Ids

    def effect_id(self, work: CallInProgress) -> str:
        """The id of the call's effect. Where the call repeats one in doubt, it is that one's; else it is made of the
        call's place, so that it is the same in whichever run and process the call is made."""
        if not work.effect.id:
            taken = {one.effect.id for one in self.open_calls if one is not work}  # equal ones take a place each
            equal = [one.effect_id for one in self.equal_in_doubt(work) if one.effect_id not in taken]
            work.effect.id = equal[0] if equal else self._place_of(work)
        return work.effect.id

    def storable_arguments(self, work: CallInProgress) -> dict[str, Any]:
        """What may be stored of its arguments: a placeholder stands for a secret's value, and means the same call."""
        return self._mask.value(work.arguments) if self._mask.active else work.arguments

    def _digest(self, work: CallInProgress) -> str:
        return digest_of(self.storable_arguments(work))

    def _began_as(self, work: CallInProgress) -> set[str]:
        """The effect ids under which this very call has begun, in whichever run and process."""
        if work.parent is not None or not self._transcript_kept:
            return set()

        def began(ledger: Ledger) -> set[str]:
            slot = ledger.slot_of(work.written)
            return set() if slot is None else {one.effect_id for one in ledger.effects.of_slot(slot)}

        return self._transcript.ask(began)

    def _place_of(self, work: CallInProgress) -> str:
        session = self._info.session_id
        if work.parent is not None:
            call = _id_of([self.effect_id(work.parent), work.call.name, self._digest(work)])
            times = work.parent.effect.nested[call] = work.parent.effect.nested.get(call, -1) + 1
            return _id_of([call, times])
        if not self._transcript_kept:  # it has no place; made again, it is found as an equal one
            return _id_of([session, uuid.uuid4().hex])
        place = [session, self.waiting.reply_of(work.written), work.written.id, work.digest]
        times = self._transcript.ask(lambda ledger: ledger.answered_as(work.written))
        others = {one.effect.id for one in self.open_calls if one is not work}
        while _id_of([*place, times]) in others:  # calls of one reply may say the same, under one id
            times += 1
        return _id_of([*place, times])


def _id_of(place: Sequence[object]) -> str:
    return f"effect-{digest_of(list(place))[:32]}"
