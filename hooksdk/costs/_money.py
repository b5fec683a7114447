"""What tokens cost in money: by the user's own prices, then by those of the package `genai-prices`."""

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
# The source of own prices: this table of the configuration.
OWN = "[prices]"
_DAY = re.compile(r"20\d\d-[01]\d-[0-3]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a million tokens of a model, in US dollars.

    ```python
    from hooksdk.costs import Price, Usage

    price = Price(input=3.0, cache_read=0.3, cache_write=3.75, output=15.0)
    assert price.of(Usage(fresh=100_000, read=1_000_000)) == 0.6
    ```

    Attributes:
        input: For a prompt without a cache.
        output: For replies with their thinking.
        cache_read: For the prompt's tokens from the provider's cache; None if it has none: all cost `input` then.
        cache_write: For the prompt's tokens that the cache stores; None if they cost no more than `input`.
        cache_write_1h: For tokens that the cache stores for an hour; None: as `cache_write`.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None

    def of(self, usage: Usage) -> float:
        """The cost of these tokens, in dollars."""
        write, hour = self._writes()
        read = self.input if self.cache_read is None else self.cache_read
        prompt = usage.fresh * self.input + usage.read * read
        written = (usage.written - usage.written_1h) * write + usage.written_1h * hour
        return (prompt + written + usage.output * self.output) / MILLION

    def prices(self, *, hour: bool = False) -> Prices:
        """The same in units of a token without a cache, by which trims are weighed. `hour`: for a cache that lives an
        hour."""
        if not self.input:
            return PRICES
        read = self.input if self.cache_read is None else self.cache_read
        read, write = (round(price / self.input, 4) for price in (read, self._writes()[hour]))
        return Prices(read=read, write=write, life=3_600 if hour else PRICES.life)

    def _writes(self) -> tuple[float, float]:
        write = self.input if self.cache_write is None else self.cache_write
        return write, write if self.cache_write_1h is None else self.cache_write_1h


def check_prices(table: dict[str, Any]) -> dict[str, Any]:
    """Check the table `[prices]` of a configuration, dollars for a million tokens by `PROVIDER:NAME`, and answer it.
    Raises `ValueError`, which names the wrong entry.

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
    """The tokens and the cost of the requests to one model.

    Attributes:
        model: As `Request.model`.
        dollars: None if there is no price of the model.
        without_cache: What the same tokens would have cost without a cache.
        source: The source of the prices and their day, or why there is none.
    """

    model: str
    requests: int
    usage: Usage
    dollars: float | None
    without_cache: float | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The cost of several requests.

    ```python
    from hooksdk.costs import PriceList, Request, Usage

    prices = PriceList({"acme:small": {"input": 1.0, "output": 4.0}})
    spent = prices.spent([Request(model="acme:small", usage=Usage(fresh=500_000, output=1_000))])
    assert spent.dollars == 0.504
    ```

    Attributes:
        models: By model, in the order of their first requests.
    """

    models: Sequence[ModelCost]

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(one.requests for one in self.models)

    @property
    def usage(self) -> Usage:
        """The tokens of all requests."""
        return sum((one.usage for one in self.models), Usage())

    @property
    def dollars(self) -> float | None:
        """The cost of all; None if one of the models has no price, or nothing was counted."""
        return _sum([one.dollars for one in self.models])

    @property
    def without_cache(self) -> float | None:
        """The cost without a cache; None as for `dollars`."""
        return _sum([one.without_cache for one in self.models])

    @property
    def source(self) -> str:
        """The sources of the prices, and their days."""
        return "; ".join(dict.fromkeys(one.source for one in self.models))


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None


@final
class PriceList:
    """The prices of models: by `own`, the table `[prices]` of the configuration (`PriceList(config.prices)`), then by
    the package `genai-prices`, if it is installed: `pip install 'hooksdk[prices]'`. A model that neither knows has no
    price, which is never taken for 0. Raises `ValueError` for a wrong entry.

    Models are named as `PROVIDER:NAME`. Without a provider the package guesses it.

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
        """The price of a million tokens, for short prompts if long ones cost more; None if it is not known. `time`: the
        price at that time, in seconds since 1970."""
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
        """The cost of one request with these tokens in dollars, now or at that time; None if it is not known. Long
        prompts may cost more, so ask about one request at a time, as `spent` does."""
        if own := self._own_of(model):
            return own.of(usage)
        found = _packaged(model, usage, time)
        return None if found is None else float(found.total_price)

    def context_window(self, model: str) -> int | None:
        """The model's context window in tokens, if the package knows it."""
        found = _packaged(model, Usage(), None)
        return None if found is None else found.model.context_window

    def source(self, model: str) -> str:
        """The source of the model's price and its day, or why there is none, in words."""
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
        """The cost of these requests, such as `session.requests`, each at the prices of its day."""
        by_model: dict[str, list[Request]] = {}
        for request in requests:
            by_model.setdefault(request.model, []).append(request)
        return Spent(models=[self._of_model(model, asked) for model, asked in by_model.items()])

    def _own_of(self, model: str) -> Price | None:
        """The own price of a model; a name without a provider counts if one provider has it."""
        named = [price for key, price in self._own.items() if key.partition(":")[2] == model]
        return self._own.get(model) or (named[0] if len(named) == 1 else None)

    def _of_model(self, model: str, asked: Sequence[Request]) -> ModelCost:
        bare = [Usage(fresh=one.usage.prompt, output=one.usage.output) for one in asked]
        return ModelCost(
            model=model,
            requests=len(asked),
            usage=sum((one.usage for one in asked), Usage()),
            dollars=_sum([self.cost(model, one.usage, one.time) for one in asked]),
            without_cache=_sum([self.cost(model, use, one.time) for use, one in zip(bare, asked, strict=True)]),
            source=self.source(model),
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
    """The price that genai-prices has for these tokens; None if it does not know the model, or is not installed."""
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
    """Such as `genai-prices 0.2.3 of 2026-11-04`. Updated data has a date of its own. The data that comes with the
    package has none: it is taken to be of the newest day in its texts that was past when it was installed."""
    from genai_prices import data_snapshot

    snapshot = data_snapshot.get_snapshot()
    name = f"genai-prices {importlib.metadata.version('genai-prices')}"
    if snapshot.from_auto_update:
        return f"{name}, updated on {snapshot.timestamp:%Y-%m-%d}"
    texts = [one.price_comments for one in snapshot.providers]
    for model in (model for one in snapshot.providers for model in one.models):
        texts += [model.price_comments, model.id]
    installed = f"{datetime.fromtimestamp(Path(data_snapshot.__file__).stat().st_mtime, UTC):%Y-%m-%d}"
    days = [day for text in texts if text for day in _DAY.findall(text) if day <= installed]
    return f"{name} of {max(days)}" if days else name
