"""What prefetch finds, costs and takes.

    python benchmarks/prefetch.py [--queries 60] [--data FOLDER] [--json]

Tables: the share of the right tools that are offered at once, over the public retrieval sets (a query of theirs is taken for the
prompt), for several numbers of schemas and budgets; the same by set, and of requests as a model or a person writes them, for the
defaults, every second query apart. The tokens of the tools in a first request, at three sizes of catalog (livemcp's tools, or
these and as many of the next set as are needed), with the bridge alone and with prefetch: median and maximum over livemcp's
queries, and of what stands behind the prompt. The time that prefetch takes, with a warm index, stands beside them. Many prompts
in one session; and what is shown for prompts that no tool is for.
Tokens are characters by four.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from _data import data_folder
from _idle_prompts import IDLE_PROMPTS, KINDS
from _scorer import SETS, load, read
from offered_tokens import tools_of
from quality import share_of_right

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._reach import Reach
from builtin_plugins.tool_search._sentences import MORE_TOOLS
from builtin_plugins.tool_search.rankers import load_ranker
from hooksdk import PluginState, Tool, schema
from hooksdk.catalog import build_catalog
from hooksdk.testing import open_host

COUNTS = (4, 6, 8, 10)
BUDGETS = (1_000, 1_500, 2_000, 3_000, 4_000)
DEFAULT = (6, 2_000)
SIZES = (115, 527, 1_860)
WINDOW = 200_000
ROUNDS = 5
WARM = Indexes(load_ranker("bm25"))


@dataclass(frozen=True)
class Offered:
    """What one prompt brings."""

    schemas: list[str]
    signatures: list[str]
    tokens: int

    def share(self, query: dict[str, Any]) -> tuple[float, float, int]:
        """The share of the right tools that are offered with their schemas, and in all; and the tokens."""
        whole = [*self.schemas, *self.signatures]
        return share_of_right(self.schemas, query), share_of_right(whole, query), self.tokens


async def offered(
    tools: Sequence[Tool], prompt: str, indexes: Indexes, reach: Reach | None = None, **config: Any
) -> Offered:
    reach = reach or Reach(ToolSearch.Config(**config), PluginState())
    ranker = indexes.of(tools)
    schemas = await reach.prefetch(tools, [prompt], lambda: ranker)
    rows, tokens = reach.signatures(), {tool.name: tool.tokens for tool in tools}
    behind = sum(map(schema.estimate_tokens, (MORE_TOOLS, *rows.values()))) if rows else 0
    return Offered(schemas, [*rows], sum(tokens[name] for name in schemas) + behind)


def means(rows: Sequence[tuple[float, float, int]]) -> dict[str, float]:
    """Of what `Offered.share` answers for some queries."""
    return dict(zip(("schemas", "offered", "tokens"), map(statistics.fmean, zip(*rows, strict=True)), strict=True))


def named_by_id(data: Path, name: str) -> list[Tool]:
    """The tools of a set, each with its id for its name."""
    own = tools_of(data / name / "catalog.jsonl")
    return [tool.copy(name=one["id"]) for tool, one in zip(own, read(data / name / "catalog.jsonl"), strict=True)]


async def shares(data: Path, queries: int) -> dict[str, dict[str, Any]]:
    """By set and by number and budget: the share of the right tools that are offered, and the tokens that it takes."""
    indexes = Indexes(load_ranker("bm25"))
    table: dict[str, dict[str, Any]] = {}
    for name in SETS:
        _, asked = load(data, name, queries)
        tools = named_by_id(data, name)
        for count in COUNTS:
            for budget in BUDGETS:
                config: dict[str, Any] = {"prefetch": count, "prefetch_tokens": budget}
                rows = [(await offered(tools, one["query"], indexes, **config)).share(one) for one in asked]
                table.setdefault(name, {})[f"{count}/{budget}"] = means(rows)
                if (count, budget) == DEFAULT:
                    table[name] |= {"even": means(rows[::2]), "odd": means(rows[1::2])}
    return table


async def requests(data: Path) -> dict[str, dict[str, Any]]:
    """The same for what a model asks for, and for livemcp's steps and tasks, by kind, over 1,860 tools."""
    tools = named_by_id(data, "livemcp")
    more = [tool.copy(name=f"more/{tool.name}") for tool in named_by_id(data, "stabletoolbench")]
    tools = [*tools, *more][: SIZES[-1]]
    table: dict[str, dict[str, Any]] = {}
    for file, kinds in (("model_queries", ("keyword", "sentence", "task")), ("queries", ("step", "task"))):
        for kind in kinds:
            asked = [one for one in read(data / "livemcp" / f"{file}.jsonl") if one["kind"] == kind]
            rows = [(await offered(tools, one["query"], WARM)).share(one) for one in asked]
            table[f"{file}, {kind}"] = {"count": len(rows), "even": means(rows[::2]), "odd": means(rows[1::2])}
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
        sizes: list[int] = []
        behind: list[int] = []
        async with open_host("tool_search", config=config) as host:
            for prompt in prompts:
                async with host.session() as session, session.run(prompt, context_window=WINDOW) as run:
                    await run.resolve_tools(tools)
                    sizes.append(run.stats["tokens_offered"])
                    added = (await run.prepare_messages()).added
                    behind.append(sum(map(schema.estimate_tokens, added)))
        both = [one + other for one, other in zip(sizes, behind, strict=True)]
        row[name] = {
            "median": statistics.median(sizes), "most": max(sizes), "behind": statistics.median(behind),
            "all, median": statistics.median(both), "all, most": max(both),
        }  # fmt: skip
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
    """What is shown for prompts that no tool is for: of the first ones every second apart, then by kind."""
    tools = catalog_of(size, data)
    row: dict[str, Any] = {"tools": size}
    for name, prompts in (("even", IDLE_PROMPTS[::2]), ("odd", IDLE_PROMPTS[1::2]), *KINDS.items()):
        brought = [await offered(tools, prompt, WARM) for prompt in prompts]
        row[name] = {
            "prompts": len(prompts),
            "nothing": sum(not one.tokens for one in brought),
            "mean": statistics.fmean(len(one.schemas) for one in brought),
            "signatures": statistics.fmean(len(one.signatures) for one in brought),
            "tokens": statistics.fmean(one.tokens for one in brought),
        }
    return row


