"""How much a rule lets through: what a limit says."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator, model_validator

from builtin_plugins.tool_policy._strict import Strict, known_words

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
        much = f"{amount:,} {unit if amount != 1 else unit[:-1]}"
        if unit == "dollars":
            from hooksdk.costs import in_dollars  # most policies limit no money

            much = in_dollars(amount)
        whose = ", ".join(_WORDS[scope] for scope in SCOPES if scope in self.per)
        return f"{much} for {whose}" + (f" in {self.window}" if self.window else "")
