"""What tokens cost in money: by prices of one's own, and behind these by those of the package `genai-prices`."""

from __future__ import annotations

import importlib.metadata
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from hooksdk.costs._estimate import PRICES, Prices
from hooksdk.errors import did_you_mean, unknown_key
from hooksdk.formats.usage import Request, Usage
from hooksdk.values import is_object

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

MILLION = 1_000_000
OWN = "[prices]"
"""What is said of prices of one's own: they stand in this table of the configuration."""
_DAY = re.compile(r"20\d\d-[01]\d-[0-3]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million tokens of a model cost, in US dollars.

    ```python
    from hooksdk.costs import Price, Usage

    price = Price(input=3.0, cache_read=0.3, cache_write=3.75, output=15.0)
    assert price.of(Usage(fresh=100_000, read=1_000_000)) == 0.6
    ```
    """

    input: float
    """Of the prompt, where no cache has a part in it."""
    output: float
    """Of the replies, thinking among them."""
    cache_read: float | None = None
    """Of the prompt, from the provider's cache; None where it has none, so that all costs what `input` says."""
    cache_write: float | None = None
    """Of the prompt, what the cache takes; None where that costs nothing more."""
    cache_write_1h: float | None = None
    """The same, where the cache keeps it for an hour; None: as `cache_write`."""

    def of(self, usage: Usage) -> float:
        """What these tokens cost, in dollars."""
        write, hour = self._writes()
        read = self.input if self.cache_read is None else self.cache_read
        parts = (
            (usage.fresh, self.input),
            (usage.read, read),
            (usage.written - usage.written_1h, write),
            (usage.written_1h, hour),
            (usage.output, self.output),
        )
        return sum(tokens * price for tokens, price in parts) / MILLION

    def prices(self, *, hour: bool = False) -> Prices:
        """The same in prices of a token without a cache, as trims are weighed. `hour`: of a cache that keeps things so long."""
        if not self.input:
            return PRICES
        read = self.input if self.cache_read is None else self.cache_read
        read, write = (round(price / self.input, 4) for price in (read, self._writes()[hour]))
        return Prices(read=read, write=write, life=3_600 if hour else PRICES.life)

    def _writes(self) -> tuple[float, float]:
        write = self.input if self.cache_write is None else self.cache_write
        return write, write if self.cache_write_1h is None else self.cache_write_1h


def check_prices(table: dict[str, Any]) -> dict[str, Any]:
    """The table `[prices]` of a configuration, as it is: dollars for a million tokens, by `PROVIDER:NAME`. Raises `ValueError`
    that says what is wrong with which entry.

    ```python
    from hooksdk.costs import check_prices

    check_prices({"acme:small": {"input": 1.0, "output": 4.0}})
    ```
    """
    PriceList(table)
    return table


def _own_price(model: str, entry: object) -> Price:
    provider, colon, name = model.partition(":")
    if not (provider and colon and name):
        raise ValueError(f"'{model}' is no model: write PROVIDER:NAME, such as \"anthropic:claude-sonnet-4-5\"")
    if not is_object(entry):
        raise ValueError(f"'{model}' must be a table, such as {{ input = 3.0, output = 15.0 }}, not {entry!r:.60}")
    known = [one.name for one in fields(Price)]
    for key, value in entry.items():
        if key not in known:
            raise ValueError(f"'{model}': {unknown_key(key, known, 'a price')}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ValueError(f"'{model}': '{key}' must be dollars for a million tokens, from 0 on, not {value!r:.60}")
    missing = [one.name for one in fields(Price) if one.default is MISSING and one.name not in entry]
    if missing:
        raise ValueError(f"'{model}' needs {' and '.join(missing)}: dollars for a million tokens")
    return Price(**entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """What the requests to one model used, and cost."""

    model: str
    """As `Request.model`."""
    requests: int
    usage: Usage
    dollars: float | None
    """None where nobody knows a price of the model."""
    without_cache: float | None
    """What the same tokens would have cost had no cache held any and none been written to it."""
    source: str
    """Whose prices these are and of which day, or why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What requests cost together.

    ```python
    from hooksdk.costs import PriceList, Request, Usage

    prices = PriceList({"acme:small": {"input": 1.0, "output": 4.0}})
    spent = prices.spent([Request(model="acme:small", usage=Usage(fresh=500_000, output=1_000))])
    assert spent.dollars == 0.504
    ```
    """

    models: Sequence[ModelCost]
    """By model, in the order in which they were asked first."""

    @property
    def requests(self) -> int:
        """How many were counted."""
        return sum(one.requests for one in self.models)

    @property
    def usage(self) -> Usage:
        """The tokens of all."""
        return sum((one.usage for one in self.models), Usage())

    @property
    def dollars(self) -> float | None:
        """What was paid for all; None where there is no price of one of the models, or nothing was counted."""
        return _sum([one.dollars for one in self.models])

    @property
    def without_cache(self) -> float | None:
        """What it would have been without a cache; None as for `dollars`."""
        return _sum([one.without_cache for one in self.models])

    @property
    def source(self) -> str:
        """Whose prices these are, and of which day."""
        return "; ".join(dict.fromkeys(one.source for one in self.models))


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


@final
class PriceList:
    """What models cost: `own` first, the table `[prices]` of the configuration (`PriceList(config.prices)`), and for all other
    models what the package `genai-prices` has, where it is installed: `pip install 'hooksdk[prices]'`. A model that neither
    knows has no price; it is never taken for 0. Raises `ValueError` for a wrong entry.

    Models are named as `PROVIDER:NAME`. Of a name alone the package guesses the provider.

    ```python
    from hooksdk.costs import PriceList, Usage

    prices = PriceList({"acme:small": {"input": 1.0, "output": 4.0}})
    assert prices.cost("acme:small", Usage(fresh=500_000, output=1_000)) == 0.504
    assert prices.cost("acme:huge", Usage(fresh=500_000)) is None
    ```
    """

    def __init__(self, own: Mapping[str, Any] | None = None) -> None:
        self._own = {model: _own_price(model, entry) for model, entry in (own or {}).items()}

    def price(self, model: str, time: float | None = None) -> Price | None:
        """What a million tokens cost, of short prompts where long ones cost more; None where nobody knows. `time`: as then, in
        seconds since 1970."""
        if own := self._own_of(model):
            return own
        found = _packaged(model, Usage(), time)
        if found is None:
            return None
        prices = found.model_price

        def dollars(price: Any) -> float | None:
            return None if price is None else float(getattr(price, "base", price))

        return Price(
            input=dollars(prices.input_mtok) or 0.0,
            output=dollars(prices.output_mtok) or 0.0,
            cache_read=dollars(prices.cache_read_mtok),
            cache_write=dollars(prices.cache_write_mtok),
            cache_write_1h=dollars(prices.cache_write_1h_mtok),
        )

    def cost(self, model: str, usage: Usage, time: float | None = None) -> float | None:
        """What one request with these tokens costs in dollars, or cost at that time; None where nobody knows. Where long
        prompts cost more that is counted, so several requests are asked about one by one: `spent` does."""
        if own := self._own_of(model):
            return own.of(usage)
        found = _packaged(model, usage, time)
        return None if found is None else float(found.total_price)

    def context_window(self, model: str) -> int | None:
        """The model's, in tokens, where the package knows it."""
        found = _packaged(model, Usage(), None)
        return None if found is None else found.model.context_window

    def source(self, model: str) -> str:
        """Whose price it is and of which day, or why there is none, for whoever shows it."""
        if self._own_of(model):
            return OWN
        if not model:
            return "no price: the model is not known"
        if _packaged(model, Usage(), None) is not None:
            return _data_words()
        hint = did_you_mean(model, self._own)
        if find_spec("genai_prices") is None:
            return f"no price of {model}: not in {OWN}, and pip install 'hooksdk[prices]' brings others.{hint}"
        return f"no price of {model}: neither in {OWN} nor in {_data_words()}.{hint}"

    def spent(self, requests: Iterable[Request]) -> Spent:
        """What these requests cost, such as those of `session.requests`, each at the prices of its day."""
        by_model: dict[str, list[Request]] = {}
        for request in requests:
            by_model.setdefault(request.model, []).append(request)
        return Spent(models=[self._of_model(model, asked) for model, asked in by_model.items()])

    def _own_of(self, model: str) -> Price | None:
        """Also of a name alone, where one provider has it."""
        named = [price for key, price in self._own.items() if key.partition(":")[2] == model]
        return self._own.get(model) or (named[0] if len(named) == 1 else None)

    def _of_model(self, model: str, asked: Sequence[Request]) -> ModelCost:
        def cost(usage: Usage, request: Request) -> float | None:
            return self.cost(model, usage, request.time)

        bare = [Usage(fresh=one.usage.prompt, output=one.usage.output) for one in asked]
        return ModelCost(
            model=model,
            requests=len(asked),
            usage=sum((one.usage for one in asked), Usage()),
            dollars=_sum([cost(one.usage, one) for one in asked]),
            source=self.source(model),
            without_cache=_sum([cost(usage, one) for usage, one in zip(bare, asked, strict=True)]),
        )


def in_dollars(amount: float) -> str:
    """An amount for people: `$0.0421`, `$12.30`.

    ```python
    from hooksdk.costs import in_dollars

    assert [in_dollars(amount) for amount in (12.3, 0.0421, 0)] == ["$12.30", "$0.0421", "$0.00"]
    ```
    """
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.4f}"


def _packaged(model: str, usage: Usage, time: float | None) -> PriceCalculation | None:
    """What genai-prices says of these tokens; None where it does not know the model, or is not installed."""
    provider, colon, name = model.partition(":")
    if not model or find_spec("genai_prices") is None:
        return None
    import genai_prices

    tokens = genai_prices.Usage(
        input_tokens=usage.prompt,
        cache_read_tokens=usage.read,
        cache_write_tokens=usage.written,
        cache_write_1h_tokens=usage.written_1h,
        output_tokens=usage.output,
    )
    moment = None if time is None else datetime.fromtimestamp(time, UTC)
    try:
        found = genai_prices.calc_price(
            tokens, name if colon else model, provider_id=provider if colon else None, genai_request_timestamp=moment
        )
    except LookupError:
        return None
    return None if found.model_price.input_mtok is None else found  # such as of a model that is paid by the image


@cache
def _data_words() -> str:
    """`genai-prices 0.2.3 of 2026-11-04`. Its data does not say of which day it is: it is the newest day that the data speaks
    of, and that had come when it was installed. Data that was updated since says its own day."""
    from genai_prices import data_snapshot

    snapshot = data_snapshot.get_snapshot()
    name = f"genai-prices {importlib.metadata.version('genai-prices')}"
    if snapshot.from_auto_update:
        return f"{name}, updated on {snapshot.timestamp:%Y-%m-%d}"
    texts = [
        text
        for one in snapshot.providers
        for model in one.models
        for text in (one.price_comments, model.price_comments, model.id)
    ]
    installed = f"{datetime.fromtimestamp(Path(data_snapshot.__file__).stat().st_mtime, UTC):%Y-%m-%d}"
    days = [day for text in texts if text for day in _DAY.findall(text) if day <= installed]
    return f"{name} of {max(days)}" if days else name
