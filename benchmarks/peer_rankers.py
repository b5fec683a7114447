"""Other projects' rankers as the retrieval benchmark calls them: `evaluate.py --ranker benchmarks/peer_rankers.py:fastmcp`.

Each takes the catalog as dictionaries and answers a search. One that cannot be installed beside this package may be in
another environment: put its site-packages on PYTHONPATH, after ours.
"""

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from builtin_plugins.tool_search.rankers import Document, RankBm25Ranker

Catalog = list[dict[str, Any]]
Search = Callable[[str, int], list[str]]


def rank_bm25_plain(catalog: Catalog) -> Search:
    """rank-bm25 as its README has it: name and description, lower case, split at blanks."""
    index = import_module("rank_bm25").BM25Okapi(
        [f"{tool['name']} {tool.get('description') or ''}".lower().split() for tool in catalog]
    )
    ids = [tool["id"] for tool in catalog]

    def search(query: str, limit: int) -> list[str]:
        scores = index.get_scores(query.lower().split())
        best = sorted(range(len(ids)), key=lambda number: -scores[number])
        return [ids[number] for number in best[:limit] if scores[number] > 0]

    return search


def rank_bm25_ours(catalog: Catalog) -> Search:
    """rank-bm25 over our words: `ranker = "rank-bm25"`."""
    ranker = RankBm25Ranker([
        Document(
            id=tool["id"], name=tool["name"], description=tool.get("description") or "",
            parameters=tool.get("parameters"), owner=tool.get("server") or "",
        )
        for tool in catalog
    ])  # fmt: skip
    return lambda query, limit: [hit.id for hit in ranker.search(query, limit)]


def fastmcp(catalog: Catalog) -> Search:
    """FastMCP's own index."""
    base, bm25 = (import_module(f"fastmcp.server.transforms.search.{name}") for name in ("base", "bm25"))
    index = bm25._BM25Index()
    tools = [
        SimpleNamespace(name=tool["name"], description=tool.get("description"), parameters=tool.get("parameters") or {})
        for tool in catalog
    ]
    index.build([base._extract_searchable_text(tool) for tool in tools])
    ids = [tool["id"] for tool in catalog]
    return lambda query, limit: [ids[number] for number in index.query(query, limit)]


def hermes(catalog: Catalog) -> Search:
    """Hermes Agent's own search."""
    module = import_module("tools.tool_search")
    definitions: list[dict[str, Any]] = [
        {"name": tool["name"], "description": tool.get("description") or "", "parameters": tool.get("parameters") or {}}
        for tool in catalog
    ]
    entries = module.build_catalog([{"type": "function", "function": one} for one in definitions])
    # Two servers may use one name, so an entry is told by itself.
    places = {id(entry): tool["id"] for entry, tool in zip(entries, catalog, strict=True)}
    return lambda query, limit: [places[id(entry)] for entry in module.search_catalog(entries, query, limit)]
