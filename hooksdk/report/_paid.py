"""The costs of sessions by the counts of their providers, and of a history's prompts under policies of trims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hooksdk.costs import PriceList, Request, in_dollars
from hooksdk.report._html import Child, Html, join, tag
from hooksdk.report._model import Bill, Paid, Run, Session
from hooksdk.report._words import code, counted, percent, section, table

# A bill above this share of the untrimmed one is not worth a table.
WORTH_IT = 0.995


def read_paid(requests: Iterable[Request], prices: PriceList) -> list[Paid]:
    """The costs of these requests, by model."""
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


def _paid_words(paid: Sequence[Paid]) -> str:
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


def run_cost(run: Run) -> Html | None:
    """The section of a run's tokens and costs, as the provider counted them."""
    rows: list[Sequence[Child]] = [(name.replace("_", " "), f"{value:,.0f}") for name, value in run.usage.items()]
    if run.paid:
        rows.append(("in money", _paid_words(run.paid)))
    if run.requests and run.catalogs:
        first = run.catalogs[-1]
        rows.append(("tool definitions of all requests, as offered", f"{first.tokens_offered * run.requests:,}"))
        if run.tokens_not_sent:
            rows.append(("the same without tool search", f"{first.tokens * run.requests:,}"))
    note = None if run.usage else "The host recorded no usage with the replies, so there is none here."
    return (
        section(3, "Cost", table(("Tokens", "In all"), rows, numbers="b") if rows else None, note=note)
        if run.requests
        else None
    )


def bills(session: Session) -> Html | None:
    """The section of what a session's prompts would cost under policies of trims."""
    if not session.requests:
        return None
    if not session.bills:
        words = f"With {session.count:,} messages this takes long: "
        note = join(words, code("hooksdk sessions cost ID"), " works it out.")
        return section(3, "Cost of the prompts", note=note)
    if session.bills[-1].share > WORTH_IT:
        note = f"{counted(session.requests, 'request')}, {session.bills[0].tokens:,} tokens of prompts. Trims could save next to nothing of it."
        return section(3, "Cost of the prompts", note=note)
    rows = [_bill(bill) for bill in session.bills]
    note = "Worked out from the stored messages, one request before each reply, as if nothing had been trimmed before. In prices of "
    note += "a token without a cache: a token that the cache holds counts 0.1, one that is written to it 1.25."
    return section(
        3,
        "Cost of the prompts",
        table(("Policy", "Tokens", "Bill", "Share", "", "Trims"), rows, numbers="bcdf"),
        note=note,
    )


def _bill(bill: Bill) -> Sequence[Child]:
    weight = tag("span", class_="weight", style=f"--w:{min(100 * bill.share, 100):.1f}%", aria_hidden="true")
    return (
        bill.policy,
        f"{bill.tokens:,}",
        f"{bill.price:,.0f}",
        f"{bill.share:.0%}".replace("%", " %"),
        weight,
        f"{bill.trims:,}",
    )
