"""Calls that may take effect: which have begun, and which of them have no known end. Pure, like the ledger.

A call begins with an entry of its own. Its end is its result: a stored message, or a staged result; an entry (`done`)
where the session keeps no messages. A call that is closed without its result gets an entry `doubt` first, so that the
error result in its place does not count as its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from hooksdk._transcript.encoding import Entry
from hooksdk._transcript.turns import Slot, Turns
from hooksdk.calls import CallInDoubt


def in_doubt(name: str) -> str:
    """The text that a model reads in the place of the result of a call in doubt."""
    return f"'{name}' began, and its end is not known: it may have taken effect. Look before you call it again."


@final
@dataclass(slots=True)
class Begun:
    """One call that has begun.

    Attributes:
        in_doubt: True for a call that was closed without a result of its own.
    """

    entry: Entry
    in_doubt: bool = False

    @property
    def effect_id(self) -> str:
        return str(self.entry["effect"])

    @property
    def reply(self) -> int | None:
        """The number of the reply that makes the call; None for one that no message makes."""
        return self.entry.get("reply")

    def described(self, *, lost: bool = False) -> CallInDoubt:
        """The call as `session.in_doubt` tells it."""
        entry = self.entry
        call_id, name = map(str, entry["call"])
        told = {key: str(entry[key]) for key in ("tool", "arguments", "digest")}
        parent, began = entry.get("parent"), float(entry.get("time", 0.0))
        return CallInDoubt(
            call_id=call_id, name=name, **told, effect_id=self.effect_id, parent_id=parent, began=began, lost=lost
        )


@final
class Effects:
    """The calls of one session that have begun, by its messages and its journal.

    Attributes:
        begun: The calls that have begun, by effect id, the oldest first. Ended ones stay until the next `sweep`.
        over: Those that have ended, until the run that made them completes: before that the conversation may lose their
            reply.
        lost: Those that have ended, and whose reply the conversation has lost.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.begun: dict[str, Begun] = {}
        self.over: dict[str, Begun] = {}
        self.lost: dict[str, Begun] = {}

    def __repr__(self) -> str:
        return f"Effects({self.without_end()})"

    def begin(self, entry: Entry) -> None:
        """Note that a call begins, for the first time or once more."""
        self.sweep()
        self.end([str(entry["effect"])])
        self.begun[str(entry["effect"])] = Begun(entry)

    def end(self, effect_ids: Iterable[str]) -> None:
        """Forget calls whose end is known."""
        for effect_id in effect_ids:
            for calls in (self.begun, self.over, self.lost):
                calls.pop(effect_id, None)

    def doubt(self, effect_ids: Iterable[str]) -> None:
        """Mark calls that get no result of their own any more."""
        for effect_id in effect_ids:
            if (one := self.begun.get(effect_id)) is not None:
                one.in_doubt = True

    def drop(self) -> None:
        """Results of unrecorded calls are given up: those calls have ended, and the conversation has lost their
        reply."""
        self.sweep()
        self.lose([effect for effect, one in self.over.items() if (one.reply or 0) > self._turns.replies])

    def sweep(self) -> None:
        """Move ended calls to `over`. Calls of hooksdk 0.2.0, whose entries name no run, are forgotten."""
        for one in [one for one in self.begun.values() if not self._is_open(one)]:
            del self.begun[one.effect_id]
            if "run" in one.entry:
                self.over[one.effect_id] = one

    def lose(self, effect_ids: Iterable[str]) -> None:
        """Move ended calls whose reply the conversation has lost to `lost`."""
        self.sweep()
        self.lost |= {effect_id: self.over.pop(effect_id) for effect_id in effect_ids if effect_id in self.over}

    def find(self, effect_id: str) -> Begun | None:
        """The call with this effect id, unless it is forgotten."""
        return self.begun.get(effect_id) or self.over.get(effect_id) or self.lost.get(effect_id)

    def without_end(self) -> list[Begun]:
        """The calls that have begun and not ended."""
        return [one for one in self.begun.values() if self._is_open(one)]

    def described(self) -> list[CallInDoubt]:
        """The calls without an end, for people. In a session that is open, some of them may still run."""
        return [one.described() for one in self.without_end()] if self.begun else []

    def of_slot(self, slot: Slot) -> list[Begun]:
        """The begun calls that are this call of the newest reply."""
        return [one for one in self.begun.values() if self._is_of(one, slot)]

    def closed_with_turn(self, replies_before: int) -> list[Begun]:
        """The calls without an end that the end of the newest turn leaves without a result, those of an unrecorded
        reply among them."""
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
