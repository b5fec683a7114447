"""How well tools are found, beside the rankers of other projects that can be imported, in one run.

    python benchmarks/quality.py [--queries 150] [--json] [--data FOLDER] [--path SITE_PACKAGES]

Recall@5 on public retrieval sets (the first queries by a hash of their text), on queries as a model types them, and of whole
tasks that are asked in one query and in several. One that cannot be installed beside this package may be elsewhere: `--path venv/lib/python3.11/site-packages`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from _data import data_folder
from _scorer import SETS, evaluate, load, read, recall

HERE = Path(__file__).resolve().parent
RANKERS = {
    "rank-bm25, plain": "peer_rankers:rank_bm25_plain",
    "Hermes Agent": "peer_rankers:hermes",
    "FastMCP": "peer_rankers:fastmcp",
    "rank-bm25, our words": "peer_rankers:rank_bm25_ours",
    "hooksdk": "ranker:rank",
    "hooksdk, `embeddings`": "ranker:rank_by_meaning",
    "hooksdk, e5-small": "ranker:rank_by_function",
}
SEVERAL = ("task alone, 5 hits", "task alone, 10 hits", "task alone, as many hits", "task and steps, 5 hits each")
KINDS = ("keyword", "sentence", "task", "typo", "foreign")
Maker = Callable[[list[dict[str, Any]]], Callable[[str, int], list[str]]]


def module_of(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def makers() -> dict[str, Maker]:
    """The rankers that can be made here."""
    makers_here: dict[str, Maker] = {}
    for name, place in RANKERS.items():
        file, _, function = place.partition(":")
        maker: Maker = getattr(module_of(HERE / f"{file}.py"), function)
        try:
            maker([{"id": "a", "name": "a", "description": "b", "parameters": {}, "server": "c"}])("a", 1)
        except ImportError as error:
            print(f"{name} is not measured: {error}", file=sys.stderr)
        else:
            makers_here[name] = maker
    return makers_here


def by_kind(maker: Maker, data: Path) -> dict[str, float]:
    """Recall@5 for each kind of a model's queries; `absent` is the share of those answered with nothing."""
    catalog = read(data / "livemcp" / "catalog.jsonl")
    search = maker(catalog)
    recalls: dict[str, list[float]] = {}
    for query in read(data / "livemcp" / "model_queries.jsonl"):
        ids = search(query["query"], 10)
        kind = query["kind"]
        if kind == "absent":
            recalls.setdefault("absent", []).append(float(not ids))
            continue
        share = recall(ids, query)
        recalls.setdefault(kind, []).append(share)
        recalls.setdefault("all", []).append(share)
    return {kind: statistics.fmean(values) for kind, values in recalls.items()}


def in_several_queries(maker: Maker, data: Path) -> dict[str, float]:
    """Recall of livemcp's whole tasks asked in one query, and with a further query for each of their steps.

    The set does not say to which task a step belongs: a task is given the steps whose tools are all among its own, and
    tasks without one are left out. So this is what a model can gain that names its steps as well as the annotators did.
    """
    catalog, queries = load(data, "livemcp")
    search = maker(catalog)
    steps = [query for query in queries if query["kind"] == "step"]
    tasks = [query for query in queries if query["kind"] == "task"]
    rows: list[dict[str, float]] = []
    for task in tasks:
        own = [step["query"] for step in steps if set(step["gold"]) <= set(task["gold"])]
        if not own:
            continue
        hits = dict.fromkeys(name for query in (task["query"], *own) for name in search(query, 5))
        rows.append({
            "task alone, 5 hits": share_of_right(search(task["query"], 5), task),
            "task alone, 10 hits": share_of_right(search(task["query"], 10), task),
            "task alone, as many hits": share_of_right(search(task["query"], len(hits)), task),
            "task and steps, 5 hits each": share_of_right(hits, task),
            "hits": float(len(hits)),
            "queries": float(1 + len(own)),
        })  # fmt: skip
    means = {name: statistics.fmean(one[name] for one in rows) for name in rows[0]}
    return {"tasks": float(len(tasks)), "with steps": float(len(rows)), **means}


