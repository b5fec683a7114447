"""Counting what was used of a limit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from builtin_plugins.tool_policy._limits import Limit, Unit
from hooksdk.costs import in_dollars
from hooksdk.values import as_list, as_object

# Of one count: of more, those within a hundredth of the window become one, with the time of the last.
MOST_ENTRIES = 200


@dataclass(frozen=True)
class Used:
    """What was used of one limit.

    Attributes:
        free_at: When the next is free again, in seconds since 1970; None where that never is, and while something is
            left.
    """

    unit: Unit
    amount: float
    free_at: float | None
    is_full: bool

    def words(self, limit: Limit) -> str:
        """For whoever is refused: what was used, and when there is more."""
        much = in_dollars(self.amount) if self.unit == "dollars" else f"{self.amount:,}"
        when = "none becomes free again" if self.free_at is None else f"the next is free at {_moment(self.free_at)}"
        return f"used: {much} of {limit.words(self.unit)}; {when}"


def _moment(seconds: float) -> str:
    """Rounded up: nothing is free a moment before."""
    return f"{datetime.fromtimestamp(-(-seconds // 1), UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(stored: object, limit: Limit, unit: Unit, now: float) -> tuple[dict[str, Any], Used]:
    """A stored count as it is now, without what has left the window, and what it says.

    It is `{"entries": [[time, amount], ...], "latest": time, "window": seconds}`. Time never goes back in it: while `now`
    is behind the latest time that the count has seen, it stands still, so nothing is free before its time.
    """
    fields, window = as_object(stored), limit.seconds
    now = max(now, float(fields.get("latest", 0)))
    entries = [(float(at), amount) for at, amount in as_list(fields.get("entries"))]
    if window is not None:
        entries = [entry for entry in entries if entry[0] + window > now]
    entries = _shortened(entries, window)
    used, most = sum(amount for _, amount in entries), limit.amounts[unit]
    free_at, left = None, used
    if window is not None and used >= most:
        for at, amount in entries:
            left -= amount
            if left < most:
                free_at = at + window
                break
    current: dict[str, Any] = {"entries": [[at, amount] for at, amount in entries], "latest": now, "window": window}
    return current, Used(unit, round(used, 9) if unit == "dollars" else used, free_at, used >= most)


def is_over(stored: object, now: float) -> bool:
    """True for a count of which nothing counts any more."""
    fields = as_object(stored)
    window: object = fields.get("window")
    return isinstance(window, (int, float)) and float(fields.get("latest", 0)) + window < now


def _shortened(entries: list[tuple[float, float]], window: float | None) -> list[tuple[float, float]]:
    if window is None:
        return [(entries[-1][0], sum(amount for _, amount in entries))] if entries else []
    if len(entries) <= MOST_ENTRIES:
        return entries
    slots: dict[int, tuple[float, float]] = {}
    for at, amount in entries:
        slot = int(at // (window / 100))
        slots[slot] = (at, slots.get(slot, (at, 0))[1] + amount)
    return list(slots.values())


def with_amount(current: dict[str, Any], amount: float) -> dict[str, Any]:
    """The count with what is used now; a negative amount takes back what was counted last."""
    entries = [list(entry) for entry in current["entries"]]
    if amount < 0:
        while entries and amount < 0:
            entries[-1][1], amount = max(entries[-1][1] + amount, 0), min(entries[-1][1] + amount, 0)
            if not entries[-1][1]:
                entries.pop()
    else:
        entries.append([current["latest"], amount])
    return {**current, "entries": entries}
