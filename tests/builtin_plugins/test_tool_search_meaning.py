"""Ranking by words and by what they mean: `ranker = "embeddings"`."""

from __future__ import annotations

import importlib.util
import statistics
from typing import Any

import pytest

from builtin_plugins.tool_search import ToolSearch
from builtin_plugins.tool_search._nearest import nearest
from builtin_plugins.tool_search._ranking.meaning import missing_package
from builtin_plugins.tool_search.rankers import Bm25Ranker, Document, MeaningRanker, load_ranker
from tests.builtin_plugins.searching import CATALOG, searching
from tests.measured import RETRIEVAL

if package := missing_package():
    pytest.skip(f"hooksdk[embeddings] is not installed: {package}", allow_module_level=True)
pytestmark = pytest.mark.anyio

TOOLS = [
    Document(id=name, name=name, description=text, parameters=None, owner="demo", fingerprint=name)
    for name, text in {
        "search_listings": "Find houses and apartments to rent.",
        "weeks_of_year": "Number the weeks.",
        "send_email": "Send an email to somebody.",
    }.items()
]


def test_a_tool_that_shares_no_word_with_the_query_is_found_and_is_weak() -> None:
    assert Bm25Ranker(TOOLS).search("somewhere to live", 3) == []
    hit, *_ = MeaningRanker(TOOLS).search("somewhere to live", 3)
    assert (hit.id, hit.weak, hit.evidence) == ("search_listings", True, 0.0)


def test_words_still_decide_where_they_are_shared() -> None:
    hit, *_ = MeaningRanker(TOOLS).search("send email", 3)
    (alone,) = Bm25Ranker(TOOLS).search("send email", 1)
    assert (hit.id, hit.weak, hit.evidence) == ("send_email", False, alone.evidence)


@pytest.mark.parametrize("prompt", ["thanks, that is great", "somewhere to live"])
def test_what_the_meaning_alone_finds_is_not_shown_unasked(prompt: str) -> None:
    assert nearest(MeaningRanker(TOOLS), prompt, 6) == []


@pytest.mark.parametrize(("query", "limit"), [("", 5), ("\0 \u2028", 5), ("send", 0)])
def test_a_query_without_words_finds_nothing_by_words_and_never_fails(query: str, limit: int) -> None:
    assert len(MeaningRanker(TOOLS).search(query, limit)) <= limit
    assert MeaningRanker([]).search(query, limit) == []


async def test_it_is_chosen_by_its_name_and_takes_a_houses_own_terms() -> None:
    vocabulary = {"snag": ["issue"]}
    async with searching(CATALOG, ranker="embeddings", vocabulary=vocabulary) as played:
        (group,) = (await played.search("snag"))["results"]
    assert group["hits"][0]["name"] == "create_issue"


def test_a_missing_package_is_named_when_the_configuration_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "tokenizers" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.raises(ValueError, match=r"'embeddings' needs tokenizers: pip install 'hooksdk\[embeddings\]'"):
        ToolSearch.Config(ranker="embeddings")


@pytest.mark.in_ci(False)
@pytest.mark.heavy
def test_more_is_found_on_the_queries_by_which_nothing_was_chosen() -> None:
    from tests.measured import scorer

    shares: dict[str, list[float]] = {"bm25": [], "embeddings": []}
    for name in scorer.SETS:
        catalog, queries = scorer.load(RETRIEVAL, name, 300)
        documents = [
            Document(
                id=one["id"], name=one["name"], description=one.get("description") or "",
                parameters=one.get("parameters"), owner=one.get("server") or "",
            )
            for one in catalog
        ]  # fmt: skip
        for kind, each in shares.items():
            ranker = load_ranker(kind)(documents)
            hits = ([hit.id for hit in ranker.search(one["query"], 5)] for one in queries[1::2])
            each.append(statistics.fmean(scorer.recall(ids, one) for ids, one in zip(hits, queries[1::2], strict=True)))
    assert statistics.fmean(shares["embeddings"]) > statistics.fmean(shares["bm25"]) + 0.01
