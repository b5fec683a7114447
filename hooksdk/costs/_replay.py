"""What the requests of a history would have cost under a policy of trims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import final

from hooksdk.calls import ResultInfo
from hooksdk.costs._caches import PrefixCache, PromptCache
from hooksdk.costs._clearing import Clearing
from hooksdk.costs._estimate import PRICES, Prices
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.prompt_cache import LONG_TOKENS, CacheBlock, choose_marks
from hooksdk.formats.usage import Usage
from hooksdk.transcript import Ledger, message_tokens, plan_drain, plan_trim


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of a history at which a policy may trim.

    Attributes:
        cached: The number of messages in the last request.
        agent_end: True at the end of a run, False before a request.
        age: Seconds since the last request.
    """

    results: Sequence[ResultInfo]
    message_tokens: Sequence[int]
    cached: int
    agent_end: bool
    age: float


# A function that answers the handles to trim now.
Policy = Callable[[Moment], Sequence[str]]


def never(moment: Moment) -> Sequence[str]:
    """Trim nothing."""
    del moment
    return ()


def at_each_agent_end(moment: Moment) -> Sequence[str]:
    """Trim all results that can be trimmed at the end of each run."""
    return [info.handle for info in moment.results if info.trimmable] if moment.agent_end else ()


def at_each_request(moment: Moment) -> Sequence[str]:
    """Trim all results that can be trimmed before each request."""
    return () if moment.agent_end else [info.handle for info in moment.results if info.trimmable]


