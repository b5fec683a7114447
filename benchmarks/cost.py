"""What policies of clearing old results cost in each provider's cache, and what they clear too early.

    python benchmarks/cost.py [--served]

Two long sessions from the transcripts that a clone has: all conversations with customers, and all of the programmer, each set one
after the other. Every request of them is sent to each cache of `hooksdk.costs`. Deterministic: sizes are estimates (characters / 4), no clock, no
network; no provider was asked. With `--served` the same sessions are played by the agent loop against scripted servers on loopback,
which count what a cache would have read.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any

import anyio
from _cost_served import FORM, SERVED_HEAD, arguments_of, measure_served
from _data import data_folder
from trim_cost import load

from hooksdk.costs import (
    BREAKPOINT_PRICES,
    PRICES,
    BreakpointCache,
    Clearing,
    MarkedCache,
    Marks,
    Moment,
    NoCache,
    Policy,
    PrefixCache,
    Prices,
    PromptCache,
    Usage,
    at_each_agent_end,
    clearing,
    mark_last,
    never,
    replay,
)
from hooksdk.formats import Message
from hooksdk.formats.prompt_cache import LOOK_BACK, CacheBlock, choose_marks
from hooksdk.values import is_list, is_object

FOLDER = data_folder() / "transcripts"
SESSIONS = {"customers": "tau-*.jsonl", "programmer": "swe-*.jsonl"}
NOTE = 30
"""Tokens that stand in a cleared result's place."""
SHORTEST_VALUE = 4
"""Characters of the shortest value that is looked for: shorter ones stand everywhere."""


def no_marks(blocks: Sequence[CacheBlock], marked: object) -> Sequence[int]:
    """Where none are asked for."""
    del blocks, marked
    return ()


@dataclass(frozen=True)
class Column:
    """A provider's cache."""

    name: str
    prices: Prices
    make: Callable[[Prices], PromptCache]
    marks: Marks = no_marks
    reach: float | None = None
    """How many blocks before the last message the end of an earlier request is found; None where every beginning is."""


def _ideal(prices: Prices) -> PromptCache:
    return PrefixCache(prices, least=0, step=1)


COLUMNS = [
    Column("ideal", PRICES, _ideal),
    Column("Anthropic, our marks", PRICES, MarkedCache, choose_marks),
    Column("Anthropic, last message marked", PRICES, MarkedCache, mark_last, reach=LOOK_BACK),
    Column("OpenAI .1", Prices(read=0.1, write=1), PrefixCache),
    Column("GPT-5.6 earlier", BREAKPOINT_PRICES, partial(BreakpointCache, earlier=True), reach=inf),
    Column("GPT-5.6 newest", BREAKPOINT_PRICES, BreakpointCache, reach=0),
    Column("none", Prices(read=1, write=1), lambda _: NoCache()),
]  # fmt: skip
HEAD = [*(column.name for column in COLUMNS), "drains", "lost"]


# Policies


def older_than(turns: int, *, least: int = 0) -> Policy:
    """Clear before each request whatever is so old, of so many tokens."""

    def policy(moment: Moment) -> Sequence[str]:
        old = [one for one in moment.results if one.trimmable and one.turns_ago >= turns and one.tokens > least]
        return [] if moment.agent_end else [one.handle for one in old]

    return policy


def beyond(trigger: int, *, keep: int = 3, least: int = 0) -> Policy:
    """Anthropic's context editing and LangChain's `ClearToolUsesEdit`: from so many tokens on all but the newest results, where
    that clears enough. They count the whole history."""

    def policy(moment: Moment) -> Sequence[str]:
        whole = sum(moment.message_tokens) + sum(one.tokens - NOTE for one in moment.results if one.trimmed)
        old = [one for one in moment.results[: len(moment.results) - keep] if one.trimmable]
        enough = sum(one.tokens - NOTE for one in old) >= least
        return [one.handle for one in old] if whole >= trigger and enough and not moment.agent_end else []

    return policy


