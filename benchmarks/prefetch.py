"""What prefetch finds, costs and takes.

    python benchmarks/prefetch.py [--queries 60] [--data FOLDER] [--json]

Four tables. The share of the right tools that are shown at once, over the public retrieval sets (a query of
theirs is taken for the prompt), for several numbers of tools and budgets. The tokens of the tools in a first request, at
three sizes of catalog (livemcp's tools, or these and as many of the next set as are needed), with the bridge alone and with
prefetch: median and maximum over livemcp's queries. The time that prefetch takes, with a warm index, stands beside them. And
what is shown for prompts that no tool is for.
Tokens are characters by four.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from _data import data_folder
from _idle_prompts import IDLE_PROMPTS
from _scorer import SETS, load
from offered_tokens import tools_of
from quality import share_of_right

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._reach import Reach
from builtin_plugins.tool_search.rankers import load_ranker
from hooksdk import PluginState, Tool
from hooksdk.catalog import build_catalog
from hooksdk.testing import open_host

COUNTS = (4, 6, 8, 10)
BUDGETS = (1_000, 1_500, 2_000, 3_000, 4_000)
SIZES = (115, 527, 1_860)
WINDOW = 200_000
ROUNDS = 5
WARM = Indexes(load_ranker("bm25"))


async def prefetched(
    tools: Sequence[Tool], prompts: Sequence[str], count: int, budget: int, indexes: Indexes
) -> list[str]:
    config = ToolSearch.Config(prefetch=count, prefetch_tokens=budget)
    ranker = indexes.of(tools)
    return await Reach(config, PluginState()).prefetch(tools, prompts, lambda: ranker)


async def shares(data: Path, queries: int) -> dict[str, dict[str, Any]]:
    """By set and by number and budget: the share of the right tools that are shown, and the tokens that it takes."""
    indexes = Indexes(load_ranker("bm25"))
    table: dict[str, dict[str, Any]] = {}
    for name in SETS:
        _, asked = load(data, name, queries)
        tools = tools_of(data / name / "catalog.jsonl")
        ids = [json.loads(line)["id"] for line in (data / name / "catalog.jsonl").read_text("utf-8").splitlines()]
        tools = [tool.copy(name=own) for tool, own in zip(tools, ids, strict=True)]
        tokens = {tool.name: tool.tokens for tool in tools}
        for count in COUNTS:
            for budget in BUDGETS:
                rows = [(await prefetched(tools, [one["query"]], count, budget, indexes), one) for one in asked]
                found = statistics.fmean(share_of_right(names, one) for names, one in rows)
                cost = statistics.fmean(sum(tokens[name] for name in names) for names, _ in rows)
                table.setdefault(name, {})[f"{count}/{budget}"] = {"found": found, "tokens": cost}
    return table


def catalog_of(size: int, data: Path) -> list[Tool]:
    tools = [*tools_of(data / "livemcp" / "catalog.jsonl"), *tools_of(data / "stabletoolbench" / "catalog.jsonl")]
    return list(build_catalog(tools))[:size]


async def request(size: int, data: Path, queries: int) -> dict[str, Any]:
    """Tokens of the offered tools, and milliseconds that prefetch takes."""
    tools = catalog_of(size, data)
    lines = (data / "livemcp" / "queries.jsonl").read_text("utf-8").splitlines()
    prompts = [json.loads(line)["query"] for line in lines][:queries]
    row: dict[str, Any] = {"tools": size, "direct": sum(tool.tokens for tool in tools)}
    for name, count in (("bridge", 0), ("prefetch", 6)):
        config = {"plugins": {"tool_search": {"config": {"enabled": "on", "prefetch": count}}}}
        offered: list[int] = []
        async with open_host("tool_search", config=config) as host:
            for prompt in prompts:
                async with host.session() as session, session.run(prompt, context_window=WINDOW) as run:
                    await run.resolve_tools(tools)
                    offered.append(run.stats["tokens_offered"])
        row[name] = {"median": statistics.median(offered), "most": max(offered)}
    row["milliseconds"] = await milliseconds(tools, prompts)
    return row


async def milliseconds(tools: Sequence[Tool], prompts: Sequence[str]) -> float:
    """The processor time that prefetch takes with the index made and the prompt's words known to it: the median over prompts, of
    each the best of some rounds."""
    config, catalog = ToolSearch.Config(), [tool.copy() for tool in tools]
    best: list[float] = []
    for prompt in prompts:
        taken: list[float] = []
        for _ in range(ROUNDS):
            began = time.process_time()  # other work on the machine does not count
            await Reach(config, PluginState()).prefetch(catalog, [prompt], lambda: WARM.of(catalog))
            taken.append(1000 * (time.process_time() - began))
        best.append(min(taken))
    return statistics.median(best)


async def idle(size: int, data: Path) -> dict[str, Any]:
    """What is shown for prompts that no tool is for, every second of them apart."""
    tools = catalog_of(size, data)
    row: dict[str, Any] = {"tools": size}
    for name, prompts in (("even", IDLE_PROMPTS[::2]), ("odd", IDLE_PROMPTS[1::2])):
        shown = [len(await prefetched(tools, [prompt], 6, 2_000, WARM)) for prompt in prompts]
        row[name] = {"prompts": len(prompts), "nothing": shown.count(0), "mean": statistics.fmean(shown)}
    return row


async def sessions(data: Path, queries: int) -> dict[str, Any]:
    """The share of the right tools that are shown, with a session for each prompt and with one for all; and in how many requests
    the tools were others than in the last one."""
    catalog, asked = load(data, "livemcp", queries)
    own = tools_of(data / "livemcp" / "catalog.jsonl")
    tools = [tool.copy(name=one["id"]) for tool, one in zip(own, catalog, strict=True)]
    ranker = WARM.of(tools)
    row: dict[str, Any] = {"tools": len(tools), "prompts": len(asked)}
    for kind in ("fresh", "one", "called"):
        state, shown, before, changes, shares = PluginState(), list[str](), list[str](), 0, list[float]()
        for one in asked:
            reach = Reach(ToolSearch.Config(), PluginState() if kind == "fresh" else state)
            shown = await reach.prefetch(tools, [one["query"]], lambda: ranker)
            shares.append(share_of_right(shown, one))
            changes, before = changes + (shown != before), shown
            for name in (name for name in shown if kind == "called" and name in one["gold"]):
                reach.used(name)
        row[kind] = {"found": statistics.fmean(shares), "changes": changes}
    return row


def show(measured: dict[str, Any]) -> None:
    if table := measured.get("shares"):
        print(f"| tools | {' | '.join(f'{budget:,}' for budget in BUDGETS)} |\n|---|{'---|' * len(BUDGETS)}")
        for count in COUNTS:
            cells = [
                tuple(
                    statistics.fmean(one[f"{count}/{budget}"][key] for one in table.values())
                    for key in ("found", "tokens")
                )
                for budget in BUDGETS
            ]
            print(f"| {count} | " + " | ".join(f"{found:.3f} ({cost:,.0f})" for found, cost in cells) + " |")
        print(f"\n| set | {' | '.join(f'{count} tools' for count in COUNTS)} |\n|---|{'---|' * len(COUNTS)}")
        for name, one in table.items():
            print(f"| {name} | " + " | ".join(f"{one[f'{count}/2000']['found']:.3f}" for count in COUNTS) + " |")
    print(
        "\n| tools in the catalog | all shown | bridge alone | with prefetch, median | most | milliseconds |\n|---|---|---|---|---|---|"
    )
    for one in measured["requests"]:
        print(
            f"| {one['tools']:,} | {one['direct']:,} | {one['bridge']['median']:,.0f} | {one['prefetch']['median']:,.0f} "
            f"| {one['prefetch']['most']:,} | {one['milliseconds']:.1f} |"
        )
    print(
        "\n| tools in the catalog | prompts | a session each | one session | one, and what was right is called |\n|---|---|---|---|---|"
    )
    one = measured["sessions"]
    cells = (f"{one[kind]['found']:.3f} ({one[kind]['changes']} changes)" for kind in ("fresh", "one", "called"))
    print(f"| {one['tools']:,} | {one['prompts']} | {' | '.join(cells)} |")
    print("\n| tools in the catalog | prompts | nothing shown | tools shown, mean |\n|---|---|---|---|")
    for one in measured["idle"]:
        for name in ("even", "odd"):
            cell = one[name]
            print(f"| {one['tools']:,} | {cell['prompts']} {name} | {cell['nothing']} | {cell['mean']:.1f} |")


async def measure(data: Path, queries: int) -> dict[str, Any]:
    return {
        "shares": await shares(data, queries) if queries else {},
        "requests": [await request(size, data, 60) for size in SIZES],
        "sessions": await sessions(data, 60),
        "idle": [await idle(size, data) for size in SIZES],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--data", type=Path, default=data_folder() / "retrieval")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"the retrieval sets are not at {options.data}", file=sys.stderr)
        raise SystemExit(1)
    measured = anyio.run(measure, options.data, options.queries)
    print(json.dumps(measured)) if options.json else show(measured)


if __name__ == "__main__":
    main()
