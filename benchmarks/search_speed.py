"""What finding tools costs, beside rank-bm25, FastMCP's search and Hermes Agent's, in one run.

    python benchmarks/search_speed.py [--json] [--large] [--path SITE_PACKAGES]

Catalogs are recombined from the retrieval sets in ../shared (names, descriptions, parameters and owners of different
tools), or made up where these are absent. Peers are measured where they can be imported; a package that does not
install beside this one may lie elsewhere: `--path venv/lib/python3.11/site-packages`. Times are processor time in
milliseconds; all take turns at each query, and each query is new, though others like it were asked before, as in a
process that has run for a while. `--large` adds 100,000 tools.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from builtin_plugins.tool_search._indexes import Indexes
from builtin_plugins.tool_search._words import stem
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, RankBm25Ranker
from hooksdk import Tool, schema

RETRIEVAL = Path(__file__).resolve().parents[2] / "shared" / "benchmarks" / "retrieval"
SETS = ("bfcl_apis", "bfcl_functions", "livemcp", "metatool", "nestful", "sealtools", "stabletoolbench")
QUERIES = 40
Search = Callable[[str], object]
Sources = tuple[list[dict[str, Any]], dict[str, list[str]]]


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def sources() -> Sources:
    """Tools to recombine, and queries by kind."""
    if not RETRIEVAL.is_dir():
        return made_up()
    tools = [tool for name in SETS for tool in read_lines(RETRIEVAL / name / "catalog.jsonl")]
    requests = [one["query"] for name in SETS for one in read_lines(RETRIEVAL / name / "queries.jsonl")]
    model = read_lines(RETRIEVAL / "livemcp" / "model_queries.jsonl")
    return tools, {
        "a few words": [one["query"] for one in model if one["kind"] in {"keyword", "sentence", "typo"}],
        "a request": requests,
    }


def made_up() -> Sources:
    verbs = [
        "create",
        "delete",
        "list",
        "update",
        "search",
        "export",
        "share",
        "lock",
        "copy",
        "move",
        "convert",
        "compare",
    ]
    things = [
        "issue",
        "file",
        "invoice",
        "ticket",
        "page",
        "user",
        "order",
        "image",
        "report",
        "event",
        "message",
        "branch",
    ]
    tools = [
        {
            "name": f"{verb}_{thing}",
            "description": f"{verb.title()} the {thing} of an account. Answers the {other} that belongs to it.",
            "parameters": {"type": "object", "properties": {other: {"type": "string", "description": f"The {thing}"}}},
            "server": thing,
        }
        for verb in verbs
        for thing in things
        for other in things
    ]
    words = [f"{verb} {thing}" for verb in verbs for thing in things]
    requests = [f"I need you to {one}. Then {two} and tell me what you found." for one, two in zip(words, words[::-1])]  # noqa: B905
    return tools, {"a few words": words, "a request": requests}


def recombined(parts: Sequence[dict[str, Any]], count: int) -> list[Tool]:
    rng = random.Random(count)
    made: list[Tool] = []
    for number in range(count):
        name, description, parameters, owner = (rng.choice(parts) for _ in range(4))
        made.append(
            Tool(
                name=f"{name['name'][:40]}_{number}",
                description=description.get("description") or "",
                parameters=parameters.get("parameters"),
                source="mcp",
                owner=owner.get("server") or "none",
            )
        )
    return made


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
    "FastMCP": ("fastmcp", fastmcp_search),
    "Hermes": ("hermes-agent", hermes_search),
}


def importable() -> Iterator[tuple[str, Callable[[Sequence[Tool]], Search]]]:
    """Ourselves and the peers that are installed, each once loaded and warm."""
    few = recombined(made_up()[0], 3)
    for name, (package, make) in {"hooksdk": ("hooksdk", hooksdk_search), **PEERS}.items():
        try:
            metadata.version(package)
            make(few)("review the thermostat of a marathon")  # loads what is loaded once in a process
        except Exception as error:
            print(f"{name} is not measured: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            yield name, make


def measure(
    tools: Sequence[Tool], queries: dict[str, tuple[list[str], list[str]]], makers: dict[str, Any]
) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {"build, a tool": {}}
    searches: dict[str, Search] = {}
    for tool in tools:
        _ = tool.parameters  # copied once for each tool, whoever asks first
    for name, make in makers.items():
        stem.cache_clear()  # two share it: neither is to find the words of the other
        table["build, a tool"][name] = cost(lambda make=make, name=name: searches.update({name: make(tools)})) / len(
            tools
        )
    for kind, (before, asked) in queries.items():
        for query in before:
            for search in searches.values():
                search(query)
        times: dict[str, list[float]] = {name: [] for name in searches}
        for turn, query in enumerate(asked):
            order = list(searches)
            for name in order[turn % len(order) :] + order[: turn % len(order)]:  # who is first warms what is shared
                times[name].append(cost(lambda name=name, query=query: searches[name](query)))
        table[f"query of {kind}"] = {name: statistics.median(found) for name, found in times.items()}
    indexes = Indexes(Bm25Ranker)
    indexes.of(tools)
    changed = iter([[*tools[:-1], tools[-1].copy(description=f"Something new {number}.")] for number in range(3)])
    table["fingerprint of a catalog"] = {
        "hooksdk": repeated(lambda: schema.fingerprint([[tool.owner, tool.fingerprint] for tool in tools]))
    }
    table["an unchanged catalog"] = {"hooksdk": repeated(lambda: indexes.of(tools))}
    table["one changed tool"] = {"hooksdk": repeated(lambda: indexes.of(next(changed)), 3)}
    return table


def halves(queries: list[str]) -> tuple[list[str], list[str]]:
    middle = len(queries) // 2
    return queries[:middle], queries[middle:]


def show(tables: dict[int, dict[str, dict[str, float]]], names: Sequence[str]) -> None:
    print(f"| tools | | {' | '.join(names)} |\n|---|---|{'---|' * len(names)}")
    for size, table in tables.items():
        for what, found in table.items():
            cells = (f"{found[name]:.3g}" if name in found else "" for name in names)
            print(f"| {size:,} | {what} | {' | '.join(cells)} |")


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
    tables: dict[int, dict[str, dict[str, float]]] = {}
    for size in (100, 1_000, 10_000, *([100_000] if options.large else [])):
        few = 8 if size > 10_000 else QUERIES
        asked = {kind: halves(rng.sample(known, min(2 * few, len(known)))) for kind, known in queries.items()}
        tables[size] = measure(recombined(parts, size), asked, makers)
    if options.json:
        print(json.dumps(tables, indent=2))
    else:
        show(tables, list(makers))


if __name__ == "__main__":
    main()
