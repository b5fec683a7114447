"""`hooksdk sessions cost`: what the requests of a history cost, and would have cost under several policies of trims."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._console import CommandProblem, View, counted, one_line
from hooksdk.cli._options import Json, Project, StorePlace
from hooksdk.cli._project import project_config
from hooksdk.cli._sessions.look import Look, look_at, read_as_sent, with_session
from hooksdk.cli._spent import spent_json
from hooksdk.costs import (
    PRICES,
    Bill,
    Clearing,
    ModelCost,
    NoCache,
    Policy,
    PriceList,
    Prices,
    PromptCache,
    Spent,
    at_each_agent_end,
    at_each_request,
    cache_of,
    cache_prices,
    cache_readings,
    clearing,
    in_dollars,
    never,
    replay,
    replay_as_stored,
    requests_in,
)
from hooksdk.formats import Message, get_format
from hooksdk.transcript import Entry

RULE = Clearing()
UNTRIMMED = "untrimmed"
MILLION = 1_000_000
NOT_KNOWN = "not known: no usage is stored with it, as with all sessions of version 0.2.0 and before"


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("expected a finite number")
    return value


def _amount(text: str, default: str | bool = True) -> Any:
    """The option of a number that is not negative; `default` is what the help says of it."""
    return typer.Option(min=0, callback=_finite, help=text, show_default=default)


@dataclass(frozen=True, kw_only=True)
class _History:
    """The history whose requests are priced.

    Attributes:
        facts: The first keys of the JSON document.
        model: `PROVIDER:NAME`, or the name; empty where it is not known.
        journal: Of a stored session.
    """

    messages: list[Message]
    format: str
    facts: dict[str, Any]
    notes: Sequence[str] = ()
    model: str = ""
    journal: Sequence[Entry] | None = None


def cost(
    target: Annotated[str, typer.Argument(metavar="ID|FILE")],
    source: Annotated[str | None, typer.Option("--format", metavar="NAME")] = None,
    model: Annotated[str, typer.Option(metavar="PROVIDER:NAME", show_default="a session's own")] = "",
    read: Annotated[
        float | None,
        _amount("The price of a token from the cache; one without a cache is 1.", f"the model's, or {PRICES.read}"),
    ] = None,
    write: Annotated[
        float | None, _amount("The price of a token that is written to the cache.", f"the model's, or {PRICES.write}")
    ] = None,
    life: Annotated[
        float | None,
        _amount("Seconds that the cache lives without a request.", f"the model's, or {PRICES.life:g}"),
    ] = None,
    pause: Annotated[float, _amount("Seconds between two runs; messages carry no times.")] = 0,
    trigger: Annotated[
        float | None,
        _amount("clear_tool_results: tokens, or a share of the window.", "16000, at most half of the window"),
    ] = RULE.trigger,
    keep: Annotated[int, typer.Option(min=0)] = RULE.keep,
    clear_at_least: Annotated[
        int | None, typer.Option(min=0, show_default="what the cache makes worth it")
    ] = RULE.clear_at_least,
    context_window: Annotated[int | None, typer.Option(min=1, metavar="TOKENS")] = None,
    as_json: Json = False,
    project: Project = Path(),
    store: StorePlace = None,
) -> None:
    """Say what the requests of a stored session cost, and what they would have cost under several policies of trims.

    The policies are: no cache, no trims, everything old trimmed, and clear_tool_results. For a file there are the
    policies alone. What was paid is reckoned from the tokens that the provider counted. The policies count prompts
    only, by estimated tokens: in dollars where the model's price is known, else in prices of a token without a cache.
    The last row is the least that trims could bring the bill down to: every result is short once the model has read it,
    and the cache is never lost.

    Options:
        target: A stored session, or a file as sessions import reads it; - for stdin.
        source: The file's format; guessed by default.
        model: The model whose prices and cache count.
        keep: clear_tool_results: results that stay.
        clear_at_least: clear_tool_results: tokens that clearing must save.
        context_window: The model's context window.
    """
    history = _history(target, source, project, store)
    model = model or history.model
    price_list = PriceList(project_config(project).prices if model else None)
    price = price_list.price(model) if model else None
    provider, _, name = model.rpartition(":")
    by_page = cache_prices(provider, name)
    own = replace(by_page, read=paid.read, write=paid.write) if price and (paid := price.prices()) else by_page
    typed = {"read": read, "write": write, "life": life}
    prices = replace(own, **{key: value for key, value in typed.items() if value is not None})
    rule = Clearing(trigger=trigger, keep=keep, clear_at_least=clear_at_least)
    cache = functools.partial(cache_of, model, prices) if cache_of(model) else None
    bills = compare(
        history.messages,
        history.format,
        prices=prices,
        rule=rule,
        pause=pause,
        context_window=context_window,
        cache=cache,
        journal=history.journal,
        without_cache=bool(model),
    )
    whole, dollars = bills[UNTRIMMED], price.input / MILLION if price else None
    view = View(
        {
            **history.facts,
            "format": history.format,
            "notes": list(history.notes),
            "messages": len(history.messages),
            "requests": whole.requests,
            "prices": {"read": prices.read, "write": prices.write, "life": prices.life},
            "pause": pause,
        },
        wraps=True,
    )
    counts = f"{counted(len(history.messages), 'message')} in format {history.format}"
    view.text(f"{counts}, {counted(whole.requests, 'request')}")
    for note in history.notes:
        view.markup(f"[yellow]note[/]  {one_line(note)}")
    if model:
        view.document |= {"model": model, "prices_of": price_list.source(model)}
    if history.journal is not None:
        _tell_paid(view, price_list.spent(requests_in(history.journal)), history, history.journal)
    if model:
        view.line("prices", price_list.source(model))
    view.document["policies"] = [{"policy": policy, **_entry(bill, whole, dollars)} for policy, bill in bills.items()]
    headings = ["policy", "tokens", "share", "bill", "share", "trims", "drains"]
    rows = [[policy, *cells(bill, whole)] for policy, bill in bills.items()]
    if dollars is not None:
        headings.append("dollars")
        rows = [[*row, in_dollars(bill.price * dollars)] for row, bill in zip(rows, bills.values(), strict=True)]
    view.table(headings, rows)
    view.show(as_json=as_json)


def _history(target: str, source: str | None, project: Path, store: str | None) -> _History:
    """The file of this name, or else the session. Raises `CommandProblem`, and `HistoryError`."""
    if target == "-" or Path(target).expanduser().is_file():
        found = read_as_sent(Path(target).expanduser(), source)
        return _History(messages=found.messages, format=found.format, facts={"source": found.source}, notes=found.notes)
    try:
        session_id, look = with_session(project, store, target, look_at)
    except CommandProblem as problem:
        raise CommandProblem(f"{problem} And there is no such file.") from problem
    if look.format_name is None or look.ledger.format is None:
        raise CommandProblem(f"session '{session_id}' has no messages yet, or a format that is a host's own")
    messages = [dict(message) for message in look.messages]
    return _History(
        messages=messages,
        format=look.format_name,
        facts={"session": session_id},
        model=_model_of(look),
        journal=look.journal,
    )


def _model_of(look: Look) -> str:
    """The model that read most, or with which the session began."""
    read = Counter[str]()
    for request in requests_in(look.journal):
        read[request.model] += request.usage.prompt
    return read.most_common(1)[0][0] if read else look.about().model


def _tell_paid(view: View, spent: Spent, history: _History, journal: Sequence[Entry]) -> None:
    """Tell what the provider counted, and where its cache behaved otherwise than expected."""
    readings = cache_readings(history.messages, journal, get_format(history.format))
    view.document["paid"] = spent_json(spent) if spent.requests else None
    view.document["cache"] = [
        {"model": one.model, "expected": one.expected, "read": one.read, "difference": one.difference}
        for one in readings
    ]
    if not spent.requests:
        view.line("paid", NOT_KNOWN)
        return
    headings = ("model", "requests", "prompts", "from the cache", "to the cache", "replies", "paid", "without a cache")
    view.table(headings, [_paid_row(one) for one in spent.models])
    view.lines("cache", [one.difference for one in readings if one.difference], "yellow")
    for one in spent.models[1:]:
        if one.dollars is None or one.source != spent.models[0].source:
            view.line("prices", one.source)


def _paid_row(one: ModelCost) -> Sequence[str | int]:
    paid = ["no price" if amount is None else in_dollars(amount) for amount in (one.dollars, one.without_cache)]
    usage = one.usage
    return (one.model or "not known", one.requests, usage.prompt, usage.read, usage.written, usage.output, *paid)


def compare(
    messages: list[Message],
    format_name: str,
    *,
    prices: Prices = PRICES,
    rule: Clearing = RULE,
    pause: float = 0,
    context_window: int | None = None,
    cache: Callable[[], PromptCache | None] | None = None,
    journal: Sequence[Entry] | None = None,
    without_cache: bool = False,
) -> dict[str, Bill]:
    """The bill of a history under each policy, by the policy's name. `cache` makes an empty cache of the provider;
    without it every prefix that was sent before is taken to be cached. With a `journal` the stored trims have a row,
    too."""
    form = get_format(format_name)
    own = clearing(rule, prices, context_window)

    def bill(policy: Policy = never, *, lossless: bool = False) -> Bill:
        own_cache = cache and cache()
        return replay(messages, form, policy, prices=prices, cache=own_cache, pause=pause, lossless=lossless)

    bills = {"untrimmed, without a cache": replay(messages, form, cache=NoCache())} if without_cache else {}
    bills[UNTRIMMED] = bill()
    if journal is not None:
        bills["as it was"] = replay_as_stored(messages, journal, form, prices=prices, cache=cache and cache())
    return {
        **bills,
        "everything old, at each run's end": bill(at_each_agent_end),
        "everything old, before each request": bill(at_each_request),
        "clear_tool_results": bill(own),
        "the least possible": bill(at_each_request, lossless=True),
    }


def cells(bill: Bill, whole: Bill) -> list[str]:
    """A row of the table without its policy: tokens and bill, each with its share of the untrimmed one."""
    entry = _entry(bill, whole, None)
    tokens, price = (
        (f"{bill.tokens:,}", f"{entry['tokens_share']:.3f}"),
        (f"{bill.price:,.0f}", f"{entry['bill_share']:.3f}"),
    )
    return [*tokens, *price, f"{bill.trims:,}", f"{bill.drains:,}"]


def _entry(bill: Bill, whole: Bill, dollars: float | None) -> dict[str, Any]:
    """`dollars` is the price of a token without a cache."""
    entry = {
        "tokens": bill.tokens,
        "tokens_share": round(bill.tokens / whole.tokens, 4) if whole.tokens else 1.0,
        "read": bill.read,
        "written": bill.written,
        "bill": round(bill.price, 2),
        "bill_share": round(bill.price / whole.price, 4) if whole.price else 1.0,
        "trims": bill.trims,
        "drains": bill.drains,
    }
    return entry if dollars is None else {**entry, "dollars": bill.price * dollars}
