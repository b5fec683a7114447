"""Old tool results of a long conversation become short, as soon as that pays for the prompt cache which it costs."""

from __future__ import annotations

import logging
import time

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat

from hooksdk import PluginState, hooks
from hooksdk.costs import PRICES, Clearing, Prices, TrimCost
from hooksdk.hooks import AgentEnd, BeforeModelCall, Trim
from hooksdk.transcript import Results

__all__ = ["ClearToolResults"]

DEFAULTS = Clearing()
logger = logging.getLogger("hooksdk")


class ClearToolResults:
    """Clear old tool results when it pays."""

    class Config(BaseModel):
        """Settings."""

        model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
        trigger: PositiveFloat | None = DEFAULTS.trigger
        """Nothing is cleared from a smaller conversation: in tokens, or up to 1 as a share of the context window. Unset: 16,000
        tokens, or half of the context window where that is less."""
        keep: NonNegativeInt = DEFAULTS.keep
        """The newest results that stay. Those of disposable tools neither count nor stay."""
        clear_at_least: NonNegativeInt = DEFAULTS.clear_at_least
        """Tokens that clearing must save."""
        exclude_tools: list[str] = Field(default_factory=list)
        """Tools whose results stay, by name."""
        protect: NonNegativeInt = DEFAULTS.protect
        """Tokens at the end of the conversation in which results stay."""
        cache_read: NonNegativeFloat = PRICES.read
        """The price of a token that the provider's cache holds, where one without a cache is 1."""
        cache_write: NonNegativeFloat = PRICES.write
        """The price of a token that is written to the cache."""
        cache_life: NonNegativeFloat = PRICES.life
        """Seconds without a request after which the cache is gone. 0: there is none to lose."""

    def __init__(self, config: Config, state: PluginState) -> None:
        self._rule = Clearing(
            trigger=config.trigger, keep=config.keep, clear_at_least=config.clear_at_least,
            exclude_tools=frozenset(config.exclude_tools), protect=config.protect,
        )  # fmt: skip
        self._prices = Prices(read=config.cache_read, write=config.cache_write, life=config.cache_life)
        self._state = state
        self._context_window: int | None = None
        self._cached: int | None = None
        """How many messages the last request held; None: nobody knows, so all that there are."""
        self._last_request: float | None = state.get("last_request")
        self._told = False

    @hooks.before_model_call
    def clear_before_request(self, event: BeforeModelCall) -> Trim | None:
        """Applied before this request is sent."""
        self._context_window = event.context_window
        choice = self._choose(event.results)
        sizes = event.results.message_tokens()
        self._cached = len(sizes)
        self._last_request = time.time()
        self._tell_too_long(sum(sizes) - (choice[1].saved if choice else 0), event)
        return Trim(choice[0], _reason(choice[1]), small=True) if choice else None

    def _tell_too_long(self, tokens: int, event: BeforeModelCall) -> None:
        """Say it once where the request is too long with everything cleared that may be."""
        if event.context_window is None or tokens <= event.context_window or self._told:
            return
        self._told = True
        logger.warning(
            "session '%s': its messages take about %s tokens, more than the context window of %s, and clear_tool_results finds "
            "nothing more to shorten: the newest results, those of `exclude_tools` and what is no result stay. A compaction "
            "helps, or a larger context window",
            event.info.session_id, f"{tokens:,}", f"{event.context_window:,}",
        )  # fmt: skip

    @hooks.agent_end
    async def clear_after_run(self, event: AgentEnd) -> None:
        """Drained with everything that was queued in the run."""
        self._state["last_request"] = self._last_request
        choice = self._choose(event.transcript)
        for handle in choice[0] if choice else ():
            await event.transcript.trim(handle, reason=_reason(choice[1]) if choice else "", small=True)

    def _choose(self, results: Results) -> tuple[list[str], TrimCost] | None:
        # Wall-clock time, because the session may have been closed in between.
        age = 0 if self._last_request is None else max(time.time() - self._last_request, 0)
        return self._rule.choose(
            results.list(), results.message_tokens(), context_window=self._context_window, cached=self._cached, age=age,
            prices=self._prices,
        )  # fmt: skip


def _reason(cost: TrimCost) -> str:
    return f"saves {cost.saved:,} tokens of each request, pays back after {cost.pays_back_after}"
