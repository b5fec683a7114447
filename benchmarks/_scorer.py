"""Scores rankers on the retrieval sets: a ranker is `rank(catalog) -> search`, and `search(query, k)` answers ids, the best first.

A query's `gold` are the ids of all tools that are wanted; `alt` maps one of them to others that are as good.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

SETS = ("metatool", "bfcl_apis", "nestful", "livemcp", "bfcl_functions", "stabletoolbench", "sealtools")

Entry = dict[str, Any]
Search = Callable[[str, int], Sequence[str]]


def read(path: Path) -> list[Entry]:
    """The lines of a file of JSON."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def load(data: Path, name: str, most: int = 0) -> tuple[list[Entry], list[Entry]]:
    """A set's tools and its queries: all, or as many as said, the first by a hash of their text."""
    folder = data / name
    queries = read(folder / "queries.jsonl")
    if 0 < most < len(queries):
        queries = sorted(queries, key=lambda one: hashlib.sha256(one["query"].encode()).digest())[:most]
    return read(folder / "catalog.jsonl"), queries


def recall(ids: Iterable[str], query: Mapping[str, Any], k: int = 5) -> float:
    """The share of the wanted tools among the first k."""
    gold = set(query["gold"])
    wanted = {one: right for right in gold for one in (right, *query.get("alt", {}).get(right, ()))}
    hits = list(dict.fromkeys(ids))[:k]
    return len({wanted[one] for one in hits if one in wanted}) / len(gold)


def evaluate(rank: Callable[[list[Entry]], Search], catalog: list[Entry], queries: Sequence[Entry]) -> dict[str, float]:
    """Recall@5 in the mean: over all queries (`""`), and by their kind."""
    search = rank(catalog)
    kinds: dict[str, list[float]] = {"": []}
    for query in queries:
        share = recall(search(query["query"], 10), query)
        kinds[""].append(share)
        kinds.setdefault(str(query.get("kind")), []).append(share)
    return {kind: round(statistics.fmean(shares), 4) for kind, shares in kinds.items()}
