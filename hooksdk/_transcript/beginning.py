"""What is written of calls that may take effect, between their judgement and their result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from hooksdk._transcript.effects import Begun
from hooksdk._transcript.entries import Entry
from hooksdk._transcript.stored import Stored, alone
from hooksdk.calls import CallInDoubt
from hooksdk.errors import StoreError
from hooksdk.formats import MessageFormat


@final
@dataclass
class _Commit:
    """Entries that are stored in one step: those of calls that begin, or end, while another step is under way."""

    entries: list[Entry] = field(default_factory=list[Entry])
    is_stored: bool = False
    error: Exception | None = None


class Beginnings(Stored):
    """The part of a transcript that knows which calls have begun."""

    _next: _Commit | None = None

    async def _load(self, message_format: MessageFormat | None) -> list[Entry]:
        journal = await super()._load(message_format)
        self._ledger.effects.end(self._ended)
        return journal

    async def begin(self, entry: Entry) -> None:
        """A call begins: durable when this returns. Calls that begin at the same time share one step of the store. Raises what
        the store raises; then nothing of it is stored, and the call must not run."""
        await self._commit({"kind": "began", **entry})

    def end(self, effect_id: str, *, confirmed: bool = True) -> None:
        """It has ended, and no result in the messages says so. It is written with what is written next, once it is `confirmed`
        that whoever made the call has heard of its end: until then a process that dies leaves it in doubt."""
        if effect_id in self._ledger.effects.begun and not confirmed:
            self._unconfirmed.add(effect_id)
        elif effect_id in self._ledger.effects.begun:
            self._ledger.effects.end([effect_id])
            self._ended.append(effect_id)

    def confirm(self, effect_id: str, *, arrived: bool) -> None:
        """Whoever made the call has heard of its end, or never will: then it is in doubt. Of another one this says nothing."""
        if effect_id in self._unconfirmed:
            self._unconfirmed.remove(effect_id)
            if arrived:
                self.end(effect_id)

    def end_run(self) -> None:
        """Nobody confirms anything any more: what is unconfirmed stays in doubt."""
        self._unconfirmed.clear()

    @property
    def unconfirmed(self) -> frozenset[str]:
        """The effect ids of calls that have ended, and of whose end it is not known whether whoever made them has heard."""
        return frozenset(self._unconfirmed)

    @alone
    async def write_ended(self) -> None:
        """Write what has ended, where nothing else is to be written."""
        if self._ended:
            await self._journal()
            await self._shorten()

    async def doubt(self, effect_id: str) -> None:
        """Nobody will know its end."""
        if (one := self._ledger.effects.begun.get(effect_id)) is not None:
            await self._doubt_alone([one])

    @alone
    async def _doubt_alone(self, calls: Sequence[Begun]) -> None:
        await self._doubt(calls)

    async def _doubt(self, calls: Sequence[Begun]) -> None:
        if calls:
            await self._journal({"kind": "doubt", "effects": [one.effect_id for one in calls]})

    @property
    def without_end(self) -> list[CallInDoubt]:
        """The calls that have begun and not ended, those that run at this moment among them; the oldest first."""
        effects = self._ledger.effects
        return effects.described() if effects.begun else []

    @property
    def lost(self) -> list[CallInDoubt]:
        """The calls that have ended, and whose reply the conversation has lost."""
        return [one.described(lost=True) for one in self._ledger.effects.lost.values()]

    def forget_ended(self, run_id: str) -> None:
        """The run has handed on what it came to: that is written with what is written next, or as the session closes. What was
        lost before it stays."""
        effects = self._ledger.effects
        effects.sweep()
        replies = self._ledger.replies  # a host that records no replies has no conversation that could lose one
        is_known = {
            effect for effect, one in effects.lost.items() if one.entry["run"] == run_id or (one.reply or 0) > replies
        }
        ended = [*effects.over, *is_known]
        effects.end(ended)
        self._ended += ended

    @property
    def doubted(self) -> frozenset[str]:
        """The effect ids of those that get no result of their own any more."""
        return frozenset(effect_id for effect_id, one in self._ledger.effects.begun.items() if one.in_doubt)

    async def _commit(self, entry: Entry) -> None:
        commit = self._next = self._next or _Commit()
        commit.entries.append(entry)
        await self._store_commit(commit)
        if commit.error is not None:
            raise StoreError(f"session '{self.session_id}'", str(commit.error)) from commit.error

    @alone
    async def _store_commit(self, commit: _Commit) -> None:
        if commit.is_stored or commit.error is not None:  # with another call's
            return
        self._next = None
        try:
            await self._journal(*commit.entries)
        except Exception as error:
            commit.error = error
            raise
        commit.is_stored = True
        self._void += len(commit.entries)
        await self._shorten()