def clearing(rule: Clearing | None = None, prices: Prices = PRICES, context_window: int | None = None) -> Policy:
    """Trim as the plugin `clear_tool_results` does."""
    chosen = rule or Clearing()

    def policy(moment: Moment) -> Sequence[str]:
        choice = chosen.choose(
            moment.results,
            moment.message_tokens,
            context_window=context_window,
            cached=moment.cached,
            age=moment.age,
            prices=prices,
        )
        return choice[0] if choice else ()

    return policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What the prompts of a history cost together.

    Attributes:
        tokens: Tokens of all prompts.
        read: Tokens that the cache held.
        written: Tokens that the cache stored.
        fresh: Tokens that the cache neither held nor stored.
    """

    requests: int
    tokens: int
    read: int
    written: int
    fresh: int
    trims: int
    drains: int
    prices: Prices

    @property
    def price(self) -> float:
        """The cost, in units of a token without a cache."""
        return self.prices.read * self.read + self.prices.write * self.written + self.fresh


# A function that answers which blocks of a request are marked, by the keys of earlier marks.
Marks = Callable[[Sequence[CacheBlock], Collection[Hashable]], Sequence[int]]


def mark_last(blocks: Sequence[CacheBlock], marked: Collection[Hashable]) -> Sequence[int]:
    """Mark the last message alone, as is usual."""
    del marked
    return [len(blocks) - 1]


def replay(
    messages: Sequence[Message],
    message_format: MessageFormat,
    policy: Policy = never,
    *,
    prices: Prices = PRICES,
    cache: PromptCache | None = None,
    marks: Marks = choose_marks,
    pause: float = 0,
    lossless: bool = False,
    arguments: bool = False,
) -> Bill:
    """Play a history under a policy: one request before every reply of the model. `cache` is the provider's cache, by
    default one with these prices that serves every beginning. `marks` places the marks of a request, by default as
    hooksdk's own client does. `pause` is the seconds between the end of a run and the next one; within a run no time
    passes. `lossless` leaves out the cost of trims: with `at_each_request` that is the lowest bill that trims could
    reach. With `arguments` the policy sees the long arguments of calls, too."""
    ledger = Ledger(message_format)
    sender = Sender(cache or PrefixCache(prices, least=0, step=1), marks)
    requests, trims, drains, cached = 0, 0, 0, 0
    now = last_request = 0.0

    def ask(*, agent_end: bool) -> None:
        nonlocal trims, drains
        if policy is never:
            return
        moment = Moment(
            results=ledger.infos(arguments=arguments),
            message_tokens=message_tokens(ledger),
            cached=cached,
            agent_end=agent_end,
            age=now - last_request,
        )
        if handles := policy(moment):
            for handle in handles:
                _, entry = plan_trim(ledger, handle, None, small=True)
                if entry is not None:
                    ledger.apply({**entry, "owner": "", "reason": ""})
                    trims += 1
            ledger.apply(plan_drain(ledger)[0])
            drains += 1

    for position, message in enumerate(messages):
        if _begins_reply(messages, position, message_format):
            ask(agent_end=False)
            sender.send(request_of(ledger, messages[:position], message_format, lossless=lossless), now)
            requests, cached, last_request = requests + 1, position, now
        ledger.add(message)
        if _ends_run(messages, position, message_format):
            ask(agent_end=True)
            now += pause
    return sender.bill(requests, trims, drains)


@final
class Sender:
    """Sends requests to a cache, with their marks, and adds up their tokens."""

    def __init__(self, cache: PromptCache, marks: Marks = choose_marks) -> None:
        self._cache, self._marks = cache, marks
        self._marked: set[Hashable] = set()
        self.used = Usage()

    def send(self, blocks: list[CacheBlock], now: float) -> Usage:
        """Send a request at this second, and answer its tokens."""
        for at in self._marks(blocks, self._marked) if blocks else ():
            blocks[at].life = "5m"
            self._marked.add(blocks[at].key)
        used = self._cache.send(blocks, now)
        self.used += used
        return used

    def bill(self, requests: int, trims: int, drains: int) -> Bill:
        """The bill of all requests so far."""
        used = self.used
        return Bill(
            requests=requests,
            tokens=used.prompt,
            read=used.read,
            written=used.written,
            fresh=used.fresh,
            trims=trims,
            drains=drains,
            prices=self._cache.prices,
        )


def request_of(
    ledger: Ledger, messages: Sequence[Message], message_format: MessageFormat, *, lossless: bool = False
) -> list[CacheBlock]:
    """The blocks of the messages as the model sees them; the last block of a message has all of its tokens."""
    infos: dict[int, list[ResultInfo]] = {}
    for record in ledger.records:
        info = ledger.info(record)
        infos.setdefault(info.position, []).append(info)
    blocks, key = list[CacheBlock](), 0
    for position, tokens in enumerate(message_tokens(ledger)):
        message, results = messages[position], infos.get(position, [])
        section = "system" if message.get("role") == "system" else "messages"
        calls = message_format.calls(message)
        count = max(len(results), len(calls) + bool(message_format.text(message)), 1)
        key = hash((key, position, 0 if lossless else tokens))
        for at in range(count):
            info = results[at] if at < len(results) else None
            blocks.append(
                CacheBlock(
                    key=(key, at),
                    tokens=tokens if at == count - 1 else 0,
                    section=section,
                    message=position,
                    result=info is not None,
                    long=info is not None and not info.trimmed and info.tokens >= LONG_TOKENS,
                    trimmed=info is not None and info.trimmed,
                )
            )
    return blocks


def _begins_reply(messages: Sequence[Message], position: int, message_format: MessageFormat) -> bool:
    """True for the first message of a reply."""
    if not message_format.is_reply(messages[position]):
        return False
    return not (message_format.joined and position and message_format.is_reply(messages[position - 1]))


def _ends_run(messages: Sequence[Message], position: int, message_format: MessageFormat) -> bool:
    """True for the last message of a reply without calls."""
    if not message_format.is_reply(messages[position]):
        return False
    if position + 1 < len(messages) and message_format.is_reply(messages[position + 1]):
        return False
    start = position
    while not _begins_reply(messages, start, message_format):
        start -= 1
    return not any(map(message_format.calls, messages[start : position + 1]))
