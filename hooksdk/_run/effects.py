"""Calls that may take effect: what is written before their tools run, and what is asked where an equal one is in doubt."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

from hooksdk._approvals.request import Question, digest_of
from hooksdk._run.state import CallInProgress, RunState
from hooksdk._run.waiting_calls import digest_of_call
from hooksdk.calls import CallInDoubt
from hooksdk.transcript import encode
from hooksdk.values import clip

OWNER = "hooksdk"
"""Who asks about a call of which an equal one is in doubt. No plugin has this id."""
MOST_ARGUMENTS = 2000
"""Characters of the arguments that are kept for the person who has to find out."""


def may_take_effect(work: CallInProgress) -> bool:
    """True unless the tool is known to read only. A bridge without an executor stands for other calls."""
    return work.tool is not None and work.tool.annotations.read_only is not True


def effect_id(state: RunState, work: CallInProgress) -> str:
    """The id of the call's effect: of one that is in doubt, where this call is that one made again or equal to it; else made of
    where the call stands, so that it is the same in whichever run and process the call is made."""
    if not work.effect:
        equal = equal_in_doubt(state, work)
        work.effect = equal[0].effect_id if equal else _place_of(state, work)
    return work.effect


def equal_in_doubt(state: RunState, work: CallInProgress) -> list[CallInDoubt]:
    """The calls of the same tool with the same arguments whose end is not known, this very call first."""
    if work.tool is None or not (doubts := state.in_doubt()):
        return []
    digest = digest_of(work.arguments)
    equal = [one for one in doubts if one.tool == work.tool.id and one.digest == digest != ""]
    return sorted(equal, key=lambda one: one.call_id != work.written.id)


def question(state: RunState, work: CallInProgress) -> Sequence[Question]:
    """What a person is asked before the call runs, since an equal one may have taken effect. A tool that says of itself that a
    second call changes nothing needs no question."""
    if not may_take_effect(work) or (work.tool is not None and work.tool.annotations.idempotent):
        return ()
    if not (equal := equal_in_doubt(state, work)):
        return ()
    one, again = equal[0], " once more" if equal[0].call_id != work.written.id else ""
    description = (
        f"The call '{one.call_id}' with the same arguments began at {_when(one.began)}, and its end is not known: it may have "
        f"taken effect (effect id {one.effect_id}). Look whether it did: `hooksdk sessions settle` ends the doubt."
    )
    title = f"Run '{work.call.name}'{again or ' again'}? It may have taken effect"
    return (Question(title=title, description=description, severity="critical", plugin=OWNER, rule=one.effect_id),)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


async def begin(state: RunState, work: CallInProgress) -> bool:
    """Write that the call begins, unless it only reads; False where nothing was written. Raises what the store raises: then it
    must not run."""
    if work.begun or not may_take_effect(work):
        return False
    if state.parts.transcript.volatile:
        work.begun = True
        if state.in_doubt():
            effect_id(state, work)  # of an equal one, whose doubt ends with this
        return False
    await _write(state, work)
    return True


async def write_running(state: RunState) -> None:
    """Write of every call that has begun and has no result that it has begun, where that was not worth it before."""
    if state.parts.transcript.volatile:
        for work in [*state.open_calls, *state.busy]:
            if work.begun:
                await _write(state, work)


async def _write(state: RunState, work: CallInProgress) -> None:
    transcript, tool = state.parts.transcript, work.tool
    assert tool is not None
    arguments = state.secrets.value(work.arguments) if state.secrets.active else work.arguments
    entry = {
        "effect": effect_id(state, work), "call": [work.call.id, work.call.name], "tool": tool.id,
        "digest": digest_of(work.arguments), "arguments": clip(encode(arguments).decode(), MOST_ARGUMENTS),
    }  # fmt: skip
    if work.parent is not None:
        entry["parent"] = work.parent.call.id
    elif state.parts.transcript_kept:
        slot = transcript.ask(lambda ledger: ledger.slot_of(work.written))
        entry |= {"reply": state.waiting.reply_of(work.written), "order": slot.order if slot else None}
    await transcript.begin(entry)
    work.begun = True


async def prepare_end(state: RunState, work: CallInProgress) -> str:
    """Before its result is recorded: answers the effect whose end it tells, nothing for one that stays in doubt."""
    if work.in_doubt and state.parts.transcript.volatile:
        await _write(state, work)
    return "" if work.in_doubt or not work.begun else work.effect


async def finish(state: RunState, work: CallInProgress) -> None:
    """Write the end of a call that no result among the messages tells of."""
    transcript = state.parts.transcript
    if ends := await prepare_end(state, work):
        transcript.end(ends)
    elif work.in_doubt:
        await transcript.doubt(work.effect)


def withdraw(state: RunState, work: CallInProgress) -> None:
    """It began, and waits again: its tool has done nothing."""
    if work.begun:
        work.begun = work.entered = False
        state.parts.transcript.end(work.effect)


def _place_of(state: RunState, work: CallInProgress) -> str:
    session = state.info.session_id
    if work.parent is not None:
        call = _id_of([effect_id(state, work.parent), work.call.name, digest_of(work.arguments)])
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
