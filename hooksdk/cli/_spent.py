"""The tokens and the costs of requests, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hooksdk.costs import ModelCost, Spent, in_dollars


def spent_words(spent: Spent) -> str:
    """`, 81 % of its prompts from the cache, $0.0421 by genai-prices 0.2.3 of 2026-11-04`; no amount without a
    price."""
    prompt = spent.usage.prompt
    cached = f", {100 * spent.usage.read // prompt} % of its prompts from the cache" if prompt else ""
    return cached + (f", {in_dollars(spent.dollars)} by {spent.source}" if spent.dollars is not None else "")


def spent_json(spent: Spent) -> dict[str, Any]:
    """The usage and the costs, in all and by model; amounts are dollars, and null without a price."""
    return {**_entry(spent), "models": [{"model": one.model, **_entry(one)} for one in spent.models]}


def _entry(spent: Spent | ModelCost) -> Mapping[str, Any]:
    return {
        "requests": spent.requests,
        "prompt": spent.usage.prompt,
        **asdict(spent.usage),
        "dollars": spent.dollars,
        "without_cache": spent.without_cache,
        "prices": spent.source,
    }
