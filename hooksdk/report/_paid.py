"""What was paid, by the counts of the providers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hooksdk.costs import PriceList, Request, in_dollars
from hooksdk.report._html import Html
from hooksdk.report._model import Paid
from hooksdk.report._words import code, percent, section, table


def read_paid(requests: Iterable[Request], prices: PriceList) -> list[Paid]:
    """What was paid, by model."""
    return [
        Paid(
            model=one.model,
            requests=one.requests,
            prompt=one.usage.prompt,
            read=one.usage.read,
            written=one.usage.written,
            output=one.usage.output,
            dollars=one.dollars,
            without_cache=one.without_cache,
            source=one.source,
        )
        for one in prices.spent(requests).models
    ]


def paid_words(paid: Sequence[Paid]) -> str:
    """The cost in money with the day of the prices, or why it is not known."""
    known = [one.dollars for one in paid if one.dollars is not None]
    sources = "; ".join(dict.fromkeys(one.source for one in paid))
    if len(known) < len(paid):
        return sources
    return f"{in_dollars(sum(known))} by {sources}"


def paid_section(title: str, paid: Sequence[Paid], cache: Sequence[str] = ()) -> Html | None:
    """A session's table of costs by model."""
    if not paid:
        return None
    rows = [
        (
            code(one.model or "not known"),
            f"{one.requests:,}",
            f"{one.prompt:,}",
            percent(one.read, one.prompt),
            f"{one.written:,}",
            f"{one.output:,}",
            *("no price" if each is None else in_dollars(each) for each in (one.dollars, one.without_cache)),
        )
        for one in paid
    ]
    headings = ("Model", "Requests", "Prompts", "From the cache", "To the cache", "Replies", "Paid", "Without a cache")
    sources = "; ".join(dict.fromkeys(one.source.rstrip(".") for one in paid))
    note = " ".join([f"Tokens as the provider counted them; prices: {sources}.", *cache])
    return section(3, title, table(headings, rows, numbers="bcdefgh"), note=note)
