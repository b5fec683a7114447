"""The providers' prompt caches, by the rules in their documentation: what they hold of the requests of a conversation.
They read no clock: each request brings its time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol, final

from hooksdk.costs._estimate import BREAKPOINT_PRICES, NO_CACHE_PRICES, PREFIX_PRICES, PRICES, Prices
from hooksdk.costs._models import WITH_PREFIXES, cache_prices, has_breakpoints, is_claude, least_prefix
from hooksdk.formats.prompt_cache import LOOK_BACK, MOST_MARKS, CacheBlock
from hooksdk.formats.usage import Usage

# The newest prompts among which OpenAI's cache looks for the beginning of a request.
_CONSIDERED = 80


class PromptCache(Protocol):
    """A provider's cache for one conversation."""

    prices: Prices

    def send(self, request: Sequence[CacheBlock], now: float = 0) -> Usage:
        """The tokens of this request, sent at this second, that the cache holds, that it stores, and the others."""
        ...


@final
class MarkedCache:
    """Anthropic's cache: it keeps marked beginnings, and finds them from a mark up to 20 blocks further on.
    https://platform.claude.com/docs/en/build-with-claude/prompt-caching

    `least` is the smallest beginning that it stores: 512 to 4,096 tokens, by model (`cache_of`).

    ```python
    from hooksdk.costs import MarkedCache
    from hooksdk.formats.prompt_cache import CacheBlock

    cache = MarkedCache()
    first = [CacheBlock(key="a", tokens=2_000, life="5m")]
    assert cache.send(first).written == 2_000
    assert cache.send([*first, CacheBlock(key="b", tokens=500)]).read == 2_000
    ```
    """

    def __init__(self, prices: Prices = PRICES, *, least: int = 1_024) -> None:
        self.prices = prices
        self._least = least
        # The time at which each beginning was last used, by the key of its end.
        self._ends: dict[Hashable, float] = {}

    def send(self, request: Sequence[CacheBlock], now: float = 0) -> Usage:
        sizes = _sizes(request)
        marks = [at for at, block in enumerate(request) if block.life and sizes[at] >= self._least]
        looked = {at for mark in marks for at in range(max(mark - LOOK_BACK + 1, 0), mark + 1)}
        held = [at for at in looked if now - self._ends.get(request[at].key, -self.prices.life) < self.prices.life]
        read = sizes[max(held)] if held else 0
        for at in (*marks, *held):
            self._ends[request[at].key] = now
        written = max((sizes[at] for at in marks), default=0)
        return Usage(
            fresh=sum(block.tokens for block in request) - max(read, written), read=read, written=max(written - read, 0)
        )


@final
class PrefixCache:
    """The cache of OpenAI's models before GPT-5.6, and Gemini's implicit one: they hold the beginning that a request
    shares with an earlier one, in steps of 128 tokens from `least` on.
    https://developers.openai.com/api/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching

    With `least=0, step=1` it serves every beginning, which no provider does: the most that a cache could save.

    ```python
    from hooksdk.costs import PrefixCache
    from hooksdk.formats.prompt_cache import CacheBlock

    cache = PrefixCache()
    first = [CacheBlock(key="a", tokens=2_000)]
    cache.send(first)
    assert cache.send([*first, CacheBlock(key="b", tokens=500)]).read == 1_920
    ```
    """

    def __init__(self, prices: Prices = PREFIX_PRICES, *, least: int = 1_024, step: int = 128) -> None:
        self.prices = prices
        self._least, self._step = least, step
        self._ends: dict[Hashable, float] = {}

    def send(self, request: Sequence[CacheBlock], now: float = 0) -> Usage:
        sizes = _sizes(request)
        life = self.prices.life
        held = [
            size for size, block in zip(sizes, request, strict=True) if now - self._ends.get(block.key, -life) < life
        ]
        read = max(held, default=0) // self._step * self._step
        read = read if read >= self._least else 0
        self._ends.update((block.key, now) for block in request)
        return Usage(read=read, written=sum(block.tokens for block in request) - read)


