"""Old tool results of a long conversation are shortened as soon as that saves more than it costs of the prompt
cache.

Status: stable.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from hooksdk import PluginState, ResultInfo, hooks
from hooksdk.costs import PRICES, Clearing, TrimCost, cache_prices
from hooksdk.formats.usage import usage_of
from hooksdk.hooks import AfterModelCall, AgentEnd, BeforeModelCall, Trim
from hooksdk.transcript import Results

__all__ = ["ClearToolResults"]

DEFAULTS = Clearing()
ENOUGH = 4_096
"""The least tokens before a trim by which the usage shows whether the cache held them."""
SURPRISES = 2
"""The number of trims in a row after which the cache is taken to keep beginnings, or not, as it did and not as its
maker's page says."""
logger = logging.getLogger("hooksdk")


class ClearToolResults:
    """Clear old tool results when it pays."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            trigger: Nothing is cleared from a smaller conversation: in tokens, or up to 1 as a share of the context
                window. Unset: 16,000 tokens, or half of the context window if that is less.
            keep: How many of the newest results stay. Those of disposable tools neither count nor stay.
            clear_at_least: Tokens that clearing must save. Unset: as many as pay for the provider's cache.
            exclude_tools: Tools whose results stay, by name.
            clear_arguments: Whether long arguments of calls are cleared, too, once the result of the call may be.
            protect: Tokens at the end of the conversation in which results stay.
            cache_read: The price of a token that the provider's cache holds, in units of a token without a cache.
                Unset, like the next two: the provider's own.
            cache_write: The price of a token that the cache stores.
            cache_life: Seconds without a request after which the cache is gone. 0: there is none to lose.
        """

        model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
        trigger: PositiveFloat | None = DEFAULTS.trigger
        keep: NonNegativeInt = DEFAULTS.keep
        clear_at_least: NonNegativeInt | None = DEFAULTS.clear_at_least
        exclude_tools: list[str] = Field(default_factory=list)
        clear_arguments: bool = False
        protect: NonNegativeInt = DEFAULTS.protect
        cache_read: NonNegativeFloat | None = None
        cache_write: NonNegativeFloat | None = None
        cache_life: NonNegativeFloat | None = None

    def __init__(self, config: Config, state: PluginState) -> None:
        self._rule = Clearing(
            trigger=config.trigger,
            keep=config.keep,
            clear_at_least=config.clear_at_least,
            exclude_tools=frozenset(config.exclude_tools),
            protect=config.protect,
        )
        given = {"read": config.cache_read, "write": config.cache_write, "life": config.cache_life}
        self._given = {name: value for name, value in given.items() if value is not None}
        self._prices = replace(PRICES, **self._given)
        self._arguments = config.clear_arguments
        # For each request without a reply yet: tokens that the cache should hold before a trim, 0 without a trim.
        self._expected = deque[int]()
        # The same for the next request, for trims at the end of the run.
        self._held = 0
        self._surprises = 0
        self._state = state
        self._context_window: int | None = None
        # How many messages the last request had; None: not known, so all.
        self._cached: int | None = None
        self._last_request: float | None = state.get("last_request")
        self._told = False

    @hooks.before_model_call
    def clear_before_request(self, event: BeforeModelCall) -> Trim | None:
        """Trim before the request is sent."""
        self._context_window = event.context_window
        prices = cache_prices(event.info.provider, event.info.model)
        beginnings = not self._state.get("whole_prompts", not prices.beginnings)
        self._prices = replace(prices, beginnings=beginnings, **self._given)
        choice = self._choose(event.results)
        sizes = event.results.message_tokens()
        held = self._held_before(choice, event.results)
        self._expected.append(min(filter(None, (held, self._held)), default=0))
        self._held = 0
        self._cached = len(sizes)
        self._last_request = time.time()
        self._tell_too_long(sum(sizes) - (choice[1].saved if choice else 0), event)
        return Trim(choice[0], _reason(choice[1]), small=True) if choice else None

    def _held_before(self, choice: tuple[list[str], TrimCost] | None, results: Results) -> int:
        """Tokens before the first trim, which a cache of beginnings keeps; 0 without a trim, and without a cache."""
        if choice is None or choice[1].cold:
            return 0
        first = min(info.position for info in self._list(results) if info.handle in choice[0])
        return sum(results.message_tokens()[: first if self._cached is None else min(first, self._cached)])

    @hooks.after_model_call
    async def learn(self, event: AfterModelCall) -> None:
        """Read from the provider's usage whether its cache held the tokens before a trim. If only the last message has
        a mark, it did not: a trim then costs the whole prompt. On the event loop it waits for no thread, which a busy
        machine may not have in time."""
        expected = self._expected.popleft() if self._expected else 0
        usage = usage_of(event.usage)
        if usage is None or expected < ENOUGH or not usage.written:
            return
        held, believed = usage.read >= expected / 2, self._prices.beginnings
        self._surprises = self._surprises + 1 if held is not believed else 0
        if self._surprises == SURPRISES:
            self._surprises = 0
            self._state["whole_prompts"] = believed

    def _tell_too_long(self, tokens: int, event: BeforeModelCall) -> None:
        """Log once that the request is too long although all is cleared that may be."""
        if event.context_window is None or tokens <= event.context_window or self._told:
            return
        self._told = True
        text = (
            "session '%s': its messages take about %s tokens, more than the context window of %s, and clear_tool_results finds "
            "nothing more to shorten: the newest results, those of `exclude_tools` and what is no result stay. A compaction "
            "helps, or a larger context window"
        )
        logger.warning(text, event.info.session_id, f"{tokens:,}", f"{event.context_window:,}")

    @hooks.agent_end
    async def clear_after_run(self, event: AgentEnd) -> None:
        """Trim at the end of the run, together with queued trims."""
        self._state["last_request"] = self._last_request
        self._expected.clear()  # a failed request has no reply
        choice = self._choose(event.transcript)
        self._held = self._held_before(choice, event.transcript)
        for handle in choice[0] if choice else ():
            await event.transcript.trim(handle, reason=_reason(choice[1]) if choice else "", small=True)

    def _list(self, results: Results) -> Sequence[ResultInfo]:
        return results.list(arguments=self._arguments)

    def _choose(self, results: Results) -> tuple[list[str], TrimCost] | None:
        # By wall-clock time: the session may have been closed in between.
        age = 0 if self._last_request is None else max(time.time() - self._last_request, 0)
        return self._rule.choose(
            self._list(results),
            results.message_tokens(),
            context_window=self._context_window,
            cached=self._cached,
            age=age,
            prices=self._prices,
        )


def _reason(cost: TrimCost) -> str:
    return f"saves {cost.saved:,} tokens of each request, pays back after {cost.pays_back_after}"
