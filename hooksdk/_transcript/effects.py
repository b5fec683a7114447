"""Calls that may take effect: which of them have begun, and of which the end is not known. Pure, like the ledger.

A call begins with an entry of its own. Its result is its end: the message, or what waits to become one, where the session keeps
messages; else an entry. What closes a call without its result says so in an entry (`doubt`) before, so that nothing else counts
as its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from hooksdk._transcript.entries import Entry
from hooksdk._transcript.facts import Slot, Turns
from hooksdk.calls import CallInDoubt


def in_doubt(name: str) -> str:
    """What a model reads in the place of the result of a call that began, and of which nobody knows how it ended."""
    return f"'{name}' began, and its end is not known: it may have taken effect. Look before you call it again."


@final
@dataclass(slots=True)
class Begun:
    """One call that has begun."""

    entry: Entry
    in_doubt: bool = False
    """It was closed without a result of its own."""

    @property
    def effect_id(self) -> str:
        return str(self.entry["effect"])

    @property
    def reply(self) -> int | None:
        """The number of the reply that makes the call; None for one that no message makes."""
        return self.entry.get("reply")

    def described(self, *, lost: bool = False) -> CallInDoubt:
        """The same for whoever has to find out what became of it."""
        entry = self.entry
        return CallInDoubt(
            call_id=str(entry["call"][0]), name=str(entry["call"][1]), tool=str(entry["tool"]), arguments=str(entry["arguments"]),
            digest=str(entry["digest"]), effect_id=self.effect_id, parent_id=entry.get("parent"), began=float(entry.get("time", 0.0)),
            lost=lost,
        )  # fmt: skip


@final
class Effects:
    """The calls of one session that have begun, as its messages and its journal tell of them."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begun: dict[str, Begun] = {}
        """By effect id, the oldest first. Of those that have ended some are still there."""
        self.over: dict[str, Begun] = {}
        """Those that have ended, until the run that made them completes: before that the conversation may lose their reply."""
        self.lost: dict[str, Begun] = {}
        """Those that have ended, and whose reply the conversation has lost."""

    def __repr__(self) -> str:
        return f"Effects({self.without_end()})"

    def begin(self, entry: Entry) -> None:
        """A call begins, for the first time or once more."""
        self.sweep()
        self.end([str(entry["effect"])])
        self.begun[str(entry["effect"])] = Begun(entry)

    def end(self, effect_ids: Iterable[str]) -> None:
        """What became of them is known."""
        for effect_id in effect_ids:
            for calls in (self.begun, self.over, self.lost):
                calls.pop(effect_id, None)

    def doubt(self, effect_ids: Iterable[str]) -> None:
        """They get no result that tells their end."""
        for effect_id in effect_ids:
            if (one := self.begun.get(effect_id)) is not None:
                one.in_doubt = True

    def drop(self) -> None:
        """Results of calls that were never recorded are given up; those calls have ended all the same."""
        self.sweep()
        self.lose([effect for effect, one in self.over.items() if (one.reply or 0) > self._turns.replies])

    def sweep(self) -> None:
        """Lay aside those that have ended. Of a version that wrote no run with them they are forgotten."""
        for one in [one for one in self.begun.values() if not self._is_open(one)]:
            del self.begun[one.effect_id]
            if "run" in one.entry:
                self.over[one.effect_id] = one

    def lose(self, effect_ids: Iterable[str]) -> None:
        """The conversation has lost the replies of these, which have ended."""
        self.sweep()
        self.lost |= {effect_id: self.over.pop(effect_id) for effect_id in effect_ids if effect_id in self.over}

    def find(self, effect_id: str) -> Begun | None:
        """The call, if it is not forgotten."""
        return self.begun.get(effect_id) or self.over.get(effect_id) or self.lost.get(effect_id)

    def without_end(self) -> list[Begun]:
        """Those that have begun and not ended."""
        return [one for one in self.begun.values() if self._is_open(one)]

    def described(self) -> list[CallInDoubt]:
        """The same, for people. Where the session is open somewhere, some of them may run at this moment."""
        return [one.described() for one in self.without_end()] if self.begun else []

    def of_slot(self, slot: Slot) -> list[Begun]:
        """Those that began as this call of the newest reply."""
        return [one for one in self.begun.values() if self._is_of(one, slot)]

    def closed_with_turn(self, replies_before: int) -> list[Begun]:
        """Those of the newest reply, or of one that was never recorded, whose results do not come any more when it is left."""
        replies = max(self._turns.replies, replies_before + 1)  # one that was under way when the session was opened
        return [
            one for one in self.without_end() if not one.in_doubt and one.reply is not None and one.reply <= replies
        ]

    def _is_of(self, one: Begun, slot: Slot) -> bool:
        order = one.entry.get("order")
        is_same = one.entry["call"][0] == slot.id if order is None else order == slot.order
        return one.reply == self._turns.replies and is_same

    def _is_open(self, one: Begun) -> bool:
        turns = self._turns
        if one.in_doubt or one.reply is None:
            return True
        if one.reply < turns.replies:
            return False
        slot = next((slot for slot in turns.slots if self._is_of(one, slot)), None)
        return slot.open if slot else all(orphan[0].id != one.entry["call"][0] for orphan in turns.orphans)
