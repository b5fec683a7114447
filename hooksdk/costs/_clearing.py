"""Which old results to clear now, if any: the rule of the plugin `clear_tool_results`. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hooksdk.calls import ResultInfo
from hooksdk.costs._estimate import NOTE_TOKENS, PRICES, Prices, TrimCost, tail_costs

TRIGGER = 16_000
"""Tokens of a conversation from which on results are cleared by default, where the context window is not smaller still."""
UNKNOWN_WINDOW = 200_000
"""The context window of a model that the host says nothing of, in tokens."""
GROWTH = 100
"""Tokens of results that each request of a conversation brings, about (the transcripts of `benchmarks/trim_cost.py`)."""
BEHIND = 450
"""Tokens that stand behind what is cleared, about: the newest result and what was said since."""
URGENT = 0.8
"""The share of the context window from which on clearing no longer waits until it pays: a request that is too long fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """When old results are cleared, and which.

    ```python
    from hooksdk.costs import Clearing
    from hooksdk.trimming import list_results

    assert Clearing(trigger=10_000).choose(list_results([]), []) is None
    ```
    """

    trigger: float | None = None
    """Nothing is cleared from a smaller conversation: in tokens, or up to 1 as a share of the context window. None: 16,000
    tokens, or half of the context window where that is less."""
    keep: int = 1
    """The newest results that stay. Disposable ones go first: they neither count nor stay."""
    clear_at_least: int | None = None
    """Tokens that clearing must save. None: what the cache makes worth its while, 1,017 tokens with Anthropic's prices, 900 with
    OpenAI's, 0 without a cache, many thousand where the cache holds no beginnings; at most a tenth of the context window."""
    exclude_tools: Collection[str] = ()
    """Tools whose results stay, by name."""
    protect: int = 0
    """Tokens at the end of the conversation in which results stay."""

    def __post_init__(self) -> None:
        trigger = 0 if self.trigger is None else self.trigger
        numbers = {
            "trigger": trigger,
            "keep": self.keep,
            "clear_at_least": self.clear_at_least or 0,
            "protect": self.protect,
        }
        for name, value in numbers.items():
            if not value >= 0:
                raise ValueError(f"Clearing: {name} must be a number from 0 on, not {value!r}")
        if isinstance(self.exclude_tools, str):
            raise TypeError(f"Clearing: exclude_tools must be names, not one text: [{self.exclude_tools!r}]")

    def choose(
        self,
        results: Sequence[ResultInfo],
        message_tokens: Sequence[int],
        *,
        context_window: int | None = None,
        cached: int | None = None,
        age: float = 0,
        prices: Prices = PRICES,
    ) -> tuple[list[str], TrimCost] | None:
        """The handles of the results to clear now, with what that costs; None while it does not pay. `results` may have
        arguments among them (`results.list(arguments=True)`), which stay as long as the result of their call.

        It pays when the requests to come cost less with it, if there will be as many as there were since the first result.
        A cache that is older than its life is lost anyway. Where trims are queued, their drain costs the cache from the
        first of them on, so that what stands behind it is free. From 80 % of the context window on nothing is waited for,
        whatever `trigger` and `clear_at_least` say, and results are cleared that are hardly longer than the note in their place.
        """
        tokens = sum(message_tokens)
        urgent = context_window is not None and tokens >= URGENT * context_window
        if not results or not (urgent or tokens >= self._trigger(context_window)):
            return None
        candidates = self._candidates(results, message_tokens, small=urgent)
        queued = [info for info in results if info.queued]
        lost_from, lost = tail_costs(queued, message_tokens, cached=cached, age=age, prices=prices)[0]
        requests = max(info.turns_ago for info in results)
        least = 1 if urgent else max(self._least(tokens, context_window, prices), 1)
        best: tuple[float, int, TrimCost] | None = None
        for position, cost in tail_costs([*candidates, *queued], message_tokens, cached=cached, age=age, prices=prices):
            if position > lost_from:  # everything from there on was free already
                break
            saved = cost.saved - lost.saved
            more = cost.gain(requests) - lost.gain(requests)
            if saved >= least and (more > 0 or urgent):
                merit = saved if urgent else more
                if best is None or merit > best[0]:
                    best = merit, position, cost
        if best is None:
            return None
        return [info.handle for info in candidates if info.position >= best[1]], best[2]

    def _least(self, tokens: int, context_window: int | None, prices: Prices) -> float:
        if self.clear_at_least is not None:
            return self.clear_at_least
        if not prices.read:
            return 0
        # The economic order quantity (Harris, 1913): a drain costs so much once, what is not cleared costs `read` in each
        # request, and there are more results in each.
        behind = BEHIND if prices.beginnings else tokens
        quantity = math.sqrt(2 * GROWTH * behind * max(prices.write - prices.read, 0) / prices.read)
        return min(quantity, (context_window or UNKNOWN_WINDOW) / 10)

    def _trigger(self, context_window: int | None) -> float:
        window = context_window or UNKNOWN_WINDOW
        if self.trigger is None:
            return min(TRIGGER, window / 2)
        return self.trigger if self.trigger > 1 else self.trigger * window

    def _candidates(
        self, results: Sequence[ResultInfo], message_tokens: Sequence[int], *, small: bool
    ) -> list[ResultInfo]:
        others = [info for info in results if not info.disposable and not info.argument]
        newest = {info.handle for info in others[len(others) - self.keep :]} if self.keep else set[str]()
        end, room = len(message_tokens), self.protect
        while end and room > 0:
            end -= 1
            room -= message_tokens[end]
        return [
            info
            for info in results
            if (info.trimmable or (small and info.small))
            and info.tokens > NOTE_TOKENS
            and info.position < end
            and info.handle.partition(".")[0] not in newest
            and info.tool not in self.exclude_tools
        ]
