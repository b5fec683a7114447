"""What plugins put into a session, without the values of secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from hooksdk._firing.twins import runs_without_effect
from hooksdk._masking.mask import SecretMask
from hooksdk.calls import TrimReceipt
from hooksdk.formats import Message
from hooksdk.transcript import Results, Transcript, TranscriptEditor


class _Masked(Results):
    mask: SecretMask

    async def trim(
        self, reference: str, replacement: str | None = None, *, reason: str = "", small: bool = False
    ) -> TrimReceipt:
        summary = None if replacement is None else self.mask.text(replacement)
        return await super().trim(reference, summary, reason=self.mask.text(reason), small=small)


async def _as_queued(receipt: TrimReceipt) -> TrimReceipt:
    return receipt


class MaskedResults(_Masked):
    """The session's tool results; what a trim leaves in their place holds no value of a secret. `settle` is handed each
    receipt: it applies what is queued where nothing waits for a run's end."""

    def __init__(
        self,
        transcript: Transcript,
        owner: str,
        *,
        mask: SecretMask,
        settle: Callable[[TrimReceipt], Awaitable[TrimReceipt]] = _as_queued,
        **options: Any,
    ) -> None:
        super().__init__(transcript, owner, **options)
        self.mask = mask
        self._settle = settle

    async def trim(
        self, reference: str, replacement: str | None = None, *, reason: str = "", small: bool = False
    ) -> TrimReceipt:
        return await self._settle(await super().trim(reference, replacement, reason=reason, small=small))

    async def restore(self, reference: str) -> TrimReceipt:
        return await self._settle(await super().restore(reference))


class RunResults(MaskedResults):
    """The results of a run. A handler in shadow mode gets the receipt of its trim, and nothing is queued."""

    async def _queue(
        self, kind: Literal["trim", "restore"], plan: Callable[[Any], Any], reason: str = ""
    ) -> TrimReceipt:
        if not runs_without_effect():
            return await super()._queue(kind, plan, reason)
        return await self._may_use().queue(lambda ledger: (plan(ledger)[0], None), self._owner, reason)


class MaskedEditor(_Masked, TranscriptEditor):  # pyright: ignore[reportGeneralTypeIssues] - final for others' subclasses
    """The same for `agent_end`."""

    def __init__(self, transcript: Transcript, owner: str, *, mask: SecretMask) -> None:
        super().__init__(transcript, owner)
        self.mask = mask


def mask_messages(messages: Sequence[Message], views: Sequence[Sequence[Message]], mask: SecretMask) -> list[Message]:
    """A host's list, to be compared with what is shown, in each of the ways in which it may have it: what is new
    without values, and what is known as it was stored. That may be with a value, from before the value was known, or
    without it while the host's own has it."""
    whole = list(messages)
    known = max(map(len, views))
    for view in views:
        for at, (theirs, ours) in enumerate(zip(messages, view, strict=False)):
            if theirs == ours or mask.value(theirs) == mask.value(ours):
                whole[at] = ours
    return [*whole[:known], *map(mask.value, whole[known:])]