@final
class BreakpointCache:
    """The cache of OpenAI's models from GPT-5.6 on: it keeps a prompt up to its last message, and up to each block that
    the request marks (`prompt_cache_breakpoint`). https://developers.openai.com/api/docs/guides/prompt-caching

    Two readings of the page are possible. With `earlier` a request finds the longest of the last 80 prompts with which
    it begins; without, the newest one, and otherwise only what ends at a mark of its own. By the second reading a trim
    costs more.

    ```python
    from hooksdk.costs import BreakpointCache
    from hooksdk.formats.prompt_cache import CacheBlock

    cache = BreakpointCache()
    first = [CacheBlock(key="a", tokens=2_000)]
    assert cache.send(first).written == 2_000
    assert cache.send([*first, CacheBlock(key="b", tokens=500)]).read == 2_000
    ```
    """

    def __init__(self, prices: Prices = BREAKPOINT_PRICES, *, least: int = 1_024, earlier: bool = False) -> None:
        self.prices = prices
        self._least, self._earlier = least, earlier
        # The time at which each end of a prompt was last used, by its key, the oldest first.
        self._ends: dict[Hashable, float] = {}
        self._newest: Hashable = None

    def send(self, request: Sequence[CacheBlock], now: float = 0) -> Usage:
        sizes = _sizes(request)
        marks = [at for at, block in enumerate(request) if block.life or at == len(request) - 1]
        marks = [at for at in marks if sizes[at] >= self._least][-MOST_MARKS:]
        life, known = self.prices.life, islice(reversed(self._ends), _CONSIDERED)
        found = {key for key in known if self._earlier or key == self._newest} | {request[at].key for at in marks}
        held = [
            at
            for at, block in enumerate(request)
            if block.key in found and now - self._ends.get(block.key, -life) < life
        ]
        for at in (*held, *marks):
            self._ends.pop(request[at].key, None)
            self._ends[request[at].key] = now
        self._newest = request[marks[-1]].key if marks else None
        read, written = sizes[max(held)] if held else 0, sizes[marks[-1]] if marks else 0
        return Usage(
            fresh=sum(block.tokens for block in request) - max(read, written), read=read, written=max(written - read, 0)
        )


@final
class NoCache:
    """No cache at all."""

    def __init__(self) -> None:
        self.prices = NO_CACHE_PRICES

    def send(self, request: Sequence[CacheBlock], now: float = 0) -> Usage:
        del now
        return Usage(fresh=sum(block.tokens for block in request))


def cache_of(model: str, prices: Prices | None = None) -> PromptCache | None:
    """An empty cache by the rules of this model's provider, by `PROVIDER:NAME` or the name alone; None if none are
    known. `prices` replace those of the cache.

    ```python
    from hooksdk.costs import BreakpointCache, MarkedCache, cache_of

    assert isinstance(cache_of("anthropic:claude-sonnet-4-5"), MarkedCache)
    assert isinstance(cache_of("openai:gpt-5.6-sol"), BreakpointCache)
    assert cache_of("acme:small") is None
    ```
    """
    provider, _, name = model.lower().rpartition(":")
    if is_claude(provider, model.lower()):
        return MarkedCache(prices or cache_prices(provider, model), least=least_prefix(model.lower()))
    name = name.rpartition("/")[2]
    if has_breakpoints(name):
        return BreakpointCache(prices or cache_prices(provider, name), least=least_prefix(name))
    if name.startswith(WITH_PREFIXES):
        own = replace(cache_prices(provider, name), life=PREFIX_PRICES.life)
        return PrefixCache(prices or own, least=least_prefix(name))
    return None


def _sizes(request: Sequence[CacheBlock]) -> list[int]:
    """The tokens up to the end of each block."""
    total, sizes = 0, list[int]()
    for block in request:
        total += block.tokens
        sizes.append(total)
    return sizes
