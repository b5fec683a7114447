"""Calls that may take effect: what is written before their tools run, and what is asked where an equal one is in doubt."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

import anyio.lowlevel

from hooksdk._approvals.request import Question, digest_of
from hooksdk._run.state import CallEnd, CallInProgress, RunState
from hooksdk._run.waiting_calls import digest_of_call
from hooksdk._tasks.shielding import run_shielded
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import CallInDoubt
from hooksdk.transcript import encode
from hooksdk.values import clip

OWNER = "hooksdk"
"""Who asks about a call of which an equal one is in doubt. No plugin has this id."""
IN_DOUBT = "may have taken effect"
"""What is said of every call in doubt."""
_LOST = (
    "An equal call ran before, and this conversation has lost its result. Look what it did before you call it again."
)
_EARLIER = f"An earlier attempt of it began, and its end is not known: it {IN_DOUBT}. Look before you call it again."
MOST_ARGUMENTS = 2000
"""Characters of the arguments that are kept for the person who has to find out."""


def may_take_effect(work: CallInProgress) -> bool:
    """True unless the tool is known to read only. A bridge without an executor stands for other calls."""
    return work.tool is not None and work.tool.annotations.read_only is not True


def effect_id(state: RunState, work: CallInProgress) -> str:
    """The id of the call's effect: of one that is in doubt, where this call is that one made again or equal to it; else made of
    where the call stands, so that it is the same in whichever run and process the call is made."""
    if not work.effect:
        taken = {one.effect for one in state.open_calls if one is not work}  # one of several equal ones takes its place
        equal = [one.effect_id for one in equal_in_doubt(state, work) if one.effect_id not in taken]
        work.effect = equal[0] if equal else _place_of(state, work)
    return work.effect


def equal_in_doubt(state: RunState, work: CallInProgress) -> list[CallInDoubt]:
    """The calls whose end is not known, or not to this conversation, and that this one makes once more: this very call first, whatever its arguments are by
    now, and those of the same tool with the same arguments."""
    if not (doubts := state.asked_about()):
        return []
    tool = "" if work.tool is None else work.tool.id
    own, digest = _began_as(state, work), _digest(state, work)
    equal = [one for one in doubts if one.effect_id in own or (one.tool == tool and one.digest == digest != "")]
    return sorted(equal, key=lambda one: (one.effect_id not in own, one.call_id != work.written.id))


def storable_arguments(state: RunState, work: CallInProgress) -> dict[str, Any]:
    """What may be stored of its arguments: a placeholder stands for a secret's value, and means the same call."""
    return state.secrets.value(work.arguments) if state.secrets.active else work.arguments


def _digest(state: RunState, work: CallInProgress) -> str:
    return digest_of(storable_arguments(state, work))


def _began_as(state: RunState, work: CallInProgress) -> set[str]:
    """The effect ids under which this very call has begun, in whichever run and process."""
    if work.depth or not state.parts.transcript_kept:
        return set()

    def began(ledger: Ledger) -> set[str]:
        slot = ledger.slot_of(work.written)
        return set() if slot is None else {one.effect_id for one in ledger.effects.of_slot(slot)}

    return state.parts.transcript.ask(began)


def has_begun_before(state: RunState, work: CallInProgress) -> bool:
    """True for a call that an earlier attempt has left in doubt."""
    doubts = state.in_doubt()
    return bool(doubts) and not _began_as(state, work).isdisjoint(one.effect_id for one in doubts)


def with_doubt(state: RunState, work: CallInProgress, end: CallEnd) -> CallEnd:
    """Whatever keeps a call from running now, the model reads that one before it may have taken effect."""
    if end.status in {"ok", "answered"} or work.entered or IN_DOUBT in end.result.text:
        return end
    equal = equal_in_doubt(state, work)
    if not work.is_again and not equal:
        return end
    earlier = _LOST if equal and all(one.lost for one in equal) else _EARLIER
    return CallEnd(end.status, end.result.with_text(f"{end.result.text.rstrip('.')}. {earlier}"))


def question(state: RunState, work: CallInProgress) -> Sequence[Question]:
    """What a person is asked before the call runs, since an equal one may have taken effect. A tool that says of itself that a
    second call changes nothing needs no question."""
    if not may_take_effect(work) or (work.tool is not None and work.tool.annotations.idempotent):
        return ()
    if not (equal := equal_in_doubt(state, work)):
        return ()
    one = equal[0]
    again = "again" if one.call_id == work.written.id else "once more"
    same = " with the same arguments" if one.digest == _digest(state, work) else ""
    if one.lost:
        title = f"Run '{work.call.name}' {again}? It ran already"
        known = "and ran to its end, but this conversation has lost its reply, as in a crash"
    else:
        title = f"Run '{work.call.name}' {again}? It may have taken effect"
        known = "and its end is not known: it may have taken effect"
    description = (
        f"The call '{one.call_id}'{same} began at {_when(one.began)}, {known} (effect id {one.effect_id}). Look what it did: "
        f"`hooksdk sessions settle` ends the {'question' if one.lost else 'doubt'}."
    )
    return (Question(title=title, description=description, severity="critical", plugin=OWNER, rule=one.effect_id),)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