async def sessions(data: Path, queries: int) -> dict[str, Any]:
    """The share of the right tools that are offered, with a session for each prompt and with one for all; and in how many requests
    the tools were others than in the last one."""
    _, asked = load(data, "livemcp", queries)
    tools = named_by_id(data, "livemcp")
    row: dict[str, Any] = {"tools": len(tools), "prompts": len(asked)}
    for kind in ("fresh", "one", "called"):
        state, before, changes, rows = PluginState(), list[str](), 0, list[tuple[float, float, int]]()
        for one in asked:
            reach = Reach(ToolSearch.Config(), PluginState() if kind == "fresh" else state)
            brought = await offered(tools, one["query"], WARM, reach)
            rows.append(brought.share(one))
            changes, before = changes + (brought.schemas != before), brought.schemas
            for name in (name for name in brought.schemas if kind == "called" and name in one["gold"]):
                reach.used(name)
        row[kind] = {**means(rows), "changes": changes}
    return row


def cell(means_of: dict[str, float]) -> str:
    schemas, offered = (f"{means_of[key]:.3f}".removeprefix("0") for key in ("schemas", "offered"))
    return f"{schemas}, {offered} ({means_of['tokens']:,.0f})"


def show(measured: dict[str, Any]) -> None:
    if table := measured.get("shares"):
        print(f"| tools | {' | '.join(f'{budget:,}' for budget in BUDGETS)} |\n|---|{'---|' * len(BUDGETS)}")
        for count in COUNTS:
            cells = [
                {
                    key: statistics.fmean(one[f"{count}/{budget}"][key] for one in table.values())
                    for key in ("schemas", "offered", "tokens")
                }
                for budget in BUDGETS
            ]
            print(f"| {count} | {' | '.join(map(cell, cells))} |")
        print("\n| set | even | odd |\n|---|---|---|")
        for name, one in table.items():
            print(f"| {name} | {cell(one['even'])} | {cell(one['odd'])} |")
        halves = [
            {
                key: statistics.fmean(one[half][key] for one in table.values())
                for key in ("schemas", "offered", "tokens")
            }
            for half in ("even", "odd")
        ]
        print(f"| **mean** | {' | '.join(map(cell, halves))} |")
        print("\n| what is asked | queries | even | odd |\n|---|---|---|---|")
        for name, one in measured["requests of a kind"].items():
            print(f"| {name} | {one['count']} | {cell(one['even'])} | {cell(one['odd'])} |")
    print(
        "\n| tools in the catalog | all shown | bridge alone | `tools`, median | most | behind the prompt, median "
        "| both, median | most | milliseconds |\n|---|---|---|---|---|---|---|---|---|"
    )
    for one in measured["requests"]:
        with_prefetch = one["prefetch"]
        print(
            f"| {one['tools']:,} | {one['direct']:,} | {one['bridge']['median']:,.0f} | {with_prefetch['median']:,.0f} "
            f"| {with_prefetch['most']:,} | {with_prefetch['behind']:,.0f} | {with_prefetch['all, median']:,.0f} "
            f"| {with_prefetch['all, most']:,} | {one['milliseconds']:.1f} |"
        )
    print(
        "\n| tools in the catalog | prompts | a session each | one session | one, and what was right is called |\n|---|---|---|---|---|"
    )
    one = measured["sessions"]
    cells = (f"{cell(one[kind])}, {one[kind]['changes']} changes" for kind in ("fresh", "one", "called"))
    print(f"| {one['tools']:,} | {one['prompts']} | {' | '.join(cells)} |")
    print(
        "\n| tools in the catalog | prompts | nothing shown | tools, mean | signatures, mean | tokens, mean |\n|---|---|---|---|---|---|"
    )
    for one in measured["idle"]:
        for name in ("even", "odd", *KINDS):
            half = one[name]
            print(
                f"| {one['tools']:,} | {half['prompts']} {name} | {half['nothing']} | {half['mean']:.1f} "
                f"| {half['signatures']:.1f} | {half['tokens']:.0f} |"
            )


async def measure(data: Path, queries: int) -> dict[str, Any]:
    return {
        "shares": await shares(data, queries) if queries else {},
        "requests of a kind": await requests(data) if queries else {},
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
