"""What the providers' pages say of each model's cache. The pages were read between 2026-10-13 and 2026-11-29:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching,
https://developers.openai.com/api/docs/guides/prompt-caching, https://ai.google.dev/gemini-api/docs/caching and the
providers' lists of prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from hooksdk.costs._estimate import BREAKPOINT_PRICES, PREFIX_PRICES, PRICES, Prices

# The smallest prefix that Anthropic stores, by the beginning of a model's name without `claude-`; sonnet-4-6 stores
# only from 2,048 on, as its users measured, where the page says 1,024.
_CLAUDE_LEAST = {
    "fable-5": 512,
    "haiku-3": 2_048,
    "mythos-5": 512,
    "opus-3": 1_024,
    "opus-4": 1_024,
    "opus-4-5": 4_096,
    "opus-4-6": 4_096,
    "opus-4-7": 2_048,
    "opus-5": 512,
    "sonnet-3": 1_024,
    "sonnet-4": 1_024,
    "sonnet-4-6": 2_048,
    "sonnet-5": 1_024,
}
# The largest of them, for models that the page does not name.
_CLAUDE_MOST = 4_096
# The price of reading, where it is less than the usual tenth.
_CLAUDE_READ = {"fable-5-1": 0.025, "mythos-5-1": 0.025, "opus-5-5": 0.05, "sonnet-5-5": 0.05}
# The price of reading by the beginning of the name of OpenAI's older models.
_OLDER_READ = {"gpt-4.1": 0.25, "gpt-4o": 0.5, "chatgpt-4o": 0.5, "o1": 0.5, "o3": 0.25, "o4": 0.25}
# OpenAI's older models keep a prompt for five to ten minutes, and for an hour at most.
_OLDER_LIFE = 3_600
_CLAUDE = re.compile(r"claude-(?:([a-z]+)-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")
_GPT = re.compile(r"(?:chat)?gpt-(\d{1,4})(?:\.(\d{1,4}))?")
# Beginnings of the names of OpenAI's and Google's models: other servers with OpenAI's API have other models.
WITH_PREFIXES = ("gpt-", "chatgpt-", "o1", "o3", "o4", "gemini-")
# The first version of OpenAI's models whose cache keeps prompts up to breakpoints.
_BREAKPOINTS = (5, 6)


def is_claude(provider: str, name: str) -> bool:
    """True for a model of Anthropic's."""
    return "claude" in name or provider == "anthropic"


def has_breakpoints(name: str) -> bool:
    """True for a model of OpenAI's whose cache keeps a prompt up to a breakpoint, and charges for that."""
    return (version := _version(name)) is not None and version >= _BREAKPOINTS


def least_prefix(name: str) -> int:
    """The smallest beginning, in tokens, that the cache of this model keeps."""
    if name.startswith("gemini-"):
        return 2_048 if name.startswith("gemini-2") else 4_096
    return int(_by_version(_CLAUDE_LEAST, name, _CLAUDE_MOST)) if "claude" in name else 1_024


def cache_prices(provider: str | None, model: str | None = None) -> Prices:
    """The prices of this model's cache, by which trims are weighed (`session.run(provider=..., model=...)`).

    Where a provider's page can be read in two ways, they are those of the reading by which trims cost more. For an
    unknown provider and model they are Anthropic's.

    ```python
    from hooksdk.costs import cache_prices

    assert cache_prices("openai", "gpt-4o").read == 0.5
    assert not cache_prices("openai", "gpt-5.6-sol").beginnings
    ```
    """
    maker, name = (provider or "").lower(), (model or "").lower().rpartition("/")[2]
    if is_claude(maker, name):
        return replace(PRICES, read=_by_version(_CLAUDE_READ, name, PRICES.read))
    if name.startswith("gemini-") or maker in {"google", "gemini"}:
        return PREFIX_PRICES
    version = _version(name)
    if has_breakpoints(name) or (maker == "openai" and not name):
        return replace(BREAKPOINT_PRICES, read=0.05 if version and version >= (6, 1) else BREAKPOINT_PRICES.read)
    if name.startswith(WITH_PREFIXES) or maker == "openai":
        older = next((read for begin, read in _OLDER_READ.items() if name.startswith(begin)), PREFIX_PRICES.read)
        return replace(PREFIX_PRICES, read=older, life=_OLDER_LIFE)
    return PRICES


def _version(name: str) -> tuple[int, int] | None:
    found = _GPT.match(name)
    return (int(found[1]), int(found[2] or 0)) if found else None


def _by_version(table: Mapping[str, float], name: str, otherwise: float) -> float:
    """The value of the table's most exact entry for a Claude model: `opus-4-5` before `opus-4`."""
    if (found := _CLAUDE.search(name)) is None:
        return otherwise
    line = f"{found[1] or found[4]}-{found[2]}"
    return table.get(f"{line}-{found[3]}", table.get(line, otherwise))
