"""Whether a search says that no tool does what is asked, where that is so.

    python benchmarks/absent.py [--queries 300] [--data FOLDER] [--json]

The public sets do not ask for what nobody offers, so it is made: for each query of at most 12 words all servers are taken out of
the catalog of which a tool is right (where a set has no servers, the right tools), and the query is asked once more. Whatever
answers to it by another name stays, so no ranker can reach 1. Of the queries one half, by a hash of what is taken out, may be
tuned on; the other one checks. Beside it stands what it costs: the points of Recall@5 that are lost with the whole catalog where
weak hits are left out, of queries of any length. Nobody leaves them out: they are shown, and marked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from _data import data_folder
from _scorer import SETS, Entry, load, read, recall

from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, Ranked

MADE_OF = ("livemcp", "metatool", "bfcl_apis", "nestful", "bfcl_functions")
"""Sets with short queries. The two largest have none, and each of their queries would need an index of its own."""
MOST_WORDS = 12
MOST_HITS = 5
Search = Callable[[str, int], list[Ranked]]


def ranker(catalog: Sequence[Entry]) -> Search:
    """The built-in ranking over these tools."""
    return Bm25Ranker([
        Document(
            id=tool["id"],
            name=tool["name"],
            description=tool.get("description") or "",
            parameters=tool.get("parameters"),
            owner=tool.get("server") or "",
            fingerprint=hashlib.sha256(json.dumps(tool, sort_keys=True).encode()).hexdigest(),
        )
        for tool in catalog
    ]).search  # fmt: skip


def groups(data: Path, queries: int) -> Iterator[tuple[str, str, list[Entry]]]:
    """What is asked: a name, the set whose tools are searched, and the queries."""
    written = read(data / "livemcp" / "model_queries.jsonl")
    yield "a model's queries", "livemcp", [one for one in written if one["gold"]]
    for name in MADE_OF:
        yield name, name, load(data, name, queries)[1]


def taken_out(query: Entry, servers: dict[str, str]) -> frozenset[str]:
    """The servers of all tools that are right for a query; the tools themselves where there are no servers."""
    right = [one for gold in query["gold"] for one in (gold, *query.get("alt", {}).get(gold, ()))]
    return frozenset(servers[one] for one in right if one in servers)


def is_told(hits: Sequence[Ranked]) -> bool:
    """Whether nothing was found, or nothing that fits well."""
    return all(hit.weak for hit in hits)


def absent(data: Path, queries: int) -> dict[str, dict[str, Any]]:
    """By group and half: how many queries were asked without the tools for them, and of how many the answer says so."""
    table: dict[str, dict[str, Any]] = {}
    for group, name, asked in groups(data, queries):
        catalog = read(data / name / "catalog.jsonl")
        servers = {tool["id"]: tool.get("server") or tool["id"] for tool in catalog}
        short = [one for one in asked if len(one["query"].split()) <= MOST_WORDS]
        rankers: dict[frozenset[str], Search] = {}
        verdicts: dict[str, list[bool]] = {"tuned": [], "aside": []}
        for query in short:
            out = taken_out(query, servers)
            if out not in rankers:
                rankers[out] = ranker([tool for tool in catalog if servers[tool["id"]] not in out])
            half = hashlib.sha256("|".join(sorted(out)).encode()).digest()[-1] % 2
            verdicts["aside" if half else "tuned"].append(is_told(rankers[out](query["query"], MOST_HITS)))
        table[group] = {half: {"queries": len(ones), "told": share(ones)} for half, ones in verdicts.items()}
    search = ranker(read(data / "livemcp" / "catalog.jsonl"))
    nothing = [one for one in read(data / "livemcp" / "model_queries.jsonl") if not one["gold"]]
    ones = [is_told(search(query["query"], MOST_HITS)) for query in nothing]
    table["asked for by hand"] = {"seen": {"queries": len(ones), "told": share(ones)}}
    return table


def share(ones: Sequence[bool]) -> float | None:
    return statistics.fmean(ones) if ones else None


def lost(data: Path, queries: int) -> dict[str, float]:
    """By set, and for a model's queries: the points of Recall@5 that weak hits have."""
    written = [one for one in read(data / "livemcp" / "model_queries.jsonl") if one["gold"]]
    asked = {**{name: (name, load(data, name, queries)[1]) for name in SETS}, "a model's queries": ("livemcp", written)}
    points: dict[str, float] = {}
    for group, (name, own) in asked.items():
        search = ranker(read(data / name / "catalog.jsonl"))
        losses: list[float] = []
        for query in own:
            hits = search(query["query"], MOST_HITS)
            strong = recall([hit.id for hit in hits if not hit.weak], query)
            losses.append(100 * (recall([hit.id for hit in hits], query) - strong))
        points[group] = statistics.fmean(losses)
    return points


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def show(measured: dict[str, Any]) -> None:
    print("| what is asked | queries | told, tuned on | queries | told, kept aside |\n|---|---|---|---|---|")
    for name, one in measured["absent"].items():
        cells = [f"{half['queries']} | {figure(half['told'])}" for half in one.values()]
        print(f"| {name} | {' | '.join(cells)} |")
    points = measured["lost"]
    print(f"\n| {' | '.join(points)} | mean of the sets |\n|{'---|' * (len(points) + 1)}")
    mean = statistics.fmean(points[name] for name in SETS)
    print(f"| {' | '.join(f'{one:.1f}' for one in points.values())} | {mean:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=300, help="queries of each set at most; 0: all")
    parser.add_argument("--data", type=Path, default=data_folder() / "retrieval")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.data.is_dir():
        sys.exit(f"the retrieval sets are not in {options.data}; give their folder with --data")
    measured = {"absent": absent(options.data, options.queries), "lost": lost(options.data, options.queries)}
    print(json.dumps(measured)) if options.json else show(measured)


if __name__ == "__main__":
    main()
