"""Whether trims pay: a trim makes every later request smaller, and the provider's prompt cache begin anew where it stands.

`estimate` weighs the two, `Clearing` decides with it what to clear, and `replay` tells what a whole history would have cost.

```python
from hooksdk.costs import Prices, replay
from hooksdk.formats import get_format

messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
bill = replay(messages, get_format("openai-chat"), prices=Prices(write=1))
assert (bill.requests, bill.read) == (1, 0)
```
"""

from __future__ import annotations

from hooksdk.costs._caches import MarkedCache, NoCache, PrefixCache, PromptCache
from hooksdk.costs._clearing import Clearing
from hooksdk.costs._estimate import (
    NO_CACHE_PRICES,
    PREFIX_PRICES,
    PRICES,
    Prices,
    TrimCost,
    cache_prices,
    estimate,
    estimate_change,
)
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
from hooksdk.costs._usage import Usage, usage_of

__all__ = [
    "NO_CACHE_PRICES",
    "PREFIX_PRICES",
    "PRICES",
    "Bill",
    "Clearing",
    "MarkedCache",
    "Marks",
    "Moment",
    "NoCache",
    "Policy",
    "PrefixCache",
    "Prices",
    "PromptCache",
    "TrimCost",
    "Usage",
    "at_each_agent_end",
    "at_each_request",
    "cache_prices",
    "clearing",
    "estimate",
    "estimate_change",
    "mark_last",
    "never",
    "replay",
    "usage_of",
]
