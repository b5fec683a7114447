"""Refuse calls whose record could not be written, as on a full disk; keep results that could not be, and write them later."""

from __future__ import annotations

import secrets

from hooksdk._ledger.calls import CallInProgress
from hooksdk._transcript.storage import Store, as_store_errors
from hooksdk.calls import ToolResult
from hooksdk.errors import StoreError
from hooksdk.transcript import Transcript

# The storage of the trial record. No plugin has this id: none begins like it.
SPACE = "hooksdk.room"
# Characters of the trial record: on a full disk a small record still fits into the last block of its file, and an
# ordinary result does not.
TRIAL = 16 * 1024


class DiskSpace:
    """The records of one run's calls, as far as they could not be written."""

    def __init__(self, transcript: Transcript, store: Store, run_id: str) -> None:
        self._transcript = transcript
        self._store = store
        self._run_id = run_id
        self._failures_before = transcript.unwritten.failures

    @property
    def has_failed(self) -> bool:
        """True where a record could not be written since the run began."""
        return self._transcript.unwritten.failures > self._failures_before

    async def check(self) -> None:
        """Before a call is taken up. Writes results that could not be written before, and a trial record where the session was
        just opened, or a record failed before this run. Raises `StoreError` where a record of this run could not be written,
        and what the store raises."""
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
            raise StoreError(f"run '{self._run_id}'", f"{problem}. Make room, and go on in a new run")

    def keep_result(self, work: CallInProgress, result: ToolResult, replies: int | None) -> None:
        """Keep a result that could not be written, for `record_again`."""
        replies = self._transcript.replies if replies is None else replies
        self._transcript.unwritten.results.append((work.written, result, work.tool, replies, work.effect.ends))

    async def record_again(self) -> None:
        """Store the results that could not be written before: their tools have run, and shall not run once more. Raises what
        the store raises."""
        waiting = self._transcript.unwritten.results
        while waiting:
            call, result, tool, replies, ends = one = waiting[0]
            await self._transcript.answer(call, result, tool, replies=replies, ends=ends)
            if one in waiting:  # of several that do this at once one was faster
                waiting.remove(one)
