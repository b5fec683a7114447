"""What the providers' pages say of each model's cache, and how a trim is weighed where a page can be read in two ways."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hooksdk.costs import BREAKPOINT_PRICES, BreakpointCache, Clearing, Prices, cache_of, cache_prices, clearing, replay
from hooksdk.formats import get_format
from hooksdk.formats.prompt_cache import CacheBlock
from hooksdk.formats.usage import Usage
from tests.hooksdk.test_costs import result

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
trim_cost: Any = import_module("trim_cost")


def blocks(*sizes: int, keys: str = "abcdefgh", marked: str = "") -> list[CacheBlock]:
    """A request; a block's key stands for all before it."""
    pairs = zip(keys, sizes, strict=False)
    return [CacheBlock(key=keys[: at + 1], tokens=size, life="5m" if key in marked else None)
            for at, (key, size) in enumerate(pairs)]  # fmt: skip


def stored(model: str, tokens: int) -> bool:
    """True if the model's cache keeps a prompt of so many tokens."""
    cache = cache_of(model)
    assert cache is not None
    cache.send(blocks(tokens, marked="a"))
    return cache.send(blocks(tokens, 1, marked="b")).read > 0


@pytest.mark.parametrize(
    ("model", "least"),
    [
        ("anthropic:claude-opus-5", 512), ("anthropic:claude-opus-5-5", 512), ("anthropic:claude-fable-5-1", 512),
        ("claude-mythos-5", 512), ("claude-sonnet-5-5", 1_024), ("claude-opus-4-8", 1_024), ("claude-opus-4-1-20250805", 1_024),
        ("claude-sonnet-4-20250514", 1_024), ("claude-sonnet-4-6", 2_048), ("claude-opus-4-7", 2_048),
        ("claude-3-5-haiku-20241022", 2_048), ("claude-opus-4-6", 4_096), ("anthropic/claude-4.5-opus-20251124", 4_096),
        ("bedrock:eu.anthropic.claude-haiku-4-5-20251001-v1:0", 4_096), ("anthropic:of-tomorrow", 1_024), ("claude-lyric-9", 4_096),
        ("openai:gpt-5", 1_024), ("openai:gpt-5.6-luna", 1_024), ("google:gemini-2.5-pro", 2_048), ("google:gemini-3.8-flash", 4_096),
    ],
)  # fmt: skip
def test_the_smallest_prefix_that_a_cache_keeps_is_the_models_own(model: str, least: int) -> None:
    assert (stored(model, least - 1), stored(model, least)) == (False, True)


@pytest.mark.parametrize(
    ("provider", "model", "read", "write", "life", "beginnings"),
    [
        ("anthropic", "claude-sonnet-4-5", 0.1, 1.25, 300, True), ("anthropic", "claude-sonnet-5-5", 0.05, 1.25, 300, True),
        ("anthropic", "claude-fable-5-1", 0.025, 1.25, 300, True), ("openrouter", "anthropic/claude-opus-5.5", 0.05, 1.25, 300, True),
        ("openai", "gpt-4o-mini", 0.5, 1, 3_600, True), ("openai", "gpt-4.1", 0.25, 1, 3_600, True), ("openai", "gpt-5.5", 0.1, 1, 3_600, True),
        ("openai", "gpt-5.6-sol", 0.1, 1.25, 1_800, False), ("azure", "gpt-6", 0.1, 1.25, 1_800, False),
        ("openai", "gpt-6.1-terra", 0.05, 1.25, 1_800, False), ("openai", "gpt-10", 0.05, 1.25, 1_800, False),
        ("OpenAI", None, 0.1, 1.25, 1_800, False), ("openai", "qwen3", 0.1, 1, 3_600, True), ("google", None, 0.1, 1, 300, True),
        (None, "gemini-3.8-flash", 0.1, 1, 300, True), (None, None, 0.1, 1.25, 300, True), ("acme", "small", 0.1, 1.25, 300, True),
    ],
)  # fmt: skip
def test_the_prices_are_those_of_the_models_page(
    provider: str | None, model: str | None, read: float, write: float, life: float, *, beginnings: bool
) -> None:
    assert cache_prices(provider, model) == Prices(read=read, write=write, life=life, beginnings=beginnings)