POLICIES: dict[str, Callable[[Prices], Policy]] = {
    **{f"{turns} turn{'s' * (turns > 1)} old, each request": lambda _, turns=turns: older_than(turns) for turns in (1, 3, 10)},
    "all that is old, at each run's end": lambda _: at_each_agent_end,
    "over 500 tokens and 3 turns old": lambda _: older_than(3, least=500),
    "Anthropic's and LangChain's defaults: from 100,000, keep 3": lambda _: beyond(100_000),
    "the same from 30,000": lambda _: beyond(30_000),
    "the same from 30,000, at least 5,000": lambda _: beyond(30_000, least=5_000),
    "clear_tool_results": lambda prices: clearing(Clearing(), prices),
    "clear_tool_results, keep 3": lambda prices: clearing(Clearing(keep=3), prices),
    "clear_tool_results, at least 5,000": lambda prices: clearing(Clearing(clear_at_least=5_000), prices),
}  # fmt: skip
POLICIES["clear_tool_results, arguments as well"] = POLICIES["clear_tool_results"]
RULE = "clear_tool_results"
"""Begins the names of the policies that go by the prices."""
ORACLE = "all that is old, at the best moments"


# Requests


@dataclass
class Recorder:
    """A cache that keeps the requests, to be sent to others."""

    prices: Prices = PRICES
    requests: list[list[CacheBlock]] = field(default_factory=list[list[CacheBlock]])

    def send(self, request: Sequence[CacheBlock], now: float = 0) -> Usage:
        del now
        self.requests.append([*request])
        return Usage()


def record(
    messages: Sequence[Message], policy: Policy, *, arguments: bool = False
) -> tuple[list[list[CacheBlock]], int]:
    """The requests of a history under a policy, which may see `arguments` as well, and how often something was cleared."""
    recorder = Recorder()
    bill = replay(messages, FORM, policy, cache=recorder, marks=no_marks, arguments=arguments)
    return recorder.requests, bill.drains


def price_of(requests: Sequence[Sequence[CacheBlock]], column: Column) -> float:
    """The bill in prices of a token without a cache."""
    cache, marked, used = column.make(column.prices), set[Any](), Usage()
    for blocks in requests:
        places = column.marks(blocks, marked)
        for at in places:
            blocks[at].life = "5m"
            marked.add(blocks[at].key)
        used += cache.send(blocks)
        for at in places:  # the next cache has marks of its own
            blocks[at].life = None
    return used.fresh + column.prices.read * used.read + column.prices.write * used.written


def best_moments(messages: Sequence[Message], column: Column) -> Policy:
    """Clear all that is old before those requests at which it makes the bill smallest. Found by dynamic programming over the
    requests before which something is cleared: what one costs depends on the one before it alone."""
    old: list[set[int]] = []

    def look(moment: Moment) -> Sequence[str]:
        if not moment.agent_end:
            old.append({one.position for one in moment.results if one.trimmable})
        return ()

    requests, cleared = (record(messages, policy)[0] for policy in (look, older_than(1)))
    whole = [sum(block.tokens for block in request) for request in requests]
    saved = [size - sum(block.tokens for block in request) for size, request in zip(whole, cleared, strict=True)]
    ends = [request[-1].message + 1 for request in requests]
    tokens_before, total = dict[int, int](), 0
    for block in requests[-1]:
        tokens_before.setdefault(block.message, total)
        total += block.tokens
    read, write, count = column.prices.read, column.prices.write, len(requests)
    sums = [0, *accumulate(whole)]

    def without(last: int, begin: int, end: int) -> float:
        """What requests cost in which nothing more is cleared than before request `last`."""
        if begin >= end:
            return 0
        held = sums[end - 1] - sums[begin - 1] - saved[last] * (end - begin)
        return read * held + write * (whole[end - 1] - whole[begin - 1])

    def clearing_at(at: int, last: int) -> float:
        """What the request costs before which something is cleared."""
        if not (fresh := old[at] - old[last]):
            return without(last, at, at + 1)
        first = min(fresh)
        held = tokens_before[first] - saved[last]
        if column.reach is not None:  # but what stands so near the end that the cache finds it
            known = bisect_right(ends, first) - 1
            near = known >= last and len(requests[at]) - len(requests[known]) < column.reach
            held = whole[known] - saved[last] if near else 0
        return read * held + write * (whole[at] - saved[at] - held)

    best: list[tuple[float, int]] = [(write * whole[0], 0)]
    for at in range(1, count):
        best.append(
            min((best[last][0] + without(last, last + 1, at) + clearing_at(at, last), last) for last in range(at))
        )
    last = min(range(count), key=lambda at: best[at][0] + without(at, at + 1, count))
    moments = {last}
    while last:
        last = best[last][1]
        moments.add(last)
    return _at(moments)


