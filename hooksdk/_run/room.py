"""No call without its record, as far as that can be known before the tool runs: what happens to calls on a full disk."""

from __future__ import annotations

import secrets

from hooksdk._run.state import CallInProgress, RunState
from hooksdk._transcript.storage import as_store_errors
from hooksdk.calls import ToolResult
from hooksdk.errors import StoreError

SPACE = "hooksdk.room"
"""Where in a store it is tried whether there is room. No plugin has it: none has an id that begins like this."""
ROOM = 16 * 1024
"""Characters that are written for it: on a full disk a small record still has its place in the last block of its file, and an
ordinary result has none."""


async def check_room(state: RunState) -> None:
    """Before a call is taken up: raise `StoreError` where a record of this run could not be written, and what the store raises
    where the session was opened anew, or such a run was before, and nothing can be written. Results that could not be
    written before are written first."""
    check_records(state)
    transcript, store = state.parts.transcript, state.parts.store
    if transcript.unwritten.may_be_full:
        # Of letters and digits, which no file system makes shorter than half.
        with as_store_errors(f"storage '{SPACE}'"):
            await store.set_value(SPACE, transcript.session_id, secrets.token_hex(ROOM // 2))
            await store.delete_value(SPACE, transcript.session_id)
        await transcript.touch()
        transcript.unwritten.may_be_full = False
    await record_again(state)


def check_records(state: RunState) -> None:
    """Raise `StoreError` where a record could not be written since the run began."""
    unwritten = state.parts.transcript.unwritten
    if unwritten.failures > state.failures_before:
        problem = f"it takes no further call, since a record could not be written ({unwritten.problem})"
        raise StoreError(f"run '{state.info.run_id}'", f"{problem}. Make room, and go on in a new run")


def keep_result(state: RunState, work: CallInProgress, result: ToolResult) -> None:
    """Keep a result that could not be written, for `record_again`."""
    transcript, replies = state.parts.transcript, state.replies_at_end
    replies = transcript.replies if replies is None else replies
    ends = "" if work.in_doubt or not work.begun else work.effect
    transcript.unwritten.results.append((work.written, result, work.tool, replies, ends))


async def record_again(state: RunState) -> None:
    """Store the results that could not be written before: their tools have run, and shall not run once more. Raises what the
    store raises."""
    transcript = state.parts.transcript
    waiting = transcript.unwritten.results
    while waiting:
        call, result, tool, replies, ends = one = waiting[0]
        await transcript.answer(call, result, tool, replies=replies, ends=ends)
        if one in waiting:  # of several that do this at once one was faster
            waiting.remove(one)
