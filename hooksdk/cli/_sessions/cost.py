"""`hooksdk sessions cost`: what the requests of a history would have cost under several policies of trims."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from hooksdk.cli._console import counted, one_line, print_columns, print_json, stdout_console
from hooksdk.cli._options import Json
from hooksdk.cli._sessions.history import read_as_sent
from hooksdk.costs import (
    PRICES,
    Bill,
    Clearing,
    Prices,
    at_each_agent_end,
    at_each_request,
    clearing,
    replay,
)
from hooksdk.formats import Message, get_format

RULE = Clearing()


def _amount(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("expected a finite number")
    return value


def cost(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A history as sessions import reads it; - for stdin.", allow_dash=True),
    ],
    source: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="What the file is; guessed by default.")
    ] = None,
    read: Annotated[
        float,
        typer.Option(min=0, callback=_amount, help="The price of a token from the cache; one without a cache is 1."),
    ] = PRICES.read,
    write: Annotated[
        float, typer.Option(min=0, callback=_amount, help="The price of a token that is written to the cache.")
    ] = PRICES.write,
    life: Annotated[
        float, typer.Option(min=0, callback=_amount, help="Seconds that the cache lives without a request.")
    ] = PRICES.life,
    pause: Annotated[
        float, typer.Option(min=0, callback=_amount, help="Seconds between two runs; messages carry no times.")
    ] = 0,
    trigger: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=_amount,
            help="clear_tool_results: tokens, or a share of the window.",
            show_default="16000, at most half of the window",
        ),
    ] = RULE.trigger,
    keep: Annotated[int, typer.Option(min=0, help="clear_tool_results: results that stay.")] = RULE.keep,
    clear_at_least: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="clear_tool_results: tokens that clearing must save.",
            show_default="what the cache makes worth it",
        ),
    ] = RULE.clear_at_least,
    context_window: Annotated[
        int | None, typer.Option(min=1, metavar="TOKENS", help="The model's context window.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what the requests of a history would have cost: untrimmed, with everything trimmed, and with clear_tool_results.

    The bill counts prompts only, in prices of a token without a cache. Tokens are estimates. The last row is the least that
    trims could bring the bill down to: everything is short once the model has read it, and the cache is never lost.
    """
    history = read_as_sent(file, source)
    messages, name = history.messages, history.format
    prices = Prices(read=read, write=write, life=life)
    rule = Clearing(trigger=trigger, keep=keep, clear_at_least=clear_at_least)
    bills = compare(messages, name, prices=prices, rule=rule, pause=pause, context_window=context_window)
    whole = bills["untrimmed"]
    if as_json:
        print_json({
            "schema": 1, "source": history.source, "format": name, "notes": list(history.notes), "messages": len(messages), "requests": whole.requests,
            "prices": {"read": prices.read, "write": prices.write, "life": prices.life}, "pause": pause,
            "policies": [{"policy": policy, **_entry(bill, whole)} for policy, bill in bills.items()],
        })  # fmt: skip
        return
    console = stdout_console()
    console.print(
        f"{counted(len(messages), 'message')} in format {name}, {counted(whole.requests, 'request')}", soft_wrap=True
    )
    for note in history.notes:
        console.print(f"[yellow]note[/]  {one_line(note)}", soft_wrap=True)
    headings = ("policy", "tokens", "share", "bill", "share", "trims", "drains")
    print_columns(headings, [(policy, *cells(bill, whole)) for policy, bill in bills.items()])


def compare(
    messages: list[Message],
    format_name: str,
    *,
    prices: Prices = PRICES,
    rule: Clearing = RULE,
    pause: float = 0,
    context_window: int | None = None,
) -> dict[str, Bill]:
    """The bill of a history under each policy, by its name."""
    form = get_format(format_name)
    own = clearing(rule, prices, context_window)
    return {
        "untrimmed": replay(messages, form, prices=prices, pause=pause),
        "everything old, at each run's end": replay(messages, form, at_each_agent_end, prices=prices, pause=pause),
        "everything old, before each request": replay(messages, form, at_each_request, prices=prices, pause=pause),
        "clear_tool_results": replay(messages, form, own, prices=prices, pause=pause),
        "the least possible": replay(messages, form, at_each_request, prices=prices, pause=pause, lossless=True),
    }


def cells(bill: Bill, whole: Bill) -> list[str]:
    """A row of the table without its policy: tokens and bill, each with its share of the untrimmed one."""
    entry = _entry(bill, whole)
    return [
        f"{bill.tokens:,}", f"{entry['tokens_share']:.3f}", f"{bill.price:,.0f}", f"{entry['bill_share']:.3f}",
        f"{bill.trims:,}", f"{bill.drains:,}",
    ]  # fmt: skip


def _entry(bill: Bill, whole: Bill) -> dict[str, Any]:
    return {
        "tokens": bill.tokens, "tokens_share": round(bill.tokens / whole.tokens, 4) if whole.tokens else 1.0,
        "read": bill.read, "written": bill.written, "bill": round(bill.price, 2),
        "bill_share": round(bill.price / whole.price, 4) if whole.price else 1.0,
        "trims": bill.trims, "drains": bill.drains,
    }  # fmt: skip
