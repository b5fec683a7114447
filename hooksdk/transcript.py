"""A session's transcript: what is stored, what the model sees of it, and the trims between the two.

The stored truth is two sequences that only grow: messages, in the host's own format, and journal entries. The model's
view is a pure function of both (`_transcript/journal.py`), so nothing stored is ever rewritten and every trim can be
taken back.
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, final

from hooksdk._transcript.encoding import Entry, encode, encode_for, is_same
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.loose_ends import without_loose_ends
from hooksdk._transcript.messages import EncodedMessages, MessageSource
from hooksdk._transcript.pairing import NO_RESULT, MismatchError, check_message, gather_results, pair_results
from hooksdk._transcript.reading import ledger_of
from hooksdk._transcript.rows import ResultRow, RowKind, StoredRow
from hooksdk._transcript.storage import (
    LazyLog,
    ListingStore,
    RewritableLog,
    RowLog,
    SessionBeginning,
    SessionLog,
    SessionState,
    SharingStore,
    Store,
    unknown_session,
)
from hooksdk._transcript.transcript import Transcript
from hooksdk._transcript.trims import DrainedTrim, DrainReport, Plan
from hooksdk.calls import ResultInfo, ToolResult, TrimReceipt
from hooksdk.errors import FenceClosed
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.sending import sendable

if TYPE_CHECKING:
    from hooksdk._transcript.requests import find_record, message_tokens, plan_drain, plan_trim

__all__ = [
    "NO_RESULT",
    "DrainReport",
    "DrainedTrim",
    "EncodedMessages",
    "Entry",
    "LazyLog",
    "Ledger",
    "ListingStore",
    "Message",
    "MessageSource",
    "MismatchError",
    "OnQueued",
    "ResultRow",
    "Results",
    "RewritableLog",
    "RowKind",
    "RowLog",
    "SessionBeginning",
    "SessionLog",
    "SessionState",
    "SharingStore",
    "Store",
    "StoredRow",
    "Transcript",
    "TranscriptEditor",
    "check_message",
    "encode",
    "encode_for",
    "find_record",
    "gather_results",
    "is_same",
    "ledger_of",
    "message_tokens",
    "pair_results",
    "plan_drain",
    "plan_trim",
    "unknown_session",
    "view",
    "without_loose_ends",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:  # a run without trims needs none of these
        if name in {"find_record", "message_tokens", "plan_drain", "plan_trim"}:
            from hooksdk._transcript import requests

            return getattr(requests, name)
        raise AttributeError(f"module 'hooksdk.transcript' has no attribute {name!r}")


OnQueued = Callable[[Literal["trim", "restore"], TrimReceipt], Awaitable[None]]
"""Told of each trim and restore that was queued."""


def view(messages: Sequence[Message], journal: Iterable[Entry], message_format: MessageFormat) -> list[Message]:
    """What the model sees of stored messages and journal: fresh copies, the same for the same input."""
    return sendable(Ledger.replay(messages, journal, message_format).copies(), message_format)


class Results:
    """The tool results of a session, to read and to trim. A result goes by its handle (`r17`) or, while that is
    unambiguous, by its call id. Unknown or ambiguous references raise `UnknownResult` with the nearest handles.

    ```python
    from hooksdk import hooks
    from hooksdk.hooks import BeforeModelCall

    class TrimOldResults:
        @hooks.before_model_call
        async def trim(self, event: BeforeModelCall) -> None:
            for info in event.results.list():
                if info.trimmable and info.turns_ago > 3:
                    await event.results.trim(info.handle, "a long listing", reason="old")
    ```
    """

    def __init__(
        self,
        transcript: Transcript,
        owner: str,
        *,
        missing_grant: Exception | None = None,
        on_queued: OnQueued | None = None,
    ) -> None:
        """`owner` is the plugin whose name goes into the journal. `missing_grant` is raised when it asks for a text, or
        for a trim that could never be drained. `on_queued` is called with what was queued.
        """
        self._transcript = transcript
        self._owner = owner
        self._missing_grant = missing_grant
        self._on_queued = on_queued

    def __repr__(self) -> str:
        return f"<Results of session '{self._transcript.session_id}', for '{self._owner}'>"

    def _may_use(self, *, grant: bool = True) -> Transcript:
        if grant and self._missing_grant is not None:
            raise self._missing_grant
        return self._transcript

    def list(self, *, arguments: bool = False) -> Sequence[ResultInfo]:
        """All results, oldest first, without their bodies. With `arguments` also the long arguments of each call,
        before its result: they are read, trimmed and restored in the same way, by handles such as `r17.content`."""
        return self._may_use(grant=False).list_results(arguments=arguments)

    def message_tokens(self) -> builtins.list[int]:
        """The size of each stored message as the model sees it, in tokens, at the index that `ResultInfo.position`
        names: a trimmed result counts as its note. What was compacted away counts 0, and what stands in its place
        counts at the last of those messages. `hooksdk.costs` computes with it what a trim costs."""
        return self._may_use(grant=False).message_tokens()

    def read(self, reference: str) -> str:
        """The original text of a result, trimmed or not."""
        return self._may_use().read_result(reference).text

    def recall(self, reference: str) -> ToolResult:
        """The original result, trimmed or not, with its images and files as blocks in MCP's shape."""
        return self._may_use().read_result(reference)

    async def trim(
        self, reference: str, replacement: str | None = None, *, reason: str = "", small: bool = False
    ) -> TrimReceipt:
        """Queue one trim. When this returns, the trim is durable; it is applied when the fence opens.

        `replacement` is a summary to keep, capped in length; the host adds what was there and how to get it back. The
        first replacement wins. With `small` a result is shortened that is hardly longer than the note in its place. One
        that cannot be queued answers `not_trimmed`, with the reason as text. Raises `UnknownResult`, or `MissingGrant`
        for a plugin that could never see it drained.
        """
        from hooksdk._transcript.requests import plan_trim

        return await self._queue("trim", lambda ledger: plan_trim(ledger, reference, replacement, small=small), reason)

    async def restore(self, reference: str) -> TrimReceipt:
        """Queue the end of a trim, so that the model sees the whole result again once the fence opens."""
        from hooksdk._transcript.requests import plan_restore

        return await self._queue("restore", lambda ledger: plan_restore(ledger, reference))

    async def _queue(
        self, kind: Literal["trim", "restore"], plan: Callable[[Ledger], Plan], reason: str = ""
    ) -> TrimReceipt:
        receipt = await self._may_use().queue(plan, self._owner, reason)
        if receipt.status == "queued" and self._on_queued is not None:
            await self._on_queued(kind, receipt)
        return receipt


@final
class TranscriptEditor(Results):
    """What an `agent_end` handler may do with the transcript: read its messages, and list, read, trim and restore its
    results. What it queues is applied in the drain that follows. Everything raises `FenceClosed` while a run is open.

    ```python
    from hooksdk import hooks
    from hooksdk.hooks import AgentEnd

    @hooks.agent_end
    async def trim_the_first(event: AgentEnd) -> None:
        await event.transcript.trim("r1", "It was fine.", reason="long and old")
    ```
    """

    def _may_use(self, *, grant: bool = True) -> Transcript:
        transcript = super()._may_use(grant=grant)
        if transcript.fenced:
            raise FenceClosed(transcript.session_id)
        return transcript

    @property
    def messages(self) -> builtins.list[Message]:
        """The stored messages, whole: fresh copies."""
        return self._may_use().messages

    @property
    def results(self) -> Results:
        """The tool results: the editor itself, under the name that other events have for them."""
        self._may_use()
        return self