def share_of_right(hits: Iterable[str], query: dict[str, Any]) -> float:
    """The share of the right tools among all hits."""
    names = set(hits)
    gold = set(query["gold"])
    return sum(not names.isdisjoint([one, *query.get("alt", {}).get(one, ())]) for one in gold) / len(gold)


def weak_or_empty(data: Path) -> tuple[float, float]:
    """Of absent capabilities the share answered with nothing or with weak hits only, and what leaving weak hits out
    would cost of the recall."""
    ranker = module_of(HERE / "ranker.py")
    strict, all_hits = by_kind(ranker.rank_strict, data), by_kind(ranker.rank, data)
    return strict["absent"], all_hits["all"] - strict["all"]


def measure(maker: Maker, data: Path, queries: int) -> dict[str, Any]:
    sets = {name: evaluate(maker, *load(data, name, queries)) for name in SETS}
    recalls = {name: shares[""] for name, shares in sets.items()}
    return {
        "sets": recalls,
        "mean": statistics.fmean(recalls.values()),
        "livemcp": sets["livemcp"],
        "model": by_kind(maker, data),
        "several": in_several_queries(maker, data),
    }


def row(name: str, values: list[float]) -> str:
    return f"| {name} | " + " | ".join(f"{value:.3f}".lstrip("0") for value in values) + " |"


def show(table: dict[str, Any], sets: list[str]) -> None:
    print(f"| | {' | '.join(sets)} | mean |\n|---|{'---|' * (len(sets) + 1)}")
    for name, scores in table.items():
        print(row(name, [*(scores["sets"][one] for one in sets), scores["mean"]]))
    print(f"\n| | all | {' | '.join(KINDS)} | absent: empty |\n|---|{'---|' * (len(KINDS) + 2)}")
    for name, scores in table.items():
        print(row(name, [scores["model"][kind] for kind in ("all", *KINDS, "absent")]))
    print("\n| | livemcp, one step | livemcp, a whole task |\n|---|---|---|")
    for name, scores in table.items():
        print(row(name, [scores["livemcp"]["step"], scores["livemcp"]["task"]]))
    print(f"\n| | {' | '.join(SEVERAL)} | different hits |\n|---|{'---|' * (len(SEVERAL) + 1)}")
    for name, scores in table.items():
        several = scores["several"]
        print(f"{row(name, [several[one] for one in SEVERAL])} {several['hits']:.1f} |")
    own = table["hooksdk"]["several"]
    print(
        f"\nOf the last table's {own['tasks']:.0f} tasks {own['with steps']:.0f} have steps in the set (matched by their "
        f"tools): {own['queries']:.1f} queries a task in the mean."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=150, help="queries of each set at most; 0: all")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--data", type=Path, default=data_folder() / "retrieval")
    parser.add_argument("--path", action="append", default=[], help="a further folder of installed packages")
    options = parser.parse_args()
    if not (options.data / "livemcp").is_dir():
        sys.exit(f"the retrieval sets are not in {options.data}; give their folder with --data")
    sys.path.extend(options.path)
    table: dict[str, Any] = {}
    for name, maker in makers().items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        table[name] = measure(maker, options.data, options.queries)
    weak, lost = weak_or_empty(options.data)
    if options.json:
        print(json.dumps({"rankers": table, "absent": {"empty_or_weak": weak, "recall_lost": lost}}, indent=2))
        return
    show(table, list(SETS))
    print(f"\nhooksdk answers {weak:.0%} of the absent capabilities with nothing or with weak hits only.")
    print(f"Leaving weak hits out would cost {100 * lost:.1f} points of recall on these queries.")


if __name__ == "__main__":
    main()
