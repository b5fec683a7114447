"""What trims that are applied together cost and save, by arithmetic over sizes in tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hooksdk.calls import ResultInfo

# The size of the host's note in a trimmed result's place: about 120 characters.
NOTE_TOKENS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A provider's prices for a token of a prompt, in units of a token without a cache, and how long its cache lives.

    The defaults are Anthropic's for the cache of five minutes:
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching. If writing is free, as with OpenAI's models
    before GPT-5.6, `write` is 1.

    ```python
    from hooksdk.costs import Prices

    assert Prices(write=1).read == 0.1
    ```

    Attributes:
        read: The price of a token that the cache holds.
        write: The price of a token that the cache stores.
        life: Seconds without a request after which the cache is gone.
        beginnings: True if the cache keeps what stands before a trim: Gemini's and that of OpenAI's older models do,
            and Anthropic's with marks of hooksdk's (`hooksdk.formats.prompt_cache`). False for Anthropic's with a mark
            on the last message alone, where a trim far back costs the whole prompt.
    """

    read: float = 0.1
    write: float = 1.25
    life: float = 300
    beginnings: bool = True

    def __post_init__(self) -> None:
        for name, value in (("read", self.read), ("write", self.write), ("life", self.life)):
            if not 0 <= value < math.inf:
                raise ValueError(f"Prices: {name} must be a number from 0 on, not {value!r}")


# The default prices.
PRICES = Prices()
# The prices of OpenAI's models before GPT-5.6 and of Gemini's. `cache_prices` has the models that differ.
# https://developers.openai.com/api/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching
PREFIX_PRICES = Prices(read=0.1, write=1)
# The prices of OpenAI's models from GPT-5.6 on, as if a request found the newest entry alone: a trim before its end
# costs the whole prompt then.
BREAKPOINT_PRICES = Prices(read=0.1, write=1.25, life=1_800, beginnings=False)
# The prices without a cache: no trim costs anything.
NO_CACHE_PRICES = Prices(read=1, write=1, life=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimCost:
    """What trims that are applied together cost and save.

    ```python
    from hooksdk.costs import TrimCost

    cost = TrimCost(saved=1_062, behind=2_608)
    assert cost.pays_back_after == 29
    assert TrimCost(saved=1_062, behind=2_608, cold=True).pays_back_after == 0
    ```

    Attributes:
        saved: Tokens by which each later request is smaller.
        behind: Tokens that the cache holds now and must store again: those behind the first trim, or all that stay if
            the cache keeps no beginnings.
        cold: True when the cache has expired: the next request writes everything to it anyway.
    """

    saved: int
    behind: int
    cold: bool = False
    prices: Prices = PRICES

    @property
    def price(self) -> float:
        """What the trims cost once, in units of a token without a cache; below 0 if they save at once."""
        if self.cold:
            return -self.prices.write * self.saved
        return (self.prices.write - self.prices.read) * self.behind

    def gain(self, requests: int) -> float:
        """How much less the next `requests` cost together, in units of a token without a cache; below 0 if they cost
        more."""
        if self.cold:  # the first request writes all that it sends to the cache
            return self.saved * (self.prices.write + self.prices.read * (requests - 1)) if requests > 0 else 0.0
        return self.prices.read * self.saved * requests - self.price

    @property
    def pays_back_after(self) -> int | None:
        """The number of further requests after which the trims have paid for themselves; 0 if they are free, None if
        they never do."""
        if self.saved <= 0:
            return None
        if self.price <= 0:
            return 0
        each = self.prices.read * self.saved
        return math.ceil(self.price / each) if each else None


def estimate(
    results: Iterable[ResultInfo],
    message_tokens: Sequence[int],
    *,
    cached: int | None = None,
    age: float = 0,
    prices: Prices = PRICES,
) -> TrimCost:
    """What it costs and saves to trim these results together, each down to the host's note. Trimmed results do not
    count.

    `message_tokens` are the sizes of the messages as the model sees them (`results.message_tokens()`), `cached` is how
    many of them the last request had (all by default), `age` the seconds since that request.
    """
    return tail_costs(results, message_tokens, cached=cached, age=age, prices=prices)[0][1]


def estimate_change(
    before: Sequence[int], after: Sequence[int], *, age: float = 0, prices: Prices = PRICES
) -> TrimCost:
    """What trims cost and saved, by the sizes of the messages before and after them."""
    first = next((at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other), len(after))
    saved = sum(before[first:]) - sum(after[first:])
    behind = sum(after[first:] if prices.beginnings else after)
    return TrimCost(saved=saved, behind=behind, cold=age >= prices.life, prices=prices)


def tail_costs(
    results: Iterable[ResultInfo],
    message_tokens: Sequence[int],
    *,
    cached: int | None = None,
    age: float = 0,
    prices: Prices = PRICES,
) -> list[tuple[int, TrimCost]]:
    """For the position of each result: what the trims from there on cost together, the earliest first. Without results
    there is one row, which saves nothing."""
    in_cache = len(message_tokens) if cached is None else cached
    held = sum(message_tokens[:in_cache])
    saved: dict[int, int] = {}
    for info in results:
        if not info.trimmed and info.position < len(message_tokens):
            saved[info.position] = saved.get(info.position, 0) + max(info.tokens - NOTE_TOKENS, 0)
    cold = age >= prices.life
    answers: list[tuple[int, TrimCost]] = []
    total = behind = 0
    end = len(message_tokens)
    for position in sorted(saved, reverse=True):
        behind += sum(message_tokens[position : min(end, in_cache)])
        end = position
        total += saved[position]
        behind -= saved[position]  # tokens that are not sent need not be written
        rewritten = behind if prices.beginnings else held - total
        answers.append((position, TrimCost(saved=total, behind=max(rewritten, 0), cold=cold, prices=prices)))
    return answers[::-1] or [(len(message_tokens), TrimCost(saved=0, behind=0, cold=cold, prices=prices))]
