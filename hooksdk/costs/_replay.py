"""What a stored history would have cost under a policy of trims: every request of it, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hooksdk.calls import ResultInfo
from hooksdk.costs._clearing import Clearing
from hooksdk.costs._estimate import PRICES, Prices
from hooksdk.formats import Message, MessageFormat
from hooksdk.transcript import Ledger, message_tokens, plan_trim


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A place in a history at which a policy may trim."""

    results: Sequence[ResultInfo]
    message_tokens: Sequence[int]
    cached: int
    """How many messages the last request held."""
    agent_end: bool
    """True at the end of a run, False before a request."""
    age: float
    """Seconds since the last request."""


Policy = Callable[[Moment], Sequence[str]]
"""Answers the handles to trim now."""


def never(moment: Moment) -> Sequence[str]:
    """Trim nothing."""
    del moment
    return ()


def at_each_agent_end(moment: Moment) -> Sequence[str]:
    """Trim everything that can be trimmed at the end of each run."""
    return [info.handle for info in moment.results if info.trimmable] if moment.agent_end else ()


def at_each_request(moment: Moment) -> Sequence[str]:
    """Trim everything that can be trimmed before each request."""
    return () if moment.agent_end else [info.handle for info in moment.results if info.trimmable]


def clearing(rule: Clearing | None = None, prices: Prices = PRICES, context_window: int | None = None) -> Policy:
    """Trim as the plugin `clear_tool_results` does."""
    chosen = rule or Clearing()

    def policy(moment: Moment) -> Sequence[str]:
        choice = chosen.choose(
            moment.results, moment.message_tokens, context_window=context_window, cached=moment.cached,
            age=moment.age, prices=prices,
        )  # fmt: skip
        return choice[0] if choice else ()

    return policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What the requests of a history cost together, as far as their prompts go."""

    requests: int
    tokens: int
    """Of all prompts together."""
    read: int
    """Tokens that the cache held."""
    written: int
    """Tokens that it did not hold."""
    trims: int
    drains: int
    prices: Prices

    @property
    def price(self) -> float:
        """In prices of a token without a cache."""
        return self.prices.read * self.read + self.prices.write * self.written


def replay(
    messages: Sequence[Message],
    message_format: MessageFormat,
    policy: Policy = never,
    *,
    prices: Prices = PRICES,
    pause: float = 0,
    lossless: bool = False,
) -> Bill:
    """Play a history under a policy: one request before every message that the model wrote. `pause` is how many seconds
    pass between the end of a run and the next one; within a run the cache stays warm. `lossless` leaves out what trims cost:
    with `at_each_request` that is the least which trims could bring the bill down to."""
    ledger = Ledger(message_format)
    requests = tokens = read = written = trims = drains = 0
    sent: list[int] = []  # the sizes in the last request
    unchanged = 0  # how many of its messages the cache still serves
    age = 0.0

    def ask(*, agent_end: bool) -> None:
        nonlocal trims, drains, unchanged
        if policy is never:
            return
        moment = Moment(
            results=[ledger.info(record) for record in ledger.records], message_tokens=message_tokens(ledger),
            cached=len(sent), agent_end=agent_end, age=age,
        )  # fmt: skip
        if handles := policy(moment):
            for handle in handles:
                _, entry = plan_trim(ledger, handle, None)
                if entry is not None:
                    ledger.apply({**entry, "owner": "", "reason": ""})
                    trims += 1
                    unchanged = min(unchanged, int(entry["at"]["position"]))
            ledger.apply({"kind": "drain", "done": [[n, trim.status] for n, trim in ledger.judge().items()]})
            drains += 1

    for position, message in enumerate(messages):
        if message_format.is_reply(message):
            ask(agent_end=False)
            now = message_tokens(ledger)
            hit = 0 if age >= prices.life else sum(now[: len(sent) if lossless else unchanged])
            requests, tokens, read, written = requests + 1, tokens + sum(now), read + hit, written + sum(now) - hit
            sent, unchanged, age = now, len(now), 0.0
        ledger.add(message)
        if _ends_run(messages, position, message_format):
            ask(agent_end=True)
            age = pause
    return Bill(requests=requests, tokens=tokens, read=read, written=written, trims=trims, drains=drains, prices=prices)


def _ends_run(messages: Sequence[Message], position: int, message_format: MessageFormat) -> bool:
    """True for an answer without calls that the person speaks after, or nobody."""
    message = messages[position]
    if not message_format.is_reply(message) or message_format.calls(message):
        return False
    return position + 1 == len(messages) or not message_format.is_reply(messages[position + 1])