@pytest.mark.parametrize(
    "name",
    ["", ":", "/", "gpt-", "gpt-" + "9" * 5_000, "claude-" * 20_000, "claude-9" + "9" * 5_000, "\ud800", "GPT-5.6"],
)
def test_a_name_that_says_nothing_is_no_error(name: str) -> None:
    cache_of(name)
    assert cache_prices("openai", name).read in {0.1, 0.05}


# The cache with breakpoints


@pytest.mark.parametrize("earlier", [True, False])
def test_a_conversation_that_grows_reads_what_the_request_before_has_written(*, earlier: bool) -> None:
    cache = BreakpointCache(earlier=earlier)
    assert cache.send(blocks(1_000)) == Usage(fresh=1_000)  # too short to be kept
    assert cache.send(blocks(1_000, 500)) == Usage(written=1_500)
    assert cache.send(blocks(1_000, 500, 200)) == Usage(read=1_500, written=200)


@pytest.mark.parametrize(("earlier", "read"), [(True, 2_000), (False, 0)])
def test_behind_a_change_the_page_can_be_read_in_two_ways(*, earlier: bool, read: int) -> None:
    cache = BreakpointCache(earlier=earlier)
    cache.send(blocks(2_000))
    cache.send(blocks(2_000, 500))
    cache.send(blocks(2_000, 500, 100))
    assert cache.send(blocks(2_000, 50, 100, keys="axc")) == Usage(read=read, written=2_150 - read)


def test_no_prefix_is_found_that_ends_elsewhere_than_at_a_breakpoint() -> None:
    cache = BreakpointCache(earlier=True)
    cache.send(blocks(2_000, 2_000))
    assert cache.send(blocks(2_000, 500, keys="ax")).read == 0


@pytest.mark.parametrize("earlier", [True, False])
def test_what_a_request_marks_itself_is_found_by_one_that_marks_it_again(*, earlier: bool) -> None:
    cache = BreakpointCache(earlier=earlier)
    cache.send(blocks(2_000, 500, marked="a"))
    assert cache.send(blocks(2_000, 700, keys="ax", marked="a")) == Usage(read=2_000, written=700)


def test_only_the_last_80_prompts_are_looked_through_and_each_for_thirty_minutes() -> None:
    cache = BreakpointCache(earlier=True)
    cache.send(blocks(2_000))
    for number in range(80):
        cache.send([CacheBlock(key=number, tokens=2_000)])
    assert cache.send(blocks(2_000, 1)).read == 0
    cache = BreakpointCache()
    cache.send(blocks(2_000), 0)
    assert cache.send(blocks(2_000), 1_799).read == 2_000
    assert cache.send(blocks(2_000), 1_799 + 1_800).read == 0
    assert BreakpointCache().send([]) == Usage()


# Whether a trim pays


@pytest.mark.heavy
@pytest.mark.parametrize("earlier", [True, False])
def test_no_short_session_costs_more_by_either_reading_of_the_page(*, earlier: bool) -> None:
    form, rule = get_format("openai-chat"), clearing(Clearing(), BREAKPOINT_PRICES)
    files = sorted(trim_cost.FOLDER.glob("*.jsonl"))
    assert len(files) == 29
    for file in files:
        messages = trim_cost.load(file)
        whole = replay(messages, form, cache=BreakpointCache(earlier=earlier)).price
        assert replay(messages, form, rule, cache=BreakpointCache(earlier=earlier)).price <= whole


def test_a_trim_that_pays_by_one_reading_alone_is_not_made() -> None:
    rule, sizes = Clearing(trigger=5_000, keep=0, clear_at_least=1), [10_000, 1_030, 100]
    one = [result(1, 1, turns_ago=20)]
    assert rule.choose(one, sizes, prices=replace(BREAKPOINT_PRICES, beginnings=True)) is not None
    assert rule.choose(one, sizes, prices=cache_prices("openai", "gpt-5.6-sol")) is None
