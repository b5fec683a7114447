"""Which old results to clear now, if any: the rule of the plugin `clear_tool_results`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hooksdk.calls import ResultInfo
from hooksdk.costs._estimate import NOTE_TOKENS, PRICES, Prices, TrimCost, tail_costs

# Tokens of a conversation from which on results are cleared by default, where the context window is not smaller still.
TRIGGER = 16_000
# The context window that is assumed if the host gives none, in tokens.
UNKNOWN_WINDOW = 200_000
# About how many tokens of results each request brings (the transcripts of `benchmarks/trim_cost.py`).
GROWTH = 100
# About how many tokens follow the cleared results: the newest result and the words since.
BEHIND = 450
# The share of the context window from which on results are cleared even if it does not pay: a request that is too long
# fails.
URGENT = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """The rule by which old results are cleared.

    ```python
    from hooksdk.costs import Clearing
    from hooksdk.trimming import list_results

    assert Clearing(trigger=10_000).choose(list_results([]), []) is None
    ```

    Attributes:
        trigger: Nothing is cleared from a smaller conversation: in tokens, or up to 1 as a share of the context window.
            None: 16,000 tokens, or half of the context window if that is less.
        keep: How many of the newest results stay. Disposable ones neither count nor stay.
        clear_at_least: Tokens that clearing must save. None: as many as pay for the cache, which are 1,017 with
            Anthropic's prices, 900 with OpenAI's, 0 without a cache, many thousand if the cache keeps no beginnings; at
            most a tenth of the context window.
        exclude_tools: Tools whose results stay, by name.
        protect: Tokens at the end of the conversation in which results stay.
    """

    trigger: float | None = None
    keep: int = 1
    clear_at_least: int | None = None
    exclude_tools: Collection[str] = ()
    protect: int = 0

    def __post_init__(self) -> None:
        for name in ("trigger", "keep", "clear_at_least", "protect"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
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
        """The handles of the results to clear now, with the cost; None while it does not pay. `results` may include
        arguments of calls (`results.list(arguments=True)`), which stay as long as the result of their call.

        It pays if later requests cost less with it, supposed there will be as many as there were since the first
        result. An expired cache is lost anyway. Queued trims cost the cache what follows the first of them, so that
        further trims behind it are free. From 80 % of the context window on results are cleared at once, whatever
        `trigger` and `clear_at_least` say, and so are results that are hardly longer than the note in their place.
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
            if position > lost_from:  # from there on the queued trims cost the cache anyway
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
        # The economic order quantity (Harris, 1913): clearing has a fixed cost, and results that are not cleared cost
        # `read` in each request, which brings more of them.
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
