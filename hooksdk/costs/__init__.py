"""Whether trims pay: a trim makes every later request smaller, but the provider's prompt cache must take anew what
follows it.

`estimate` weighs the two, `Clearing` decides with it what to clear, `replay` tells what a whole history would have
cost, and `PriceList` what tokens cost in money.

```python
from hooksdk.costs import Prices, replay
from hooksdk.formats import get_format

messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
bill = replay(messages, get_format("openai-chat"), prices=Prices(write=1))
assert (bill.requests, bill.read) == (1, 0)
```

Status: stable.
"""

from __future__ import annotations

from hooksdk.costs._caches import BreakpointCache, MarkedCache, NoCache, PrefixCache, PromptCache, cache_of
from hooksdk.costs._clearing import Clearing
from hooksdk.costs._estimate import (
    BREAKPOINT_PRICES,
    NO_CACHE_PRICES,
    PREFIX_PRICES,
    PRICES,
    Prices,
    TrimCost,
    estimate,
    estimate_change,
)
from hooksdk.costs._models import cache_prices
from hooksdk.costs._money import ModelCost, Price, PriceList, Spent, check_prices, in_dollars
from hooksdk.costs._replay import (
    Bill,
    Marks,
    Moment,
    Policy,
    at_each_agent_end,
    at_each_request,
    clearing,
    mark_last,
    never,
    replay,
)
from hooksdk.costs._stored import CacheReading, cache_readings, replay_as_stored
from hooksdk.formats.usage import Request, Usage, model_name, requests_in, usage_of

__all__ = [
    "BREAKPOINT_PRICES",
    "NO_CACHE_PRICES",
    "PREFIX_PRICES",
    "PRICES",
    "Bill",
    "BreakpointCache",
    "CacheReading",
    "Clearing",
    "MarkedCache",
    "Marks",
    "ModelCost",
    "Moment",
    "NoCache",
    "Policy",
    "PrefixCache",
    "Price",
    "PriceList",
    "Prices",
    "PromptCache",
    "Request",
    "Spent",
    "TrimCost",
    "Usage",
    "at_each_agent_end",
    "at_each_request",
    "cache_of",
    "cache_prices",
    "cache_readings",
    "check_prices",
    "clearing",
    "estimate",
    "estimate_change",
    "in_dollars",
    "mark_last",
    "model_name",
    "never",
    "replay",
    "replay_as_stored",
    "requests_in",
    "usage_of",
]
