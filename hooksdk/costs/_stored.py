"""The requests of a stored session, one after the other, and what the provider's cache should have held of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooksdk.costs._caches import PrefixCache, PromptCache, cache_of
from hooksdk.costs._estimate import PRICES, Prices
from hooksdk.costs._replay import Bill, Sender, request_of
from hooksdk.formats import Message, MessageFormat
from hooksdk.formats.prompt_cache import CacheBlock
from hooksdk.formats.usage import Request, requests_in
from hooksdk.transcript import Ledger

# The least tokens that a provider's cache holds.
LEAST_DIFFERENCE = 1_024


def replay_as_stored(
    messages: Sequence[Message],
    journal: Sequence[Mapping[str, Any]],
    message_format: MessageFormat,
    *,
    prices: Prices = PRICES,
    cache: PromptCache | None = None,
) -> Bill:
    """As `replay`, with the trims and compactions of the session's journal, at their places.

    ```python
    from hooksdk.costs import replay_as_stored
    from hooksdk.formats import get_format

    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
    assert replay_as_stored(messages, [], get_format("openai-chat")).trims == 0
    ```
    """
    sender = Sender(cache or PrefixCache(prices, least=0, step=1))
    now, asked = 0.0, 0
    for _, blocks, request in _requests(messages, journal, message_format):
        now = request.time if request and request.time is not None else now
        sender.send(blocks, now)
        asked += 1
    done = [entry["done"] for entry in journal if entry.get("kind") == "drain"]
    return sender.bill(asked, sum(status == "applied" for each in done for _, status in each), len(done))


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheReading:
    """What a provider's cache should have held of the prompts of a model, and what the provider has read from it.

    ```python
    from hooksdk.costs import CacheReading

    reading = CacheReading(model="anthropic:claude-sonnet-4-5", expected=90_000, read=12_000)
    assert "12,000 of the 90,000 tokens" in reading.difference
    assert not CacheReading(model="openai:gpt-5", expected=90_000, read=88_000).difference
    ```

    Attributes:
        expected: Tokens by the rules of `cache_of(model)`, estimated from the messages and the sizes of the prompts.
        read: Tokens, as the provider counted them.
    """

    model: str
    expected: int
    read: int

    @property
    def difference(self) -> str:
        """A sentence if the two differ by more than a tenth; else empty."""
        if abs(self.expected - self.read) <= max(0.1 * self.expected, LEAST_DIFFERENCE):
            return ""
        if self.read > self.expected:
            return f"the provider read {self.read:,} tokens from its cache, where {self.expected:,} were expected"
        return f"the provider read {self.read:,} of the {self.expected:,} tokens that its cache should have held: is caching on?"


def cache_readings(
    messages: Sequence[Message], journal: Sequence[Mapping[str, Any]], message_format: MessageFormat
) -> list[CacheReading]:
    """What the cache of each model of a stored session should have held, and what it held. Empty if no usage is stored;
    models without a known rule for their cache are left out. Each model has a cache of its own.

    ```python
    from hooksdk.costs import cache_readings
    from hooksdk.formats import get_format

    assert cache_readings([{"role": "user", "content": "Hello."}], [], get_format("openai-chat")) == []
    ```
    """
    kept_an_hour = {one.model for one in requests_in(journal) if one.usage.written_1h}
    senders: dict[str, Sender | None] = {}
    unseen: dict[str, int] = {}
    expected: dict[str, float] = {}
    read: dict[str, int] = {}
    for _, blocks, request in _requests(messages, journal, message_format):
        if request is None:
            continue
        model, prompt = request.model, request.usage.prompt
        if model not in senders:
            cache = cache_of(model, Prices(life=3_600) if model in kept_an_hour else None)
            senders[model] = Sender(cache) if cache else None
            unseen[model] = max(prompt - sum(block.tokens for block in blocks), 0)
        if (sender := senders[model]) is None:
            continue
        # A session has neither its tools nor the model's tokenizer: the size of the first prompt tells that of the
        # tools, the size of each prompt corrects the estimate.
        tools = CacheBlock(key=f"tools of {model}", tokens=unseen[model], section="tools")
        used = sender.send([tools, *blocks], request.time or 0)
        expected[model] = expected.get(model, 0) + (used.read * prompt / used.prompt if used.prompt else 0)
        read[model] = read.get(model, 0) + request.usage.read
    return [CacheReading(model=model, expected=round(expected[model]), read=read[model]) for model in expected]


def _requests(
    messages: Sequence[Message], journal: Sequence[Mapping[str, Any]], message_format: MessageFormat
) -> Iterator[tuple[int, list[CacheBlock], Request | None]]:
    """The position of each reply of the model, the request before it, and its usage if that is stored."""
    counted = _by_position(messages, requests_in(journal), message_format)
    ledger, entries = Ledger(message_format), [dict(entry) for entry in reversed(journal)]
    for position, message in enumerate(messages):
        while entries and int(entries[-1].get("m", 0)) <= position:
            ledger.apply(entries.pop())
        if message_format.is_reply(message):
            yield position, request_of(ledger, messages[:position], message_format), counted.get(position)
        ledger.add(message)


def _by_position(
    messages: Sequence[Message], requests: Sequence[Request], message_format: MessageFormat
) -> dict[int, Request]:
    """The requests by the position of the first message of their reply."""
    found: dict[int, Request] = {}
    for request in requests:
        at = min(request.messages, len(messages)) - 1
        while at >= 0 and not message_format.is_reply(messages[at]):
            at -= 1
        while at > 0 and message_format.is_reply(messages[at - 1]) and at - 1 not in found:
            at -= 1
        if at >= 0:
            found[at] = request
    return found
