"""What finding tools costs, beside rank-bm25, bm25s, FastMCP's search and Hermes Agent's, in one run.

    python benchmarks/search_speed.py [--json] [--large] [--path SITE_PACKAGES]

Catalogs are recombined from the retrieval sets (names, descriptions, parameters and owners of different
tools), and once they are the sets' own tools. Peers are measured where they can be imported; a package that does not
install beside this one may lie elsewhere: `--path venv/lib/python3.11/site-packages`. Times are processor time in
milliseconds; all take turns at each query, and each query is new, though others like it were asked before, as in a process
that has run for a while. A build is the median of five, by turns. rank-bm25 runs over our words, bm25s with a stemmer over names
and descriptions alone, and over all texts that we index. `--large` adds 100,000 tools with fewer queries; whoever has taken
longer than a minute for a size is not asked further there.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from _data import data_folder

from builtin_plugins.tool_search._ranking.entries import stems
from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._ranking.words import chunked, stem, tool_text
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, RankBm25Ranker, Ranker
from hooksdk import Tool, schema

RETRIEVAL = data_folder() / "retrieval"
SETS = ("bfcl_apis", "bfcl_functions", "livemcp", "metatool", "nestful", "sealtools", "stabletoolbench")
QUERIES = 40
ROUNDS = 5
"""Builds of each, by turns."""
FEW_QUERIES = 8
"""For a kind of query; as many others are asked before. At 100,000 tools it is the few."""
BUDGET = 60_000
"""Milliseconds for one searcher and one size."""
Search = Callable[[str], object]
Sources = tuple[list[dict[str, Any]], dict[str, list[str]]]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def sources() -> Sources:
    """Tools to recombine, and queries by kind."""
    tools = [tool for name in SETS for tool in read_lines(RETRIEVAL / name / "catalog.jsonl")]
    requests = [one["query"] for name in SETS for one in read_lines(RETRIEVAL / name / "queries.jsonl")]
    model = read_lines(RETRIEVAL / "livemcp" / "model_queries.jsonl")
    return tools, {
        "a few words": [one["query"] for one in model if one["kind"] in {"keyword", "sentence", "typo"}],
        "a request": requests,
    }


def recombined(parts: Sequence[dict[str, Any]], count: int) -> list[Tool]:
    rng = random.Random(count)
    tools: list[Tool] = []
    for number in range(count):
        name, description, parameters, owner = (rng.choice(parts) for _ in range(4))
        tools.append(
            Tool(
                name=f"{name['name'][:40]}_{number}",
                description=description.get("description") or "",
                parameters=parameters.get("parameters"),
                source="mcp",
                owner=owner.get("server") or "none",
            )
        )
    return tools


def as_they_are(parts: Sequence[dict[str, Any]]) -> list[Tool]:
    """The tools of all sets: their texts repeat each other less than recombined ones, and no name has a number of ours."""
    return [
        Tool(
            name=tool["name"][:60], description=tool.get("description") or "", parameters=tool.get("parameters"),
            source="mcp", owner=tool.get("server") or "none",
        )
        for tool in parts
    ]  # fmt: skip


def cost(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1e3


def repeated(work: Callable[[], object], rounds: int = 9) -> float:
    return statistics.median(cost(work) for _ in range(rounds))


# Each takes a catalog and answers its search; making it is the build.


def hooksdk_search(tools: Sequence[Tool]) -> Search:
    ranker = Indexes(Bm25Ranker).of(tools)
    return lambda query: ranker.search(query, 5)


def rank_bm25_search(tools: Sequence[Tool]) -> Search:
    # Without fingerprints, so that it splits the tools itself.
    ranker = RankBm25Ranker([
        Document(id=tool.name, name=tool.name, description=tool.description, parameters=tool.parameters, owner=tool.owner)
        for tool in tools
    ])  # fmt: skip
    return lambda query: ranker.search(query, 5)


def bm25s_search(tools: Sequence[Tool], text: Callable[[Tool], str]) -> Search:
    bm25s, stemmer = import_module("bm25s"), import_module("Stemmer").Stemmer("english")

    def tokens(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25()
    index.index(tokens([text(tool) for tool in tools]), show_progress=False)
    most = min(5, len(tools))
    return lambda query: index.retrieve(tokens([query]), k=most, show_progress=False)


def name_and_description(tool: Tool) -> str:
    return f"{tool.name} {tool.description}"


def all_texts(tool: Tool) -> str:
    return chunked(tool_text(tool.name, tool.description, tool.parameters, tool.owner))


def fastmcp_search(tools: Sequence[Tool]) -> Search:
    base, bm25 = (import_module(f"fastmcp.server.transforms.search.{name}") for name in ("base", "bm25"))
    index = bm25._BM25Index()
    index.build([base._extract_searchable_text(tool) for tool in tools])
    return lambda query: index.query(query, 5)


def hermes_search(tools: Sequence[Tool]) -> Search:
    module = import_module("tools.tool_search")
    catalog = module.build_catalog([
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
        for tool in tools
    ])  # fmt: skip
    return lambda query: module.search_catalog(catalog, query, 5)


PEERS = {
    "rank-bm25": ("rank-bm25", rank_bm25_search),
    "bm25s": ("bm25s", partial(bm25s_search, text=name_and_description)),
    "bm25s, all texts": ("bm25s", partial(bm25s_search, text=all_texts)),
    "FastMCP": ("fastmcp", fastmcp_search),
    "Hermes": ("hermes-agent", hermes_search),
}


def importable() -> Iterator[tuple[str, Callable[[Sequence[Tool]], Search]]]:
    """hooksdk and the other projects that are installed, each once loaded and warm."""
    few = recombined(sources()[0], 3)
    for name, (package, make) in {"hooksdk": ("hooksdk", hooksdk_search), **PEERS}.items():
        try:
            metadata.version(package)
            make(few)("review the thermostat of a marathon")  # loads what is loaded once in a process
        except Exception as error:
            print(f"{name} is not measured: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            yield name, make


class Searchers:
    """Those who take part in one size, until their time is up."""

    def __init__(self) -> None:
        self.searches: dict[str, Search] = {}
        self._spent: dict[str, float] = {}

    def build(self, name: str, make: Callable[[Sequence[Tool]], Search], tools: Sequence[Tool]) -> float:
        gc.collect()
        stem.cache_clear()
        stems.clear()  # nobody is to find the stems that another has paid for
        return self._timed(name, lambda: self.searches.update({name: make(tools)}))

    def ask(self, name: str, query: str) -> float | None:
        if self._spent[name] > BUDGET:
            return None
        return self._timed(name, lambda: self.searches[name](query))

    def _timed(self, name: str, work: Callable[[], object]) -> float:
        milliseconds = cost(work)
        self._spent[name] = self._spent.get(name, 0.0) + milliseconds
        return milliseconds


def measure(
    tools: Sequence[Tool], queries: dict[str, tuple[list[str], list[str]]], makers: dict[str, Any]
) -> dict[str, dict[str, float | None]]:
    searchers = Searchers()
    builds: dict[str, list[float]] = {name: [] for name in makers}
    for number in range(ROUNDS if len(tools) <= 10_000 else 1):
        # Other owners in each round, so that nothing is remembered of a tool.
        others = [tool.copy(owner=tool.owner + "_" * number) for tool in tools]
        for tool in others:
            _ = tool.parameters, tool.fingerprint  # made once for each tool, whoever asks first
        for name, make in reversed(makers.items()):
            builds[name].append(searchers.build(name, make, others) / len(tools))
    table: dict[str, dict[str, float | None]] = {
        "build, a tool": {name: statistics.median(samples) for name, samples in builds.items()}
    }
    for kind, (before, measured_queries) in queries.items():
        for query in before:
            for name in makers:
                searchers.ask(name, query)
        times: dict[str, list[float]] = {name: [] for name in makers}
        for query in measured_queries:
            for name, samples in times.items():
                milliseconds = searchers.ask(name, query)
                if milliseconds is not None:
                    samples.append(milliseconds)
        table[f"query of {kind}"] = {
            name: statistics.median(samples) if len(samples) == len(measured_queries) else None
            for name, samples in times.items()
        }
    for tool in tools:
        _ = tool.parameters, tool.fingerprint
    if "hooksdk" in makers:
        table |= {what: {"hooksdk": milliseconds} for what, milliseconds in upkeep(tools).items()}
    return table


def upkeep(tools: Sequence[Tool]) -> dict[str, float]:
    """What a catalog costs that was seen before, as it was or with one other tool."""
    indexes = Indexes(Bm25Ranker)
    indexes.of(tools)
    middle = len(tools) // 2
    changed: list[list[Tool]] = []
    for number in range(5):
        new = tools[middle].copy(description=f"Something new {number}.")
        _ = new.fingerprint
        changed.append([*tools[:middle], new, *tools[middle + 1 :]])
    coming, rankers = iter(changed), list[Ranker]()
    milliseconds = repeated(lambda: rankers.append(indexes.of(next(coming))), len(changed))
    searched = iter(rankers)
    return {
        "fingerprint of a catalog": repeated(
            lambda: schema.fingerprint([[tool.owner, tool.fingerprint] for tool in tools])
        ),
        "an unchanged catalog": repeated(lambda: indexes.of(tools)),
        "one changed tool": milliseconds,
        "first query after it": repeated(
            lambda: next(searched).search("something new in the weather", 5), len(rankers)
        ),
    }


def halves(queries: list[str]) -> tuple[list[str], list[str]]:
    middle = len(queries) // 2
    return queries[:middle], queries[middle:]


def cell(milliseconds: float | None) -> str:
    return f"over {BUDGET // 1000} s" if milliseconds is None else f"{milliseconds:.3g}"


def show(size: int, table: dict[str, dict[str, float | None]], names: Sequence[str]) -> None:
    for what, row in table.items():
        cells = [cell(row[name]) if name in row else "" for name in names]
        print(f"| {size:,} | {what} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--large", action="store_true", help="also 100,000 tools")
    parser.add_argument("--path", action="append", default=[], help="a further folder of installed packages")
    options = parser.parse_args()
    sys.path.extend(options.path)
    parts, queries = sources()
    rng = random.Random(1)
    makers = dict(importable())
    if not options.json:
        print(f"| tools | | {' | '.join(makers)} |\n|---|---|{'---|' * len(makers)}")
    tables: dict[int, dict[str, dict[str, float | None]]] = {}
    for size in (100, 1_000, len(parts), 10_000, *([100_000] if options.large else [])):
        few = 2 * (FEW_QUERIES if size > 10_000 else QUERIES)
        sampled = {
            kind: halves(rng.sample(all_queries, min(few, len(all_queries)))) for kind, all_queries in queries.items()
        }
        tools = as_they_are(parts) if size == len(parts) else recombined(parts, size)
        tables[size] = measure(tools, sampled, makers)
        if not options.json:
            show(size, tables[size], list(makers))
    if options.json:
        print(json.dumps(tables, indent=2))


if __name__ == "__main__":
    main()