def _at(moments: set[int]) -> Policy:
    asked = -1

    def policy(moment: Moment) -> Sequence[str]:
        nonlocal asked
        if moment.agent_end:
            return ()
        asked += 1
        return [one.handle for one in moment.results if one.trimmable] if asked in moments else ()

    return policy


# What is cleared too early


def _values(value: object) -> list[str]:
    """The leaves that are long enough."""
    if is_object(value):
        value = [*value.values()]
    if is_list(value):
        return [leaf for each in value for leaf in _values(each)]
    text = "" if value is None or isinstance(value, bool) else str(value).strip()
    return [text] if len(text) >= SHORTEST_VALUE else []


Needed = list[tuple[int, frozenset[int]]]
"""By value: the number of the request whose reply used it, and the messages that it stood in."""


def needed_values(messages: Sequence[Message]) -> Needed:
    """The values in calls' arguments that stood in earlier results alone."""
    needed: Needed = []
    request = -1
    said, sources_of = "", dict[int, str]()
    for position, message in enumerate(messages):
        texts = [found.text for found in FORM.results(message)]
        leaves = [leaf for call in FORM.calls(message) for leaf in _values(arguments_of(call))]
        request += FORM.is_reply(message)
        for value in leaves:
            sources = frozenset(at for at, text in sources_of.items() if value in text)
            if sources and value not in said:
                needed.append((request, sources))
        if texts:
            sources_of[position] = "\n".join(texts)
        else:
            said += "".join(f"\n{text}" for text in [FORM.text(message), *leaves])
    return needed


def lost(needed: Needed, requests: Sequence[Sequence[CacheBlock]], whole: Sequence[Sequence[CacheBlock]]) -> int:
    """How many of them no message of the request had any more. `whole` are the requests of the untrimmed history."""
    sizes = [{block.message: block.tokens for block in request if block.tokens} for request in whole]
    cleared = [
        {block.message for block in request if block.trimmed or 0 < block.tokens < sizes[at][block.message]}
        for at, request in enumerate(requests)
    ]
    return sum(sources <= cleared[request] for request, sources in needed)


# The tables


def long_session(pattern: str, folder: Path = FOLDER) -> list[Message]:
    """All these conversations, one after the other, under the first one's system text."""
    messages = [message for file in sorted(folder.glob(pattern)) for message in load(file)]
    return [message for at, message in enumerate(messages) if at == 0 or message["role"] != "system"]


def measure(messages: Sequence[Message]) -> list[list[str]]:
    """The rows: shares of the untrimmed bill in each cache. Drains and losses are those with Anthropic's prices."""
    needed = needed_values(messages)
    as_sent = record(messages, never)[0]
    untrimmed = [price_of(as_sent, column) for column in COLUMNS]
    table: list[list[str]] = []
    for name in [*POLICIES, ORACLE]:
        recorded: dict[Any, tuple[list[list[CacheBlock]], int]] = {}
        shares: list[str] = []
        for column, whole in zip(COLUMNS, untrimmed, strict=True):
            key: Any = (
                (column.prices, column.reach) if name == ORACLE else column.prices if name.startswith(RULE) else None
            )
            if key not in recorded:
                policy = best_moments(messages, column) if name == ORACLE else POLICIES[name](column.prices)
                recorded[key] = record(messages, policy, arguments=name.endswith("arguments as well"))
            shares.append(_share(price_of(recorded[key][0], column) / whole))
        requests, drains = next(iter(recorded.values()))
        table.append([name, *shares, str(drains), str(lost(needed, requests, as_sent))])
    return table


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def show(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for line in [head, ["---"] * len(head), *rows]:
        print(f"| {' | '.join(line)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--served", action="store_true", help="play the sessions through scripted servers as well")
    is_served: bool = parser.parse_args().served
    for name, pattern in SESSIONS.items():
        messages = long_session(pattern)
        values = len(needed_values(messages))
        print(f"\n{name}: {len(messages)} messages, {values} values that stood in results alone\n")
        show([f"{name}: policy", *HEAD], measure(messages))
    if is_served:
        print()
        show(
            SERVED_HEAD, anyio.run(measure_served, {name: long_session(pattern) for name, pattern in SESSIONS.items()})
        )


if __name__ == "__main__":
    main()
