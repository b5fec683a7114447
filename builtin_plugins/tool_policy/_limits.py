"""How much a rule lets through: what a limit says, and counting what was used of it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from builtin_plugins.tool_policy._strict import Strict, known_words
from hooksdk.values import as_list as list_of
from hooksdk.values import as_object

Unit = Literal["calls", "tokens", "dollars"]
Scope = Literal["run", "session", "family", "requester", "tool"]
UNITS: tuple[Unit, ...] = get_args(Unit)
SCOPES: tuple[Scope, ...] = get_args(Scope)
_WORDS: dict[Scope, str] = {
    "run": "this run",
    "session": "this session",
    "family": "this task and its sub-agents",
    "requester": "this requester",
    "tool": "this tool",
}
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
# Of one count: of more, those within a hundredth of the window become one, with the time of the last.
MOST_ENTRIES = 200


class Limit(Strict):
    """How much is let through, of what, for whom and in which time.

    Attributes:
        calls: Calls that began.
        tokens: Tokens of requests to models, by the provider's count.
        dollars: What these cost, by `[prices]` and genai-prices.
        per: For whom it is counted; of several words, for each combination.
        window: In which time: `30s`, `15m`, `1h`, `7d`. Without it nothing is ever free again.
    """

    calls: Annotated[int, Field(gt=0, strict=True)] | None = None
    tokens: Annotated[int, Field(gt=0, strict=True)] | None = None
    dollars: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    per: Annotated[list[Scope], known_words(SCOPES, "word of per")] = Field(default_factory=lambda: ["family"])
    window: str | None = None

    @field_validator("window", mode="before")
    @classmethod
    def _check_window(cls, value: object) -> object:
        if value is not None and not (isinstance(value, str) and re.fullmatch(r"0*[1-9]\d{0,6}[smhd]", value)):
            raise ValueError(f"{value!r:.40} is no time; write such as '30s', '15m', '1h' or '7d'")
        return value

    @model_validator(mode="after")
    def _check(self) -> Limit:
        if not self.amounts:
            raise ValueError("it limits nothing; write calls, tokens or dollars")
        if "tool" in self.per and (self.tokens or self.dollars):
            raise ValueError("tokens and dollars are used by requests, not by tools; per = 'tool' is for calls")
        return self

    @property
    def amounts(self) -> dict[Unit, float]:
        """By unit, how much is let through."""
        return {unit: amount for unit in UNITS if (amount := getattr(self, unit)) is not None}

    @property
    def seconds(self) -> float | None:
        """The window's length."""
        return None if self.window is None else int(self.window[:-1]) * _SECONDS[self.window[-1]]

    def words(self, unit: Unit) -> str:
        """What is limited: `50 calls for this run in 1h`."""
        amount = self.amounts[unit]
        much = _dollars(amount) if unit == "dollars" else f"{amount:,} {unit if amount != 1 else unit[:-1]}"
        whose = ", ".join(_WORDS[scope] for scope in SCOPES if scope in self.per)
        return f"{much} for {whose}" + (f" in {self.window}" if self.window else "")


def _dollars(amount: float) -> str:
    from hooksdk.costs import in_dollars  # most policies limit nothing

    return in_dollars(amount)


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
        much = _dollars(self.amount) if self.unit == "dollars" else f"{self.amount:,}"
        when = "none becomes free again" if self.free_at is None else f"the next is free at {_moment(self.free_at)}"
        return f"used: {much} of {limit.words(self.unit)}; {when}"


def _moment(seconds: float) -> str:
    """Rounded up: nothing is free a moment before."""
    return f"{datetime.fromtimestamp(-(-seconds // 1), UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(stored: object, limit: Limit, unit: Unit) -> tuple[dict[str, Any], Used]:
    """A stored count as it is now, without what has left the window, and what it says.

    It is `{"entries": [[time, amount], ...], "latest": time, "window": seconds}`. Time never goes back in it: while the
    clock is behind the latest time that the count has seen, it stands still, so nothing is free before its time.
    """
    fields, window = as_object(stored), limit.seconds
    now = max(time.time(), float(fields.get("latest", 0)))
    entries = [(float(at), amount) for at, amount in list_of(fields.get("entries"))]
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


def is_over(stored: object) -> bool:
    """True for a count of which nothing counts any more."""
    fields = as_object(stored)
    window: object = fields.get("window")
    return isinstance(window, (int, float)) and float(fields.get("latest", 0)) + window < time.time()


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
