"""What tokens cost in money: prices of one's own, those of genai-prices, and neither."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from hooksdk.costs import Price, PriceList, Prices, Request, Usage, in_dollars, usage_of

SONNET = "anthropic:claude-sonnet-4-5"
OWN = {SONNET: {"input": 1.0, "output": 4.0}, "acme:small": {"input": 2, "output": 8, "cache_read": 0.5}}
LATE = datetime(2026, 11, 20, tzinfo=UTC).timestamp()


def test_each_kind_of_token_has_its_price():
    price = Price(input=3, cache_read=0.3, cache_write=3.75, cache_write_1h=6, output=15)
    million = 1_000_000
    kinds = [
        Usage(fresh=million), Usage(read=million), Usage(written=million), Usage(written=million, written_1h=million), Usage(output=million)
    ]  # fmt: skip
    assert [price.of(usage) for usage in kinds] == [3, 0.3, 3.75, 6, 15]
    assert price.prices() == Prices(read=0.1, write=1.25)
    assert price.prices(hour=True) == Prices(read=0.1, write=2, life=3_600)


def test_what_a_price_does_not_name_costs_as_a_token_without_a_cache():
    usage = Usage(fresh=1, read=1, written=2, written_1h=1, output=0)
    assert Price(input=2, output=8).of(usage) == pytest.approx(8e-6)
    assert Price(input=2, output=8).prices() == Prices(read=1, write=1)
    assert Price(input=2, output=8, cache_write=2.5).prices(hour=True).write == 1.25
    assert Price(input=0, output=0).prices() == Prices()


def test_one_s_own_price_comes_before_the_package_s():
    own, packaged = PriceList(OWN), PriceList()
    usage = Usage(fresh=1_000_000)
    assert (own.cost(SONNET, usage), own.source(SONNET)) == (1.0, "[prices]")
    assert packaged.cost(SONNET, Usage(fresh=1_000)) == 0.003
    assert own.price("openai:gpt-5") == packaged.price("openai:gpt-5") == Price(input=1.25, output=10, cache_read=0.125)


def test_the_day_of_the_package_s_data_is_said():
    found = re.fullmatch(r"genai-prices [\d.]+ of (20\d\d-\d\d-\d\d)", PriceList().source(SONNET))
    assert found
    assert "2026-09-01" < found[1] <= f"{datetime.now(UTC):%Y-%m-%d}"


def test_long_prompts_cost_what_the_provider_takes_for_long_ones():
    prices = PriceList()
    short, long = prices.cost(SONNET, Usage(fresh=200_000)), prices.cost(SONNET, Usage(fresh=200_001))
    assert short == pytest.approx(0.6)
    assert long is not None
    assert long > 1.1


def test_a_model_that_nobody_knows_has_no_price_and_never_0():
    prices = PriceList(OWN)
    for model in ("openai:llama-of-mine", "acme:huge", "nobody:knows"):
        assert (prices.price(model), prices.cost(model, Usage(fresh=5))) == (None, None)
        assert prices.source(model).startswith(f"no price of {model}: neither in [prices] nor in genai-prices ")
    assert prices.source("acme:smal").endswith("Did you mean 'acme:small'?")
    assert (prices.cost("", Usage(fresh=5)), prices.source("")) == (None, "no price: the model is not known")


def test_without_the_package_one_s_own_prices_count_and_how_to_get_others_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    prices = PriceList(OWN)
    assert prices.cost("acme:small", Usage(read=1_000_000)) == 0.5
    assert prices.cost("openai:gpt-5", Usage(fresh=1)) is None
    assert "pip install 'hooksdk[prices]'" in prices.source("openai:gpt-5")


def test_of_a_name_alone_the_one_provider_that_has_it_is_meant():
    assert PriceList(OWN).cost("small", Usage(fresh=1_000_000)) == 2
    assert PriceList({**OWN, "other:small": OWN["acme:small"]}).cost("small", Usage(fresh=1)) is None
    assert PriceList().cost("gpt-5", Usage(fresh=1_000_000)) == 1.25


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"claude": {"input": 1, "output": 1}}, "'claude' is no model: write PROVIDER:NAME"),
        ({":x": {"input": 1, "output": 1}}, "':x' is no model"),
        ({"a:b": 3}, "'a:b' must be a table, such as { input = 3.0, output = 15.0 }, not 3"),
        ({"a:b": {"input": 1, "output": 1, "cache_raed": 1}}, "'a:b': 'cache_raed' is not a price. Did you mean 'cache_read'"),
        ({"a:b": {"input": 1}}, "'a:b' needs output: dollars for a million tokens"),
        ({"a:b": {}}, "'a:b' needs input and output"),
        ({"a:b": {"input": -1, "output": 1}}, "'a:b': 'input' must be dollars for a million tokens, from 0 on, not -1"),
        ({"a:b": {"input": True, "output": 1}}, "not True"),
        ({"a:b": {"input": float("nan"), "output": 1}}, "not nan"),
    ],
)  # fmt: skip
def test_a_wrong_entry_says_what_to_write(table: dict[str, Any], problem: str):
    with pytest.raises(ValueError, match=re.escape(problem)):
        PriceList(table)


# What requests cost together


def test_what_was_spent_is_told_by_model_with_what_it_would_have_been_without_a_cache():
    asked = [
        Request(model="acme:small", usage=Usage(fresh=100_000, output=1_000)),
        Request(model=SONNET, usage=Usage(fresh=10, output=10)),
        Request(model="acme:small", usage=Usage(fresh=1_000, read=100_000, output=1_000)),
    ]
    spent = PriceList(OWN).spent(asked)
    small, sonnet = spent.models
    assert (small.model, small.requests, small.usage.prompt, small.source) == ("acme:small", 2, 201_000, "[prices]")
    assert (small.dollars, small.without_cache) == (pytest.approx(0.268), pytest.approx(0.418))
    assert spent.dollars == pytest.approx(0.268 + (sonnet.dollars or 0))
    assert (spent.requests, spent.usage.read, spent.source) == (3, 100_000, "[prices]")


def test_a_sum_in_which_one_price_is_not_known_is_not_known():
    spent = PriceList(OWN).spent([Request(model=model, usage=Usage(fresh=5)) for model in ("acme:small", "acme:huge")])
    assert (spent.dollars, spent.without_cache) == (None, None)
    assert [one.dollars is None for one in spent.models] == [False, True]
    assert PriceList().spent([]).dollars is None


def test_requests_are_priced_one_by_one_and_as_of_their_day():
    usage = Usage(fresh=150_000)
    spent = PriceList().spent([Request(model=SONNET, usage=usage, time=LATE)] * 2)
    assert spent.dollars == pytest.approx(0.9)


def test_what_is_written_for_an_hour_is_read_from_anthropic_s_counts():
    counts = {"input_tokens": 1, "cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_1h_input_tokens": 7}}
    assert usage_of(counts) == Usage(fresh=1, written=9, written_1h=7)
    assert PriceList().cost(SONNET, Usage(written=1_000, written_1h=1_000)) == pytest.approx(0.006)
    assert Usage(written_1h=2) + Usage(written_1h=3) == Usage(written_1h=5)


def test_amounts_are_told_as_finely_as_they_need():
    amounts = [1_234.5, 1, 0.05, 0.00004, 0]
    assert [in_dollars(amount) for amount in amounts] == ["$1,234.50", "$1.00", "$0.0500", "$0.0000", "$0.00"]