async def begin(state: RunState, work: CallInProgress) -> bool:
    """Write that the call begins, unless it only reads; False where nothing was written. Raises what the store raises: then it
    must not run."""
    if work.begun or not may_take_effect(work):
        return False
    if not take_place(state, work) and state.parts.transcript.volatile:
        work.begun = True
        return False
    await _write(state, work)
    await anyio.lowlevel.checkpoint_if_cancelled()
    return True


def take_place(state: RunState, work: CallInProgress) -> bool:
    """Where the call is made in the place of one in doubt, whose doubt ends with its result: True then."""
    doubts = {one.effect_id for one in state.in_doubt()}
    work.is_again = bool(doubts) and effect_id(state, work) in doubts
    return work.is_again


async def write_running(state: RunState) -> None:
    """Write of every call that has begun and has no result that it has begun, where that was not worth it before."""
    for work in [*state.open_calls, *state.busy]:
        if work.begun:
            await _write_late(state, work)


async def _write_late(state: RunState, work: CallInProgress) -> None:
    """Once: by now another call of a later reply may go by the same id."""
    transcript = state.parts.transcript
    if transcript.volatile and not transcript.ask(lambda ledger: work.effect in ledger.effects.begun):
        await _write(state, work)


async def _write(state: RunState, work: CallInProgress) -> None:
    transcript, tool = state.parts.transcript, work.tool
    assert tool is not None
    entry = {
        "effect": effect_id(state, work), "call": [work.call.id, work.call.name], "tool": tool.id,
        "digest": _digest(state, work), "arguments": clip(encode(storable_arguments(state, work)).decode(), MOST_ARGUMENTS),
    }  # fmt: skip
    if work.parent is not None:
        entry["parent"] = work.parent.call.id
    elif state.parts.transcript_kept:
        slot = transcript.ask(lambda ledger: ledger.slot_of(work.written))
        entry |= {"reply": state.waiting.reply_of(work.written), "order": slot.order if slot else None}
        entry["run"] = state.info.run_id

    async def write() -> None:
        await transcript.begin(entry)
        work.begun = True

    await run_shielded(write)  # what is handed over may be stored with another call's: then it is not left alone


async def prepare_end(state: RunState, work: CallInProgress) -> str:
    """Before its result is recorded: answers the effect whose end it tells, nothing for one that stays in doubt."""
    work.in_doubt = work.in_doubt or (work.is_again and not work.entered)
    if not work.in_doubt:
        return work.effect if work.begun else ""
    await _write_late(state, work)
    await state.parts.transcript.doubt(work.effect)
    return ""


async def finish(state: RunState, work: CallInProgress) -> None:
    """Write the end of a call that no result among the messages tells of."""
    if work.confirms and work.begun:
        await _write_late(state, work)
    if ends := await prepare_end(state, work):
        state.parts.transcript.end(ends, confirmed=not work.confirms)


def withdraw(state: RunState, work: CallInProgress) -> None:
    """It began, and waits again: its tool has done nothing."""
    if work.begun:
        work.begun = work.entered = False
        work.nested.clear()
        if not work.is_again:
            state.parts.transcript.end(work.effect)


def _place_of(state: RunState, work: CallInProgress) -> str:
    session = state.info.session_id
    if work.parent is not None:
        call = _id_of([effect_id(state, work.parent), work.call.name, _digest(state, work)])
        times = work.parent.nested[call] = work.parent.nested.get(call, -1) + 1
        return _id_of([call, times])
    if not state.parts.transcript_kept:  # it has no place; made again, it is found as an equal one
        return _id_of([session, uuid.uuid4().hex])
    place = [session, state.waiting.reply_of(work.written), work.written.id, digest_of_call(work.written)]
    times = state.parts.transcript.ask(lambda ledger: ledger.answered_as(work.written))
    others = {one.effect for one in state.open_calls if one is not work}
    while _id_of([*place, times]) in others:  # calls of one reply may say the same, under one id
        times += 1
    return _id_of([*place, times])


def _id_of(place: Sequence[object]) -> str:
    return f"effect-{digest_of(list(place))[:32]}"
